package policy

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRate_ReadsEachSpellingAndWritesOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, out string
		want    Rate
	}{
		{"60/minute", "60/minute", Rate{Tokens: 60, Period: time.Minute}},
		{"1/second", "1/second", Rate{Tokens: 1, Period: time.Second}},
		{"10/hour", "10/hour", Rate{Tokens: 10, Period: time.Hour}},
		{"5/day", "5/day", Rate{Tokens: 5, Period: 24 * time.Hour}},
		{"60/60s", "60/minute", Rate{Tokens: 60, Period: time.Minute}},
		{"60/1m", "60/minute", Rate{Tokens: 60, Period: time.Minute}},
		{"60/1m0s", "60/minute", Rate{Tokens: 60, Period: time.Minute}},
		{"5/24h", "5/day", Rate{Tokens: 5, Period: 24 * time.Hour}},
		{"10/90s", "10/1m30s", Rate{Tokens: 10, Period: 90 * time.Second}},
		{"10/1.5h", "10/1h30m", Rate{Tokens: 10, Period: 90 * time.Minute}},
		{"10/2h", "10/2h", Rate{Tokens: 10, Period: 2 * time.Hour}},
		{"10/10m", "10/10m", Rate{Tokens: 10, Period: 10 * time.Minute}},
		{"10/20h0m10s", "10/20h0m10s", Rate{Tokens: 10, Period: 20*time.Hour + 10*time.Second}},
		{"3/0.5s", "3/500ms", Rate{Tokens: 3, Period: 500 * time.Millisecond}},
		{"3/600.001s", "3/10m0.001s", Rate{Tokens: 3, Period: 600*time.Second + time.Millisecond}},
		{"3/1001us", "3/1.001ms", Rate{Tokens: 3, Period: 1001 * time.Microsecond}},
		{"1/744h", "1/744h", Rate{Tokens: 1, Period: MaxPeriod}},
		{"1/1ms", "1/1ms", Rate{Tokens: 1, Period: MinPeriod}},
		{"unlimited", "unlimited", Rate{Unlimited: true}},
		{"0", "0", blockedRate()},
		{"0/minute", "0", blockedRate()},
		{"281474976710655/second", "281474976710655/second", Rate{Tokens: maxStored, Period: time.Second}},
	} {
		got, err := ParseRate(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseRate(%q) = %+v, %v, want %+v", c.in, got, err, c.want)
			continue
		}
		if got.String() != c.out {
			t.Errorf("ParseRate(%q) is written %q, want %q", c.in, got, c.out)
		}
	}
}

func TestParseRate_RefusesWhatPeopleReadDifferently(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         "is not a rate",
		"60":                       "is not a rate",
		"-1":                       "is not a rate",
		"null":                     "is not a rate",
		"Unlimited":                "is not a rate",
		"∞":                        "is not a rate",
		"none":                     "is not a rate",
		"60 per minute":            "is not a rate",
		"/minute":                  "plain digits",
		"-1/minute":                "plain digits",
		"+1/minute":                "plain digits",
		"1,000/minute":             "plain digits",
		"1.000/minute":             "plain digits",
		"1_000/minute":             "plain digits",
		"1e3/minute":               "plain digits",
		"0.5/minute":               "plain digits",
		"1.5/minute":               "plain digits",
		"0x10/minute":              "plain digits",
		"010/minute":               "plain digits",
		"NaN/minute":               "plain digits",
		"٣/minute":                 "plain digits",
		" 1/minute":                "plain digits",
		"1 /minute":                "plain digits",
		"281474976710656/second":   "largest allowed is 281474976710655",
		"9007199254740993/second":  "largest allowed is 281474976710655",
		"99999999999999999999/day": "largest allowed is",
		"1/":                       "must be second, minute, hour, day",
		"1/fortnight":              "must be second, minute, hour, day",
		"1/minutes":                "must be second, minute, hour, day",
		"1/ minute":                "must be second, minute, hour, day",
		"1/-1s":                    "must be second, minute, hour, day",
		"1/60":                     "must be second, minute, hour, day",
		"1/minute/2":               "must be second, minute, hour, day",
		"1/0s":                     "too short",
		"1/999us":                  "too short",
		"1/744h1s":                 "too long",
		"1/1000.5us":               "whole microseconds",
	} {
		got, err := ParseRate(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRate(%q) = %+v, %v, want an error with %q", in, got, err, want)
		}
		if got != (Rate{}) {
			t.Errorf("ParseRate(%q) gives %+v beside its error", in, got)
		}
	}
}

func TestNumbersOf_ReducesExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  string
		burst int64
		want  Numbers
	}{
		{"60/minute", 60, Numbers{Tokens: 1, Period: 1_000_000, Burst: 60}},
		{"6000/minute", 500, Numbers{Tokens: 1, Period: 10_000, Burst: 500}},
		{"50000/second", 50_000, Numbers{Tokens: 1, Period: 20, Burst: 50_000}},
		{"7/minute", 1, Numbers{Tokens: 7, Period: 60_000_000, Burst: 1}},
		{"10/hour", 1, Numbers{Tokens: 1, Period: 360_000_000, Burst: 1}},
		{"3000000/second", 5, Numbers{Tokens: 3, Period: 1, Burst: 5}},
		{"0", 0, Numbers{Tokens: 0, Period: 1, Burst: 0}},
		{"60/minute", 0, Numbers{Tokens: 1, Period: 1_000_000, Burst: 0}},
		{"1/744h", 3362, Numbers{Tokens: 1, Period: 2_678_400_000_000, Burst: 3362}},
	} {
		r, err := ParseRate(c.rate)
		if err != nil {
			t.Fatal(err)
		}
		got, err := NumbersOf(r, c.burst)
		if err != nil || got != c.want {
			t.Errorf("NumbersOf(%s, %d) = %+v, %v, want %+v", c.rate, c.burst, got, err, c.want)
		}
		if blocked := c.want.Tokens == 0 || c.burst == 0; got.Blocked() != blocked {
			t.Errorf("NumbersOf(%s, %d) is blocked: %v, want %v", c.rate, c.burst, got.Blocked(), blocked)
		}
	}
}

func TestNumbersOf_NamesTheLargestBurst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  Rate
		burst int64
		want  string
	}{
		{Rate{Tokens: 1, Period: MaxPeriod}, 3363, "largest allowed is 3362"},
		{Rate{Tokens: 60, Period: time.Minute}, 1 << 53, "largest allowed is 9007199254"},
		{Rate{Tokens: 1_000_000, Period: time.Second}, 1 << 48, "largest allowed is 281474976710655"},
		{Rate{Tokens: 60, Period: time.Minute}, -1, "must not be negative"},
		{Rate{Tokens: -1, Period: time.Minute}, 1, "must be 0 to"},
		{Rate{Tokens: 1 << 48, Period: time.Minute}, 1, "must be 0 to"},
		{Rate{Tokens: 1, Period: 0}, 1, "too short"},
		{Rate{Tokens: 1, Period: MaxPeriod + 1}, 1, "too long"},
		{Rate{Tokens: 1, Period: time.Second + 1}, 1, "whole microseconds"},
	} {
		got, err := NumbersOf(c.rate, c.burst)
		if err == nil || !strings.Contains(err.Error(), c.want) || got != (Numbers{}) {
			t.Errorf("NumbersOf(%+v, %d) = %+v, %v, want an error with %q", c.rate, c.burst, got, err, c.want)
		}
	}
	if _, err := NumbersOf(Rate{Unlimited: true}, 0); !errors.Is(err, ErrUnlimited) {
		t.Errorf("NumbersOf(unlimited) = %v, want ErrUnlimited", err)
	}
}

func genRate() *rapid.Generator[Rate] {
	return rapid.Custom(func(t *rapid.T) Rate {
		tokens := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, maxStored)).Draw(t, "tokens")
		period := rapid.OneOf(
			rapid.SampledFrom([]int64{1000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000}),
			rapid.Int64Range(1000, MaxPeriod.Microseconds()),
		).Draw(t, "period")
		return Rate{Tokens: tokens, Period: time.Duration(period) * time.Microsecond}
	})
}

func TestRate_ParsesBackFromItsSpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := genRate().Draw(t, "rate")
		if got, err := ParseRate(r.String()); err != nil || got != r {
			t.Fatalf("%+v is written %q and read as %+v, %v", r, r, got, err)
		}
	})
}

// The reduced numbers are the same rate, and the largest burst is the last that
// keeps the arithmetic exact.
func TestNumbersOf_KeepsTheRateAndTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := genRate().Draw(t, "rate")
		n, err := NumbersOf(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		left := new(big.Int).Mul(big.NewInt(n.Tokens), big.NewInt(r.Period.Microseconds()))
		right := new(big.Int).Mul(big.NewInt(r.Tokens), big.NewInt(n.Period))
		if left.Cmp(right) != 0 || gcd(n.Tokens, n.Period) != 1 {
			t.Fatalf("%s became %d per %d µs", r, n.Tokens, n.Period)
		}
		most := maxBurst(n)
		if _, err := NumbersOf(r, most); err != nil {
			t.Fatalf("burst %d for %s is refused: %v", most, r, err)
		}
		if _, err := NumbersOf(r, most+1); err == nil {
			t.Fatalf("burst %d for %s is taken", most+1, r)
		}
		units := new(big.Int).Mul(big.NewInt(most), big.NewInt(n.Period))
		units.Add(units, big.NewInt(n.Tokens))
		if units.Cmp(big.NewInt(MaxUnits)) >= 0 {
			t.Fatalf("burst %d for %s reaches %v units", most, r, units)
		}
	})
}

func TestLimitHash_IsTheStartOfSHA256(t *testing.T) {
	t.Parallel()
	// printf abc | sha256sum
	if got := LimitHash("abc"); got != 0xba7816bf8f01cfea {
		t.Errorf("LimitHash(abc) = %x", got)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"60/minute", "1/1.5h", "unlimited", "0", "1e3/day", "1/1h1h", "1/9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		again, err := ParseRate(r.String())
		if err != nil || again != r {
			t.Errorf("%q is read as %+v, written %q and read as %+v, %v", s, r, r, again, err)
		}
		if _, err := NumbersOf(r, r.DefaultBurst()); err != nil && !r.Unlimited && r.DefaultBurst() <= 3000 {
			t.Errorf("%q has no numbers: %v", s, err)
		}
	})
}
