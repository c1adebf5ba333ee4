package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// tenantTraffic is a Traffic that can also tell what one tenant asks for.
type tenantTraffic interface {
	TenantDemand(tenant string, routes []string) (d usage.Demand, known time.Duration, ok bool)
	AsOf() (time.Time, bool)
}

// peak fills in the most that the tenant asked of a rate limit in a minute.
func (s *Overrides) peak(tenantID string, l *LimitInForce) {
	traffic, ok := s.d.Traffic.(tenantTraffic)
	if !ok || l == nil || l.Kind != LimitRate || l.Per != string(policy.PerTenant) {
		return
	}
	d, known, ok := traffic.TenantDemand(tenantID, l.Routes)
	if !ok {
		return
	}
	p := LimitPeak{PerMinute: d.PeakCost, Known: known}
	if l.Counts == string(policy.CountsRequests) {
		p.PerMinute = d.PeakRequests
	}
	p.AsOf, _ = traffic.AsOf()
	if base := l.Base().Value.PerMinute(); base > 0 {
		p.OfBase = float64(p.PerMinute) / base
	}
	l.Peak = &p
}

// Get returns an override, also an ended one.
func (s *Overrides) Get(ctx context.Context, id string) (o TenantOverride, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		o, err = tx.Override(ctx, id)
		return err
	})
	return o, err
}

// List returns overrides, the newest first, and the cursor to the next page. With
// Within it returns those that end by then, the soonest first.
func (s *Overrides) List(ctx context.Context, q OverrideQuery) (items []OverrideRow, next string, err error) {
	after, err := decodeCursor(q.Page.After)
	if err != nil {
		return nil, "", err
	}
	limit, now := q.Page.limit(), s.d.now()
	var have *law
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if have, err = s.laws.inForce(ctx, tx); err != nil {
			return err
		}
		items, err = tx.Overrides(ctx, q, now, after, limit+1)
		if err != nil {
			return err
		}
		items, next = cut(items, limit, func(r OverrideRow) Cursor {
			if q.Within > 0 {
				return Cursor{At: *r.ExpiresAt, ID: r.ID}
			}
			return Cursor{At: r.CreatedAt, ID: r.ID}
		})
		return s.explain(ctx, tx, have, items, now)
	})
	return items, next, err
}

// explain says what each of the overrides does now.
func (s *Overrides) explain(ctx context.Context, tx Tx, have *law, items []OverrideRow, now time.Time) error {
	if have == nil || len(items) == 0 {
		return nil
	}
	var ids []string
	seen := map[string]bool{}
	for _, r := range items {
		if !seen[r.TenantID] {
			seen[r.TenantID], ids = true, append(ids, r.TenantID)
		}
	}
	open, err := tx.OpenOverrides(ctx, ids)
	if err != nil {
		return err
	}
	of := map[string][]TenantOverride{}
	for _, o := range open {
		of[o.TenantID] = append(of[o.TenantID], o)
	}
	for i := range items {
		r := &items[i]
		if r.Limit = have.limit(r.Plan, r.TenantOverride.Limit, of[r.TenantID], now); r.Limit != nil && !r.Limit.Own {
			r.Limit = nil
		}
		s.peak(r.TenantID, r.Limit)
	}
	return nil
}

// OfTenant returns a tenant's overrides that hold, with what each does, and the
// last ones that ended, at most limit.
func (s *Overrides) OfTenant(ctx context.Context, tenantID string, limit int) (live []OverrideRow, ended []TenantOverride, err error) {
	now := s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if _, err := tx.Tenant(ctx, tenantID); err != nil {
			return err
		}
		have, err := s.laws.inForce(ctx, tx)
		if err != nil {
			return err
		}
		if live, err = tx.Overrides(ctx, OverrideQuery{TenantID: tenantID}, now, Cursor{}, 2*policy.MaxOverrides); err != nil {
			return err
		}
		if err := s.explain(ctx, tx, have, live, now); err != nil {
			return err
		}
		rows, err := tx.Overrides(ctx, OverrideQuery{TenantID: tenantID, State: OverridesEnded}, now, Cursor{}, limit)
		for _, r := range rows {
			ended = append(ended, r.TenantOverride)
		}
		return err
	})
	return live, ended, err
}

// Effective returns every limit that a tenant meets, with its value in force
// and where that comes from.
func (s *Overrides) Effective(ctx context.Context, tenantID string) (out TenantLimits, err error) {
	out.At = s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if out.Tenant, err = tx.Tenant(ctx, tenantID); err != nil {
			return err
		}
		open, err := tx.OpenOverrides(ctx, []string{tenantID})
		if err != nil {
			return err
		}
		have, err := s.laws.inForce(ctx, tx)
		if err != nil {
			return err
		}
		out.fill(have, out.Tenant.Plan, open)
		return nil
	})
	for i := range out.Limits {
		s.peak(tenantID, &out.Limits[i])
	}
	return out, err
}

// fill computes what a tenant on a plan meets.
func (t *TenantLimits) fill(have *law, plan string, open []TenantOverride) {
	used := map[string]bool{}
	if have != nil {
		t.Version = have.version
		for _, id := range have.ids(plan) {
			if l := have.limit(plan, id, open, t.At); l != nil {
				t.Limits = append(t.Limits, *l)
				used[id] = l.Own
			}
		}
	}
	for _, o := range open {
		if !o.Live(t.At) {
			continue
		}
		t.Live = append(t.Live, o)
		if !used[o.Limit] {
			t.Unused = append(t.Unused, o)
		}
	}
}

// PlanChange is what another plan would change for a tenant.
type PlanChange struct {
	Tenant Tenant
	Plan   string // the other one
	Limits []LimitChange
	Unused []TenantOverride // that hold now and would be without effect
	Regain []TenantOverride // that are without effect now and would have one
}

// LimitChange is one limit before and after; nil where there is none.
type LimitChange struct {
	ID            string
	Before, After *LimitInForce
	Tighter       bool // something is less than before
}

// PlanChange tells what another plan would change for a tenant, as of now: limits
// that stay as they are are left out. It is CodeInvalid when the policy in force
// has no such plan.
func (s *Overrides) PlanChange(ctx context.Context, tenantID, plan string) (out PlanChange, err error) {
	var before, after TenantLimits
	before.At = s.d.now()
	after.At, out.Plan = before.At, plan
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if out.Tenant, err = tx.Tenant(ctx, tenantID); err != nil {
			return err
		}
		have, err := s.laws.inForce(ctx, tx)
		if err != nil {
			return err
		}
		if have != nil {
			if err := planIn(have.Document, plan); err != nil {
				return err
			}
		}
		open, err := tx.OpenOverrides(ctx, []string{tenantID})
		if err != nil {
			return err
		}
		before.fill(have, out.Tenant.Plan, open)
		after.fill(have, plan, open)
		return nil
	})
	out.Limits = limitChanges(before, after)
	out.Unused, out.Regain = without(after.Unused, before.Unused), without(before.Unused, after.Unused)
	return out, err
}

// without is what of a list is not in another one.
func without(list, other []TenantOverride) (out []TenantOverride) {
	in := map[string]bool{}
	for _, o := range other {
		in[o.ID] = true
	}
	for _, o := range list {
		if !in[o.ID] {
			out = append(out, o)
		}
	}
	return out
}

func limitChanges(before, after TenantLimits) (out []LimitChange) {
	for i := range before.Limits {
		was := &before.Limits[i]
		now, ok := after.Find(was.ID)
		switch {
		case !ok:
			out = append(out, LimitChange{ID: was.ID, Before: was})
		case now.Now().Value != was.Now().Value || now.Shadow != was.Shadow || now.Period != was.Period || now.Over != was.Over:
			tighter := now.Now().Value.Below(was.Now().Value) || was.Shadow && !now.Shadow
			out = append(out, LimitChange{ID: was.ID, Before: was, After: &now, Tighter: tighter})
		}
	}
	for i := range after.Limits {
		if _, ok := before.Find(after.Limits[i].ID); !ok {
			out = append(out, LimitChange{ID: after.Limits[i].ID, After: &after.Limits[i], Tighter: true})
		}
	}
	return out
}
