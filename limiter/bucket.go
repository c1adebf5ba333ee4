package limiter

import "github.com/headgate/headgate/policy"

// ForgetMicros is how long after it became full a bucket is still remembered.
// After that it is as good as one that was never seen: full at whatever numbers
// are then in force.
const ForgetMicros = 1_000_000

// Bucket is the state of one limit for one subject: the numbers in force when
// it was last written, the level then, and the time of that level.
//
// It is the reference for every store: redisstore's script computes the same
// integers, and both are tested against each other.
type Bucket struct {
	Numbers    policy.Numbers
	Units      int64 // level in 1/Numbers.Period tokens, -MaxDebt..Numbers.Full(); negative: a debt
	TimeMicros int64 // Unix µs of the level
}

// FullBucket is a bucket that nobody has drawn from.
func FullBucket(now int64, n policy.Numbers) Bucket {
	return Bucket{Numbers: n, Units: n.Full(), TimeMicros: now}
}

// Advance brings the bucket to now and to the numbers n: it is refilled at its
// own numbers, then its tokens are carried over to n, then it is clamped to n's
// burst. A now before the bucket's time refills nothing and moves the time back,
// so that a clock which stepped back delays nobody beyond the step's own refill.
func (b Bucket) Advance(now int64, n policy.Numbers) Bucket {
	units := b.refilled(now)
	if n != b.Numbers {
		units = carry(units, b.Numbers.Period, n)
	}
	return Bucket{Numbers: n, Units: min(units, n.Full()), TimeMicros: now}
}

// refilled is the level at now under the bucket's own numbers. It compares
// before it multiplies, because elapsed×Tokens may exceed 64 bits.
func (b Bucket) refilled(now int64) int64 {
	elapsed := max(0, now-b.TimeMicros)
	if elapsed >= UntilFull(b.Units, b.Numbers) {
		return b.Numbers.Full()
	}
	return b.Units + elapsed*b.Numbers.Tokens
}

// carry expresses units of 1/oldPeriod token in units of n: whole tokens exactly,
// the fraction rounded down (a debt away from zero), so that a change of numbers
// never adds. A debt stays within MaxDebt of n.
func carry(units, oldPeriod int64, n policy.Numbers) int64 {
	whole, fraction := units/oldPeriod, units%oldPeriod
	if fraction < 0 {
		whole, fraction = whole-1, fraction+oldPeriod
	}
	if whole >= n.Burst {
		return n.Full()
	}
	debt := MaxDebt(n)
	if whole < -debt/n.Period-1 { // whole×Period may exceed 64 bits
		return -debt
	}
	part := mulDiv(fraction, n.Period, oldPeriod) // fraction < oldPeriod, so part < n.Period
	return max(-debt, whole*n.Period+part)
}

// Wait is the exact time in µs until a bucket with that many units can pay cost
// tokens, or 0 when it can already. Waiting one µs less is not enough. The cost
// must not exceed the burst, and n must not be blocked.
func Wait(units, cost int64, n policy.Numbers) int64 {
	return ceilDiv(max(0, cost*n.Period-units), n.Tokens)
}

// UntilFull is the exact time in µs until a bucket with that many units is full.
func UntilFull(units int64, n policy.Numbers) int64 {
	return ceilDiv(max(0, n.Full()-units), n.Tokens)
}

// Forgotten reports whether the bucket has been full for so long that it means
// the same as one that was never seen.
func (b Bucket) Forgotten(now int64) bool {
	return now-b.TimeMicros >= UntilFull(b.Units, b.Numbers)+ForgetMicros
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}
