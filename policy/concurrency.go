package policy

import "time"

// Concurrency bounds how many requests of a route run at once.
type Concurrency struct {
	Per   Per
	Max   int64         // 1..MaxConcurrency
	Lease time.Duration // after which a request that nobody renews no longer counts
	Mode  LimitMode
}

// Bounds of a Concurrency.
const (
	MaxConcurrency = 100_000
	MinLease       = time.Second
	MaxLease       = time.Hour
)

// CompiledConcurrency is a route's concurrency limit in the form that a gateway
// counts.
type CompiledConcurrency struct {
	ID         string // "route:report.concurrency"
	Hash       uint64 // LimitHash(ID)
	Per        Per
	Dimensions []Dimension
	Max        int64
	Hold       time.Duration // the lease
	Shadow     bool
	Source     string // "route report"
}
