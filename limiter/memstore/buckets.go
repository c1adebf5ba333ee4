package memstore

import (
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// row is the buckets of one subject, by the hash of their limit.
type row map[uint64]limiter.Bucket

// rowOverflow is the kind of a row that holds the gates and overflow buckets of
// all subjects of one scope: a tenant, all addresses, or all other dimensions.
const rowOverflow limiter.RowKind = 'o'

// place is the bucket that a charge is judged on, at now and under the charge's
// numbers, and where it lies.
type place struct {
	row      limiter.Row
	bucket   limiter.Bucket
	overflow bool
	entering bool // the subject was not known: it takes a token of the gate
	gate     limiter.Bucket
}

// find mends what it looks at, whether the draw is admitted or not.
func (s *Store) find(now int64, c *limiter.Charge) place {
	b, known := s.look(now, c.Row, c.Hash, c.Numbers)
	own := place{row: c.Row, bucket: b}
	if known || c.Identifiers == 0 {
		return own
	}
	scope := overflowRow(c.Row)
	own.gate, _ = s.look(now, scope, gateHash(c.Hash), limiter.IdentifierNumbers(c.Numbers, c.Identifiers))
	if limiter.Wait(own.gate.Units, 1, own.gate.Numbers) == 0 {
		own.entering = true
		return own
	}
	b, _ = s.look(now, scope, c.Hash, c.Numbers)
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
func (s *Store) look(now int64, id limiter.Row, hash uint64, n policy.Numbers) (b limiter.Bucket, known bool) {
	r := s.rows[id]
	r.mend(now)
	b, known = r[hash]
	if !known {
		return limiter.FullBucket(now, n), false
	}
	moved := b.Advance(now, n)
	if b.Numbers != n {
		r[hash] = moved
	}
	return moved, true
}

// mend brings what lies in the future to now and drops what is forgotten.
func (r row) mend(now int64) {
	for hash, b := range r {
		if b.TimeMicros > now {
			b.TimeMicros = now
			r[hash] = b
		}
		if b.Forgotten(now) {
			delete(r, hash)
		}
	}
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
	s.put(p.row, c.Hash, b)
	if p.entering {
		p.gate.Units -= p.gate.Numbers.Period
		s.put(overflowRow(c.Row), gateHash(c.Hash), p.gate)
	}
}

func (s *Store) put(id limiter.Row, hash uint64, b limiter.Bucket) {
	r := s.rows[id]
	if r == nil {
		r = row{}
		s.rows[id] = r
	}
	r[hash] = b
}

// correct makes one correction. A bucket keeps its own numbers, which may be
// newer than the amendment's.
func (s *Store) correct(now int64, a *limiter.Amendment) {
	if a.Quota {
		s.recount(now, a)
		return
	}
	id := a.Row
	r := s.rows[id]
	r.mend(now)
	b, known := r[a.Hash]
	switch {
	case known:
	case a.Tokens < 0:
		b = limiter.FullBucket(now, a.Numbers)
	default:
		return // full already
	}
	if a.Tokens > 0 && a.Since != 0 {
		s.put(id, a.Hash, b.GiveBack(now, a.Since, a.Tokens))
		return
	}
	s.put(id, a.Hash, b.Amend(now, a.Tokens))
}
