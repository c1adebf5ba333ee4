package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

// Capacity is what a route was measured to take.
type Capacity struct {
	ID          string         `json:"id" example:"cap_abcdefghij234567"`
	Route       string         `json:"route"`
	Target      string         `json:"target" doc:"The address that was asked"`
	Version     int64          `json:"version" doc:"The policy in force when it was stored"`
	KneeMilli   int64          `json:"knee_milli" doc:"Thousandths of a request a second: the highest rate that was answered as well as the lowest; 0: none was"`
	BeyondMilli int64          `json:"beyond_milli" doc:"The lowest rate that was not; 0: none was met"`
	PlateauUS   int64          `json:"plateau_us" doc:"The 99th percentile below the knee, in µs"`
	P99US       int64          `json:"p99_us" doc:"The same at the knee"`
	Ended       string         `json:"ended" enum:"knee,max-rps,errors,p99,stalled,refused,interrupted,behind" doc:"Why the ramp ended. max-rps: no knee was met, and the route takes at least knee_milli"`
	Why         string         `json:"why"`
	Method      string         `json:"method" doc:"How the knee was found"`
	Note        string         `json:"note"`
	Steps       []CapacityStep `json:"steps,omitempty" doc:"Absent in lists"`
	MeasuredAt  time.Time      `json:"measured_at"`
	Author      string         `json:"author"`
	CreatedAt   time.Time      `json:"created_at"`
}

// CapacityStep is one rate that was tried.
type CapacityStep struct {
	RPSMilli int64  `json:"rps_milli" minimum:"0"`
	Sent     int64  `json:"sent" minimum:"0"`
	Failed   int64  `json:"failed" minimum:"0"`
	Refused  int64  `json:"refused" minimum:"0"`
	P50US    int64  `json:"p50_us" minimum:"0"`
	P99US    int64  `json:"p99_us" minimum:"0"`
	Good     bool   `json:"good"`
	Why      string `json:"why,omitempty" maxLength:"500"`
}

func capacityOf(c console.Capacity) Capacity {
	out := Capacity{
		ID: c.ID, Route: c.Route, Target: c.Target, Version: c.Version, KneeMilli: c.KneeMilli, BeyondMilli: c.BeyondMilli,
		PlateauUS: c.Plateau.Microseconds(), P99US: c.P99.Microseconds(), Ended: c.Ended, Why: c.Why, Method: c.Method, Note: c.Note,
		MeasuredAt: c.MeasuredAt, Author: c.Author, CreatedAt: c.CreatedAt,
	}
	for _, s := range c.Steps {
		out.Steps = append(out.Steps, CapacityStep(s))
	}
	return out
}

// Percentiles are of the windows in which something was asked for.
type Percentiles struct {
	P50     int64 `json:"p50"`
	P90     int64 `json:"p90"`
	P99     int64 `json:"p99"`
	Max     int64 `json:"max"`
	Windows int64 `json:"windows" doc:"In which anything was asked for; idle ones do not count"`
}

// TenantUse is one tenant's use of a limit.
type TenantUse struct {
	Tenant  string      `json:"tenant"`
	Name    string      `json:"name"`
	Asked   Percentiles `json:"asked" doc:"Tokens that were asked for in one window"`
	Allowed int64       `json:"allowed" doc:"Tokens that a window brings; a burst comes on top"`
	Burst   int64       `json:"burst"`
	Own     bool        `json:"own" doc:"The numbers are the tenant's own"`
	Refused int64       `json:"refused" doc:"Requests that this limit refused"`
}

// AdviceRung is what a limit would have refused at other numbers.
type AdviceRung struct {
	FactorMilli int64  `json:"factor_milli" doc:"Thousandths of rate and burst as they are"`
	Rate        string `json:"rate"`
	Burst       int64  `json:"burst"`
	Refused     int64  `json:"refused" doc:"Requests, by this limit alone; other limits as they decided"`
	Subjects    int64  `json:"subjects" doc:"That were refused something"`
}

// LimitAdvice is what the log of decisions says of one limit.
type LimitAdvice struct {
	ID       string       `json:"id"`
	Plan     string       `json:"plan,omitempty"`
	Source   string       `json:"source"`
	Per      string       `json:"per"`
	Counts   string       `json:"counts"`
	Rate     string       `json:"rate"`
	Burst    int64        `json:"burst"`
	Shadow   bool         `json:"shadow"`
	WindowMS int64        `json:"window_ms" doc:"The period of the rate"`
	Requests int64        `json:"requests"`
	Refused  int64        `json:"refused" doc:"That this limit refused, by the log"`
	Subjects int64        `json:"subjects"`
	LeftOut  int64        `json:"left_out" doc:"Requests of subjects beyond those that are told apart"`
	Asked    Percentiles  `json:"asked"`
	Allowed  int64        `json:"allowed"`
	Rungs    []AdviceRung `json:"rungs" nullable:"false"`
	Tenants  []TenantUse  `json:"tenants" nullable:"false" doc:"The fullest first, at most 50"`
}

// Advice is the advisor's newest report.
type Advice struct {
	Working bool       `json:"working" doc:"A report is being made"`
	Problem string     `json:"problem,omitempty"`
	Version int64      `json:"version,omitempty"`
	At      *time.Time `json:"at,omitempty" doc:"When it was made; absent: there is none yet"`
	From    *time.Time `json:"from,omitempty"`
	To      *time.Time `json:"to,omitempty"`
	Source  string     `json:"source" doc:"decision log"`
	Share   float64    `json:"share" doc:"Part of tenants and addresses that the log has whole; 1 when nothing was left out"`
	Entries int64      `json:"entries" doc:"Decisions that were read"`

	Unplaced int64         `json:"unplaced" doc:"Decisions of routes or tenants that are gone"`
	Dropped  int64         `json:"dropped" doc:"Decisions that gateways could not log"`
	Limits   []LimitAdvice `json:"limits" nullable:"false" doc:"The fullest first"`
}

// Promise is what limits let all tenants ask of a route, and what it was measured to take.
type Promise struct {
	Route         string         `json:"route"`
	Identity      string         `json:"identity"`
	Unlimited     bool           `json:"unlimited" doc:"Nothing bounds it"`
	PromisedMilli *int64         `json:"promised_milli,omitempty" doc:"Thousandths of a request a second, sustained; absent when nothing bounds it"`
	Why           string         `json:"why,omitempty"`
	Tenants       int64          `json:"tenants"`
	Own           int64          `json:"own" doc:"Of them with numbers of their own"`
	Capacity      *KnownCapacity `json:"capacity,omitempty"`
	TimesMilli    int64          `json:"times_milli" doc:"Promise in thousandths of the capacity; 0 when either is unknown"`
}

// KnownCapacity is the newest measurement of a route.
type KnownCapacity struct {
	Capacity
	Stale   string `json:"stale,omitempty" doc:"Why it says little now"`
	AtLeast bool   `json:"at_least" doc:"No knee was met: the route takes this much or more"`
}

type (
	capacitiesIn struct {
		Paging
		Route string `query:"route" maxLength:"200"`
	}
	// CapacityPath names a measurement. Exported, as the framework reads only exported parts.
	CapacityPath struct {
		Capacity string `path:"capacity" maxLength:"64"`
	}
	storeCapacityIn struct {
		Repeatable
		Body struct {
			Route       string         `json:"route" maxLength:"200"`
			Target      string         `json:"target" maxLength:"500"`
			KneeMilli   int64          `json:"knee_milli"`
			BeyondMilli int64          `json:"beyond_milli,omitempty"`
			PlateauUS   int64          `json:"plateau_us,omitempty"`
			P99US       int64          `json:"p99_us,omitempty"`
			Ended       string         `json:"ended" enum:"knee,max-rps,errors,p99,stalled,refused,interrupted,behind"`
			Why         string         `json:"why,omitempty" maxLength:"500"`
			Method      string         `json:"method" maxLength:"500"`
			Note        string         `json:"note,omitempty" maxLength:"500"`
			Steps       []CapacityStep `json:"steps,omitempty" maxItems:"200"`
			MeasuredAt  *time.Time     `json:"measured_at,omitempty" doc:"In the last 24 hours; now when left out"`
		}
	}
	whatIfIn struct {
		WaitingDone
		Body struct {
			Limit string `json:"limit" maxLength:"200" doc:"Id of a rate limit"`
			Plan  string `json:"plan,omitempty" maxLength:"63" doc:"Whose limit, where it is a plan's"`
			Rate  string `json:"rate" maxLength:"40" example:"600/minute"`
			Burst int64  `json:"burst,omitempty" minimum:"0" doc:"0: the rate's own"`
			TimeRange
		}
	}
)

func (a *API) registerAdvisor() {
	register(a, op{id: "get-advice", method: "GET", path: "/advisor", summary: "How limits are used, and what other numbers would have refused", perm: console.PermView}, a.getAdvice)
	register(a, op{id: "list-promises", method: "GET", path: "/advisor/promises", summary: "What limits promise of each route, and what it was measured to take", perm: console.PermView}, a.listPromises)
	register(a, op{id: "try-limit", method: "POST", path: "/advisor/what-if", summary: "Replay logged decisions with one limit at other numbers", perm: console.PermEditDrafts, status: 202, errors: []int{409}}, a.tryLimit)
	register(a, op{id: "list-capacities", method: "GET", path: "/capacities", summary: "List measurements of routes, newest first", perm: console.PermView}, a.listCapacities)
	register(a, op{id: "get-capacity", method: "GET", path: "/capacities/{capacity}", summary: "Get a measurement with its steps", perm: console.PermView, errors: []int{404}}, a.getCapacity)
	register(a, op{id: "store-capacity", method: "POST", path: "/capacities", summary: "Store what a route was measured to take", perm: console.PermEditDrafts, status: 201, errors: []int{409}}, a.storeCapacity)
}

func adviceOf(s console.AdvisorState) Advice {
	out := Advice{Working: s.Working, Problem: s.Problem, Source: "decision log", Limits: []LimitAdvice{}}
	r := s.Report
	if r == nil {
		return out
	}
	out.Version, out.At, out.From, out.To = r.Version, &r.At, &r.From, &r.To
	out.Share, out.Entries, out.Unplaced, out.Dropped = r.Share(), r.Entries, r.Unplaced, r.Dropped
	for _, l := range r.Limits {
		row := LimitAdvice{
			ID: l.ID, Plan: l.Plan, Source: l.Source, Per: l.Per, Counts: l.Counts, Rate: l.Rate, Burst: l.Burst, Shadow: l.Shadow,
			WindowMS: l.Window.Milliseconds(), Requests: l.Requests, Refused: l.Refused, Subjects: l.Subjects, LeftOut: l.LeftOut,
			Asked: Percentiles(l.Asked), Allowed: l.Allowed, Rungs: []AdviceRung{}, Tenants: []TenantUse{},
		}
		for _, g := range l.Rungs {
			row.Rungs = append(row.Rungs, AdviceRung(g))
		}
		for _, t := range l.Tenants {
			row.Tenants = append(row.Tenants, TenantUse{Tenant: t.Tenant, Name: t.Name, Asked: Percentiles(t.Asked), Allowed: t.Allowed, Burst: t.Burst, Own: t.Own, Refused: t.Refused})
		}
		out.Limits = append(out.Limits, row)
	}
	return out
}

func (a *API) getAdvice(ctx context.Context, _ *struct{}) (*Body[Advice], error) {
	return &Body[Advice]{adviceOf(a.Advisor.State(ctx))}, nil
}

func promiseOf(p console.Promise) Promise {
	out := Promise{Route: p.Route, Identity: p.Identity, Unlimited: p.Unlimited, Why: p.Why, Tenants: p.Tenants, Own: p.Own, TimesMilli: p.TimesMilli()}
	if !p.Unlimited {
		out.PromisedMilli = &p.Milli
	}
	if c := p.Capacity; c != nil {
		out.Capacity = &KnownCapacity{Capacity: capacityOf(c.Capacity), Stale: c.Stale, AtLeast: c.AtLeast}
	}
	return out
}

func (a *API) listPromises(ctx context.Context, _ *struct{}) (*Body[List[Promise]], error) {
	items, err := a.Advisor.Promises(ctx)
	if err != nil && console.CodeOf(err) != console.CodeConflict { // without a policy nothing is promised
		return nil, err
	}
	return &Body[List[Promise]]{listOf(items, "", promiseOf)}, nil
}

func (a *API) tryLimit(ctx context.Context, in *whatIfIn) (*trialOut, error) {
	from, to, err := in.Body.bounds(a.Now())
	if err != nil {
		return nil, err
	}
	return a.tried(ctx, in.WaitingDone, func() (console.Trial, error) {
		return a.Advisor.Try(ctx, actorOf(ctx), console.WhatIf{Limit: in.Body.Limit, Plan: in.Body.Plan, Rate: in.Body.Rate, Burst: in.Body.Burst, From: from, To: to})
	})
}

func (a *API) listCapacities(ctx context.Context, in *capacitiesIn) (*Body[List[Capacity]], error) {
	items, next, err := a.Capacities.List(ctx, in.Route, in.page())
	if err != nil {
		return nil, err
	}
	return &Body[List[Capacity]]{listOf(items, next, capacityOf)}, nil
}

func (a *API) getCapacity(ctx context.Context, in *CapacityPath) (*Body[Capacity], error) {
	c, err := a.Capacities.Get(ctx, in.Capacity)
	if err != nil {
		return nil, err
	}
	return &Body[Capacity]{capacityOf(c)}, nil
}

func (a *API) storeCapacity(ctx context.Context, in *storeCapacityIn) (*Body[Capacity], error) {
	b := in.Body
	c := console.NewCapacity{
		Route: b.Route, Target: b.Target, Note: b.Note, KneeMilli: b.KneeMilli, BeyondMilli: b.BeyondMilli,
		Plateau: time.Duration(b.PlateauUS) * time.Microsecond, P99: time.Duration(b.P99US) * time.Microsecond, Ended: b.Ended, Why: b.Why, Method: b.Method,
	}
	if b.MeasuredAt != nil {
		c.MeasuredAt = *b.MeasuredAt
	}
	for _, s := range b.Steps {
		c.Steps = append(c.Steps, console.CapacityStep(s))
	}
	return once(ctx, a, "capacities.create", in.Repeatable, b, false, func(o *Body[Capacity]) any { return o }, func() (*Body[Capacity], error) {
		out, err := a.Capacities.Store(ctx, actorOf(ctx), c)
		if err != nil {
			return nil, err
		}
		return &Body[Capacity]{capacityOf(out)}, nil
	})
}
