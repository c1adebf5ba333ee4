package storetest

import (
	"math/big"

	"github.com/headgate/headgate/policy"
)

// modelBucket is a bucket that is written nowhere else: at and under return new
// ones.
type modelBucket struct {
	numbers policy.Numbers
	units   *big.Int // negative: a debt
	time    int64
}

func fullModelBucket(now int64, n policy.Numbers) *modelBucket {
	return &modelBucket{numbers: n, units: product(n.Burst, n.Period), time: now}
}

func (b *modelBucket) copy() *modelBucket {
	return &modelBucket{numbers: b.numbers, units: new(big.Int).Set(b.units), time: b.time}
}

// at is the bucket refilled to now, which is not before its time.
func (b *modelBucket) at(now int64) *modelBucket {
	gain := product(now-b.time, b.numbers.Tokens)
	return &modelBucket{numbers: b.numbers, units: least(gain.Add(gain, b.units), b.full()), time: now}
}

// under is the bucket under other numbers: its tokens are carried over. Whole
// tokens exactly and their fraction rounded down is the same as rounding
// units×newPeriod/oldPeriod down; big.Int.Div rounds towards less.
func (b *modelBucket) under(n policy.Numbers) *modelBucket {
	units := new(big.Int).Mul(b.units, big.NewInt(n.Period))
	units.Div(units, big.NewInt(b.numbers.Period))
	next := &modelBucket{numbers: n, units: units, time: b.time}
	next.clamp()
	return next
}

// add gives tokens, or takes them when there are fewer than 0.
func (b *modelBucket) add(tokens int64) {
	b.units.Add(b.units, product(tokens, b.numbers.Period))
	b.clamp()
}

// giveBack gives tokens that were out for so long, less what refills in that time.
func (b *modelBucket) giveBack(tokens, out int64) {
	back := product(min(tokens, b.numbers.Burst), b.numbers.Period)
	back.Sub(back, product(out, b.numbers.Tokens))
	if out >= 0 && back.Sign() > 0 {
		b.units.Add(b.units, back)
		b.clamp()
	}
}

// clamp keeps the units between the largest debt and full.
func (b *modelBucket) clamp() {
	floor := big.NewInt(b.numbers.Tokens - (policy.MaxUnits - 1))
	floor.Add(floor, b.full())
	if b.units.Cmp(floor) < 0 {
		b.units = floor
	}
	b.units = least(b.units, b.full())
}

func (b *modelBucket) full() *big.Int { return product(b.numbers.Burst, b.numbers.Period) }

func (b *modelBucket) untilFull() int64 {
	missing := b.full()
	return ceil(missing.Sub(missing, b.units), b.numbers.Tokens)
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// ceil is a/b rounded up, or 0 when a is not above 0.
func ceil(a *big.Int, b int64) int64 {
	if a.Sign() <= 0 {
		return 0
	}
	q, r := new(big.Int).DivMod(a, big.NewInt(b), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}
