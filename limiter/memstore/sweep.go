package memstore

// What bounds the memory. Each call looks at a few entries of each kind, in
// random order, and drops those that nobody needs any more.
const (
	// sweepProbes bounds the entries looked at.
	sweepProbes = 4
	// sweepLagMicros is how long an entry must have been of no use: a clock that
	// steps back by less does not see it missing.
	sweepLagMicros = hourMicros

	hourMicros = 3_600_000_000
	dayMicros  = 24 * hourMicros
	// markMicros is how long an amendment's id is known.
	markMicros = hourMicros
	// lifetimeMicros is how long the counter of a quota without an end is kept.
	lifetimeMicros = 400 * dayMicros
)

// keptUntil is until when a counter is kept that is used now.
func keptUntil(now, end int64) int64 {
	if end == 0 {
		return now + lifetimeMicros
	}
	return max(end, now) + hourMicros
}

func (s *Store) sweep(now int64) {
	past := now - sweepLagMicros
	sweep(s.rows, func(r row) bool { return r.forgotten(past) })
	sweep(s.slots, func(l leases) bool { return l.held(past) == 0 })
	sweep(s.quotas, func(c counter) bool { return c.until <= past })
	sweep(s.marks, func(at int64) bool { return at+markMicros <= past })
}

func sweep[K comparable, V any](of map[K]V, useless func(V) bool) {
	looked := 0
	for key, value := range of { // in random order
		if useless(value) {
			delete(of, key)
		}
		if looked++; looked == sweepProbes {
			return
		}
	}
}

// forgotten reports whether none of the row's buckets is needed.
func (r row) forgotten(now int64) bool {
	for _, b := range r {
		if !b.Forgotten(now) {
			return false
		}
	}
	return true
}
