package limiter

// Stats are counts since the start, for metrics.
type Stats struct {
	Cached        int64 // decisions refused from the deny cache
	Local         int64 // decisions admitted from slices alone
	Slices        int64 // slices taken
	SliceTokens   int64 // tokens in them
	SliceReturned int64 // tokens of slices given back
	RenewFailed   int64 // leases whose renewal failed, each time
	LeasesLost    int64 // renewals that found no place for the lease
	Settled       int64 // corrections applied
}

// Stats are the counts so far.
func (l *Limiter) Stats() Stats { return Stats{} }
