package limiter

import "sync/atomic"

// Stats are counts since the start, for metrics.
type Stats struct {
	Cached        int64 // decisions refused from the deny cache
	Local         int64 // decisions admitted from slices alone
	Slices        int64 // slices taken
	SliceTokens   int64 // tokens in them
	SliceReturned int64 // tokens of slices given back
	RenewFailed   int64 // leases that a renewal failed for, each time
	LeasesLost    int64 // leases that ended although they were being renewed
	Settled       int64 // corrections made
}

type counts struct{ cached, local, renewFailed, lost, settled atomic.Int64 }

// Stats are the counts so far.
func (l *Limiter) Stats() Stats {
	return Stats{
		Cached: l.counts.cached.Load(), Local: l.counts.local.Load(),
		Slices: l.slices.count.slices.Load(), SliceTokens: l.slices.count.tokens.Load(),
		SliceReturned: l.slices.count.returned.Load(),
		RenewFailed:   l.counts.renewFailed.Load(), LeasesLost: l.counts.lost.Load(),
		Settled: l.counts.settled.Load(),
	}
}
