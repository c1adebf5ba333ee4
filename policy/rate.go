package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MinPeriod is the shortest period of a rate.
const MinPeriod = time.Millisecond

// maxStored bounds a rate's tokens, its period in µs and a burst: each has six
// bytes in a stored bucket.
const maxStored = 1<<48 - 1

// unlimitedWord is how "no limit" is spelled; no number means it.
const unlimitedWord = "unlimited"

// shareWord is the fallback that divides the limits in force.
const shareWord = "share"

// blockedRate admits nothing. Its period carries no meaning: there is one
// spelling of nothing, and a zero Rate means that none was given.
func blockedRate() Rate { return Rate{Period: time.Second} }

// periodNames are the periods that have a word of their own.
func periodNames() [4]namedPeriod {
	return [4]namedPeriod{
		{"second", time.Second},
		{"minute", time.Minute},
		{"hour", time.Hour},
		{"day", 24 * time.Hour},
	}
}

type namedPeriod struct {
	name   string
	period time.Duration
}

// ParseRate reads a rate: "60/minute" (second, minute, hour, day), "10/1m30s"
// (any Go duration of whole microseconds, 1 ms to 31 days), "unlimited", or "0",
// which admits nothing. Numbers are plain decimal digits: no sign, separator,
// fraction or exponent, because "1,000" and "1.000" mean different things to
// different people.
func ParseRate(s string) (Rate, error) {
	if s == unlimitedWord {
		return Rate{Unlimited: true}, nil
	}
	if s == "0" {
		return blockedRate(), nil
	}
	count, per, found := strings.Cut(s, "/")
	if !found {
		return Rate{}, fmt.Errorf("%q is not a rate: write 60/minute, 10/90s, unlimited or 0", clip(s))
	}
	tokens, err := parseCount(count)
	if err != nil {
		return Rate{}, fmt.Errorf("%q is not a rate: %w", clip(s), err)
	}
	period, err := parsePeriod(per)
	if err != nil {
		return Rate{}, fmt.Errorf("%q is not a rate: %w", clip(s), err)
	}
	if tokens == 0 {
		return blockedRate(), nil
	}
	return Rate{Tokens: tokens, Period: period}, nil
}

func parseCount(s string) (int64, error) {
	if !plainDecimal(s) {
		return 0, fmt.Errorf("the count %q must be plain digits, such as 1000%s", clip(s), meant(s))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > maxStored {
		return 0, fmt.Errorf("the count %s is too large: the largest allowed is %d", clip(s), int64(maxStored))
	}
	return n, nil
}

func parsePeriod(s string) (time.Duration, error) {
	for _, p := range periodNames() {
		if s == p.name {
			return p.period, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || strings.ContainsAny(s, "+-") || len(s) > 40 {
		return 0, fmt.Errorf("the period %q must be second, minute, hour, day or a duration such as 90s", clip(s))
	}
	return d, checkPeriod(d)
}

func checkPeriod(d time.Duration) error {
	switch {
	case d < MinPeriod:
		return fmt.Errorf("the period %s is too short: the shortest allowed is 1ms", d)
	case d > MaxPeriod:
		return fmt.Errorf("the period %s is too long: the longest allowed is 744h (31 days)", d)
	case d%time.Microsecond != 0:
		return fmt.Errorf("the period %s must be whole microseconds", d)
	}
	return nil
}

// plainDecimal accepts 0 and digits without a leading zero.
func plainDecimal(s string) bool {
	if s == "" || (len(s) > 1 && s[0] == '0') {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// String is the one spelling of a rate, which ParseRate reads back: a named
// period where one fits ("60/minute", not "60/1m0s").
func (r Rate) String() string {
	switch {
	case r.Unlimited:
		return unlimitedWord
	case r.Tokens == 0:
		return "0"
	}
	return strconv.FormatInt(r.Tokens, 10) + "/" + periodString(r.Period)
}

func periodString(d time.Duration) string {
	for _, p := range periodNames() {
		if d == p.period {
			return p.name
		}
	}
	return periodText(d)
}

// periodText is the one spelling of a duration: "1m30s", "90m" is "1h30m".
func periodText(d time.Duration) string {
	s := d.String()
	if trimmed, ok := strings.CutSuffix(s, "m0s"); ok {
		s = trimmed + "m"
	}
	if trimmed, ok := strings.CutSuffix(s, "h0m"); ok {
		s = trimmed + "h"
	}
	return s
}

// DurationText writes a duration as the document does: "6m", not "6m0s".
func DurationText(d time.Duration) string { return periodText(d) }

// set reports whether a rate was given at all: the zero value is none.
func (r Rate) set() bool { return r.Unlimited || r.Period != 0 }

// Blocked reports whether the rate admits nothing ever.
func (r Rate) Blocked() bool { return !r.Unlimited && r.Tokens == 0 }

// DefaultBurst is the burst of a limit that does not give one: the rate's
// count, so that callers may spend a whole period at once.
func (r Rate) DefaultBurst() int64 { return r.Tokens }

// ErrUnlimited means that an unlimited rate was asked for its numbers.
var ErrUnlimited = errors.New("an unlimited rate has no numbers")

// NumbersOf turns a rate and a burst into the integers that stores count in,
// reduced by their greatest common divisor. It fails when they are outside
// what can be counted exactly (see MaxUnits) and then names the largest burst
// that can, and with ErrUnlimited for an unlimited rate.
func NumbersOf(r Rate, burst int64) (Numbers, error) {
	if r.Unlimited {
		return Numbers{}, ErrUnlimited
	}
	if r.Tokens < 0 || r.Tokens > maxStored {
		return Numbers{}, fmt.Errorf("the count %d must be 0 to %d", r.Tokens, int64(maxStored))
	}
	if burst < 0 {
		return Numbers{}, fmt.Errorf("burst %d must not be negative", burst)
	}
	if r.Tokens == 0 {
		return Numbers{Period: 1}, nil
	}
	if err := checkPeriod(r.Period); err != nil {
		return Numbers{}, err
	}
	n := Numbers{Tokens: r.Tokens, Period: r.Period.Microseconds(), Burst: burst}
	g := gcd(n.Tokens, n.Period)
	n.Tokens, n.Period = n.Tokens/g, n.Period/g
	if most := maxBurst(n); burst > most {
		return Numbers{}, fmt.Errorf("burst %d is too large for the rate %s: the largest allowed is %d", burst, r, most)
	}
	return n, nil
}

// maxBurst is the largest burst with Burst×Period + Tokens < MaxUnits.
func maxBurst(n Numbers) int64 {
	return min((MaxUnits-1-n.Tokens)/n.Period, maxStored)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// clip keeps a quoted piece of input short enough for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a rune
		cut--
	}
	return s[:cut] + "…"
}
