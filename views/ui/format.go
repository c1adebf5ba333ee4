package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Unknown is the word for a value that is not known. It is never "0".
const Unknown = "unknown"

// Int writes n with a thin group separator: 18 420.
func Int(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

// Num writes x with as many digits as help: 0.4, 12, 18 420. NaN is unknown.
func Num(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return Unknown
	case a != 0 && a < 0.1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case a < 10 && x != math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return Int(int64(math.Round(x)))
	}
}

// Rate writes a number of events per second: 19/s.
func Rate(x float64) string {
	if math.IsNaN(x) {
		return Unknown
	}
	return Num(x) + "/s"
}

// Percent writes a share given in percent. NaN, a share of nothing, is a dash.
func Percent(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x > 0 && x < 0.1:
		return "< 0.1 %"
	case x > 99.9 && x < 100:
		return "> 99.9 %"
	default:
		return Num(x) + " %"
	}
}

// Millis writes a round trip in milliseconds.
func Millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	}
	return Num(ms) + " ms"
}

// Span writes a duration in its two largest units at most: 6 d 23 h, 1 h 5 min, 18 s.
func Span(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s", d < 5*time.Minute)
	case d < 48*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min", true)
	default:
		return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h", true)
	}
}

func two(a int, ua string, b int, ub string, both bool) string {
	if b == 0 || !both {
		return fmt.Sprintf("%d %s", a, ua)
	}
	return fmt.Sprintf("%d %s %d %s", a, ua, b, ub)
}

// Ago writes t as seen from now: "2 s ago", "in 6 d", "–" when t is not set.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	d := now.Sub(t)
	switch {
	case d.Abs() < time.Second:
		return "now"
	case d < 0:
		return "in " + Span(d)
	default:
		return Span(d) + " ago"
	}
}

// Absolute writes t with its zone, for titles and tables.
func Absolute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ShortDigest is the part of a digest by which people compare.
func ShortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	if len(d) > 10 {
		d = d[:10]
	}
	return d
}

// SinceClock is " since 10:18:44 UTC", to stand behind a statement; "" for the
// zero time.
func SinceClock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + t.UTC().Format("15:04:05") + " UTC"
}
