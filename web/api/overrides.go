package api

import (
	"context"
	"math"
	"time"

	"github.com/headgate/headgate/console"
)

// Override is a tenant's own value for one limit, or a boost of it.
type Override struct {
	ID        string     `json:"id" example:"ovr_abcdefghij234567"`
	TenantID  string     `json:"tenant_id"`
	Tenant    string     `json:"tenant,omitempty" doc:"Its name"`
	Limit     string     `json:"limit" example:"plan.requests"`
	Kind      string     `json:"kind" enum:"override,boost"`
	Rate      string     `json:"rate,omitempty" example:"120/minute"`
	Burst     *int64     `json:"burst,omitempty"`
	Amount    *int64     `json:"amount,omitempty"`
	Max       *int64     `json:"max,omitempty"`
	Factor    float64    `json:"factor,omitempty" doc:"Of a boost"`
	Reason    string     `json:"reason"`
	Author    string     `json:"author"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"It ends by itself then, by Redis' clock, whether or not a console runs"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	EndedBy   string     `json:"ended_by,omitempty"`
	EndReason string     `json:"end_reason,omitempty"`
}

func overrideOf(o console.TenantOverride) Override {
	return Override{ID: o.ID, TenantID: o.TenantID, Tenant: o.TenantName, Limit: o.Limit, Kind: string(o.Kind()), Rate: o.Rate, Burst: o.Burst,
		Amount: o.Amount, Max: o.Max, Factor: float64(o.FactorMilli) / 1000, Reason: o.Reason, Author: o.Author, CreatedAt: o.CreatedAt,
		ExpiresAt: o.ExpiresAt, EndedAt: o.EndedAt, EndedBy: o.EndedBy, EndReason: o.EndReason}
}

// OverrideInList is an override with what it does now.
type OverrideInList struct {
	Override
	Plan    string          `json:"plan" doc:"Of the tenant"`
	InForce *EffectiveLimit `json:"in_force,omitempty" doc:"The limit as the tenant meets it now; absent when it meets no such limit, so that the override is without effect"`
}

// LimitValue is the value of a limit; which members are there says its kind.
type LimitValue struct {
	Unlimited bool   `json:"unlimited,omitempty"`
	Rate      string `json:"rate,omitempty" doc:"0 admits nothing"`
	Burst     *int64 `json:"burst,omitempty"`
	Amount    *int64 `json:"amount,omitempty"`
	Max       *int64 `json:"max,omitempty" doc:"Of a quota that bills: 0 is no bound"`
}

// LimitStep is one place that a value comes from.
type LimitStep struct {
	Source     string     `json:"source" doc:"plan NAME, route NAME, shared NAME, global, override or boost" example:"plan free"`
	OverrideID string     `json:"override_id,omitempty"`
	Value      LimitValue `json:"value"`
	Text       string     `json:"text" example:"60/minute, burst 60"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Author     string     `json:"author,omitempty"`
}

// LimitPeak is the most that was asked for in a minute of the last hour.
type LimitPeak struct {
	PerMinute int64     `json:"per_minute" doc:"Of what the limit counts"`
	OfBase    float64   `json:"of_base" doc:"Of what the policy's own value admits a minute; 0 where it admits any number or none"`
	KnownMS   int64     `json:"known_ms" doc:"So much of the last hour was seen"`
	AsOf      time.Time `json:"as_of"`
}

// EffectiveLimit is a limit as a tenant meets it.
type EffectiveLimit struct {
	Limit     string      `json:"limit" example:"plan.requests"`
	Kind      string      `json:"kind" enum:"rate,quota,concurrency"`
	Routes    []string    `json:"routes,omitempty" doc:"That meet it; all when it is absent"`
	Per       string      `json:"per"`
	Counts    string      `json:"counts,omitempty"`
	Shadow    bool        `json:"shadow,omitempty" doc:"Counted, refuses nothing"`
	Period    string      `json:"period,omitempty"`
	Over      string      `json:"over,omitempty"`
	Own       bool        `json:"own" doc:"A tenant can have a value of its own for it"`
	Value     LimitValue  `json:"value" doc:"In force"`
	Text      string      `json:"text" doc:"The same in words"`
	Source    string      `json:"source" doc:"Where it comes from"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty" doc:"When another value may hold"`
	Steps     []LimitStep `json:"steps" doc:"The policy's own value, and what override and boost make of it; the last one is in force"`
	Peak      *LimitPeak  `json:"peak,omitempty" doc:"Absent when it is not known"`
}

func valueOf(kind console.LimitKind, v console.LimitValue) LimitValue {
	out := LimitValue{Unlimited: v.Unlimited}
	switch {
	case v.Unlimited:
	case kind == console.LimitRate:
		out.Rate, out.Burst = v.Rate, &v.Burst
	case kind == console.LimitQuota:
		out.Amount, out.Max = &v.Amount, &v.Max
	default:
		out.Max = &v.Max
	}
	return out
}

func limitOf(l console.LimitInForce) EffectiveLimit {
	now := l.Now()
	out := EffectiveLimit{Limit: l.ID, Kind: string(l.Kind), Routes: l.Routes, Per: l.Per, Counts: l.Counts, Shadow: l.Shadow, Period: l.Period,
		Over: l.Over, Own: l.Own, Value: valueOf(l.Kind, now.Value), Text: now.Text, Source: now.Source, ExpiresAt: l.Expires}
	for _, s := range l.Steps {
		out.Steps = append(out.Steps, LimitStep{Source: s.Source, OverrideID: s.OverrideID, Value: valueOf(l.Kind, s.Value), Text: s.Text,
			ExpiresAt: s.ExpiresAt, Reason: s.Reason, Author: s.Author})
	}
	if p := l.Peak; p != nil {
		out.Peak = &LimitPeak{PerMinute: p.PerMinute, OfBase: p.OfBase, KnownMS: p.Known.Milliseconds(), AsOf: p.AsOf}
	}
	return out
}

func overrideInList(r console.OverrideRow) OverrideInList {
	out := OverrideInList{Override: overrideOf(r.TenantOverride), Plan: r.Plan}
	if r.Limit != nil {
		l := limitOf(*r.Limit)
		out.InForce = &l
	}
	return out
}

type (
	// LimitPath names a limit of a tenant. Exported, as the framework reads only exported parts.
	LimitPath struct {
		Limit string `path:"limit" maxLength:"200" doc:"The limit's id" example:"plan.requests"`
	}
	overrideListIn struct {
		Paging
		Tenant string `query:"tenant" maxLength:"64"`
		OverrideFilter
	}
	// OverrideFilter selects overrides. Exported, as the framework reads only exported parts.
	OverrideFilter struct {
		Limit  string `query:"limit_id" maxLength:"200" doc:"The limit's whole id"`
		Kind   string `query:"kind" enum:"override,boost"`
		State  string `query:"state" enum:"live,ended,all" doc:"live when left out"`
		Within string `query:"ends_within" maxLength:"32" doc:"Only those that hold and end within this time, a Go duration; the soonest first"`
	}
	tenantOverridesIn struct {
		TenantPath
		Paging
		OverrideFilter
	}
	setOverride struct {
		Rate      string            `json:"rate,omitempty" maxLength:"64" doc:"Of a rate limit; unlimited for any kind" example:"120/minute"`
		Burst     *int64            `json:"burst,omitempty" doc:"Of a rate limit; the rate's count when left out"`
		Amount    *int64            `json:"amount,omitempty" doc:"Of a quota"`
		Max       *int64            `json:"max,omitempty" doc:"Of a quota that bills, or of a concurrency limit"`
		Reason    string            `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		ExpiresAt *time.Time        `json:"expires_at,omitempty" doc:"It holds until it is deleted when left out"`
		Confirm   map[string]string `json:"confirm,omitempty" doc:"{\"lower\": \"yes\"} says that a value below the one in force is meant"`
	}
	overrideSetIn struct {
		TenantPath
		LimitPath
		Waiting
		Body setOverride
	}
	overrideEndIn struct {
		TenantPath
		LimitPath
		Waiting
		Reason string `query:"reason" minLength:"1" maxLength:"500" required:"true" doc:"Why; kept in the audit trail"`
	}
	newBoost struct {
		Limit   string            `json:"limit" maxLength:"200" example:"plan.requests"`
		Factor  float64           `json:"factor" doc:"More than 1, at most 10, in thousandths; at most 2 for the role support" example:"2"`
		For     string            `json:"for" maxLength:"32" doc:"A Go duration from 1m to 720h; at most 24h for the role support" example:"24h"`
		Reason  string            `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		Confirm map[string]string `json:"confirm,omitempty" doc:"{\"lower\": \"yes\"} says that a boost smaller than the one that holds is meant"`
	}
	boostIn struct {
		TenantPath
		Repeatable
		Waiting
		Body newBoost
	}
	overrideExtendIn struct {
		Override string `path:"override" maxLength:"64"`
		Waiting
		Body struct {
			Until  *time.Time `json:"until,omitempty" doc:"The new end, sooner or later; left out, an override holds until it is deleted. A boost has an end"`
			Reason string     `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	overrideAct struct {
		Override *Override       `json:"override,omitempty"`
		InForce  *EffectiveLimit `json:"in_force,omitempty" doc:"The limit as the tenant meets it now"`
		Converged
	}
	tenantLimits struct {
		TenantID string           `json:"tenant_id"`
		Plan     string           `json:"plan"`
		Version  int64            `json:"version" doc:"Of the policy in force; 0 before the first"`
		Limits   []EffectiveLimit `json:"limits" doc:"In the order in which they are asked"`
		Unused   []Override       `json:"without_effect" doc:"Overrides that hold of limits that the tenant does not meet"`
	}
)

func (a *API) registerOverrides() {
	register(a, op{id: "list-overrides", method: "GET", path: "/overrides", summary: "List overrides and boosts of all tenants", perm: console.PermView}, a.listOverrides)
	register(a, op{id: "extend-override", method: "POST", path: "/overrides/{override}/extend", summary: "Give an override or boost that holds another end", perm: console.PermBoost, errors: []int{404, 409}}, a.extendOverride)
	register(a, op{id: "list-tenant-overrides", method: "GET", path: "/tenants/{tenant}/overrides", summary: "List a tenant's overrides and boosts", perm: console.PermView, errors: []int{404}}, a.tenantOverrides)
	register(a, op{id: "set-override", method: "PUT", path: "/tenants/{tenant}/overrides/{limit}", summary: "Give a tenant its own value for a limit", perm: console.PermManageTenants, errors: []int{404, 409}}, a.setOverride)
	register(a, op{id: "clear-override", method: "DELETE", path: "/tenants/{tenant}/overrides/{limit}", summary: "End a tenant's own value for a limit", perm: console.PermManageTenants, errors: []int{404, 409}}, a.clearOverride)
	register(a, op{id: "boost-limit", method: "POST", path: "/tenants/{tenant}/boosts", summary: "Raise a tenant's limit by a factor for a while", perm: console.PermBoost, status: 201, errors: []int{404, 409}}, a.boost)
	register(a, op{id: "end-boost", method: "DELETE", path: "/tenants/{tenant}/boosts/{limit}", summary: "End a boost before its time", perm: console.PermBoost, errors: []int{404, 409}}, a.endBoost)
	register(a, op{id: "get-tenant-limits", method: "GET", path: "/tenants/{tenant}/limits", summary: "Get every limit that a tenant meets, its value in force and where that comes from", perm: console.PermView, errors: []int{404}}, a.tenantLimits)
	register(a, op{id: "preview-plan", method: "GET", path: "/tenants/{tenant}/plan-change", summary: "What another plan would change for a tenant", perm: console.PermView, errors: []int{404}}, a.planChange)
}

func (f OverrideFilter) query(tenant string, p Paging) (console.OverrideQuery, error) {
	q := console.OverrideQuery{TenantID: tenant, Limit: f.Limit, Kind: console.OverrideKind(f.Kind), State: console.OverrideState(f.State), Page: p.page()}
	if f.State == "live" {
		q.State = console.OverridesLive
	}
	if f.Within == "" {
		return q, nil
	}
	var err error
	if q.Within, err = time.ParseDuration(f.Within); err != nil || q.Within <= 0 {
		return q, fieldProblem("ends_within", "must be a duration such as 72h")
	}
	if q.State != console.OverridesLive {
		return q, fieldProblem("ends_within", "means only those that hold: leave state out")
	}
	return q, nil
}

func (a *API) overrides(ctx context.Context, q console.OverrideQuery) (*Body[List[OverrideInList]], error) {
	items, next, err := a.Overrides.List(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Body[List[OverrideInList]]{listOf(items, next, overrideInList)}, nil
}

func (a *API) listOverrides(ctx context.Context, in *overrideListIn) (*Body[List[OverrideInList]], error) {
	q, err := in.query(in.Tenant, in.Paging)
	if err != nil {
		return nil, err
	}
	return a.overrides(ctx, q)
}

func (a *API) tenantOverrides(ctx context.Context, in *tenantOverridesIn) (*Body[List[OverrideInList]], error) {
	q, err := in.query(in.Tenant, in.Paging)
	if err != nil {
		return nil, err
	}
	if _, err := a.Tenants.Get(ctx, in.Tenant); err != nil {
		return nil, err
	}
	return a.overrides(ctx, q)
}

func (a *API) setOverride(ctx context.Context, in *overrideSetIn) (*Body[overrideAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	b := in.Body
	set, err := a.Overrides.Set(ctx, actorOf(ctx), in.Tenant, console.NewOverride{Limit: in.Limit, Rate: b.Rate, Burst: b.Burst, Amount: b.Amount,
		Max: b.Max, Reason: b.Reason, ExpiresAt: b.ExpiresAt, Lower: b.Confirm[console.ConfirmLower] != ""})
	return a.afterOverride(ctx, in.Tenant, in.Limit, set, err, in.Waiting)
}

func (a *API) clearOverride(ctx context.Context, in *overrideEndIn) (*Body[overrideAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Overrides.Clear(ctx, actorOf(ctx), in.Tenant, in.Limit, in.Reason)
	return a.afterOverride(ctx, in.Tenant, in.Limit, console.OverrideSet{Change: change}, err, in.Waiting)
}

func (a *API) boost(ctx context.Context, in *boostIn) (*Body[overrideAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	b := in.Body
	length, err := time.ParseDuration(b.For)
	if err != nil {
		return nil, fieldProblem("for", "must be a duration such as 24h")
	}
	milli := math.Round(b.Factor * 1000)
	if math.Abs(milli-b.Factor*1000) > 1e-6 || math.Abs(milli) > 1e9 {
		return nil, fieldProblem("factor", "must be a number such as 1.5, with three decimals at most")
	}
	same := func(out *Body[overrideAct]) any { return out }
	request := struct {
		Tenant string
		Body   newBoost
	}{in.Tenant, b}
	return once(ctx, a, "boosts.create", in.Repeatable, request, false, same, func() (*Body[overrideAct], error) {
		set, err := a.Overrides.Boost(ctx, actorOf(ctx), in.Tenant, console.NewBoost{Limit: b.Limit, FactorMilli: int64(milli), For: length, Reason: b.Reason,
			Lower: b.Confirm[console.ConfirmLower] != ""})
		return a.afterOverride(ctx, in.Tenant, b.Limit, set, err, in.Waiting)
	})
}

func (a *API) endBoost(ctx context.Context, in *overrideEndIn) (*Body[overrideAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Overrides.EndBoost(ctx, actorOf(ctx), in.Tenant, in.Limit, in.Reason)
	return a.afterOverride(ctx, in.Tenant, in.Limit, console.OverrideSet{Change: change}, err, in.Waiting)
}

func (a *API) extendOverride(ctx context.Context, in *overrideExtendIn) (*Body[overrideAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	set, err := a.Overrides.Extend(ctx, actorOf(ctx), in.Override, console.Extension{Until: in.Body.Until, Reason: in.Body.Reason})
	return a.afterOverride(ctx, set.Override.TenantID, set.Override.Limit, set, err, in.Waiting)
}

// afterOverride waits where that was asked for and tells what holds now.
func (a *API) afterOverride(ctx context.Context, tenant, limit string, set console.OverrideSet, err error, wait Waiting) (*Body[overrideAct], error) {
	if err != nil {
		return nil, err
	}
	out := &Body[overrideAct]{}
	if set.Override.ID != "" {
		o := overrideOf(set.Override)
		out.Body.Override = &o
	}
	if out.Body.Converged, err = a.converge(ctx, set.Change, wait, accepted); err != nil {
		return nil, err
	}
	now, err := a.Overrides.Effective(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if l, ok := now.Find(limit); ok {
		shown := limitOf(l)
		out.Body.InForce = &shown
	}
	return out, nil
}

func (a *API) tenantLimits(ctx context.Context, in *TenantPath) (*Body[tenantLimits], error) {
	now, err := a.Overrides.Effective(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return &Body[tenantLimits]{tenantLimits{TenantID: now.Tenant.ID, Plan: now.Tenant.Plan, Version: now.Version,
		Limits: listOf(now.Limits, "", limitOf).Items, Unused: listOf(now.Unused, "", overrideOf).Items}}, nil
}

type (
	planChangeIn struct {
		TenantPath
		Plan string `query:"plan" required:"true" minLength:"1" maxLength:"63" doc:"The other plan"`
	}
	limitChange struct {
		Limit   string          `json:"limit"`
		Before  *EffectiveLimit `json:"before,omitempty"`
		After   *EffectiveLimit `json:"after,omitempty"`
		Tighter bool            `json:"tighter" doc:"Something is less than before"`
	}
	planChange struct {
		Plan   string        `json:"plan" doc:"The tenant's now"`
		To     string        `json:"to"`
		Limits []limitChange `json:"limits" doc:"Those that change"`
		Unused []Override    `json:"lose_effect" doc:"Overrides of limits that the tenant would not meet any more; they stay"`
		Regain []Override    `json:"regain_effect" doc:"Overrides that are without effect now"`
	}
)

func (a *API) planChange(ctx context.Context, in *planChangeIn) (*Body[planChange], error) {
	c, err := a.Overrides.PlanChange(ctx, in.Tenant, in.Plan)
	if err != nil {
		return nil, err
	}
	shown := func(l *console.LimitInForce) *EffectiveLimit {
		if l == nil {
			return nil
		}
		out := limitOf(*l)
		return &out
	}
	return &Body[planChange]{planChange{Plan: c.Tenant.Plan, To: c.Plan,
		Limits: listOf(c.Limits, "", func(l console.LimitChange) limitChange {
			return limitChange{Limit: l.ID, Before: shown(l.Before), After: shown(l.After), Tighter: l.Tighter}
		}).Items,
		Unused: listOf(c.Unused, "", overrideOf).Items, Regain: listOf(c.Regain, "", overrideOf).Items}}, nil
}
