package console_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// advised is a console with an advisor over a log of its own.
type advised struct {
	*env
	log        *shelf
	capacities *console.Capacities
	advisor    *console.Advisor
}

// shelf is a decision log in memory.
type shelf struct{ batches []*decisionlog.Batch }

func (l *shelf) Range(_ context.Context, from, to time.Time) (console.Log, error) {
	return &shelf{slices.DeleteFunc(slices.Clone(l.batches), func(b *decisionlog.Batch) bool { return b.To < from.UnixMicro() || b.From > to.UnixMicro() })}, nil
}

func (l *shelf) Batches(_ context.Context, yield func(*decisionlog.Batch) error) error {
	for _, b := range l.batches {
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

func (l *shelf) Bounds() (from, to time.Time, entries int64) {
	for i, b := range l.batches {
		if entries += int64(len(b.Entries)); i == 0 {
			from = time.UnixMicro(b.From).UTC()
		}
		to = time.UnixMicro(b.To).UTC()
	}
	return from, to, entries
}

// put puts requests that came at once into the log: the first so many were admitted,
// the others refused by a limit.
func (l *shelf) put(at time.Time, tenant, route string, admitted, refused int, by string) {
	b := &decisionlog.Batch{Replica: "gw", Boot: "b", Seq: int64(len(l.batches) + 1), From: at.UnixMicro(), To: at.UnixMicro(), Sample: decisionlog.Whole}
	for i := range admitted + refused {
		e := decisionlog.Entry{Kind: decisionlog.KindDecision, At: at.UnixMicro(), Order: int32(i), Seq: int64(i + 1), Tenant: tenant, Route: route, Cost: 1, Hits: 1, Allowed: i < admitted}
		if !e.Allowed {
			e.Limit, e.Reason = by, "rate_limited"
		}
		b.Entries = append(b.Entries, e)
	}
	l.batches = append(l.batches, b)
}

func newAdvised(t *testing.T) *advised {
	t.Helper()
	e := newEnv(t)
	e.publish(t, "10000", 0)
	a := &advised{env: e, log: &shelf{}}
	a.deps.Decisions = a.log
	a.policies = console.NewPolicies(a.deps)
	a.capacities = console.NewCapacities(a.deps)
	a.advisor = console.NewAdvisor(a.deps, a.policies, a.capacities)
	return a
}

func (a *advised) report(t *testing.T) *console.AdvisorReport {
	t.Helper()
	if err := a.advisor.Measure(a.ctx); err != nil {
		t.Fatal(err)
	}
	s := a.advisor.State(a.ctx)
	if s.Report == nil || s.Problem != "" {
		t.Fatalf("no report: %+v", s)
	}
	return s.Report
}

func (a *advised) limit(t *testing.T, id, plan string) *console.LimitAdvice {
	t.Helper()
	r := a.report(t)
	l, ok := r.Limit(id, plan)
	if !ok {
		t.Fatalf("nothing is said of %s of %q: %+v", id, plan, r.Limits)
	}
	return l
}

// refusedAt are a ladder's refusals by factor in thousandths.
func refusedAt(l *console.LimitAdvice) map[int64]int64 {
	out := map[int64]int64{}
	for _, r := range l.Rungs {
		out[r.FactorMilli] = r.Refused
	}
	return out
}

// Ten windows of a minute, with 10, 20 … 100 requests at their beginning, at 60 a
// minute with a burst of 60. All numbers here were worked out by hand.
func TestAdvisor_FiguresAreThoseWorkedOutByHand(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme := a.tenant(t, "Acme")
	begin := a.clock.now().Add(-time.Hour)
	for i := range 10 {
		n := 10 * (i + 1)
		a.log.put(begin.Add(time.Duration(i)*time.Minute), acme.ID, "everything", min(n, 60), max(n-60, 0), "plan.requests")
	}
	l := a.limit(t, "plan.requests", "free")
	if want := (console.Percentiles{P50: 50, P90: 90, P99: 100, Max: 100, Windows: 10}); l.Asked != want {
		t.Errorf("asked for %+v, want %+v", l.Asked, want)
	}
	if l.Requests != 550 || l.Refused != 100 || l.Allowed != 60 || l.Burst != 60 || l.Window != time.Minute || l.Subjects != 1 || l.Rate != "60/minute" {
		t.Errorf("%+v", l)
	}
	// A bucket is full again at the next minute, so each minute refuses what is above the burst.
	want := map[int64]int64{
		250:  550 - 10 - 9*15,                  // 15 a minute
		500:  10 + 20 + 30 + 40 + 50 + 60 + 70, // 30
		750:  5 + 15 + 25 + 35 + 45 + 55,       // 45
		1000: 10 + 20 + 30 + 40,
		1500: 10, // 90
		2000: 0,
		4000: 0,
	}
	if got := refusedAt(l); !reflect.DeepEqual(got, want) {
		t.Errorf("other numbers would have refused %v, want %v", got, want)
	}
	if r := l.Rungs[1]; r.Rate != "30/minute" || r.Burst != 30 || r.Subjects != 1 {
		t.Errorf("half of it is %+v", r)
	}
	if len(l.Tenants) != 1 {
		t.Fatalf("%+v", l.Tenants)
	}
	if u := l.Tenants[0]; u.Tenant != acme.ID || u.Name != "Acme" || u.Asked != l.Asked || u.Allowed != 60 || u.Refused != 100 || u.Own || fmt.Sprintf("%.1f", u.UsedPercent()) != "166.7" {
		t.Errorf("%+v", u)
	}
	if route := a.report(t).Routes; len(route) != 1 || route[0].Requests != 550 || route[0].PerSec != l.Asked {
		t.Errorf("%+v", route)
	}
}

// What came a little at a time is told apart from what came at once, although both
// windows sum to the same.
func TestAdvisor_ABucketRefillsBetweenRequests(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme := a.tenant(t, "Acme")
	begin := a.clock.now().Add(-time.Hour).Truncate(time.Minute)
	for i := range 45 { // one each two thirds of a second, half a minute long
		a.log.put(begin.Add(time.Duration(i)*2*time.Second/3), acme.ID, "everything", 1, 0, "")
	}
	// At a quarter: 15 at once and one each 4 s; the last comes after 29.33 s: 15+7 pass.
	l := a.limit(t, "plan.requests", "free")
	if got := refusedAt(l); got[250] != 45-22 || got[1000] != 0 || l.Asked.Max != 45 || l.Asked.Windows != 1 {
		t.Errorf("refused %v of %+v", got, l.Asked)
	}
}

func TestAdvisor_WhatAnotherLimitRefusedHasSpentNothing(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme := a.tenant(t, "Acme")
	at := a.clock.now().Add(-time.Hour)
	a.log.put(at, acme.ID, "everything", 0, 500, "route:everything.all")
	a.log.put(at.Add(time.Millisecond), acme.ID, "everything", 60, 0, "")
	l := a.limit(t, "plan.requests", "free")
	if l.Refused != 0 || l.Rungs[3].Refused != 0 || l.Asked.Max != 560 {
		t.Errorf("%+v", l)
	}
	if r := a.limit(t, "route:everything.all", ""); r.Refused != 500 {
		t.Errorf("%+v", r)
	}
}

func TestAdvisor_TenantsWithNumbersOfTheirOwnAreHeldToThose(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme, beta := a.tenant(t, "Acme"), a.tenant(t, "Beta")
	_, err := console.NewOverrides(a.deps).Set(a.ctx, owner, acme.ID, console.NewOverride{Limit: "plan.requests", Rate: "120/minute", Burst: new(int64(120)), Reason: "pays"})
	if err != nil {
		t.Fatal(err)
	}
	at := a.clock.now().Add(-time.Hour)
	a.log.put(at, acme.ID, "everything", 120, 0, "")
	a.log.put(at, beta.ID, "everything", 60, 60, "plan.requests")
	l := a.limit(t, "plan.requests", "free")
	if got := refusedAt(l); got[1000] != 60 || got[500] != 60+90 || got[2000] != 0 {
		t.Errorf("refused %v", got)
	}
	if len(l.Tenants) != 2 || l.Tenants[0].Tenant != beta.ID || l.Tenants[1].Allowed != 120 || !l.Tenants[1].Own || l.Tenants[1].UsedPercent() != 100 {
		t.Errorf("%+v", l.Tenants)
	}
}

func TestAdvisor_SaysWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme := a.tenant(t, "Acme")
	at := a.clock.now().Add(-time.Hour)
	a.log.put(at, acme.ID, "everything", 3, 0, "")
	a.log.put(at, acme.ID, "gone", 2, 0, "")
	a.log.put(at, "ten_"+strings.Repeat("z", 16), "everything", 4, 0, "")
	a.log.batches[0].Sample, a.log.batches[1].Dropped = decisionlog.Whole/4, 7
	a.log.batches[0].Entries = append(a.log.batches[0].Entries, decisionlog.Entry{Kind: decisionlog.KindSettle, At: at.UnixMicro(), Order: 9, Seq: 9})
	r := a.report(t)
	if r.Entries != 9 || r.Unplaced != 6 || r.Dropped != 7 || r.Share() != 0.25 || !r.Settled || r.Version != 1 {
		t.Errorf("%+v", r)
	}
	if !r.From.Equal(at) || !r.To.Equal(a.clock.now()) {
		t.Errorf("from %s to %s", r.From, r.To)
	}
}

func TestAdvisor_WithoutALogOrAPolicyItSaysSo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	capacities := console.NewCapacities(e.deps)
	bare := console.NewAdvisor(e.deps, e.policies, capacities)
	if err := bare.Measure(e.ctx); console.CodeOf(err) != console.CodeUnavailable {
		t.Errorf("without a log: %v", err)
	}
	if s := bare.State(e.ctx); s.Report != nil || !strings.Contains(s.Problem, "no decision log") {
		t.Errorf("%+v", s)
	}
	e.deps.Decisions = &shelf{}
	if err := console.NewAdvisor(e.deps, e.policies, capacities).Measure(e.ctx); console.CodeOf(err) != console.CodeConflict {
		t.Errorf("without a policy: %v", err)
	}
	if _, err := bare.Promises(e.ctx); console.CodeOf(err) != console.CodeConflict {
		t.Errorf("promises without a policy: %v", err)
	}
}

func TestAdvisor_MakesReportsForWhoeverAsks(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	a.log.put(a.clock.now().Add(-time.Hour), a.tenant(t, "Acme").ID, "everything", 1, 0, "")
	ctx, cancel := context.WithCancel(a.ctx)
	done := make(chan error, 1)
	go func() { done <- a.advisor.Run(ctx) }()
	if s := a.advisor.State(a.ctx); s.Report != nil || !s.Working {
		t.Errorf("at once: %+v", s)
	}
	waitFor(t, "a report", func() bool { s := a.advisor.State(a.ctx); return s.Report != nil && !s.Working })
	first := a.advisor.State(a.ctx).Report
	if a.clock.add(5 * time.Minute); a.advisor.State(a.ctx).Working {
		t.Error("a report that is five minutes old is made anew")
	}
	a.clock.add(6 * time.Minute)
	waitFor(t, "another report", func() bool { return a.advisor.State(a.ctx).Report != first })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPromises_AddUpWhatTenantsMayAsk(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme := a.tenant(t, "Acme")
	a.tenant(t, "Beta")
	if _, err := a.tenants.Create(a.ctx, owner, console.NewTenant{Name: "Gamma", Plan: "pro"}); err != nil {
		t.Fatal(err)
	}
	_, err := console.NewOverrides(a.deps).Set(a.ctx, owner, acme.ID, console.NewOverride{Limit: "plan.requests", Rate: "30/minute", Reason: "small", Lower: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.capacities.Store(a.ctx, owner, measuredKnee()); err != nil {
		t.Fatal(err)
	}
	all, err := a.advisor.Promises(a.ctx)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	// free 60 a minute, pro 600 but the route's 100, Acme 30.
	p := all[0]
	if p.Sum != 1000+1666+500 || p.Milli != p.Sum || p.Unlimited || p.Tenants != 3 || p.Own != 1 {
		t.Errorf("%+v", p)
	}
	want := []console.PromisedPlan{{Plan: "pro", Tenants: 1, Each: 1666}, {Plan: "free", Tenants: 1, Each: 1000}}
	if !reflect.DeepEqual(p.Plans, want) {
		t.Errorf("%+v, want %+v", p.Plans, want)
	}
	if p.Capacity == nil || p.Capacity.Stale != "" || p.TimesMilli() != 3166*1000/2000 {
		t.Errorf("capacity %+v, times %d", p.Capacity, p.TimesMilli())
	}
}

func TestPromises_OfEverybodyTogetherAreTheRoof(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	src := `apiVersion: headgate/v1
global: {limits: [{name: all, per: global, rate: 5/second, burst: 5}]}
plans: {free: {limits: []}}
routes:
  - {name: search, match: ["GET /search"], identity: api_key, motive: fairness, cost: 2, on_store_failure: {mode: closed}}
  - {name: login, match: ["POST /login"], identity: ip, motive: abuse, limits: [{name: ip, per: ip, rate: 5/minute}], on_store_failure: {mode: closed}}
  - {name: rest, match: ["/"], identity: api_key, motive: fairness, limits: [{name: all, per: tenant, counts: requests, rate: 1/second}], on_store_failure: {mode: closed}}
`
	a.tenant(t, "Acme")
	if _, err := a.policies.Publish(a.ctx, owner, []byte(src), nil, 1, console.PublishOptions{Note: "roof", ConfirmTypedOnly: true}); err != nil {
		t.Fatal(err)
	}
	all, err := a.advisor.Promises(a.ctx)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	if p := all[0]; p.Milli != 2500 || p.Unlimited || !strings.Contains(p.Why, "no limit per tenant") {
		t.Errorf("search: %+v", p)
	}
	if p := all[1]; p.Milli != 5000 || !strings.Contains(p.Why, "ip") {
		t.Errorf("login: %+v", p)
	}
	if p := all[2]; p.Milli != 1000 || p.Capacity != nil || p.TimesMilli() != 0 {
		t.Errorf("rest: %+v", p)
	}
}

// seeing is a Prover that keeps the document that it is to try.
type seeing struct{ tried **policy.Document }

func (s seeing) Test(context.Context, *policy.Document, *scenario.Suite, func(string) (policy.TenantRecord, bool)) ([]scenario.Result, error) {
	return nil, errBroken
}

func (s seeing) Score(context.Context, *policy.Document, *scenario.Suite, func(string) (policy.TenantRecord, bool)) (scenario.Score, error) {
	return scenario.Score{}, errBroken
}

func (s seeing) Compare(_ context.Context, _, draft *policy.Document, _ console.Log, _ func(string) (policy.TenantRecord, bool), _ func(float64)) (decisionlog.Comparison, error) {
	*s.tried = draft
	return decisionlog.Comparison{Entries: 5}, nil
}

func TestAdvisor_TriesOtherNumbersOnTheGatewaysEngine(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	var tried *policy.Document
	a.provenBy(seeing{&tried})
	a.advisor = console.NewAdvisor(a.deps, a.policies, a.capacities)
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() { _ = a.policies.RunTrials(ctx) }()
	in := console.WhatIf{Limit: "plan.requests", Plan: "free", Rate: "30/minute", From: a.clock.now().Add(-time.Hour), To: a.clock.now()}
	var trial console.Trial
	waitFor(t, "a simulation", func() (ok bool) {
		var err error
		trial, err = a.advisor.Try(a.ctx, owner, in)
		return err == nil
	})
	waitFor(t, "its result", func() bool { got, err := a.policies.Trial(a.ctx, trial.ID); return err == nil && got.Result != nil })
	if l := tried.Plans["free"].Limits[0]; l.Rate.String() != "30/minute" || l.Burst != 30 || tried.Plans["pro"].Limits[0].Rate.String() != "600/minute" {
		t.Errorf("tried %+v", tried.Plans)
	}
	for _, bad := range []console.WhatIf{{Limit: "plan.requests", Plan: "gold", Rate: "1/second"}, {Limit: "plan.requests", Plan: "free", Rate: "many"}, {Limit: "nothing", Rate: "1/second"}, {Limit: "plan.requests", Plan: "free", Rate: "1/second", Burst: -1}} {
		bad.From, bad.To = in.From, in.To
		if _, err := a.advisor.Try(a.ctx, owner, bad); console.CodeOf(err) != console.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := a.advisor.Try(a.ctx, as(console.RoleViewer), in); console.CodeOf(err) != console.CodeForbidden {
		t.Errorf("a viewer: %v", err)
	}
}

// summed is a ledger of one route.
type summed struct {
	t     *testing.T
	route string
	lines []console.UsageLine
}

func (s summed) Report(_ context.Context, _ console.Actor, q console.UsageQuery) (console.UsageReport, error) {
	if q.Step != console.StepHour || q.Group != console.GroupTenant || q.Route != s.route || q.Plan != "" || q.To.Sub(q.From) != 48*time.Hour {
		s.t.Errorf("asked for %+v", q)
	}
	return console.UsageReport{From: q.From, To: q.To, Steps: make([]console.UsageSums, 3), Groups: s.lines, RestCount: 4, Through: q.To}, nil
}

func TestAdvisor_LongerTimesComeFromTheLedgersHours(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	acme := a.tenant(t, "Acme")
	gamma, err := a.tenants.Create(a.ctx, owner, console.NewTenant{Name: "Gamma", Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	hours := []console.UsageSums{{Admitted: 1000, Cost: 5000, Refused: 200, Interrupted: 3, InterruptedCost: 15}, {}, {Admitted: 10, Cost: 50}}
	from := summed{t, "everything", []console.UsageLine{{Key: acme.ID, Steps: hours}, {Key: gamma.ID, Steps: hours}, {Key: "", Steps: hours}}}
	l, err := a.advisor.Long(a.ctx, owner, from, "plan.requests", "free", 2)
	if err != nil {
		t.Fatal(err)
	}
	// 60 a minute are 3 600 an hour; it counts requests; pro's tenants have another limit.
	want := console.TenantUse{Tenant: acme.ID, Name: "Acme", Asked: console.Percentiles{P50: 10, P90: 1203, P99: 1203, Max: 1203, Windows: 2}, Allowed: 3600, Burst: 60}
	if len(l.Tenants) != 1 || l.Tenants[0] != want || l.Exact || l.LeftOut != 4 || l.Window != time.Hour {
		t.Errorf("%+v, want %+v", l, want)
	}
	l, err = a.advisor.Long(a.ctx, owner, from, "route:everything.all", "", 2)
	if err != nil || len(l.Tenants) != 2 || l.Tenants[0].Asked.Max != 5215 || l.Tenants[0].Allowed != 6000 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []struct {
		id, plan string
		days     int
	}{{"plan.requests", "gold", 2}, {"plan.requests", "free", 0}, {"plan.requests", "free", 32}, {"nothing", "", 2}} {
		if _, err := a.advisor.Long(a.ctx, owner, from, bad.id, bad.plan, bad.days); console.CodeOf(err) != console.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := a.advisor.Long(a.ctx, console.Actor{Role: console.RoleTenantAdmin, TenantID: acme.ID}, from, "plan.requests", "free", 2); console.CodeOf(err) != console.CodeForbidden {
		t.Errorf("a tenant's member: %v", err)
	}
}
