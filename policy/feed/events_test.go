package feed

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// eventsOf encodes one event for each number.
func eventsOf(t *testing.T, boot string, first, last int64) *EventBatch {
	t.Helper()
	b := ledger.Batch{Replica: "gw_a", Boot: boot, First: first, Events: []ledger.Event{}}
	for n := first; n <= last; n++ {
		b.Events = append(b.Events, ledger.Event{Second: 1000 + n, Tenant: "ten_a", Outcome: usage.OutcomeAdmitted, Requests: 1})
	}
	body, err := ledger.Encode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return &EventBatch{Replica: "gw_a", Boot: boot, First: first, Last: last, Body: body}
}

type eventRig struct {
	*rig
	from *Reporter
	to   *Publisher
}

func newEventRig(t *testing.T) *eventRig {
	t.Helper()
	r := newRig(t)
	from, err := NewReporter(Config{Client: r.asGateway(), Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	return &eventRig{r, from, r.pub}
}

// ship sends and fails on an error.
func (r *eventRig) ship(b *EventBatch) Shipped {
	r.t.Helper()
	s, err := r.from.ShipEvents(r.t.Context(), b)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// read returns all batches after a place.
func (r *eventRig) read(after string) ([]string, string) {
	r.t.Helper()
	var got []string
	for {
		bodies, next, err := r.to.Events(r.t.Context(), after)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, body := range bodies {
			b, err := ledger.Decode(body)
			if err != nil {
				r.t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %d-%d", b.Boot, b.First, b.Last()))
		}
		if next == after {
			return got, next
		}
		after = next
	}
}

func (r *eventRig) commit(boot string, seq int64) {
	r.t.Helper()
	if err := r.to.SetCommitted(r.t.Context(), []ledger.Mark{{Replica: "gw_a", Boot: boot, Seq: seq}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestEvents_ComeInOrderAndGoWhenTheyAreCommitted(t *testing.T) {
	t.Parallel()
	r := newEventRig(t)
	for _, b := range []*EventBatch{eventsOf(t, "b1", 1, 3), eventsOf(t, "b1", 4, 4), eventsOf(t, "b2", 1, 2)} {
		if s := r.ship(b); s.Committed != 0 || s.Entry == "" {
			t.Fatalf("shipped %+v", s)
		}
	}
	got, place := r.read("")
	if fmt.Sprint(got) != "[b1 1-3 b1 4-4 b2 1-2]" {
		t.Fatalf("read %v", got)
	}
	r.commit("b1", 3)
	if s := r.ship(&EventBatch{Replica: "gw_a", Boot: "b1"}); s.Committed != 3 {
		t.Fatalf("asked, and told %+v", s)
	}
	if got, _ := r.read(""); fmt.Sprint(got) != "[b1 4-4 b2 1-2]" {
		t.Fatalf("after 3 are committed there is %v", got)
	}
	r.commit("b2", 2)
	if got, _ := r.read(""); fmt.Sprint(got) != "[b1 4-4 b2 1-2]" {
		t.Fatalf("something went from the middle: %v", got)
	}
	r.commit("b1", 4)
	if got, _ := r.read(""); len(got) != 0 {
		t.Fatalf("all is committed, and there is %v", got)
	}
	r.ship(eventsOf(t, "b1", 2, 4)) // the ledger has it: it is not added
	r.ship(eventsOf(t, "b1", 5, 5))
	if got, _ := r.read(place); fmt.Sprint(got) != "[b1 5-5]" {
		t.Fatalf("after the place there is %v", got)
	}
}

func TestEvents_ABatchThatIsThereIsNotAddedAgain(t *testing.T) {
	t.Parallel()
	r := newEventRig(t)
	b := eventsOf(t, "b1", 1, 3)
	b.Entry = r.ship(b).Entry
	for range 3 {
		if s := r.ship(b); s.Entry != b.Entry {
			t.Fatalf("it became entry %s after %s", s.Entry, b.Entry)
		}
	}
	if got, _ := r.read(""); len(got) != 1 {
		t.Fatalf("%v", got)
	}
}

// TestEvents_U06_WhatRedisLostIsSentAgain: a flush takes stream and marks.
func TestEvents_U06_WhatRedisLostIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newEventRig(t)
	b := eventsOf(t, "b1", 1, 3)
	b.Entry = r.ship(b).Entry
	_, place := r.read("")
	r.commit("b1", 2)
	r.do("FLUSHALL")
	if s := r.ship(b); s.Committed != 0 || s.Entry == "" {
		t.Fatalf("after the flush: %+v", s)
	}
	if got, _ := r.read(place); fmt.Sprint(got) != "[b1 1-3]" {
		t.Fatalf("a reader that goes on has %v", got)
	}
}

// TestEvents_FullStreamKeepsWhatItHas: unlike the others, nothing makes room.
func TestEvents_FullStreamKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	r := newEventRig(t)
	big := &EventBatch{Replica: "gw_a", Boot: "b1", Body: bytes.Repeat([]byte("x"), ledger.MaxBody)}
	for n := int64(1); ; n++ {
		big.First, big.Last = n, n
		_, err := r.from.ShipEvents(t.Context(), big)
		if errors.Is(err, ErrEventsFull) {
			if n != 65 {
				t.Fatalf("full after %d MiB", n-1)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.commit("b1", 1)
	if s := r.ship(big); s.Committed != 1 {
		t.Fatalf("%+v", s)
	}
	big.First, big.Last = 66, 66
	if s, err := r.from.ShipEvents(t.Context(), big); !errors.Is(err, ErrEventsFull) || s.Committed != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	big.Body = append(big.Body, 'x')
	if _, err := r.from.ShipEvents(t.Context(), big); err == nil || errors.Is(err, ErrEventsFull) {
		t.Fatalf("a batch beyond the bounds: %v", err)
	}
}

func TestEvents_NonsenseInRedisStopsNobody(t *testing.T) {
	t.Parallel()
	const stream, marks = "hg:usage:{ledger}:events", "hg:{ledger}:marks"
	for name, spoil := range map[string][][]any{
		"another type":           {{"SET", stream, "x"}, {"SET", marks, "x"}},
		"sums that are none":     {{"XADD", stream, "*", "sum", "many"}},
		"sums beyond all":        {{"XADD", stream, "*", "replica", "r", "boot", "b", "first", "1", "last", "1", "batch", "x", "sum", "9999999999999999"}},
		"sums that grow smaller": {{"XADD", stream, "*", "sum", "9"}, {"XADD", stream, "*", "sum", "3"}},
		"numbers used up":        {{"XADD", stream, "18446744073709551615-18446744073709551615", "sum", "3"}},
		"marks that are none":    {{"HSET", marks, "gw_a b1", "-7"}},
		"marks without end":      {{"HSET", marks, "gw_a b1", strings.Repeat("9", 30)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEventRig(t)
			for _, command := range spoil {
				r.do(command...)
			}
			if s := r.ship(eventsOf(t, "b1", 1, 3)); s.Committed != 0 {
				t.Fatalf("shipped %+v", s)
			}
			r.commit("b1", 3)
			if s := r.ship(&EventBatch{Replica: "gw_a", Boot: "b1"}); s.Committed != 3 {
				t.Fatalf("told %+v", s)
			}
			if got, _ := r.read(""); len(got) != 0 {
				t.Fatalf("what is committed, and what nobody can read, stays: %v", got)
			}
		})
	}
}

func TestACL_AGatewaySendsEventsAndCannotSayThatTheyAreCommitted(t *testing.T) {
	t.Parallel()
	r := newEventRig(t)
	r.ship(eventsOf(t, "b1", 1, 3))
	r.commit("b1", 2)
	forger, err := NewPublisher(Config{Client: r.asGateway(), Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	err = forger.SetCommitted(t.Context(), []ledger.Mark{{Replica: "gw_a", Boot: "b1", Seq: 3}})
	if err == nil {
		t.Fatal("a gateway can say what the ledger has")
	}
	if s := r.ship(&EventBatch{Replica: "gw_a", Boot: "b1"}); s.Committed != 2 {
		t.Fatalf("told %+v", s)
	}
	if n, err := r.from.SendEvents(t.Context(), "gw_a", "b1", 3, 3, eventsOf(t, "b1", 3, 3).Body); err != nil || n != 2 {
		t.Fatalf("told %d, %v", n, err)
	}
}

// TestEvents_U08_WhatWasReadGoesWhateverItSays: an entry that no mark ever passes would keep
// everything after it, until there is room for nothing.
func TestEvents_U08_WhatWasReadGoesWhateverItSays(t *testing.T) {
	t.Parallel()
	r := newEventRig(t)
	if err := r.to.DropEvents(t.Context(), "1-1"); err != nil {
		t.Fatal("there is no stream: ", err)
	}
	const stream = "hg:usage:{ledger}:events"
	r.do("XADD", stream, "*", "replica", "gw_x", "boot", "b", "first", "1", "last", "9007199254740992", "batch", "x", "sum", "1")
	r.ship(eventsOf(t, "b1", 1, 3))
	bodies, place, err := r.to.Events(t.Context(), "")
	if err != nil || len(bodies) != 2 {
		t.Fatal(len(bodies), err)
	}
	r.ship(eventsOf(t, "b1", 4, 4))
	r.commit("b1", 3)
	if err := r.to.DropEvents(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.read(""); fmt.Sprint(got) != "[b1 4-4]" {
		t.Fatalf("%v", got)
	}
	for _, none := range []string{"", "-", "x"} {
		if err := r.to.DropEvents(t.Context(), none); err == nil {
			t.Errorf("%q is a place", none)
		}
	}
	r.do("SET", stream, "x")
	if err := r.to.DropEvents(t.Context(), place); err != nil {
		t.Error(err)
	}
}
