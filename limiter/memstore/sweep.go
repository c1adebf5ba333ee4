package memstore

// What bounds the memory. Every other call looks at a few entries of each kind, in
// turn, and drops those that nobody needs any more.
const (
	sweepEvery = 2
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
	if s.calls++; s.calls%sweepEvery != 0 {
		return
	}
	past := now - sweepLagMicros
	s.rows.sweep(past, (*row).forgotten)
	s.slots.sweep(past, func(l *leases, past int64) bool { return l.latest <= past })
	s.quotas.sweep(past, func(c *counter, past int64) bool { return c.until <= past })
	s.marks.sweep(past, func(at *int64, past int64) bool { return *at+markMicros <= past })
}
