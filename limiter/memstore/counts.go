package memstore

import (
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// leases is the expiry in µs of each lease of a slot.
type leases struct {
	expiry  map[string]int64
	soonest int64 // none ends before
	latest  int64 // none ends later
}

// held is the number of leases that have not ended.
func (l *leases) held(now int64) int64 {
	if l == nil {
		return 0
	}
	if now < l.soonest {
		return int64(len(l.expiry))
	}
	n := int64(0)
	for _, expiry := range l.expiry {
		if expiry > now {
			n++
		}
	}
	return n
}

// dropEnded forgets leases that have ended.
func (l *leases) dropEnded(now int64) {
	if now < l.soonest {
		return
	}
	l.soonest = 1<<63 - 1
	for id, expiry := range l.expiry {
		if expiry <= now {
			delete(l.expiry, id)
		} else {
			l.soonest = min(l.soonest, expiry)
		}
	}
}

func (s *Store) slot(now int64, slot *limiter.Slot) limiter.SlotLevel {
	active := s.slots.get(limit{slot.Row, slot.Hash}).held(now)
	return limiter.SlotLevel{Active: active, Refused: active >= slot.Max}
}

// hold makes a lease or gives it a new expiry, drops the ended ones of its set,
// and returns how many are held.
func (s *Store) hold(now int64, of limit, id string, holdMicros int64) int64 {
	set := s.slots.of(of)
	if set.expiry == nil {
		set.expiry = map[string]int64{}
	}
	set.dropEnded(now)
	expiry := now + holdMicros
	set.expiry[id] = expiry
	set.soonest, set.latest = min(set.soonest, expiry), max(set.latest, expiry)
	return int64(len(set.expiry))
}

// renew makes a lease again that ended or was lost, if there is a place for it.
func (s *Store) renew(now int64, lease *limiter.Lease) bool {
	of := limit{lease.Row, lease.Hash}
	set := s.slots.get(of)
	if (set == nil || set.expiry[lease.ID] <= now) && set.held(now) >= lease.Max {
		return false
	}
	s.hold(now, of, lease.ID, lease.HoldMicros)
	return true
}

// counted names the counter of a quota's period.
type counted struct {
	limit
	start int64
}

func countedBy(row limiter.Row, hash uint64, start int64) counted {
	return counted{limit{row, hash}, start}
}

// counter is the units of a period, and until when they are kept.
type counter struct{ used, until int64 }

// quota judges a quota. Naming one that is for a lifetime keeps it.
func (s *Store) quota(now int64, q *limiter.Quota) limiter.QuotaLevel {
	of := countedBy(q.Row, q.Hash, q.Start)
	used := int64(0)
	if c := s.quotas.get(of); c != nil {
		if used = c.used; q.End == 0 {
			c.until = keptUntil(now, 0)
		}
	}
	lost := q.Recorded && !s.marked
	return limiter.QuotaLevel{Used: used, Refused: q.Cost > q.Cap()-used || lost && !q.Bill, Lost: lost}
}

// count adds units to a counter, within what it can hold.
func (s *Store) count(now int64, of counted, units, end int64) (used int64) {
	c := s.quotas.of(of)
	c.used = min(max(0, c.used+units), policy.MaxUnits-1)
	c.until = keptUntil(now, end)
	return c.used
}

// recount corrects a counter; only a charge makes one that is not there.
func (s *Store) recount(now int64, a *limiter.Amendment) {
	of := countedBy(a.Row, a.Hash, a.Start)
	if s.quotas.get(of) != nil || a.Tokens < 0 {
		s.count(now, of, -a.Tokens, a.End)
	}
}
