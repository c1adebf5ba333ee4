package policy

import "time"

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

// MaxPeriod is the longest period of a rate.
const MaxPeriod = 31 * 24 * time.Hour

// MaxUnits bounds Burst×Period + Tokens: integers below it are exact in a double.
const MaxUnits = 1 << 53
