package receipt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// ErrVersion means that a policy is not the one that a receipt speaks of: it has no such
// limit or route.
var ErrVersion = errors.New("this version of the policy has no such limit")

// Finding is what a receipt's numbers come to.
type Finding struct {
	LimitID string // scoped name; "" of a fallback
	Route   string // name; "" when the receipt names none
	Per     policy.Per
	// Sources are where the version has the limit: "plan pro", "route report".
	Sources    []string
	Reason     limiter.Reason
	Remaining  int64 // whole tokens, units or places that were left
	WaitMicros int64
	// Differences say, a sentence each, where the receipt does not follow from its own
	// numbers or from the version's; none: it agrees.
	Differences []string
}

// Agrees reports whether verdict and numbers came out as the receipt has them.
func (f *Finding) Agrees() bool { return len(f.Differences) == 0 }

func (f *Finding) differ(format string, args ...any) {
	f.Differences = append(f.Differences, fmt.Sprintf(format, args...))
}

// candidate is one place where a version has a limit.
type candidate struct {
	id, source string
	per        policy.Per
	kind       Kind
	numbers    policy.Numbers
	caps       []int64 // amounts at which it may refuse
}

// Recompute decides again, by the engine's own arithmetic, what the receipt says was
// decided under this version. It fails with ErrVersion.
func Recompute(c *policy.Compiled, r *Receipt) (Finding, error) {
	var f Finding
	if r.Route >= len(c.Routes) {
		return f, fmt.Errorf("route %d of %d: %w", r.Route+1, len(c.Routes), ErrVersion)
	}
	if r.Route >= 0 {
		f.Route = c.Routes[r.Route].Name
	}
	if r.Kind == KindFallback {
		return f, f.fallback(c, r)
	}
	found := candidates(c, r)
	if len(found) == 0 {
		return f, fmt.Errorf("limit %016x: %w", r.Limit, ErrVersion)
	}
	f.LimitID, f.Per = found[0].id, found[0].per
	f.place(found, r)
	f.decide(r)
	if f.Reason != r.Reason {
		f.differ("The numbers come to %q, and the receipt says %q.", f.Reason, r.Reason)
	}
	switch {
	case r.Remembered && f.WaitMicros > r.WaitMicros:
		f.differ("The wait should be %d µs at least, and the receipt says %d.", f.WaitMicros, r.WaitMicros)
	case !r.Remembered && f.WaitMicros != r.WaitMicros:
		f.differ("The wait comes to %d µs, and the receipt says %d.", f.WaitMicros, r.WaitMicros)
	}
	return f, nil
}

// candidates are the places where the version has the receipt's limit.
func candidates(c *policy.Compiled, r *Receipt) []candidate {
	var all []candidate
	rates := func(limits []policy.CompiledLimit) {
		for i := range limits {
			if l := &limits[i]; l.Hash == r.Limit && r.Kind == KindRate {
				all = append(all, candidate{id: l.ID, source: l.Source, per: l.Per, kind: KindRate, numbers: l.Numbers})
			}
		}
	}
	rates(c.Global)
	for _, name := range sortedPlans(c) {
		rates(c.Plans[name])
		if q := c.Quotas[name]; q != nil && q.Hash == r.Limit && r.Kind == KindQuota {
			all = append(all, candidate{id: q.ID, source: q.Source, per: policy.PerTenant, kind: KindQuota, caps: []int64{q.Amount, q.Max}})
		}
	}
	for _, route := range c.Routes {
		rates(route.Limits)
		if p := route.Concurrency; p != nil && p.Hash == r.Limit && r.Kind == KindConcurrency {
			all = append(all, candidate{id: p.ID, source: p.Source, per: p.Per, kind: KindConcurrency, caps: []int64{p.Max}})
		}
	}
	return all
}

func sortedPlans(c *policy.Compiled) []string {
	names := make([]string, 0, len(c.Plans))
	for name := range c.Plans {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// place finds where the version has the numbers of the receipt, unless they are the
// tenant's own.
func (f *Finding) place(found []candidate, r *Receipt) {
	for i := range found {
		c := &found[i]
		same := c.numbers == r.Numbers
		if r.Kind != KindRate {
			same = slices.Contains(c.caps, r.Cap)
		}
		if (same || r.Source != SourcePolicy) && !slices.Contains(f.Sources, c.source) {
			f.Sources = append(f.Sources, c.source)
		}
	}
	if len(f.Sources) == 0 {
		f.differ("The version has other numbers for this limit.")
	}
}

// decide is the engine's arithmetic on the receipt's numbers.
func (f *Finding) decide(r *Receipt) {
	f.Reason = limiter.ReasonAdmitted
	switch r.Kind {
	case KindConcurrency:
		f.Remaining = max(r.Cap-r.Used, 0)
		if r.Cap < 1 {
			f.Reason = limiter.ReasonBlocked
		} else if f.Remaining == 0 {
			f.Reason = limiter.ReasonConcurrency
		}
	case KindQuota:
		f.Remaining = max(r.Cap-r.Used, 0)
		switch {
		case r.Cap == 0:
			f.Reason = limiter.ReasonBlocked
		case r.Cost > r.Cap:
			f.Reason = limiter.ReasonCostExceedsBurst
		case r.Cost > r.Cap-r.Used:
			f.Reason, f.WaitMicros = limiter.ReasonQuota, r.WaitMicros // the period's end is the tenant's
		}
	default:
		f.rate(r)
	}
}

func (f *Finding) rate(r *Receipt) {
	n := r.Numbers
	switch {
	case n.Blocked():
		f.Reason = limiter.ReasonBlocked
	case n.Period < 1 || n.Burst > policy.MaxUnits/n.Period: // counting would not be exact
		f.differ("No limit can have such numbers.")
	case r.Cost > n.Burst:
		f.Reason = limiter.ReasonCostExceedsBurst
	default:
		f.Remaining = max(limiter.Level{Units: r.Units}.Remaining(n), 0)
		if f.WaitMicros = limiter.Wait(r.Units, r.Cost, n); f.WaitMicros > 0 {
			f.Reason = limiter.ReasonLimit
		}
	}
}

// fallback checks that the version's route has the fallback of the receipt. What the
// replica had counted of it, nobody else knows.
func (f *Finding) fallback(c *policy.Compiled, r *Receipt) error {
	if r.Route < 0 {
		return fmt.Errorf("fallback of no route: %w", ErrVersion)
	}
	f.Reason, f.WaitMicros = limiter.ReasonFallback, r.WaitMicros
	f.Sources = []string{"route " + f.Route}
	fail := c.Routes[r.Route].Route.OnStoreFailure
	switch b := fail.Fallback; {
	case b == nil || b.Unlimited:
		f.differ("The route has no fallback that could refuse.")
	case !b.Share:
		if n, err := policy.NumbersOf(b.Rate, b.Burst); err != nil || n != r.Numbers {
			f.differ("The route's fallback has other numbers.")
		}
	}
	if r.Reason != limiter.ReasonFallback {
		f.differ("A fallback refuses for %q alone, and the receipt says %q.", limiter.ReasonFallback, r.Reason)
	}
	return nil
}
