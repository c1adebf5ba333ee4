package policy

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPer_HasOneSpelling(t *testing.T) {
	t.Parallel()
	for in, want := range map[Per]Per{
		"":                             "",
		"tenant":                       "tenant",
		"ip,tenant":                    "tenant,ip",
		"header:x-client":              "header:X-Client",
		"body:userName,ip":             "ip,body:userName",
		"header:b,header:a,credential": "credential,header:A,header:B",
		"ip,user,tenant,global":        "global,tenant,user,ip",
	} {
		if got := in.spelledOnce(); got != want || PerOf(got.Dimensions()) != want {
			t.Errorf("%q is spelled %q, want %q", in, got, want)
		}
	}
}

func TestPer_DimensionsKeepTheNames(t *testing.T) {
	t.Parallel()
	got := Per("tenant,header:x-client,body:a.b").Dimensions()
	want := []Dimension{{Kind: DimensionTenant}, {DimensionHeader, "X-Client"}, {DimensionBody, "a.b"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if Per("").Dimensions() != nil {
		t.Error("no dimension has one")
	}
	if got := Per("ip,body:username").Text(); got != "ip + body:username" {
		t.Error(got)
	}
}

// Two limits with the same dimensions in another order are the same limit: no
// difference, the same bytes.
func TestPer_OrderMeansNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := []Dimension{{Kind: DimensionTenant}, {Kind: DimensionIP}, {DimensionHeader, "X-A"}, {DimensionHeader, "X-B"}, {DimensionBody, "a"}, {DimensionBody, "A"}}
		some := rapid.Permutation(all).Draw(t, "order")[:rapid.IntRange(1, 4).Draw(t, "count")]
		other := rapid.Permutation(some).Draw(t, "another order")
		if PerOf(some) != PerOf(other) {
			t.Fatalf("%v is %q and %v is %q", some, PerOf(some), other, PerOf(other))
		}
		if back := PerOf(some).Dimensions(); len(back) != len(some) || !slices.ContainsFunc(back, func(d Dimension) bool { return d == some[0] }) {
			t.Fatalf("%v comes back as %v", some, back)
		}
	})
}

// The burst that leasing leaves, with what the rate brings while a slice is
// spent, never is more than the limit's own.
func TestLeasedBurst_LeavesRoomForASlicesTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, burst := genRateAndBurst(t)
		if r.Unlimited || r.Blocked() {
			return
		}
		n, err := NumbersOf(r, burst)
		if err != nil {
			t.Fatal(err)
		}
		left := n.LeasedBurst()
		refill := new(big.Rat).Mul(big.NewRat(n.Tokens, n.Period), big.NewRat(LeasePeriod.Microseconds(), 1))
		whole := new(big.Int).Add(new(big.Int).Div(new(big.Int).Sub(refill.Num(), big.NewInt(1)), refill.Denom()), big.NewInt(1)) // rounded up
		twice := new(big.Int).Mul(whole, big.NewInt(2))
		want := n.Burst // counted exactly
		if twice.Cmp(big.NewInt(n.Burst)) <= 0 {
			want = n.Burst - whole.Int64()
		}
		if left != want {
			t.Fatalf("%+v leaves %d, want %d", n, left, want)
		}
	})
}

func TestLeasedBurst_Table(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate        string
		burst, want int64
	}{
		{"50000/second", 50_000, 47_500},
		{"1000/second", 100, 50},
		{"1000/second", 99, 99},
		{"1/day", 5, 4},
		{"1/day", 1, 1},
		{"1000000/second", 1_000_000, 950_000},
		{"281474976710655/1ms", 281_474_976_710_655, 281_474_976_710_655},
		{"0", 0, 0},
	} {
		n, err := NumbersOf(rateOf(t, c.rate), c.burst)
		if err != nil && c.burst < 1<<40 {
			t.Fatal(err)
		}
		if err != nil {
			n = Numbers{Tokens: c.burst, Period: 1000, Burst: c.burst}
		}
		if got := n.LeasedBurst(); got != c.want {
			t.Errorf("%s, burst %d leaves %d, want %d", c.rate, c.burst, got, c.want)
		}
	}
}

func TestCompiledLimit_ExpiresAtTheMoment(t *testing.T) {
	t.Parallel()
	d := layers(t)
	end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	d.Routes[0].Limits[0].ExpiresAt = &end
	d.Routes[0].Limits[0].Mode = ModeShadow
	c, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	own := c.Routes[0].Limits[1]
	if !own.Shadow || own.Expired(end.UnixMicro()-1) || !own.Expired(end.UnixMicro()) {
		t.Errorf("%+v", own)
	}
	if shared := c.Routes[0].Limits[0]; shared.Shadow || shared.Expired(1<<62) {
		t.Errorf("%+v never ends", shared)
	}
}
