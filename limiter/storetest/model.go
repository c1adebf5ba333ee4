package storetest

import (
	"math/big"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Model is the reference: what docs/redis.md says, in arbitrary-precision
// integers and without regard to speed. It is not safe for concurrent use.
type Model struct {
	rows map[limiter.Row]map[uint64]*modelBucket
}

type modelBucket struct {
	numbers policy.Numbers
	units   *big.Int
	time    int64
}

// NewModel makes a model in which every bucket is full.
func NewModel() *Model { return &Model{rows: map[limiter.Row]map[uint64]*modelBucket{}} }

// Decide decides a draw at the time now, in Unix µs.
func (m *Model) Decide(now int64, d *limiter.Draw) limiter.Outcome { return m.Take(now, d.Charges) }

// Take decides charges alone.
func (m *Model) Take(now int64, charges []limiter.Charge) limiter.Outcome {
	out := limiter.Outcome{Admitted: true, NowMicros: now}
	buckets := make([]*modelBucket, len(charges))
	for i, c := range charges {
		buckets[i] = m.bucket(now, c)
		need := product(c.Cost, c.Numbers.Period)
		wait := ceil(need.Sub(need, buckets[i].units), c.Numbers.Tokens)
		out.Levels = append(out.Levels, limiter.Level{Units: buckets[i].units.Int64(), WaitMicros: wait})
		out.Admitted = out.Admitted && wait == 0
	}
	if !out.Admitted {
		return out
	}
	for i, c := range charges {
		b := buckets[i]
		b.units.Sub(b.units, product(c.Cost, c.Numbers.Period))
		out.Levels[i].Units = b.units.Int64()
		b.numbers, b.time = c.Numbers, now
		m.rows[c.Row][c.Hash] = b
	}
	return out
}

// bucket is the charge's bucket at now under the charge's numbers. It is the
// row's own when the numbers changed, else a copy.
func (m *Model) bucket(now int64, c limiter.Charge) *modelBucket {
	if m.rows[c.Row] == nil {
		m.rows[c.Row] = map[uint64]*modelBucket{}
	}
	row := m.rows[c.Row]
	for h, b := range row {
		b.time = min(b.time, now)
		if now-b.time >= b.untilFull()+limiter.ForgetMicros {
			delete(row, h)
		}
	}
	b := row[c.Hash]
	if b == nil {
		return &modelBucket{numbers: c.Numbers, units: product(c.Numbers.Burst, c.Numbers.Period), time: now}
	}
	if b.numbers == c.Numbers {
		return &modelBucket{numbers: c.Numbers, units: b.refilled(now), time: now}
	}
	// units/oldP tokens are units×newP/oldP new units; rounding the whole product
	// down is the same as keeping whole tokens and rounding their fraction down.
	units := b.refilled(now)
	units.Mul(units, big.NewInt(c.Numbers.Period))
	units.Div(units, big.NewInt(b.numbers.Period))
	b.units = least(units, product(c.Numbers.Burst, c.Numbers.Period))
	b.numbers, b.time = c.Numbers, now
	return b
}

func (b *modelBucket) full() *big.Int { return product(b.numbers.Burst, b.numbers.Period) }

func (b *modelBucket) untilFull() int64 {
	missing := b.full()
	return ceil(missing.Sub(missing, b.units), b.numbers.Tokens)
}

func (b *modelBucket) refilled(now int64) *big.Int {
	gain := product(now-b.time, b.numbers.Tokens)
	return least(gain.Add(gain, b.units), b.full())
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
