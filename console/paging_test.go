package console

import (
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
)

func TestCursor_RoundTrip(t *testing.T) {
	t.Parallel()
	want := Cursor{At: time.UnixMicro(1_700_000_000_123_456).UTC(), ID: "ten_abc"}
	got, err := decodeCursor(encodeCursor(want))
	if err != nil || got != want {
		t.Fatalf("got %+v (%v)", got, err)
	}
	if got, err := decodeCursor(""); err != nil || got != (Cursor{}) {
		t.Fatalf("the beginning is %+v (%v)", got, err)
	}
}

func TestPage_LimitIsBounded(t *testing.T) {
	t.Parallel()
	for in, want := range map[int]int{-1: 50, 0: 50, 1: 1, 200: 200, 201: 200, 1 << 40: 200} {
		if got := (Page{Limit: in}).limit(); got != want {
			t.Errorf("limit %d is %d, want %d", in, got, want)
		}
	}
}

// A cursor that is accepted says exactly one place, and comes from encodeCursor.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "x", encodeCursor(Cursor{At: time.UnixMicro(1), ID: "a"}), "MSBh", "IGE", "MDEgYQ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := decodeCursor(s)
		if err != nil {
			if CodeOf(err) != CodeInvalid {
				t.Fatalf("code %s", CodeOf(err))
			}
			return
		}
		if s != "" && encodeCursor(c) != s {
			t.Fatalf("%q reads as %+v, which is written %q", s, c, encodeCursor(c))
		}
	})
}

func TestDummyHash_CostsAsMuchAsARealOne(t *testing.T) {
	t.Parallel()
	params, _, _, err := argon2id.DecodeHash(dummyHash)
	if err != nil || *params != *hashParams() {
		t.Fatalf("params %+v (%v)", params, err)
	}
}

func TestNetworkOf_GroupsWhatOneGuesserHasAtHand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.77": "192.0.2.0/24", "::ffff:192.0.2.77": "192.0.2.0/24", "2001:db8:1:22ff::1": "2001:db8:1:2200::/56", "fe80::1%eth0": "fe80::/56", "nonsense": "unknown", "": "unknown",
	} {
		if got := networkOf(in); got != want {
			t.Errorf("%q is in %q, want %q", in, got, want)
		}
	}
}
