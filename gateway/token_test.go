package gateway

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func rowGen() *rapid.Generator[limiter.Row] {
	return rapid.Custom(func(t *rapid.T) limiter.Row {
		return limiter.Row{
			Kind:   rapid.SampledFrom([]limiter.RowKind{limiter.RowTenant, limiter.RowGlobal, limiter.RowIP, limiter.RowDimension}).Draw(t, "kind"),
			Tenant: rapid.StringMatching(`[a-z_0-9]{0,20}`).Draw(t, "tenant"), Subject: rapid.StringN(0, 40, maxSubject).Draw(t, "subject"),
		}
	})
}

func TestToken_BringsBackWhatItWasGiven(t *testing.T) {
	t.Parallel()
	s, err := newSealer("a token of the door")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		want := &leaseToken{ID: "id", At: rapid.Int64().Draw(rt, "at")}
		leases := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) limiter.Lease {
			return limiter.Lease{Row: rowGen().Draw(t, "row"), Hash: rapid.Uint64().Draw(t, "hash"), Max: 3, ID: "0123456789abcdef", HoldMicros: 7}
		}), 0, 3).Draw(rt, "leases")
		draw := &limiter.Draw{}
		for range rapid.IntRange(0, 8).Draw(rt, "charges") {
			draw.Charges = append(draw.Charges, limiter.Charge{
				Row: rowGen().Draw(rt, "row"), Hash: rapid.Uint64().Draw(rt, "hash"), Cost: 9, Leased: rapid.Bool().Draw(rt, "leased"),
				Numbers: policy.Numbers{Tokens: rapid.Int64Range(1, 1<<48-1).Draw(rt, "n"), Period: 60, Burst: 5}, PerRequest: rapid.Bool().Draw(rt, "per request"),
			})
		}
		draw.Quotas = []limiter.Quota{{Row: rowGen().Draw(rt, "row"), Hash: 4, Start: 5, End: 6, Cost: 9}}
		want.hold(leases)
		want.reserve(draw, 9)
		text, err := s.seal(want)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := s.open(text)
		if err != nil {
			rt.Fatal(err)
		}
		if len(leases) > 0 && !reflect.DeepEqual(got.leases(), leases) {
			rt.Fatalf("leases %+v, want %+v", got.leases(), leases)
		}
		var counted []limiter.Charge
		for _, c := range draw.Charges {
			if !c.PerRequest {
				counted = append(counted, c)
			}
		}
		if spent := got.spent(); !reflect.DeepEqual(spent.Charges, counted) || !reflect.DeepEqual(spent.Quotas, draw.Quotas) || got.Reserve != 9 || got.At != want.At {
			rt.Fatalf("%+v, want %+v and %+v", spent, counted, draw.Quotas)
		}
	})
}

func TestToken_IsBoundedAndSealed(t *testing.T) {
	t.Parallel()
	s, _ := newSealer("a token of the door")
	other, _ := newSealer("another")
	big := &leaseToken{Rows: []limiter.Row{{Subject: strings.Repeat("x", maxToken)}}}
	if text, err := s.seal(big); err == nil {
		t.Errorf("a token of %d bytes", len(text))
	}
	text, err := s.seal(&leaseToken{ID: "x", Rows: []limiter.Row{{Kind: limiter.RowTenant, Tenant: "ten_secret"}}})
	if err != nil || strings.Contains(text, "ten_secret") {
		t.Fatalf("%q, %v", text, err)
	}
	again, _ := s.seal(&leaseToken{ID: "x", Rows: []limiter.Row{{Kind: limiter.RowTenant, Tenant: "ten_secret"}}})
	if again == text {
		t.Error("one request's token looks like another's")
	}
	if _, err := other.open(text); !errors.Is(err, errBadToken) {
		t.Errorf("opened under another token of the door: %v", err)
	}
	for i := range text { // every single letter counts
		changed := text[:i] + string(text[i]^1) + text[i+1:]
		if _, err := s.open(changed); !errors.Is(err, errBadToken) {
			t.Fatalf("opened with letter %d changed: %v", i, err)
		}
	}
}

func FuzzToken(f *testing.F) {
	good, _ := json.Marshal(&leaseToken{ID: "x", Rows: []limiter.Row{{Kind: 't', Tenant: "a"}}, Leases: []tokenLease{{0, 1, 2, "0123456789abcdef", 3}}})
	f.Add(good)
	f.Add([]byte(`{"l":[{"r":1}]}`))
	f.Add([]byte(`{"b":[{"r":-1}],"q":[{"r":9}]}`))
	f.Add([]byte(`{"b":[{"r":-1}]}`))
	f.Add([]byte(`{"q":[{"r":-1}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		token, err := readToken(plain)
		if err != nil {
			return
		}
		if got := len(token.leases()); got != len(token.Leases) {
			t.Fatalf("%d leases of %d", got, len(token.Leases))
		}
		if spent := token.spent(); len(spent.Charges) != len(token.Charges) || len(spent.Quotas) != len(token.Quotas) {
			t.Fatalf("%+v of %+v", spent, token)
		}
		s, _ := newSealer("")
		_, _ = s.open(string(plain))
	})
}
