package envoy

import (
	"math"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/gateway"
)

// statusLine is a DescriptorStatus.
type statusLine struct {
	code    ratelimitv3.RateLimitResponse_Code
	limited bool // there is a limit to tell of
	limit   limitLine
	left    uint32
	reset   int64 // seconds; 0: not told
}

// limitLine is a RateLimit: so many per so many units.
type limitLine struct {
	name    string
	perUnit uint32
	unit    ratelimitv3.RateLimitResponse_RateLimit_Unit
	units   uint32 // 0 and 1: one
}

// statusOf tells one descriptor's decision: of the tightest limit, what is left
// and how long until there is more, or until this request could be paid for.
// Where the HTTP doors tell no numbers there are none.
func statusOf(code ratelimitv3.RateLimitResponse_Code, v *gateway.Verdict) statusLine {
	out := statusLine{code: code}
	l, left, reset := v.Tightest()
	switch {
	case l != nil:
		out.limited, out.limit, out.left = true, describe(l), clamp(left)
	case code == over && v.RetryAfterMicros > 0:
		reset = ceilSeconds(v.RetryAfterMicros)
	}
	out.reset = max(reset, 0) // whole, rounded up: Envoy cuts fractions off when it tells callers
	return out
}

// describe tells a limit as so many per so many units, exactly: the largest unit
// that its window is a whole number of. A limit of places has none.
func describe(l *gateway.LimitState) limitLine {
	out := limitLine{name: l.ID, perUnit: clamp(l.Quota)}
	if l.Window > 0 {
		unit, times := unitOf(l.Kind, l.Window)
		out.unit, out.units = unit, clamp(times)
	}
	return out
}

// Seconds of days, and how far the clocks' change moves the end of a period.
const (
	hour = 60 * 60
	day  = 24 * hour
)

// unitOf is a window of seconds in Envoy's units.
func unitOf(kind gateway.LimitKind, window int64) (unit ratelimitv3.RateLimitResponse_RateLimit_Unit, times int64) {
	if kind == gateway.LimitQuota { // a period of the calendar, which summer time may alter
		switch about := func(least, most int64) bool { return window >= least*day-hour && window <= most*day+hour }; {
		case about(1, 1):
			return ratelimitv3.RateLimitResponse_RateLimit_DAY, 1
		case about(7, 7):
			return ratelimitv3.RateLimitResponse_RateLimit_WEEK, 1
		case about(28, 31):
			return ratelimitv3.RateLimitResponse_RateLimit_MONTH, 1
		case about(365, 366):
			return ratelimitv3.RateLimitResponse_RateLimit_YEAR, 1
		}
	}
	switch {
	case window%day == 0:
		return ratelimitv3.RateLimitResponse_RateLimit_DAY, window / day
	case window%hour == 0:
		return ratelimitv3.RateLimitResponse_RateLimit_HOUR, window / hour
	case window%60 == 0:
		return ratelimitv3.RateLimitResponse_RateLimit_MINUTE, window / 60
	}
	return ratelimitv3.RateLimitResponse_RateLimit_SECOND, window
}

func clamp(n int64) uint32 {
	return uint32(min(max(n, 0), math.MaxUint32))
}

func ceilSeconds(micros int64) int64 { return (micros-1)/1_000_000 + 1 }

// nearer reports whether a is nearer to its limits than b: its answer is the one
// that a caller of several descriptors is told.
func nearer(a, b *gateway.Verdict) bool {
	la, leftA, _ := a.Tightest()
	lb, leftB, _ := b.Tightest()
	return la != nil && (lb == nil || leftA < leftB)
}

// later reports whether a tells its caller to wait longer than b does.
func later(a, b *gateway.Verdict) bool { return a.RetryAfterMicros > b.RetryAfterMicros }
