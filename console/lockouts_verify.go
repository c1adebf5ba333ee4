package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// knownTerms is what is needed of the database to judge candidates.
type knownTerms struct {
	law   *law
	names map[string]string
	own   map[string]ownTerms
}

func (s *Lockouts) terms(ctx context.Context, tenants []string) (out knownTerms, err error) {
	out.own = map[string]ownTerms{}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if out.law, err = s.laws.inForce(ctx, tx); err != nil || len(tenants) == 0 {
			return err
		}
		if out.names, err = tx.TenantNames(ctx, tenants); err != nil {
			return err
		}
		plans, err := tx.PlansOf(ctx, tenants)
		if err != nil {
			return err
		}
		open, err := tx.OpenOverrides(ctx, tenants)
		if err != nil {
			return err
		}
		lists := map[string][]policy.Override{}
		for _, o := range open {
			lists[o.TenantID] = append(lists[o.TenantID], o.Override)
		}
		for _, id := range tenants {
			compiled, err := policy.CompileOverrides(lists[id])
			if err != nil { // gateways pass over what they cannot read, each by itself
				s.d.Log.WarnContext(ctx, "overrides cannot be read", "tenant", id, "error", err)
			}
			out.own[id] = ownTerms{plan: plans[id], overrides: compiled}
		}
		return nil
	})
	return out, err
}

// found is a limit of the policy in force, one of the three.
type found struct {
	rate  *policy.CompiledLimit
	slots *policy.CompiledConcurrency
	quota *policy.CompiledQuota
}

// limitNamed finds a limit by id, as somebody on the plan meets it.
func (l *law) limitNamed(id, plan string) (found, bool) {
	if q := l.Quotas[plan]; q != nil && q.ID == id {
		return found{quota: q}, true
	}
	lists := [][]policy.CompiledLimit{l.Global, l.Plans[plan]}
	for _, r := range l.Routes {
		lists = append(lists, r.Limits)
		if r.Concurrency != nil && r.Concurrency.ID == id {
			return found{slots: r.Concurrency}, true
		}
	}
	for _, list := range lists {
		for i := range list {
			if list[i].ID == id {
				return found{rate: &list[i]}, true
			}
		}
	}
	return found{}, false
}

// verify keeps the candidates that are refused now. A candidate is what a replica told a
// while ago: the policy, an override or the bucket may have changed since.
func (s *Lockouts) verify(ctx context.Context, merged []usage.MergedRefused) ([]Lockout, error) {
	known, err := s.terms(ctx, tenantsOf(merged))
	if err != nil {
		return nil, err
	}
	var out []Lockout
	var asks []limiter.Ask
	var at []int // of each ask in out
	for i := range merged {
		l, ask, ok := s.candidate(&merged[i], known)
		if !ok {
			continue
		}
		if ask {
			asks, at = append(asks, l.ask), append(at, len(out))
		}
		out = append(out, l)
	}
	held, err := s.state.Inspect(ctx, asks)
	if err != nil {
		return nil, err
	}
	for i := range held {
		out[at[i]].judge(&held[i])
	}
	refused := out[:0]
	for _, l := range out {
		if l.Never || l.Until != nil || l.Part == LockoutConcurrency && l.Left <= 0 {
			refused = append(refused, l)
		}
	}
	return refused, nil
}

// candidate is a lockout before Redis was asked. ask says that it has to be; ok is false
// when the policy in force refuses nobody so.
func (s *Lockouts) candidate(m *usage.MergedRefused, known knownTerms) (l Lockout, ask, ok bool) {
	l = Lockout{
		ID: s.idOf(m.Limit, m.Row), Limit: m.Limit, Part: LockoutPart(m.Part), Kind: kindOfRow(m.Row), Tenant: m.Row.Tenant,
		TenantName: known.names[m.Row.Tenant], Subject: subjectText(m.Row), Route: m.Route, Refusals: m.Count, Error: m.Error,
		First: time.UnixMicro(m.First).UTC(), Last: time.UnixMicro(m.Last).UTC(), Shared: m.Overflow, At: s.d.now(), Cost: max(m.Cost, 1), Most: m.Most,
		Replicas: m.Replicas, row: m.Row,
		ask: limiter.Ask{Part: limiter.PartCharge, Row: rowOf(m.Row), Hash: policy.LimitHash(m.Limit), Overflow: m.Overflow},
	}
	if l.Part == LockoutCredentials {
		until := time.UnixMicro(m.Until).UTC()
		l.Until, l.At, l.CanUnlock = &until, l.Last, true
		return l, false, until.After(s.d.now())
	}
	if known.law == nil {
		return l, false, false
	}
	own := known.own[m.Row.Tenant]
	limit, inPolicy := known.law.limitNamed(m.Limit, own.plan)
	if !inPolicy {
		return l, false, false
	}
	ok = l.inForce(limit, own, m, s.d.now())
	return l, ok && !l.Never, ok
}

// inForce fills in the numbers in force; false when the limit refuses nobody.
func (l *Lockout) inForce(limit found, own ownTerms, m *usage.MergedRefused, now time.Time) bool {
	overrides := own.overrides
	if m.Row.Tenant == "" {
		overrides = nil
	}
	at := now.UnixMicro()
	switch {
	case limit.rate != nil && l.Part == LockoutRate:
		n, from := overrides.Limit(limit.rate, at)
		if from.Unlimited || limit.rate.Shadow || limit.rate.Expired(at) {
			return false
		}
		l.ask.Numbers, l.Most, l.CanUnlock = n, n.Burst, true
		switch {
		case n.Blocked():
			l.never("This limit admits nothing (0). Only another number lets anybody through: an override, or the policy.")
		case l.Cost > n.Burst:
			l.never(fmt.Sprintf("Requests that cost %d can never pass a burst of %d.", l.Cost, n.Burst))
		}
	case limit.slots != nil && l.Part == LockoutConcurrency:
		most, from := overrides.Slots(limit.slots, at)
		if from.Unlimited || limit.slots.Shadow {
			return false
		}
		l.ask.Part, l.Most = limiter.PartSlot, most
		if l.Why = "A place gets free when a request ends, or its lease does."; most < 1 {
			l.never("This limit has no places (0).")
		}
	case limit.quota != nil && l.Part == LockoutQuota:
		amount, most, from := overrides.Quota(limit.quota, at)
		bill := limit.quota.Over == policy.OverBill
		if from.Unlimited || limit.quota.Shadow || bill && most == 0 || m.End != 0 && m.End <= at {
			return false
		}
		if !bill {
			most = amount
		}
		l.Most = max(most, m.Most) // a grant is in what the replica knew
		l.ask.Part, l.ask.Start, l.ask.End = limiter.PartQuota, m.Start, m.End
		if l.Why = "A quota's counter follows the ledger: grant units or boost the quota instead of unlocking."; l.Most == 0 {
			l.never("This quota is 0. " + l.Why)
		}
	default:
		return false
	}
	return true
}

func (l *Lockout) never(why string) { l.Never, l.Why, l.CanUnlock = true, why, false }

// judge takes in what Redis holds.
func (l *Lockout) judge(h *limiter.Held) {
	l.Verified, l.At = true, time.UnixMicro(h.NowMicros).UTC()
	if h.Broken {
		l.never("Its key in Redis holds something that is no limiter state: requests on it are decided by the fail mode. Repair it above.")
		return
	}
	switch l.Part {
	case LockoutRate:
		l.Left = floorDiv(h.Units, h.Numbers.Period)
		if wait := h.Waits(l.Cost); wait > 0 {
			l.until(h.NowMicros + wait)
		}
	case LockoutConcurrency:
		l.Left = l.Most - h.Active
	case LockoutQuota:
		l.Left = l.Most - h.Used
		if l.Cost <= l.Left {
			return
		}
		if l.ask.End > h.NowMicros {
			l.until(l.ask.End)
		} else if l.ask.End == 0 {
			l.never("This quota is for a lifetime. Grant units or raise it.")
		}
	}
}

func (l *Lockout) until(micros int64) {
	at := time.UnixMicro(micros).UTC()
	l.Until = &at
}

func floorDiv(a, b int64) int64 {
	if b <= 0 {
		return 0
	}
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
