package policy

import "time"

// Override is a tenant's own value for one limit, quota or concurrency limit, or
// a boost of it by a factor.
type Override struct {
	Limit string `json:"limit"` // scoped id: plan.requests, plan.quota, route:report.concurrency, …
	// Rate of a rate limit; "unlimited" and "0" are meant for every kind.
	Rate        string     `json:"rate,omitempty"`
	Burst       *int64     `json:"burst,omitempty"`
	Amount      *int64     `json:"amount,omitempty"`       // of a quota
	Max         *int64     `json:"max,omitempty"`          // of a quota or a concurrency limit
	FactorMilli int64      `json:"factor_milli,omitempty"` // a boost: thousandths, 1500 is half as much again
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`   // no longer holds from then on, by Redis' clock
	Reason      string     `json:"reason,omitempty"`
	Author      string     `json:"author,omitempty"`
}

// Provenance says where the numbers in force come from.
type Provenance struct {
	Source        string // "boost", "override", or the limit's own: "plan pro", "route report", …
	ExpiresMicros int64  // Unix µs from which on another value holds; 0: never
	Reason        string // of the override or boost
	Unlimited     bool   // nothing is counted; the numbers are zero
}

// Overrides are a tenant's overrides and boosts, ready to be asked. A nil
// *Overrides has none. It is immutable and safe for concurrent use.
type Overrides struct{}

// CompileOverrides checks and compiles the overrides of a tenant record.
func CompileOverrides(list []Override) (*Overrides, error) { return nil, nil }

// Limit gives the numbers of a rate limit that hold at a time of Redis' clock:
// boost over override over the limit's own.
func (o *Overrides) Limit(l *CompiledLimit, nowMicros int64) (Numbers, Provenance) {
	return l.Numbers, Provenance{Source: l.Source, ExpiresMicros: l.ExpiresMicros, Unlimited: l.Unlimited}
}

// Quota gives a quota's amount and max that hold at a time of Redis' clock.
func (o *Overrides) Quota(q *CompiledQuota, nowMicros int64) (amount, most int64, p Provenance) {
	return q.Amount, q.Max, Provenance{Source: q.Source}
}

// Slots gives the places of a concurrency limit that hold at a time of Redis'
// clock.
func (o *Overrides) Slots(c *CompiledConcurrency, nowMicros int64) (most int64, p Provenance) {
	return c.Max, Provenance{Source: c.Source}
}
