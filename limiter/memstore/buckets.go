package memstore

import (
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// rowOverflow is the kind of a row that holds the gates and overflow buckets of
// all subjects of one scope: a tenant, all addresses, or all other dimensions.
const rowOverflow limiter.RowKind = 'o'

// place is the bucket that a charge is judged on, at now and under the charge's
// numbers, and where it lies.
type place struct {
	row      *row // nil: not there yet
	bucket   limiter.Bucket
	overflow bool
	entering bool // the subject was not known: it takes a token of the gate
	gate     limiter.Bucket
}

// find mends what it looks at, whether the draw is admitted or not. own is the
// charge's row, or nil.
func (s *Store) find(now int64, c *limiter.Charge, own *row) place {
	b, known := own.look(now, c.Hash, c.Numbers)
	p := place{row: own, bucket: b}
	if known || c.Identifiers == 0 {
		return p
	}
	scope := s.rows.get(overflowRow(c.Row))
	p.gate, _ = scope.look(now, gateHash(c.Hash), limiter.IdentifierNumbers(c.Numbers, c.Identifiers))
	if limiter.Wait(p.gate.Units, 1, p.gate.Numbers) == 0 {
		p.entering = true
		return p
	}
	b, _ = scope.look(now, c.Hash, c.Numbers)
	return place{row: scope, bucket: b, overflow: true}
}

// gateHash is where the gate of a limit lies beside its overflow bucket.
func gateHash(hash uint64) uint64 { return ^hash }

func overflowRow(of limiter.Row) limiter.Row {
	return limiter.Row{Kind: rowOverflow, Tenant: of.Tenant, Subject: string(rune(of.Kind))}
}

// look is the row's bucket at now under the numbers n: a full one if it is not
// there. One that was written under other numbers is stored under the new ones
// even if the request will be refused, else it would go on refilling at the old
// rate.
func (r *row) look(now int64, hash uint64, n policy.Numbers) (b limiter.Bucket, known bool) {
	if r == nil {
		return limiter.FullBucket(now, n), false
	}
	r.mend(now)
	at := r.find(hash)
	if at < 0 {
		return limiter.FullBucket(now, n), false
	}
	b = r.buckets[at]
	moved := b.Advance(now, n)
	if b.Numbers != n {
		r.put(hash, moved)
	}
	return moved, true
}

// pay takes the cost and as much of the extra as is there.
func (s *Store) pay(c *limiter.Charge, p *place, level *limiter.Level) {
	b := p.bucket
	b.Units -= c.Cost * c.Numbers.Period
	if !p.overflow {
		level.Extra = min(c.Extra, b.Units/c.Numbers.Period)
		b.Units -= level.Extra * c.Numbers.Period
	}
	level.Units = b.Units
	if p.row == nil {
		id := c.Row
		if p.overflow {
			id = overflowRow(c.Row)
		}
		p.row = s.rows.of(id)
	}
	p.row.put(c.Hash, b)
	if p.entering {
		p.gate.Units -= p.gate.Numbers.Period
		s.rows.of(overflowRow(c.Row)).put(gateHash(c.Hash), p.gate)
	}
}

// correct makes one correction. A bucket keeps its own numbers, which may be
// newer than the amendment's.
func (s *Store) correct(now int64, a *limiter.Amendment) {
	if a.Quota {
		s.recount(now, a)
		return
	}
	r, at := s.rows.get(a.Row), -1
	var b limiter.Bucket
	if r != nil {
		r.mend(now)
		at = r.find(a.Hash)
	}
	switch {
	case at >= 0:
		b = r.buckets[at]
	case a.Tokens < 0:
		b = limiter.FullBucket(now, a.Numbers)
	default:
		return // full already
	}
	if a.Tokens > 0 && a.Since != 0 {
		b = b.GiveBack(now, a.Since, a.Tokens)
	} else {
		b = b.Amend(now, a.Tokens)
	}
	s.rows.of(a.Row).put(a.Hash, b)
}
