package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/usage/ledger"
)

// Bounds of what the ledger believes of an event's time, by Redis' clock.
const (
	// UsageLate is how old an event may be; what is older is held for a person.
	UsageLate = 72 * time.Hour
	// usageEarly is how far in the future one may lie.
	usageEarly = 10 * time.Minute
)

// UsageRetention says how long usage is kept. 0 means the default.
type UsageRetention struct {
	Events   time.Duration // whole months of events; default 400 days, at least 35
	Minutes  time.Duration // default 8 days
	Quarters time.Duration // quarters of hours and hours; default 400 days
	Days     time.Duration // default 5 years
}

func (r UsageRetention) withDefaults() UsageRetention {
	const day = 24 * time.Hour
	for _, d := range []struct {
		of       *time.Duration
		fallback time.Duration
	}{{&r.Events, 400 * day}, {&r.Minutes, 8 * day}, {&r.Quarters, 400 * day}, {&r.Days, 5 * 365 * day}} {
		if *d.of <= 0 {
			*d.of = d.fallback
		}
	}
	return r
}

// Ledger is the record of what tenants used: events as gateways tell them, each taken
// once, and sums of them. Everything that it answers contains all that is committed,
// whether it is added up yet or not.
type Ledger struct {
	d    Deps
	keep UsageRetention
	in   *intake

	ranks ranks

	complete struct {
		sync.Mutex
		through, at time.Time
	}
}

// NewLedger returns the ledger. Its Run must run on at least one console for it to grow.
func NewLedger(d Deps, keep UsageRetention) *Ledger {
	d = d.withDefaults()
	return &Ledger{d: d, keep: keep.withDefaults(), in: newIntake(d)}
}

// LedgerFeed is a Feed that also carries events to the ledger.
type LedgerFeed interface {
	// Events returns batches after a place ("": from the beginning), as ledger.Encode
	// wrote them, and the place after them. It does not wait.
	Events(ctx context.Context, after string) (batches [][]byte, next string, err error)
	// SetCommitted tells replicas how far the ledger has their events.
	SetCommitted(ctx context.Context, marks []ledger.Mark) error
	// DropEvents forgets everything up to a place: it was looked at, and what the ledger did
	// not take of it, replicas send again.
	DropEvents(ctx context.Context, through string) error
}

// UsageSums is what a tenant, or anything else, used.
type UsageSums struct {
	Admitted        int64 // requests that went to the upstream, by Redis' word or a fallback's
	Cost            int64 // of those, settlements included
	Fallback        int64 // the part of Admitted that was decided without Redis
	FallbackCost    int64 // the part of Cost that belongs to it
	Interrupted     int64 // requests whose gateway was killed before their end was known; not in Admitted
	InterruptedCost int64 // of those; not in Cost, and not billed by default
	Settled         int64 // the part of Cost that later corrections made, signed
	Refused         int64 // requests that a limit or a fail mode refused
	Other           int64 // requests that were turned away for anything else: no route, no key, invalid, aborted
}

// Add adds o to s.
func (s *UsageSums) Add(o UsageSums) {
	s.Admitted += o.Admitted
	s.Cost += o.Cost
	s.Fallback += o.Fallback
	s.FallbackCost += o.FallbackCost
	s.Interrupted += o.Interrupted
	s.InterruptedCost += o.InterruptedCost
	s.Settled += o.Settled
	s.Refused += o.Refused
	s.Other += o.Other
}

// take takes o off s; what came between two readings leaves nothing negative.
func (s *UsageSums) take(o UsageSums) {
	for _, f := range []struct {
		of *int64
		by int64
	}{
		{&s.Admitted, o.Admitted}, {&s.Fallback, o.Fallback}, {&s.Interrupted, o.Interrupted}, {&s.InterruptedCost, o.InterruptedCost},
		{&s.FallbackCost, o.FallbackCost}, {&s.Refused, o.Refused}, {&s.Other, o.Other},
	} {
		*f.of = max(*f.of-f.by, 0)
	}
	s.Cost -= o.Cost // settlements are signed
	s.Settled -= o.Settled
}

// by is the figure that groups are ordered by.
func (s *UsageSums) by(b UsageBy) int64 {
	switch b {
	case ByCost:
		return s.Cost
	case ByRefused:
		return s.Refused
	}
	return s.Requests()
}

// sortCells puts the largest first.
func sortCells(cells []UsageCell, by UsageBy) {
	slices.SortFunc(cells, func(a, b UsageCell) int {
		return cmp.Or(cmp.Compare(b.by(by), a.by(by)), strings.Compare(a.Key, b.Key))
	})
}

// Requests is everything that came in.
func (s *UsageSums) Requests() int64 { return s.Admitted + s.Interrupted + s.Refused + s.Other }

// Charged is the cost that quotas were charged in Redis: fallbacks charge nothing there,
// and what was interrupted had been charged.
func (s *UsageSums) Charged() int64 { return s.Cost - s.FallbackCost + s.InterruptedCost }

// count adds events of one outcome.
func (s *UsageSums) count(o ledger.Outcome, requests, cost int64) {
	switch {
	case o == ledger.OutcomeSettled:
		s.Settled += cost
		s.Cost += cost
	case o == ledger.OutcomeInterrupted:
		s.Interrupted += requests
		s.InterruptedCost += cost
	case o.Admitted():
		s.Admitted += requests
		s.Cost += cost
		if o.Degraded() {
			s.Fallback += requests
			s.FallbackCost += cost
		}
	case o.Refused():
		s.Refused += requests
	default:
		s.Other += requests
	}
}
