package policy

import (
	"math/bits"
	"time"
)

// Numbers are a limit in the integers that stores count in. A bucket's level is
// counted in units of 1/Period token, so a full bucket holds Burst×Period
// units, a request of cost c needs c×Period of them, and every microsecond
// brings Tokens units. Tokens and Period are reduced by their greatest common
// divisor. Validation keeps Burst×Period + Tokens below 2^53, which is what
// Redis' Lua counts exactly.
type Numbers struct {
	Tokens int64 // tokens per period, >= 1 (0: admits nothing)
	Period int64 // µs, >= 1
	Burst  int64 // tokens
}

// Blocked reports whether the numbers admit nothing ever.
func (n Numbers) Blocked() bool { return n.Tokens == 0 || n.Burst == 0 }

// Full is the level of a full bucket, in units.
func (n Numbers) Full() int64 { return n.Burst * n.Period }

// LeasePeriod is how long a slice of a leased limit may be spent after it was
// debited. A shorter one would have the store asked more often, a longer one would
// keep more off the burst.
const LeasePeriod = 50 * time.Millisecond

// LeasedBurst is the burst that a leased limit's bucket has in the store. Tokens
// may be spent up to LeasePeriod after they were debited, and by then the bucket
// has refilled by as much as the rate brings in that time: what is kept off the
// burst is that refill, so that callers never get more than burst and rate allow.
// Where that would leave less than half the burst, the limit is counted exactly
// and the burst is the limit's own.
func (n Numbers) LeasedBurst() int64 {
	high, low := bits.Mul64(uint64(n.Tokens), uint64(LeasePeriod.Microseconds())) // may exceed 64 bits
	if n.Blocked() || high >= uint64(n.Period) {
		return n.Burst
	}
	refill, rest := bits.Div64(high, low, uint64(n.Period))
	if rest > 0 {
		refill++
	}
	if refill > uint64(n.Burst/2) {
		return n.Burst
	}
	return n.Burst - int64(refill)
}

// MaxPeriod is the longest period of a rate.
const MaxPeriod = 31 * 24 * time.Hour

// MaxUnits bounds Burst×Period + Tokens: integers below it are exact in a double.
const MaxUnits = 1 << 53
