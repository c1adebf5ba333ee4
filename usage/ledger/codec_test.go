package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

func batch() ledger.Batch {
	return ledger.Batch{Replica: "gw-a", Boot: "b1", First: 7, Through: 1_700_000_001, Events: []ledger.Event{
		{Second: 1_700_000_000, Tenant: "ten_a", KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 3, Cost: 60},
		{Second: 1_700_000_000, Tenant: "ten_a", KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeLimited, Requests: 9},
		{Second: 1_700_000_001, Tenant: "ten_a", KID: "0123456789AB", Route: "report", Outcome: ledger.OutcomeSettled, Cost: -12},
		{Second: 1_700_000_001, Outcome: ledger.OutcomeInterrupted, Requests: 1, Cost: 1},
	}}
}

func TestBatch_ComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for _, want := range []ledger.Batch{batch(), {Replica: "r", Boot: "b", First: 1, Final: true, Events: []ledger.Event{}}} {
		body, err := ledger.Encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ledger.Decode(body)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%+v, want %+v (%v)", got, want, err)
		}
	}
	if b := batch(); b.Last() != 10 {
		t.Errorf("last is %d, want 10", b.Last())
	}
}

// TestBatch_U08_NonsenseIsNotTakenIn: whoever may write to the wire may write anything.
func TestBatch_U08_NonsenseIsNotTakenIn(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*ledger.Batch){
		"no replica":           func(b *ledger.Batch) { b.Replica = "" },
		"a NUL in the boot":    func(b *ledger.Batch) { b.Boot = "b\x00" },
		"number 0":             func(b *ledger.Batch) { b.First = 0 },
		"a negative second":    func(b *ledger.Batch) { b.Events[0].Second = -1 },
		"the year 10000":       func(b *ledger.Batch) { b.Events[0].Second = 253_402_300_800 },
		"a NUL in the tenant":  func(b *ledger.Batch) { b.Events[0].Tenant = "ten_\x00" },
		"bytes that are none":  func(b *ledger.Batch) { b.Events[0].Route = "\xff" },
		"a name of 257 bytes":  func(b *ledger.Batch) { b.Events[0].Route = strings.Repeat("a", 257) },
		"an unknown outcome":   func(b *ledger.Batch) { b.Events[0].Outcome = "free" },
		"negative requests":    func(b *ledger.Batch) { b.Events[0].Requests = -1 },
		"a negative cost":      func(b *ledger.Batch) { b.Events[0].Cost = -1 },
		"a refusal that costs": func(b *ledger.Batch) { b.Events[1].Cost = 1 },
		"requests settled":     func(b *ledger.Batch) { b.Events[2].Requests = 1 },
		"a cost beyond 2^52":   func(b *ledger.Batch) { b.Events[0].Cost = 1<<52 + 1 },
		"too many events":      func(b *ledger.Batch) { b.Events = make([]ledger.Event, ledger.MaxEvents+1) },
		"a second from beyond": func(b *ledger.Batch) { b.Through = 1 << 60 },
	} {
		b := batch()
		spoil(&b)
		if err := b.Check(); err == nil {
			t.Errorf("%s: passes", name)
		}
		if _, err := ledger.Encode(&b); err == nil {
			t.Errorf("%s: is encoded", name)
		}
	}
	for _, body := range []string{"", "x", strings.Repeat("\x00", 100), "\x01\x02\x00\xfd\xff{}"} {
		if _, err := ledger.Decode([]byte(body)); !errors.Is(err, ledger.ErrBatch) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestBatch_TheLargestOneTravels(t *testing.T) {
	t.Parallel()
	b := ledger.Batch{Replica: "r", Boot: "b", First: 1, Events: make([]ledger.Event, ledger.MaxEvents)}
	for i := range b.Events {
		b.Events[i] = ledger.Event{
			Second: 1_700_000_000 + int64(i%2), Tenant: fmt.Sprintf("ten_%016d", i*7919), KID: fmt.Sprintf("%012d", i*104729), Route: "a-route-of-some-length",
			Outcome: usage.OutcomeAdmitted, Requests: int64(i), Cost: int64(i * 20),
		}
	}
	body, err := ledger.Encode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ledger.Decode(body); err != nil || !reflect.DeepEqual(*got, b) {
		t.Errorf("it came back changed (%v)", err)
	}
}

func FuzzDecode(f *testing.F) {
	b := batch()
	body, err := ledger.Encode(&b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := ledger.Decode(body)
		if err != nil {
			if !errors.Is(err, ledger.ErrBatch) {
				t.Errorf("%v does not say what it is about", err)
			}
			return
		}
		again, err := ledger.Encode(b)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if got, err := ledger.Decode(again); err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("%+v, want %+v (%v)", got, b, err)
		}
	})
}
