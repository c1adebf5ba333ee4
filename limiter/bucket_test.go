package limiter_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// numbers draws any that validation lets through.
func numbers(t *rapid.T, label string) policy.Numbers {
	longest := rapid.SampledFrom([]int64{1, 1000, policy.MaxPeriod.Microseconds()}).Draw(t, label+" longest period")
	n := policy.Numbers{
		Tokens: rapid.Int64Range(1, 1<<40).Draw(t, label+" tokens"),
		Period: rapid.Int64Range(1, longest).Draw(t, label+" period"),
	}
	n.Burst = rapid.Int64Range(1, min(1<<48-1, (policy.MaxUnits-1-n.Tokens)/n.Period)).Draw(t, label+" burst")
	return n
}

func bucket(t *rapid.T) limiter.Bucket {
	n := numbers(t, "old")
	return limiter.Bucket{
		Numbers: n, Units: rapid.Int64Range(0, n.Full()).Draw(t, "units"),
		TimeMicros: rapid.Int64Range(0, 1<<52).Draw(t, "time"),
	}
}

func TestBucket_RefillIsExactAtAnyDistance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bucket(t)
		now := rapid.Int64Range(0, 1<<53).Draw(t, "now")
		want := new(big.Int).Mul(big.NewInt(max(0, now-b.TimeMicros)), big.NewInt(b.Numbers.Tokens))
		want.Add(want, big.NewInt(b.Units))
		if full := big.NewInt(b.Numbers.Full()); want.Cmp(full) > 0 {
			want = full
		}
		got := b.Advance(now, b.Numbers)
		if got.Units != want.Int64() || got.TimeMicros != now {
			t.Fatalf("%+v at %d: %+v, want %v units", b, now, got, want)
		}
	})
}

func TestBucket_RefillInStepsIsRefillAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bucket(t)
		mid := b.TimeMicros + rapid.Int64Range(0, 1<<40).Draw(t, "first")
		end := mid + rapid.Int64Range(0, 1<<40).Draw(t, "second")
		n := b.Numbers
		if got, want := b.Advance(mid, n).Advance(end, n), b.Advance(end, n); got != want {
			t.Fatalf("%+v by way of %d: %+v, at once %+v", b, mid, got, want)
		}
	})
}

func TestBucket_NewNumbersKeepTokensAndNeverAdd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, n := bucket(t), numbers(t, "new")
		got := b.Advance(b.TimeMicros, n)
		if got.Units < 0 || got.Units > n.Full() {
			t.Fatalf("%+v → %+v: level %d outside the bucket", b, n, got.Units)
		}
		whole := min(b.Units/b.Numbers.Period, n.Burst)
		if got.Units/n.Period != whole {
			t.Fatalf("%+v → %+v: %d tokens, want %d", b, n, got.Units/n.Period, whole)
		}
		before := new(big.Int).Mul(big.NewInt(b.Units), big.NewInt(n.Period))
		after := new(big.Int).Mul(big.NewInt(got.Units), big.NewInt(b.Numbers.Period))
		if after.Cmp(before) > 0 {
			t.Fatalf("%+v → %+v: the change added tokens", b, n)
		}
	})
}

func TestBucket_NewNumbersDoNotOverflow(t *testing.T) {
	t.Parallel()
	many := policy.Numbers{Tokens: 1, Period: 1, Burst: 1<<48 - 1}
	slow := policy.Numbers{Tokens: 1, Period: policy.MaxPeriod.Microseconds(), Burst: 3000}
	if got := limiter.FullBucket(0, many).Advance(0, slow); got.Units != slow.Full() {
		t.Errorf("2^48 tokens clamped to 3000: %+v", got)
	}
	if got := limiter.FullBucket(0, slow).Advance(0, many); got.Units != 3000 {
		t.Errorf("3000 tokens carried over: %+v", got)
	}
}

func TestBucket_WaitIsEnoughAndOneMicrosecondLessIsNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bucket(t)
		n := b.Numbers
		cost := rapid.Int64Range(1, n.Burst).Draw(t, "cost")
		wait := limiter.Wait(b.Units, cost, n)
		if b.Advance(b.TimeMicros+wait, n).Units < cost*n.Period {
			t.Fatalf("%+v cost %d: not payable after %d µs", b, cost, wait)
		}
		if wait > 0 && b.Advance(b.TimeMicros+wait-1, n).Units >= cost*n.Period {
			t.Fatalf("%+v cost %d: payable before %d µs", b, cost, wait)
		}
		full := limiter.UntilFull(b.Units, n)
		if b.Advance(b.TimeMicros+full, n).Units != n.Full() {
			t.Fatalf("%+v: not full after %d µs", b, full)
		}
		if full > 0 && b.Advance(b.TimeMicros+full-1, n).Units == n.Full() {
			t.Fatalf("%+v: full before %d µs", b, full)
		}
	})
}

func TestBucket_IsForgottenASecondAfterItIsFull(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	b := limiter.Bucket{Numbers: n, Units: 0, TimeMicros: 10}
	full := int64(10 + 5000)
	for _, c := range []struct {
		now  int64
		want bool
	}{{0, false}, {full, false}, {full + 999_999, false}, {full + 1_000_000, true}} {
		if got := b.Forgotten(c.now); got != c.want {
			t.Errorf("at %d: forgotten %t, want %t", c.now, got, c.want)
		}
	}
}

func TestLevel_TellsWholeTokensAndTheTimeToTheNext(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 2, Period: 1_000_001, Burst: 3}
	for _, c := range []struct{ units, remaining, next int64 }{
		{0, 0, 500_001}, {1, 0, 500_000}, {1_000_001, 1, 500_001}, {2_000_001, 1, 1}, {2_000_002, 2, 500_001}, {n.Full(), 3, 0},
	} {
		level := limiter.Level{Units: c.units}
		if r, next := level.Remaining(n), level.NextMicros(n); r != c.remaining || next != c.next {
			t.Errorf("%d units: %d tokens, next in %d µs; want %d, %d", c.units, r, next, c.remaining, c.next)
		}
	}
}

func TestDecision_RoundsWaitsUpNeverToZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ micros, seconds, millis int64 }{
		{0, 0, 0}, {1, 1, 1}, {1000, 1, 1}, {1001, 1, 2}, {999_999, 1, 1000}, {1_000_000, 1, 1000},
		{1_000_001, 2, 1001}, {9_800_000, 10, 9800},
	} {
		d := limiter.Decision{RetryAfterMicros: c.micros}
		if s, ms := d.RetryAfterSeconds(), d.RetryAfterMillis(); s != c.seconds || ms != c.millis {
			t.Errorf("%d µs: %d s %d ms, want %d s %d ms", c.micros, s, ms, c.seconds, c.millis)
		}
	}
}
