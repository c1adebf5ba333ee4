package console

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
)

const (
	advisorRange = 24 * time.Hour
	// advisorEntries bounds the decisions that one report reads: about ten seconds of
	// one processor. Where the log has more, the report is of less time, and says so.
	advisorEntries = 2_000_000
	// advisorSubjects bounds whom a report tells apart at one limit.
	advisorSubjects = 20_000
	// advisorKept is how long a report is shown before it is made anew when it is asked for.
	advisorKept = 10 * time.Minute
	// advisorTenants is how many tenants a limit lists, those nearest to it first.
	advisorTenants = 50
	advisorLimit   = 10 * time.Minute
)

// AdviceFactors are the thousandths of a limit's numbers that are tried.
func AdviceFactors() []int64 { return []int64{250, 500, 750, 1000, 1500, 2000, 4000} }

// Percentiles of the windows in which a subject asked at all: the least number that so
// many percent of them do not exceed (nearest rank).
type Percentiles struct {
	P50, P90, P99, Max int64
	Windows            int64
}

// TenantUse is one tenant's use of a limit.
type TenantUse struct {
	Tenant  string // id; for a limit that is not counted per tenant alone "", and the figures are of the fullest subject
	Name    string // "" when it is not known any more
	Asked   Percentiles
	Allowed int64 // in one window, by the tenant's own numbers; a burst comes on top
	Burst   int64
	Own     bool  // the numbers are the tenant's own, by override or boost
	Refused int64 // requests that this limit refused
}

// UsedPercent is how much of what a window allows the p99 is; 0 when nothing is allowed.
func (u TenantUse) UsedPercent() float64 {
	if u.Allowed <= 0 {
		return 0
	}
	return 100 * float64(u.Asked.P99) / float64(u.Allowed)
}

// AdviceRung is what a limit would have refused at other numbers, rate and burst alike.
type AdviceRung struct {
	FactorMilli int64
	Rate        string // "" for numbers that cannot be written as a rate
	Burst       int64
	Refused     int64 // requests
	Subjects    int64 // that were refused something
}

// LimitAdvice is what the log says of one limit, of one plan for a plan's.
type LimitAdvice struct {
	ID     string
	Source string // "plan pro", "route report", "shared search", "global"
	Plan   string // of a plan's limit
	Per    string
	Counts string
	Rate   string
	Burst  int64
	Shadow bool
	Window time.Duration // the period of the rate; windows lie side by side from 1970 on

	Requests int64 // that met it
	Refused  int64 // that it refused, by the log
	Subjects int64 // that asked
	LeftOut  int64 // requests of subjects beyond those that are told apart
	Asked    Percentiles
	Allowed  int64 // in one window; a burst comes on top
	Rungs    []AdviceRung
	Tenants  []TenantUse // the fullest first
}

// UsedPercent is how much of what a window allows the p99 of all subjects is.
func (a *LimitAdvice) UsedPercent() float64 {
	return TenantUse{Asked: a.Asked, Allowed: a.Allowed}.UsedPercent()
}

// RouteUse is how often a route was asked for in a second in which it was at all.
type RouteUse struct {
	Route    string
	Requests int64
	PerSec   Percentiles
}

// AdvisorReport is what the decision log says of limits.
type AdvisorReport struct {
	Version  int64 // of the policy whose limits were looked at
	At       time.Time
	From, To time.Time
	Entries  int64 // decisions
	Unplaced int64 // decisions of routes that are gone, or of tenants that are
	Dropped  int64 // that gateways could not log
	Sample   uint32
	Settled  bool // some costs were settled later, and stand here as they were reserved
	Limits   []LimitAdvice
	Routes   []RouteUse
}

// Share is which part of tenants and addresses the log has, 1 for all.
func (r *AdvisorReport) Share() float64 { return float64(r.Sample) / float64(decisionlog.Whole) }

// Limit finds a limit's advice; plan "" is the first of that id.
func (r *AdvisorReport) Limit(id, plan string) (*LimitAdvice, bool) {
	i := slices.IndexFunc(r.Limits, func(a LimitAdvice) bool { return a.ID == id && (plan == "" || a.Plan == plan) })
	if i < 0 {
		return nil, false
	}
	return &r.Limits[i], true
}

// AdvisorState is the newest report, and what is being done about a newer one.
type AdvisorState struct {
	Report  *AdvisorReport // nil: none yet
	Working bool
	Problem string // why the last try failed; "" when it did not
}

// Advisor tells how limits are used, what other numbers would have refused, and what
// the limits promise altogether.
type Advisor struct {
	d          Deps
	policies   *Policies
	capacities *Capacities
	laws       lawCache
	wake       chan struct{}

	mu    sync.Mutex
	state AdvisorState
	tried time.Time
}

// NewAdvisor returns the service. Its Run makes the reports.
func NewAdvisor(d Deps, policies *Policies, capacities *Capacities) *Advisor {
	return &Advisor{d: d.withDefaults(), policies: policies, capacities: capacities, wake: make(chan struct{}, 1)}
}

// State is the newest report. It asks for a new one when that is old or of another
// version, and does not wait for it.
func (s *Advisor) State(ctx context.Context) AdvisorState {
	head, err := s.d.headRef(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.state.Report, s.d.now()
	old := r == nil || now.Sub(r.At) > advisorKept || err == nil && head.Number != r.Version
	if old && !s.state.Working && now.Sub(s.tried) > time.Minute {
		select {
		case s.wake <- struct{}{}:
			s.state.Working = true
		default:
		}
	}
	return s.state
}

// Run makes reports when somebody asks for them, until ctx ends.
func (s *Advisor) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			if err := s.Measure(ctx); err != nil && ctx.Err() == nil {
				s.d.Log.WarnContext(ctx, "the advisor cannot read the decision log", "error", err)
			}
		}
	}
}

// Measure makes a report of the last day, and keeps it.
func (s *Advisor) Measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, advisorLimit)
	defer cancel()
	now := s.d.now()
	r, err := s.measure(ctx, now.Add(-advisorRange), now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Working, s.tried = false, now
	if s.state.Problem = ""; err != nil {
		s.state.Problem = "The decision log cannot be read now."
		if e := (*Error)(nil); asError(err, &e) {
			s.state.Problem = e.Public
		}
		return err
	}
	s.state.Report = r
	return nil
}

// measure reads the log from one time to another, or as much of its end as fits.
func (s *Advisor) measure(ctx context.Context, from, to time.Time) (*AdvisorReport, error) {
	if s.d.Decisions == nil {
		return nil, &Error{Code: CodeUnavailable, Public: "This console has no decision log."}
	}
	have, err := s.inForce(ctx)
	if err != nil {
		return nil, err
	}
	log, err := s.d.Decisions.Range(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if _, _, entries := log.Bounds(); entries > advisorEntries {
		part := float64(advisorEntries) / float64(entries)
		from = to.Add(-time.Duration(float64(to.Sub(from)) * part)).Truncate(time.Microsecond)
		if log, err = s.d.Decisions.Range(ctx, from, to); err != nil {
			return nil, err
		}
	}
	m := newMeasurer(have, s.tenantsOf(ctx, have), to)
	if err := m.read(ctx, log, from, to); err != nil {
		return nil, err
	}
	r := m.report()
	r.At, r.From, r.To = s.d.now(), from, to
	if first, _, _ := log.Bounds(); first.After(from) {
		r.From = first
	}
	return r, s.name(ctx, r)
}

// inForce is the law in force; CodeConflict before the first publication.
func (s *Advisor) inForce(ctx context.Context) (have *law, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		have, err = s.laws.inForce(ctx, tx)
		return err
	})
	if err == nil && have == nil {
		err = conflict("There is no policy in force yet.")
	}
	return have, err
}

// tenantsOf looks tenants up one by one, as the log meets them.
func (s *Advisor) tenantsOf(ctx context.Context, have *law) func(id string) (*knownTenant, error) {
	return func(id string) (out *knownTenant, err error) {
		err = s.d.Store.Read(ctx, func(tx Tx) error {
			plans, err := tx.PlansOf(ctx, []string{id})
			if err != nil {
				return err
			}
			plan, ok := plans[id]
			if !ok {
				return nil
			}
			own, err := tx.OpenOverrides(ctx, []string{id})
			if err != nil {
				return err
			}
			out = &knownTenant{id: id, plan: plan, own: own, limits: have.met(plan)}
			return nil
		})
		return out, err
	}
}

// name gives tenants their names.
func (s *Advisor) name(ctx context.Context, r *AdvisorReport) error {
	var ids []string
	for i := range r.Limits {
		for _, u := range r.Limits[i].Tenants {
			if u.Tenant != "" && !slices.Contains(ids, u.Tenant) {
				ids = append(ids, u.Tenant)
			}
		}
	}
	names, err := s.d.tenantNames(ctx, ids)
	if err != nil {
		return err
	}
	for i := range r.Limits {
		for j := range r.Limits[i].Tenants {
			u := &r.Limits[i].Tenants[j]
			u.Name = names[u.Tenant]
		}
	}
	return nil
}

// WhatIf is other numbers for one limit of the policy in force, to be tried exactly.
type WhatIf struct {
	Limit    string // its id
	Plan     string // of a plan's limit
	Rate     string
	Burst    int64 // 0: the rate's own
	From, To time.Time
}

// Try starts a simulation of the policy in force with one limit at other numbers, on
// the gateways' own engine. See StartTrialOf.
func (s *Advisor) Try(ctx context.Context, actor Actor, in WhatIf) (Trial, error) {
	if err := firstAllowed(actor, PermEditDrafts, PermApprove); err != nil {
		return Trial{}, err
	}
	head, ok, err := s.policies.Head(ctx)
	if err != nil {
		return Trial{}, err
	}
	if !ok {
		return Trial{}, conflict("There is no policy in force yet.")
	}
	doc, err := head.Document() // a copy of our own
	if err != nil {
		return Trial{}, fmt.Errorf("read version %d: %w", head.Number, err)
	}
	if err := in.apply(doc); err != nil {
		return Trial{}, err
	}
	return s.policies.StartTrialOf(ctx, actor, doc.Canonical(), in.From, in.To)
}

// apply writes the numbers into a document.
func (in WhatIf) apply(doc *policy.Document) error {
	var p problems
	rate, err := policy.ParseRate(in.Rate)
	if err != nil {
		p.add("rate", "%s", sentence(err.Error()))
	}
	if in.Burst < 0 {
		p.add("burst", "Must be 0 or more; 0 means the rate's own.")
	}
	l := limitAt(doc, in.Limit, in.Plan)
	if l == nil {
		p.add("limit", "The policy in force has no rate limit of this id.")
	}
	if err := p.err(); err != nil {
		return err
	}
	l.Rate, l.Burst = rate, in.Burst
	if l.Burst == 0 && !rate.Unlimited {
		l.Burst = rate.DefaultBurst()
	}
	return nil
}

// limitAt finds a rate limit by its id; nil when there is none.
func limitAt(doc *policy.Document, id, plan string) *policy.Limit {
	find := func(list []policy.Limit, prefix string) *policy.Limit {
		for i := range list {
			if prefix+list[i].Name == id {
				return &list[i]
			}
		}
		return nil
	}
	if l := find(doc.Global.Limits, "global."); l != nil {
		return l
	}
	if l := find(doc.Shared, "shared:"); l != nil {
		return l
	}
	if p, ok := doc.Plans[plan]; ok {
		if l := find(p.Limits, "plan."); l != nil { // the slice is shared with the map's value
			return l
		}
	}
	for i := range doc.Routes {
		if l := find(doc.Routes[i].Limits, "route:"+doc.Routes[i].Name+"."); l != nil {
			return l
		}
	}
	return nil
}
