package limiter

import (
	"fmt"

	"github.com/headgate/headgate/policy"
)

// Ask names the state of one limit for one subject, for people who look at it or
// put it right. Part says which kind: PartCharge, PartSlot or PartQuota.
type Ask struct {
	Part Part
	Row  Row
	Hash uint64 // policy.LimitHash of the limit's id
	// Numbers are those in force, under which a bucket is told and changed. The zero
	// Numbers: those that it was last written under.
	Numbers policy.Numbers
	// Overflow asks for the bucket that the subjects share which are beyond the limit's
	// bound of identifiers, instead of the row's own.
	Overflow   bool
	Start, End int64 // of the quota's period, Unix µs; End 0: a lifetime
}

// Held is what a store holds of an Ask, as a decision at NowMicros would read it.
type Held struct {
	NowMicros int64 // the store's clock, Unix µs
	// Found: there is state of its own. Without it a bucket is full, no place is
	// taken and nothing of a quota is used.
	Found  bool
	Broken bool // the key holds something else than a store writes; decisions on it fail
	// TTLMillis is how long the key lasts: -1 without an end, which is a fault, and -2
	// when there is no key.
	TTLMillis int64
	// Numbers and Units are of a bucket: its level at NowMicros in 1/Numbers.Period
	// tokens, negative for a debt. Of one that is not Found they are zero, unless the
	// Ask brought Numbers: then it is full.
	Numbers policy.Numbers
	Units   int64
	Used    int64 // of a quota, in its period
	// Kept says that the lane has the mark by which a recorded quota's counter, present
	// or absent, can be believed.
	Kept   bool
	Active int64       // places taken
	Leases []HeldLease // the first MaxHeldLeases of them by their end
}

// MaxHeldLeases bounds the leases that Held names.
const MaxHeldLeases = 200

// HeldLease is a place that somebody holds. See ReadLeaseName for who and since when.
type HeldLease struct {
	ID         string
	EndsMicros int64 // unless it is renewed
}

// Waits is how long a request of that cost has to wait for the bucket, in µs; 0 when
// it can pay, and -1 when it never can.
func (h *Held) Waits(cost int64) int64 {
	switch {
	case h.Numbers.Blocked() || cost > h.Numbers.Burst:
		return -1
	case h.Units >= cost*h.Numbers.Period:
		return 0
	}
	return Wait(h.Units, cost, h.Numbers)
}

// Adjustment moves the level of a bucket between two bounds. A bucket that is not
// there is full, and is made if the bounds call for less.
type Adjustment struct {
	Ask // Numbers are compulsory
	// Floor and Ceiling are whole tokens, as Numbers count them, from a debt of
	// policy.MaxUnits up to the burst. A level between them stays.
	Floor, Ceiling int64
}

// Units are the bounds in units, as far as they can be counted.
func (a *Adjustment) Units() (floor, ceiling int64, err error) {
	n := a.Numbers
	if why := numbersProblem(n); why != "" {
		return 0, 0, fmt.Errorf("%w: %s", ErrCharges, why)
	}
	if a.Part != PartCharge || a.Floor > a.Ceiling {
		return 0, 0, fmt.Errorf("%w: a bucket is moved between a floor and a ceiling", ErrCharges)
	}
	full := n.Burst * n.Period
	least := full + n.Tokens + 1 - policy.MaxUnits
	within := func(tokens int64) int64 {
		if tokens >= n.Burst {
			return full
		}
		if tokens <= least/n.Period {
			return least
		}
		return tokens * n.Period
	}
	return within(a.Floor), within(a.Ceiling), nil
}

// Adjusted is what came of an Adjustment or of a Clear.
type Adjusted struct {
	Before, After Held
}

// ScanPlace is how far each server has been read for strays; the zero ScanPlace begins
// anew.
type ScanPlace struct {
	Cursors map[string]uint64 // by server
}

// Stray is a key of limiter state that has no TTL, which no script leaves behind.
type Stray struct {
	Key  string // may hold any bytes
	Type string // of Redis: string, zset, …
}
