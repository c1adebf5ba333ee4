package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Override is a tenant's own value for one limit, quota or concurrency limit, or
// a boost of it by a factor.
type Override struct {
	Limit string `json:"limit"` // scoped id: plan.requests, plan.quota, route:report.concurrency, …
	// Rate of a rate limit, as in a document. The word unlimited is meant for
	// quotas and concurrency limits too.
	Rate        string     `json:"rate,omitempty"`
	Burst       *int64     `json:"burst,omitempty"`        // of a rate limit; nil with a rate: the rate's count
	Amount      *int64     `json:"amount,omitempty"`       // of a quota
	Max         *int64     `json:"max,omitempty"`          // of a quota (0: no bound) or a concurrency limit
	FactorMilli int64      `json:"factor_milli,omitempty"` // a boost: thousandths, so 1500 is half as much again
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`   // no longer holds from then on, by Redis' clock
	Reason      string     `json:"reason,omitempty"`
	Author      string     `json:"author,omitempty"`
}

// Bounds of overrides.
const (
	MaxOverrides   = 100       // of a tenant
	MaxFactorMilli = 1_000_000 // a thousandfold
	maxLimitID     = 160       // "route:" and two names
)

// Sources of a Provenance that are not a limit's own.
const (
	SourceOverride = "override"
	SourceBoost    = "boost"
)

// Provenance says where the numbers in force come from.
type Provenance struct {
	Source        string // SourceBoost, SourceOverride, or the limit's own: "plan pro", "route report", …
	ExpiresMicros int64  // Unix µs from which on another value may hold; 0: never
	Reason        string // of the override or boost
	Unlimited     bool   // nothing is counted; the numbers are zero
	Granted       int64  // units of a quota that one-off grants add; they are in the numbers
}

// Overrides are a tenant's overrides and boosts, ready to be asked. A nil
// *Overrides has none. It is immutable and safe for concurrent use.
type Overrides struct{ of map[uint64]overridden }

// overridden is what a tenant has of its own for one limit.
type overridden struct{ override, boost *ruling }

// ruling is one override in the form that decisions use.
type ruling struct {
	unlimited     bool
	rate          bool // numbers hold
	numbers       Numbers
	burst         *int64 // alone: the rate stays
	amount, most  *int64
	factor        int64 // thousandths
	expiresMicros int64
	reason        string
}

func (r *ruling) holds(nowMicros int64) bool {
	return r != nil && (r.expiresMicros == 0 || nowMicros < r.expiresMicros)
}

// CompileOverrides checks and compiles the overrides of a tenant record. The
// error tells all problems, each with the place in the list and the field. Whether
// the limits exist is not known here: see Compiled.CheckOverrides.
func CompileOverrides(list []Override) (*Overrides, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > MaxOverrides {
		return nil, fmt.Errorf("overrides: %d are too many: at most %d are allowed", len(list), MaxOverrides)
	}
	out := &Overrides{of: make(map[uint64]overridden, len(list))}
	var problems []error
	for i, o := range list {
		r, found := o.compile()
		at := index("overrides", i)
		for _, p := range found {
			problems = append(problems, fmt.Errorf("%s.%s: %s", at, p.Path, p.Message))
		}
		hash := LimitHash(o.Limit)
		have := out.of[hash]
		slot := &have.override
		if o.FactorMilli != 0 {
			slot = &have.boost
		}
		if *slot != nil {
			problems = append(problems, fmt.Errorf("%s.limit: %s is there twice", at, clip(o.Limit)))
		}
		*slot = r
		out.of[hash] = have
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return out, nil
}

// kindOfLimit says what an id names.
type kindOfLimit int

const (
	notOverridable kindOfLimit = iota
	rateLimit
	quotaLimit
	concurrencyLimit
)

func kindOf(id string) kindOfLimit {
	route, isRoute := strings.CutPrefix(id, "route:")
	switch {
	case len(id) > maxLimitID:
		return notOverridable
	case id == QuotaID:
		return quotaLimit
	case isRoute && strings.HasSuffix(route, "."+concurrencyName):
		return concurrencyLimit
	case isRoute && strings.Contains(route, "."), strings.HasPrefix(id, "plan."), strings.HasPrefix(id, "shared:"):
		return rateLimit
	}
	return notOverridable
}

// compile reads one override. The paths of the problems are its fields.
func (o Override) compile() (*ruling, []Problem) {
	var found problemList
	r := &ruling{burst: o.Burst, amount: o.Amount, most: o.Max, factor: o.FactorMilli, reason: o.Reason}
	if o.ExpiresAt != nil {
		r.expiresMicros = o.ExpiresAt.UnixMicro()
	}
	kind := kindOf(o.Limit)
	switch {
	case strings.HasPrefix(o.Limit, "global."):
		found.addf("limit", "%s is counted for everyone together: a tenant has no value of its own for it", clip(o.Limit))
	case kind == notOverridable:
		found.addf("limit", "%q is not the id of a limit: write plan.NAME, shared:NAME, route:ROUTE.NAME or %s", clip(o.Limit), QuotaID)
	case o.FactorMilli != 0:
		o.checkBoost(&found)
	case kind == rateLimit:
		o.compileRate(r, &found)
	default:
		o.compileCount(kind, r, &found)
	}
	if len(o.Reason) > maxText {
		found.addf("reason", "is %d bytes long: at most %d are allowed", len(o.Reason), maxText)
	}
	return r, found.all()
}

func (o Override) checkBoost(found *problemList) {
	if o.FactorMilli <= 1000 || o.FactorMilli > MaxFactorMilli {
		found.addf("factor_milli", "%d must be 1001 to %d: thousandths, so 1500 is half as much again", o.FactorMilli, MaxFactorMilli)
	}
	if o.ExpiresAt == nil {
		found.addf("expires_at", "is missing: a boost has an end")
	}
	if o.Rate != "" || o.Burst != nil || o.Amount != nil || o.Max != nil {
		found.addf("factor_milli", "stands beside a value: a boost is a factor and nothing else")
	}
}

func (o Override) compileRate(r *ruling, found *problemList) {
	if o.Amount != nil || o.Max != nil {
		found.addf("limit", "%s has a rate and a burst, no amount and no max", clip(o.Limit))
	}
	if o.Rate == "" {
		switch {
		case o.Burst == nil:
			found.addf("rate", "is missing: give a rate, a burst or both")
		case *o.Burst < 0 || *o.Burst > maxStored:
			found.addf("burst", "%d must be 0 to %d", *o.Burst, int64(maxStored))
		}
		return
	}
	rate, err := ParseRate(o.Rate)
	if err != nil {
		found.addf("rate", "%v", err)
		return
	}
	if r.unlimited = rate.Unlimited; r.unlimited {
		if o.Burst != nil {
			found.addf("burst", "means nothing beside the rate unlimited: leave it out")
		}
		return
	}
	burst := rate.DefaultBurst()
	if o.Burst != nil {
		burst = *o.Burst
	}
	if rate.Blocked() && burst > 0 {
		found.addf("burst", "%d beside the rate 0: a bucket that never refills; leave it out", burst)
		return
	}
	if r.numbers, err = NumbersOf(rate, burst); err != nil {
		found.addf("burst", "%v", err)
	}
	r.rate = true
}

// compileCount reads the override of a quota or a concurrency limit.
func (o Override) compileCount(kind kindOfLimit, r *ruling, found *problemList) {
	if o.Burst != nil {
		found.addf("burst", "is for rate limits: %s has none", clip(o.Limit))
	}
	if o.Rate != "" {
		r.unlimited = true
		if o.Rate != unlimitedWord || o.Amount != nil || o.Max != nil {
			found.addf("rate", "is for rate limits: %s takes a number, or the word unlimited alone", clip(o.Limit))
		}
		return
	}
	if kind == concurrencyLimit {
		switch {
		case o.Amount != nil:
			found.addf("amount", "is for quotas: %s has a max", clip(o.Limit))
		case o.Max == nil:
			found.addf("max", "is missing: 1 to %d requests at once", MaxConcurrency)
		case *o.Max < 1 || *o.Max > MaxConcurrency:
			found.addf("max", "%d must be 1 to %d requests at once", *o.Max, MaxConcurrency)
		}
		return
	}
	switch {
	case o.Amount == nil && o.Max == nil:
		found.addf("amount", "is missing: give an amount, a max or both")
	case o.Amount != nil && (*o.Amount < 0 || *o.Amount > MaxAmount):
		found.addf("amount", "%d must be 0 to %d (2^53-1)", *o.Amount, int64(MaxAmount))
	case o.Max != nil && (*o.Max < 0 || *o.Max > MaxAmount):
		found.addf("max", "%d must be 0 to %d (2^53-1); 0 is no bound", *o.Max, int64(MaxAmount))
	case o.Amount != nil && o.Max != nil && *o.Max != 0 && *o.Max < *o.Amount:
		found.addf("max", "%d must be at least the amount, %d", *o.Max, *o.Amount)
	}
}
