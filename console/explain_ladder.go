package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// climb lists all limits in the order in which they are asked.
func (e *explaining) climb() {
	if r := e.route(); r != nil {
		e.out.Match = strings.Join(r.Route.Match, ", ")
		e.out.FailMode = failModeSaid(r.Route.OnStoreFailure)
	}
	a := e.out.Answer
	if a == nil || len(a.Limits) == 0 {
		for _, l := range e.limits.Limits { // what holds, without what is left of it
			if e.out.Route == "" || l.Routes == nil || slices.Contains(l.Routes, e.out.Route) {
				e.out.Ladder = append(e.out.Ladder, rungUnknown(l))
			}
		}
		return
	}
	for i, l := range a.Limits {
		rung := Rung{ProbeLimit: l, Known: !l.Unknown && !a.Degraded, Deciding: i == a.Deciding, Text: valueSaid(&l), Per: e.perOf(l.ID)}
		if own, ok := e.limits.Find(l.ID); ok {
			rung.Own, rung.Steps, rung.Text, rung.Per = own.Own, own.Steps, own.Now().Text, own.Per
		}
		if !e.ip.IsValid() && strings.Contains(rung.Per, string(policy.PerIP)) {
			rung.Known, rung.Missing = false, "an address"
		}
		if e.q.Account == "" && strings.Contains(rung.Per, "body:") {
			rung.Known, rung.Missing = false, "an account"
		}
		rung.Used = usedOf(&l)
		e.out.Ladder = append(e.out.Ladder, rung)
	}
}

// usedOf is what is used up of a limit.
func usedOf(l *ProbeLimit) int64 {
	if l.Kind == string(LimitRate) {
		return max(l.Burst-l.Left, 0)
	}
	return max(l.Limit-l.Left, 0)
}

func rungUnknown(l LimitInForce) Rung {
	now := l.Now()
	r := Rung{Per: l.Per, Text: now.Text, Own: l.Own, Steps: l.Steps}
	r.ProbeLimit = ProbeLimit{ID: l.ID, Kind: string(l.Kind), Shadow: l.Shadow, Unlimited: now.Value.Unlimited, Unknown: true, Source: now.Source}
	if l.Kind == LimitRate {
		r.Burst = now.Value.Burst
	} else {
		r.Limit = max(now.Value.Amount, now.Value.Max)
	}
	return r
}

// perOf is what a limit counts per.
func (e *explaining) perOf(id string) string {
	if e.compiled == nil {
		return ""
	}
	in := func(list []policy.CompiledLimit) string {
		for i := range list {
			if list[i].ID == id {
				return string(list[i].Per)
			}
		}
		return ""
	}
	if per := in(e.compiled.Global); per != "" {
		return per
	}
	for _, r := range e.compiled.Routes {
		if per := in(r.Limits); per != "" {
			return per
		}
		if r.Concurrency != nil && r.Concurrency.ID == id {
			return string(r.Concurrency.Per)
		}
	}
	return ""
}

// relate finds whether a version of the last day changed what refuses.
func (e *explaining) relate() {
	d := e.deciding()
	if d == nil {
		return
	}
	for _, v := range e.out.Traffic.versionsSeen { // the newest first
		if e.out.At.Sub(v.CreatedAt) > 24*time.Hour || v.Parent == "" { // the first one changed nothing
			return
		}
		for _, c := range v.Changes {
			if c.LimitID == d.ID && e.ofPlan(c.Path) && c.Effect != policy.EffectNeutral {
				e.out.Version.Related, e.out.Version.At, e.out.Version.Change = v.Number, v.CreatedAt, c.Text
				return
			}
		}
	}
}

// ofPlan reports whether a change of a plan is one of the tenant's plan.
func (e *explaining) ofPlan(path string) bool {
	rest, ok := strings.CutPrefix(path, "plans.")
	if !ok || e.out.Tenant == nil {
		return true
	}
	return strings.HasPrefix(rest, e.out.Tenant.Plan+".")
}

// deciding is the rung that refuses; of a tenant that is refused at times only, the one
// that refused most of late. nil: none, or unknown.
func (e *explaining) deciding() *Rung {
	for i := range e.out.Ladder {
		if e.out.Ladder[i].Deciding {
			return &e.out.Ladder[i]
		}
	}
	if a := e.out.Answer; a == nil || !a.Allowed || e.out.Traffic.LastMinute.Refused == 0 {
		return nil
	}
	for _, top := range e.out.Traffic.ByLimit {
		for i := range e.out.Ladder {
			if e.out.Ladder[i].ID == top.Limit {
				return &e.out.Ladder[i]
			}
		}
	}
	return nil
}

// failModeSaid is a fail mode in words.
func failModeSaid(f policy.StoreFailure) string {
	switch b := f.Fallback; {
	case f.Mode != policy.FailOpen || b == nil:
		return "closed: without Redis it admits nothing, and answers 503"
	case b.Unlimited:
		return "open without a bound: without Redis it admits everything"
	case b.Share:
		return "open: without Redis each gateway admits its share of the limits in force"
	default:
		return fmt.Sprintf("open: without Redis each gateway admits %s, burst %d, for each of them", b.Rate.String(), b.Burst)
	}
}

// valueSaid is a value that no override can change, in words.
func valueSaid(l *ProbeLimit) string {
	switch {
	case l.Unlimited:
		return "unlimited"
	case l.Blocked:
		return "0: admits nothing"
	case l.Kind == string(LimitRate):
		return fmt.Sprintf("%d/%s, burst %d", l.Limit, windowSaid(l.Window), l.Burst)
	case l.Kind == string(LimitQuota):
		return fmt.Sprintf("%d a period", l.Limit)
	}
	return fmt.Sprintf("%d at once", l.Limit)
}

func windowSaid(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return d.String()
}
