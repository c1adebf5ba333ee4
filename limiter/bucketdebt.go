package limiter

import (
	"math/bits"

	"github.com/headgate/headgate/policy"
)

// MaxDebt is how far below zero a bucket's level may go, in units: so far that
// what is missing to a full bucket is still counted exactly.
func MaxDebt(n policy.Numbers) int64 { return policy.MaxUnits - 1 - n.Tokens - n.Full() }

// Amend brings the bucket to now at its own numbers and corrects its level:
// positive tokens are given back, up to a full bucket; negative ones are charged
// whether they are there or not, down to MaxDebt.
func (b Bucket) Amend(now, tokens int64) Bucket {
	b = b.Advance(now, b.Numbers)
	n := b.Numbers
	switch {
	case tokens > 0 && tokens > (n.Full()-b.Units)/n.Period:
		b.Units = n.Full()
	case tokens < 0 && tokens < -(b.Units+MaxDebt(n))/n.Period:
		b.Units = -MaxDebt(n)
	default:
		b.Units += tokens * n.Period
	}
	return b
}

// GiveBack is Amend for tokens that were taken at since and not spent: what refills
// from then until now is taken off them.
func (b Bucket) GiveBack(now, since, tokens int64) Bucket {
	b = b.Advance(now, b.Numbers)
	n, out := b.Numbers, now-since
	back := min(tokens, n.Burst) * n.Period
	if out < 0 || out >= ceilDiv(back, n.Tokens) { // out×Tokens may exceed 64 bits
		return b
	}
	b.Units = min(b.Units+back-out*n.Tokens, n.Full())
	return b
}

// mulDiv is a×b/c, rounded down, for a and b >= 0 and a result that fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
