package storetest

import (
	"math/big"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Model is the reference: what this package's documentation says, in
// arbitrary-precision integers and without regard to speed. Times are in Unix
// µs. It forgets nothing but buckets, so it says nothing of ids and counters that
// are past their time. It is not safe for concurrent use.
type Model struct {
	rows   map[limiter.Row]modelRow
	slots  map[modelLimit]map[string]int64 // expiry by lease
	quotas map[modelLimit]*big.Int
	marks  map[string]bool
	marked bool // counters of recorded quotas can be believed
}

// modelRow is a row's buckets by hash.
type modelRow map[uint64]*modelBucket

// modelLimit names a set of leases, or the counter of a quota's period.
type modelLimit struct {
	row   limiter.Row
	hash  uint64
	start int64
}

// NewModel makes a model in which every bucket is full and nothing is counted.
func NewModel() *Model {
	m := &Model{}
	m.Flush()
	return m
}

// Flush makes the model forget everything.
func (m *Model) Flush() {
	m.rows = map[limiter.Row]modelRow{}
	m.slots = map[modelLimit]map[string]int64{}
	m.quotas = map[modelLimit]*big.Int{}
	m.marks = map[string]bool{}
	m.marked = false
}

// Mark lets counters of recorded quotas be believed.
func (m *Model) Mark() { m.marked = true }

// Decide decides a draw.
func (m *Model) Decide(now int64, d *limiter.Draw) limiter.Outcome {
	out := limiter.Outcome{Admitted: true, NowMicros: now}
	payable := true // by the shadows too
	judge := func(refused, shadow bool) {
		out.Admitted = out.Admitted && (!refused || shadow)
		payable = payable && !refused
	}
	places := make([]modelPlace, len(d.Charges))
	for i, c := range d.Charges {
		places[i] = m.place(now, c)
		level := places[i].level(c)
		out.Levels = append(out.Levels, level)
		judge(level.WaitMicros > 0, c.Shadow)
	}
	for _, s := range d.Slots {
		active := m.active(now, slotLimit(s.Row, s.Hash))
		out.Slots = append(out.Slots, limiter.SlotLevel{Active: active, Refused: active >= s.Max})
		judge(active >= s.Max, s.Shadow)
	}
	for _, q := range d.Quotas {
		level := m.quota(q)
		out.Quotas = append(out.Quotas, level)
		judge(level.Refused, q.Shadow)
	}
	if out.Admitted {
		m.spend(now, d, places, &out, payable)
	}
	return out
}

// Take decides charges alone.
func (m *Model) Take(now int64, charges []limiter.Charge) limiter.Outcome {
	return m.Decide(now, &limiter.Draw{Charges: charges})
}

// spend takes all parts of an admitted draw; its shadows only with all of them.
func (m *Model) spend(now int64, d *limiter.Draw, places []modelPlace, out *limiter.Outcome, shadows bool) {
	for i, c := range d.Charges {
		if shadows || !c.Shadow {
			out.Levels[i].Extra = m.pay(places[i], c)
			out.Levels[i].Units = places[i].bucket.units.Int64()
		}
	}
	for i, s := range d.Slots {
		if shadows || !s.Shadow {
			out.Slots[i].Active = m.hold(now, s.Held())
		}
	}
	for i, q := range d.Quotas {
		if shadows || !q.Shadow {
			used := m.count(quotaLimit(q.Row, q.Hash, q.Start), q.Cost)
			out.Quotas[i].Used = used
			out.Quotas[i].Overage = q.Bill && used > q.Amount
		}
	}
}

// modelPlace is where a charge is counted: its bucket at now, and the gate that
// a subject passes which was not known.
type modelPlace struct {
	row      limiter.Row
	bucket   *modelBucket
	overflow bool
	gate     *modelBucket
}

// place finds the bucket that a charge is judged on. What it holds is a copy:
// nothing but mending and new numbers is written before the charge is spent.
func (m *Model) place(now int64, c limiter.Charge) modelPlace {
	if b := m.look(now, c.Row, c.Hash, c.Numbers); b != nil {
		return modelPlace{row: c.Row, bucket: b}
	}
	own := modelPlace{row: c.Row, bucket: fullModelBucket(now, c.Numbers)}
	if c.Identifiers == 0 {
		return own
	}
	scope, numbers := overflowRow(c.Row), limiter.IdentifierNumbers(c.Numbers, c.Identifiers)
	if own.gate = m.look(now, scope, ^c.Hash, numbers); own.gate == nil {
		own.gate = fullModelBucket(now, numbers)
	}
	if own.gate.units.Cmp(big.NewInt(numbers.Period)) >= 0 {
		return own
	}
	shared := modelPlace{row: scope, overflow: true, bucket: m.look(now, scope, c.Hash, c.Numbers)}
	if shared.bucket == nil {
		shared.bucket = fullModelBucket(now, c.Numbers)
	}
	return shared
}

// overflowRow stands for the overflow row of the scope that the row lies in.
func overflowRow(row limiter.Row) limiter.Row {
	return limiter.Row{Kind: 'o', Tenant: row.Tenant, Subject: string(row.Kind)}
}

func (p modelPlace) level(c limiter.Charge) limiter.Level {
	need := product(c.Cost, c.Numbers.Period)
	wait := ceil(need.Sub(need, p.bucket.units), c.Numbers.Tokens)
	return limiter.Level{Units: p.bucket.units.Int64(), WaitMicros: wait, Overflow: p.overflow}
}

// pay takes the charge from its place, and as much of the extra as is there.
func (m *Model) pay(p modelPlace, c limiter.Charge) (extra int64) {
	period := big.NewInt(c.Numbers.Period)
	p.bucket.units.Sub(p.bucket.units, product(c.Cost, c.Numbers.Period))
	if !p.overflow {
		extra = least(new(big.Int).Div(p.bucket.units, period), big.NewInt(c.Extra)).Int64()
		p.bucket.units.Sub(p.bucket.units, product(extra, c.Numbers.Period))
	}
	m.row(p.row)[c.Hash] = p.bucket
	if p.gate != nil {
		p.gate.units.Sub(p.gate.units, big.NewInt(p.gate.numbers.Period))
		m.row(overflowRow(c.Row))[^c.Hash] = p.gate
	}
	return extra
}

func (m *Model) row(id limiter.Row) modelRow {
	if m.rows[id] == nil {
		m.rows[id] = modelRow{}
	}
	return m.rows[id]
}

// look mends the row and returns a copy of the bucket at now under the numbers
// n, or nil if it is not there. New numbers are written into the row.
func (m *Model) look(now int64, id limiter.Row, hash uint64, n policy.Numbers) *modelBucket {
	row := m.row(id)
	row.mend(now)
	b := row[hash]
	if b == nil {
		return nil
	}
	b = b.at(now)
	if b.numbers != n {
		b = b.under(n)
		row[hash] = b
	}
	return b.copy()
}

// mend brings what lies in the future to now and drops what is forgotten.
func (r modelRow) mend(now int64) {
	for hash, b := range r {
		b.time = min(b.time, now)
		if now-b.time >= b.untilFull()+limiter.ForgetMicros {
			delete(r, hash)
		}
	}
}
