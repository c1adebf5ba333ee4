package console_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// lawDocument has every kind of limit.
const lawDocument = `apiVersion: headgate/v1
global:
  limits: [{name: all, per: global, rate: 50000/second, burst: 50000}]
shared:
  - {name: search, per: tenant, rate: 300/minute, burst: 60}
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
    quota: {amount: 1000, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]
    quota: {amount: 20000, counts: cost, period: month, alignment: anniversary, time_zone: UTC, over: bill, max: 40000}
  bare: {}
routes:
  - name: report
    match: ["GET /report"]
    identity: api_key
    motive: fairness
    cost: 20
    limits: [{name: reports, per: tenant, rate: 100/minute, burst: 20}]
    uses: [search]
    concurrency: {per: tenant, max: 2, lease: 90s}
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
  - name: find
    match: ["GET /find"]
    identity: api_key
    motive: fairness
    uses: [search]
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 20/minute, burst: 20}]
    on_store_failure: {mode: closed}
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

// lawful is an env with lawDocument in force and a tenant on plan free.
func lawful(t *testing.T) (*env, *console.Overrides, console.Tenant) {
	t.Helper()
	e := newEnv(t)
	publishText(t, e, lawDocument)
	return e, console.NewOverrides(e.deps), e.tenant(t, "Acme")
}

func publishText(t *testing.T, e *env, text string) {
	t.Helper()
	base := int64(0)
	if head, ok, err := e.policies.Head(e.ctx); err != nil {
		t.Fatal(err)
	} else if ok {
		base = head.Number
	}
	if _, err := e.policies.Publish(e.ctx, owner, []byte(text), nil, base, console.PublishOptions{ConfirmTypedOnly: true}); err != nil {
		t.Fatal(err)
	}
}

func inForce(t *testing.T, e *env, s *console.Overrides, tenant, limit string) console.LimitInForce {
	t.Helper()
	all, err := s.Effective(e.ctx, tenant)
	if err != nil {
		t.Fatal(err)
	}
	l, ok := all.Find(limit)
	if !ok {
		t.Fatalf("no limit %s among %+v", limit, all.Limits)
	}
	return l
}

// recordOf is what gateways have of the tenant.
func recordOf(t *testing.T, e *env, tenant string) policy.TenantRecord {
	t.Helper()
	e.feed.mu.Lock()
	r, ok := e.feed.records[tenant]
	e.feed.mu.Unlock()
	if !ok {
		return policy.TenantRecord{}
	}
	if err := policy.VerifyRecord([]ed25519.PublicKey{e.public}, testDeployment, r); err != nil {
		t.Fatal(err)
	}
	var rec policy.TenantRecord
	if err := json.Unmarshal(r.Body, &rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestOverrides_ValueInForceSaysWhereItComesFrom(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	until := e.clock.now().Add(48 * time.Hour)
	set, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "120/minute", Burst: new(int64(200)), Reason: "contract", ExpiresAt: &until})
	if err != nil || set.Change.OutboxID == 0 || set.Override.Author != owner.Name || !strings.HasPrefix(set.Override.ID, "ovr_") {
		t.Fatalf("%+v (%v)", set, err)
	}
	boost, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2500, For: time.Hour, Reason: "sale"})
	if err != nil {
		t.Fatal(err)
	}
	l := inForce(t, e, s, ten.ID, "plan.requests")
	want := []struct{ source, text, id string }{
		{"plan free", "60/minute, burst 60", ""}, {"override", "120/minute, burst 200", set.Override.ID}, {"boost", "×2.5: 300/minute, burst 500", boost.Override.ID},
	}
	if len(l.Steps) != len(want) || !l.Own {
		t.Fatalf("steps %+v", l.Steps)
	}
	for i, w := range want {
		if got := l.Steps[i]; got.Source != w.source || got.Text != w.text || got.OverrideID != w.id {
			t.Errorf("step %d: %+v, want %+v", i, got, w)
		}
	}
	if l.Steps[1].Reason != "contract" || l.Steps[2].Reason != "sale" || !l.Expires.Equal(e.clock.now().Add(time.Hour)) {
		t.Errorf("%+v ends %v", l.Steps, l.Expires)
	}
	e.clock.add(2 * time.Hour)
	if l = inForce(t, e, s, ten.ID, "plan.requests"); l.Now().Text != want[1].text || !l.Expires.Equal(until) {
		t.Errorf("after the boost: %+v until %v", l.Now(), l.Expires)
	}
	e.clock.add(48 * time.Hour)
	if l = inForce(t, e, s, ten.ID, "plan.requests"); l.Now().Text != want[0].text || l.Expires != nil {
		t.Errorf("after the override: %+v until %v", l.Now(), l.Expires)
	}
}

func TestOverrides_EffectiveListsWhatTheTenantMeetsAndNoMore(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	all, err := s.Effective(e.ctx, ten.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		id, text, source string
		routes           []string
		own              bool
	}{
		{"global.all", "50000/second, burst 50000", "global", nil, false},
		{"plan.requests", "60/minute, burst 60", "plan free", nil, true},
		{"shared:search", "300/minute, burst 60", "shared search", []string{"report", "find"}, true},
		{"route:report.reports", "100/minute, burst 20", "route report", []string{"report"}, true},
		{"route:report.concurrency", "2 at once", "route report", []string{"report"}, true},
		{"plan.quota", "1000 a month", "plan free", nil, true},
	}
	if len(all.Limits) != len(want) || all.Version != 1 {
		t.Fatalf("version %d, limits %+v", all.Version, all.Limits)
	}
	for i, w := range want {
		got := all.Limits[i]
		if got.ID != w.id || got.Now().Text != w.text || got.Now().Source != w.source || !slices.Equal(got.Routes, w.routes) || got.Own != w.own {
			t.Errorf("%d: %+v, want %+v", i, got, w)
		}
	}
}

// The console's word and the gateway's arithmetic are the same function's.
func TestOverrides_EveryKindOfLimitTakesItsOwnValue(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	pro := "pro"
	if _, err := e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Plan: &pro}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		in   console.NewOverride
		want string
	}{
		{console.NewOverride{Limit: "shared:search", Rate: "600/minute"}, "600/minute, burst 600"},
		{console.NewOverride{Limit: "shared:search", Burst: new(int64(700))}, "300/minute, burst 700"}, // of the policy's own rate: one takes the other's place
		{console.NewOverride{Limit: "route:report.reports", Rate: "unlimited"}, "unlimited"},
		{console.NewOverride{Limit: "plan.requests", Rate: "0"}, "0"},
		{console.NewOverride{Limit: "plan.quota", Amount: new(int64(30_000)), Max: new(int64(0))}, "30000 a month, more is billed"},
		{console.NewOverride{Limit: "plan.quota", Amount: new(int64(50_000))}, "50000 a month, more is billed up to 50000"},
		{console.NewOverride{Limit: "plan.quota", Rate: "unlimited"}, "unlimited"},
		{console.NewOverride{Limit: "route:report.concurrency", Max: new(int64(9))}, "9 at once"},
		{console.NewOverride{Limit: "route:report.concurrency", Rate: "unlimited"}, "unlimited"},
	} {
		c.in.Reason, c.in.Lower = "r", true
		if _, err := s.Set(e.ctx, owner, ten.ID, c.in); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if got := inForce(t, e, s, ten.ID, c.in.Limit).Now(); got.Text != c.want || got.Source != "override" {
			t.Errorf("%d: %+v, want %q", i, got, c.want)
		}
	}
}

func TestOverrides_BadInputNamesTheFieldAndWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	past := e.clock.now()
	for name, c := range map[string]struct {
		in          console.NewOverride
		field, word string
	}{
		"unknown limit names near ones": {console.NewOverride{Limit: "plan.request", Rate: "1/minute"}, "limit", "plan.requests"},
		"the name alone":                {console.NewOverride{Limit: "reports", Rate: "1/minute"}, "limit", "It does meet route:report.reports,"},
		"no limit at all":               {console.NewOverride{Rate: "1/minute"}, "limit", "meets no limit"},
		"counted for everyone together": {console.NewOverride{Limit: "global.all", Rate: "1/minute"}, "limit", "several tenants together"},
		"of a route without a tenant":   {console.NewOverride{Limit: "route:login.per-ip", Rate: "1/minute"}, "limit", "meets no limit"},
		"no value":                      {console.NewOverride{Limit: "plan.requests"}, "rate", "give a rate"},
		"not a rate":                    {console.NewOverride{Limit: "plan.requests", Rate: "many"}, "rate", "60/minute"},
		"a rate for a quota":            {console.NewOverride{Limit: "plan.quota", Rate: "60/minute"}, "rate", "rate limits"},
		"an amount for a rate":          {console.NewOverride{Limit: "plan.requests", Amount: new(int64(1))}, "limit", "no amount"},
		"below what a request costs":    {console.NewOverride{Limit: "route:report.reports", Rate: "100/minute", Burst: new(int64(5))}, "burst", "could never pass"},
		"over already":                  {console.NewOverride{Limit: "plan.requests", Rate: "70/minute", ExpiresAt: &past}, "expires_at", "to come"},
		"a max of nothing at once":      {console.NewOverride{Limit: "route:report.concurrency", Max: new(int64(0))}, "max", "1 to"},
	} {
		c.in.Reason = "r"
		_, err := s.Set(e.ctx, owner, ten.ID, c.in)
		got := errorWith(t, err, console.CodeInvalid)
		if len(got.Fields) == 0 || got.Fields[0].Field != c.field || !strings.Contains(got.Fields[0].Message, c.word) {
			t.Errorf("%s: %+v, want %q at %s", name, got.Fields, c.word, c.field)
		}
	}
	_, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute"})
	fieldOf(t, "without a reason", err, "reason")
	_, err = s.Set(e.ctx, owner, "ten_none", console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"})
	wantCode(t, err, console.CodeNotFound)
	if n := len(recordOf(t, e, ten.ID).Overrides); n != 0 {
		t.Errorf("%d overrides of refused input", n)
	}
}

func TestOverrides_LowerValueIsAskedTwice(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	for name, in := range map[string]console.NewOverride{
		"rate":            {Limit: "plan.requests", Rate: "59/minute", Burst: new(int64(60))},
		"rate per second": {Limit: "plan.requests", Rate: "99/100s", Burst: new(int64(99))},
		"burst":           {Limit: "plan.requests", Burst: new(int64(59))},
		"nothing":         {Limit: "plan.requests", Rate: "0"},
		"quota":           {Limit: "plan.quota", Amount: new(int64(999))},
		"at once":         {Limit: "route:report.concurrency", Max: new(int64(1))},
	} {
		in.Reason = "r"
		_, err := s.Set(e.ctx, owner, ten.ID, in)
		got := errorWith(t, err, console.CodeInvalid)
		asked, _ := got.Detail.([]console.Confirmation)
		if len(asked) != 1 || asked[0].Code != console.ConfirmLower || !strings.Contains(asked[0].Text, in.Limit+" goes down from") {
			t.Errorf("%s: %+v", name, got)
		}
		in.Lower = true
		if _, err := s.Set(e.ctx, owner, ten.ID, in); err != nil {
			t.Errorf("%s, confirmed: %v", name, err)
		}
		if _, err := s.Clear(e.ctx, owner, ten.ID, in.Limit, "back"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, in := range []console.NewOverride{
		{Limit: "plan.requests", Rate: "60/minute", Burst: new(int64(60))}, // the same
		{Limit: "plan.requests", Rate: "unlimited"},
		{Limit: "plan.quota", Amount: new(int64(1001))},
	} {
		in.Reason = "r"
		if _, err := s.Set(e.ctx, owner, ten.ID, in); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	_, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "1000000/second", Reason: "r"})
	if got := errorWith(t, err, console.CodeInvalid); !strings.Contains(got.Fields[0].Message, "from unlimited (override) to 1000000/second") || got.Fields[0].Field != "confirm.lower" {
		t.Errorf("from unlimited: %+v", got.Fields)
	}
}

func TestOverrides_OneValueALimitAndTheOneBeforeIsKeptAsHistory(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	var ids []string
	for _, rate := range []string{"70/minute", "80/minute", "90/minute"} {
		set, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: rate, Reason: "to " + rate})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, set.Override.ID)
		e.clock.add(time.Minute)
	}
	live, ended, err := s.OfTenant(e.ctx, ten.ID, 10)
	if err != nil || len(live) != 1 || live[0].ID != ids[2] || len(ended) != 2 {
		t.Fatalf("live %+v, ended %+v (%v)", live, ended, err)
	}
	if got := ended[0]; got.ID != ids[1] || got.EndReason != "Replaced by "+ids[2]+"." || got.EndedBy != owner.Name || got.Rate != "80/minute" {
		t.Errorf("ended %+v", got)
	}
	if _, err := s.Clear(e.ctx, owner, ten.ID, "plan.requests", "over"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Clear(e.ctx, owner, ten.ID, "plan.requests", "again")
	wantCode(t, err, console.CodeNotFound)
	got, err := s.Get(e.ctx, ids[2])
	if err != nil || got.EndReason != "over" || got.TenantName != "Acme" || got.Live(e.clock.now()) {
		t.Fatalf("%+v (%v)", got, err)
	}
	events := e.events(t)
	var actions []string
	for _, ev := range events[:4] {
		actions = append(actions, ev.Action)
	}
	if want := []string{"override.end", "override.set", "override.set", "override.set"}; !slices.Equal(actions, want) {
		t.Fatalf("events %v, want %v", actions, want)
	}
	if ev := events[1]; ev.TenantID != ten.ID || ev.ObjectID != ids[2] || ev.Reason != "to 90/minute" ||
		!strings.Contains(string(ev.Before), `"rate": "80/minute"`) && !strings.Contains(string(ev.Before), `"rate":"80/minute"`) || !strings.Contains(string(ev.After), "90/minute") {
		t.Errorf("event %+v: %s → %s", ev, ev.Before, ev.After)
	}
}

func TestOverrides_RecordsCarryThoseThatHold(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	relay := console.NewRelay(e.deps, e.store)
	e.deps.Nudge = relay.Nudge
	s = console.NewOverrides(e.deps)
	run(t, relay.Run)
	until := e.clock.now().Add(time.Hour)
	if _, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.quota", Amount: new(int64(5000)), Reason: "r", ExpiresAt: &until}); err != nil {
		t.Fatal(err)
	}
	set, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour, Reason: "why"})
	if err != nil {
		t.Fatal(err)
	}
	has := func(n int) func() bool {
		return func() bool {
			r, ok := e.feed.records[ten.ID]
			return ok && strings.Count(string(r.Body), `"limit"`) == n
		}
	}
	e.feed.until(t, "both in the record", has(2))
	rec := recordOf(t, e, ten.ID)
	i := slices.IndexFunc(rec.Overrides, func(o policy.Override) bool { return o.Limit == "plan.requests" })
	if o := rec.Overrides[max(i, 0)]; i < 0 || o.FactorMilli != 2000 || !o.ExpiresAt.Equal(until) || o.Author != owner.Name || o.Reason != "why" {
		t.Errorf("record %+v", rec.Overrides)
	}
	if set.Override.ExpiresAt.Location() != time.UTC {
		t.Error("the end is not told in UTC")
	}
	// An end that is pushed by nobody is in the record; the job then tidies up.
	e.clock.add(time.Hour)
	if err := s.Expire(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.feed.until(t, "none in the record", has(0))
	got, err := s.Get(e.ctx, set.Override.ID)
	if err != nil || got.EndedAt == nil || !got.EndedAt.Equal(until) || got.EndedBy != "headgate" {
		t.Errorf("ended %+v (%v)", got, err)
	}
	if a := e.actions(t); !slices.Contains(a, "boost.expire") || !slices.Contains(a, "override.expire") {
		t.Errorf("actions %v", a)
	}
	seq := func() int64 { t, _ := e.tenants.Get(e.ctx, ten.ID); return t.Seq }
	before := seq()
	if err := s.Expire(e.ctx); err != nil || seq() != before {
		t.Errorf("ending nothing has an effect (%v)", err)
	}
}

func TestOverrides_NewOneTakesTheSlotOfOneWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	first, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 3000, For: time.Hour, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	e.clock.add(time.Hour) // no job has run
	if _, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(e.ctx, first.Override.ID)
	if err != nil || got.EndReason != "Its time was over." || !got.EndedAt.Equal(*first.Override.ExpiresAt) {
		t.Errorf("%+v (%v)", got, err)
	}
	e.clock.add(time.Hour)
	_, err = s.Extend(e.ctx, owner, first.Override.ID, console.Extension{Until: new(e.clock.now().Add(time.Hour)), Reason: "r"})
	wantCode(t, err, console.CodeConflict)
	_, err = s.EndBoost(e.ctx, owner, ten.ID, "plan.requests", "r")
	wantCode(t, err, console.CodeNotFound)
}

func TestOverrides_BoundsAreToldWithTheirNumbers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var b strings.Builder
	b.WriteString("apiVersion: headgate/v1\nplans: {free: {}}\nroutes:\n")
	for i := range 101 {
		fmt.Fprintf(&b, "  - {name: r%d, match: [\"GET /r%d\"], identity: api_key, motive: fairness, limits: [{name: l, per: tenant, rate: 10/minute, burst: 10}], on_store_failure: {mode: open, fallback: {rate: 1/minute, burst: 1}}}\n", i, i)
	}
	publishText(t, e, b.String())
	s, ten := console.NewOverrides(e.deps), e.tenant(t, "Acme")
	set := func(i int, reason string) error {
		_, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: fmt.Sprintf("route:r%d.l", i), Rate: "20/minute", Reason: reason})
		return err
	}
	long := strings.Repeat("é", 500) // 1000 bytes in the record
	var full error
	n := 0
	for ; full == nil && n < 100; n++ {
		full = set(n, long)
	}
	fieldOf(t, "a record of long reasons", full, "reason")
	if msg := errorWith(t, full, console.CodeInvalid).Fields[0].Message; !strings.Contains(msg, "49152") || n < 30 {
		t.Errorf("after %d: %s", n, msg)
	}
	for i := range 100 {
		if err := set(i, "short"); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	err := set(100, "short")
	fieldOf(t, "one too many", err, "limit")
	if msg := errorWith(t, err, console.CodeInvalid).Fields[0].Message; !strings.Contains(msg, "has 100 values") {
		t.Error(msg)
	}
	if err := set(50, "in place of another"); err != nil {
		t.Errorf("in place of another: %v", err)
	}
	all, err := s.Effective(e.ctx, ten.ID)
	if err != nil || len(all.Live) != 100 || len(all.Unused) != 0 {
		t.Errorf("%d hold (%v)", len(all.Live), err)
	}
}

func TestBoosts_SupportRaisesALittleForADay(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	support, admin := as(console.RoleSupport), as(console.RoleKeyAdmin)
	boost := func(a console.Actor, factor int64, length time.Duration) error {
		_, err := s.Boost(e.ctx, a, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: factor, For: length, Reason: "ticket 1", Lower: true})
		return err
	}
	for _, c := range []struct {
		who    console.Actor
		factor int64
		length time.Duration
		want   console.Code
	}{
		{support, 2001, time.Hour, console.CodeForbidden},
		{support, 2000, 24*time.Hour + time.Second, console.CodeForbidden},
		{as(console.RoleViewer), 1500, time.Hour, console.CodeForbidden},
		{as(console.RolePublisher), 1500, time.Hour, console.CodeForbidden},
		{admin, 10_001, time.Hour, console.CodeInvalid},
		{admin, 2000, 30*24*time.Hour + time.Second, console.CodeInvalid},
		{admin, 1000, time.Hour, console.CodeInvalid},
		{admin, 2000, 59 * time.Second, console.CodeInvalid},
		{support, 2000, 24 * time.Hour, ""},
		{admin, 10_000, 30 * 24 * time.Hour, ""},
		{support, 2000, time.Hour, console.CodeForbidden}, // it would take the place of the larger one
	} {
		if got := console.CodeOf(boost(c.who, c.factor, c.length)); got != c.want {
			t.Errorf("%s, %d, %v: %q, want %q", c.who.Role, c.factor, c.length, got, c.want)
		}
	}
	_, err := s.EndBoost(e.ctx, support, ten.ID, "plan.requests", "r")
	wantCode(t, err, console.CodeForbidden)
	if _, err := s.EndBoost(e.ctx, admin, ten.ID, "plan.requests", "r"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Set(e.ctx, support, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"})
	wantCode(t, err, console.CodeForbidden)
	if e.actions(t)[len(e.actions(t))-1] != "boost.end" {
		t.Errorf("actions %v", e.actions(t))
	}
}

func TestBoosts_SupportCannotMakeADayLonger(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	support, admin := as(console.RoleSupport), as(console.RoleKeyAdmin)
	set, err := s.Boost(e.ctx, support, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 1500, For: time.Hour, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	begun := e.clock.now()
	to := func(a console.Actor, at time.Time) error {
		_, err := s.Extend(e.ctx, a, set.Override.ID, console.Extension{Until: &at, Reason: "r"})
		return err
	}
	e.clock.add(30 * time.Minute)
	if err := to(support, begun.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, to(support, begun.Add(24*time.Hour+time.Second)), console.CodeForbidden)
	wantCode(t, to(admin, begun), console.CodeInvalid)
	wantCode(t, to(admin, begun.Add(31*24*time.Hour)), console.CodeInvalid)
	if err := to(admin, begun.Add(29*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, to(support, begun.Add(2*time.Hour)), console.CodeForbidden) // not theirs any more
	_, err = s.Extend(e.ctx, admin, set.Override.ID, console.Extension{Reason: "for good"})
	fieldOf(t, "a boost for good", err, "until")
	_, err = s.Extend(e.ctx, admin, set.Override.ID, console.Extension{Until: new(begun.Add(time.Hour))})
	fieldOf(t, "without a reason", err, "reason")
	_, err = s.Extend(e.ctx, admin, "ovr_none", console.Extension{Until: new(begun.Add(time.Hour)), Reason: "r"})
	wantCode(t, err, console.CodeNotFound)
	value, err := s.Set(e.ctx, admin, ten.ID, console.NewOverride{Limit: "plan.quota", Amount: new(int64(2000)), Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Extend(e.ctx, support, value.Override.ID, console.Extension{Until: new(begun.Add(time.Hour)), Reason: "r"})
	wantCode(t, err, console.CodeForbidden)
	at := begun.Add(90 * 24 * time.Hour)
	if _, err := s.Extend(e.ctx, admin, value.Override.ID, console.Extension{Until: &at, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Extend(e.ctx, admin, value.Override.ID, console.Extension{Reason: "for good"})
	if err != nil || got.Override.ExpiresAt != nil || got.Override.Amount == nil {
		t.Fatalf("%+v (%v)", got, err)
	}
}

func TestBoosts_OfWhatCannotBeRaisedAreRefused(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	for _, in := range []console.NewOverride{{Limit: "plan.requests", Rate: "0"}, {Limit: "plan.quota", Rate: "unlimited"}} {
		in.Reason, in.Lower = "r", true
		if _, err := s.Set(e.ctx, owner, ten.ID, in); err != nil {
			t.Fatal(err)
		}
		_, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: in.Limit, FactorMilli: 2000, For: time.Hour, Reason: "r"})
		fieldOf(t, in.Limit+" "+in.Rate, err, "limit")
	}
	boost := func(factor int64, lower bool) error {
		_, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "shared:search", FactorMilli: factor, For: time.Hour, Reason: "r", Lower: lower})
		return err
	}
	if err := boost(4000, false); err != nil {
		t.Fatal(err)
	}
	fieldOf(t, "a smaller one in its place", boost(3000, false), "confirm.lower")
	if err := boost(3000, true); err != nil {
		t.Fatal(err)
	}
}

func TestOverrides_WithoutALimitInThePolicyTheyStayWithoutEffect(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	if _, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "route:report.reports", Rate: "200/minute", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	without := strings.Replace(lawDocument, "    limits: [{name: reports, per: tenant, rate: 100/minute, burst: 20}]\n", "", 1)
	_, report := e.policies.Validate(e.ctx, []byte(without))
	if !report.OK() || !slices.ContainsFunc(report.Warnings, func(p policy.Problem) bool {
		return strings.Contains(p.Message, "route:report.reports is met on plan free: the own values of 1 tenant ")
	}) {
		t.Errorf("warnings %+v", report.Warnings)
	}
	if _, report = e.policies.Validate(e.ctx, []byte(lawDocument)); len(report.Warnings) != 0 {
		t.Errorf("warnings of the document in force: %+v", report.Warnings)
	}
	publishText(t, e, without)
	all, err := s.Effective(e.ctx, ten.ID)
	if err != nil || len(all.Live) != 1 || len(all.Unused) != 1 || all.Version != 2 {
		t.Fatalf("%+v (%v)", all, err)
	}
	rows, _, err := s.List(e.ctx, console.OverrideQuery{})
	if err != nil || len(rows) != 1 || !rows[0].WithoutEffect() {
		t.Fatalf("%+v (%v)", rows, err)
	}
	publishText(t, e, lawDocument)
	if got := inForce(t, e, s, ten.ID, "route:report.reports").Now().Text; got != "200/minute, burst 200" {
		t.Errorf("when the limit is back: %s", got)
	}
}

func TestOverrides_SuspendedTenantsHaveThemAndDeletedOnesDoNot(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	if _, err := e.tenants.Suspend(e.ctx, owner, ten.ID, "r"); err != nil {
		t.Fatal(err)
	}
	set, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Delete(e.ctx, owner, ten.ID, "left"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(e.ctx, set.Override.ID)
	if err != nil || got.EndReason != "left" {
		t.Errorf("%+v (%v)", got, err)
	}
	_, err = s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"})
	wantCode(t, err, console.CodeConflict)
	if a := e.actions(t); !slices.Equal(a[len(a)-2:], []string{"override.end", "tenant.delete"}) {
		t.Errorf("actions %v", a)
	}
}

func TestOverrides_NothingToOverrideBeforeTheFirstPolicy(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s, ten := console.NewOverrides(e.deps), e.tenant(t, "A")
	_, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"})
	wantCode(t, err, console.CodeConflict)
	all, err := s.Effective(e.ctx, ten.ID)
	if err != nil || all.Version != 0 || len(all.Limits) != 0 {
		t.Errorf("%+v (%v)", all, err)
	}
}

func TestOverrides_ListIsFilteredAndPagedAndShowsEachOnce(t *testing.T) {
	t.Parallel()
	e, s, a := lawful(t)
	b := e.tenant(t, "Borg")
	for i, ten := range []string{a.ID, b.ID} {
		for j, limit := range []string{"plan.requests", "shared:search", "plan.quota"} {
			in := console.NewBoost{Limit: limit, FactorMilli: 2000, For: time.Duration(1+i*3+j) * time.Hour, Reason: "r"}
			if _, err := s.Boost(e.ctx, owner, ten, in); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Set(e.ctx, owner, a.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EndBoost(e.ctx, owner, b.ID, "plan.quota", "r"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    console.OverrideQuery
		want int
	}{
		"all that hold":  {console.OverrideQuery{}, 6},
		"one tenant":     {console.OverrideQuery{TenantID: a.ID}, 4},
		"one limit":      {console.OverrideQuery{Limit: "plan.requests"}, 3},
		"boosts":         {console.OverrideQuery{Kind: console.KindBoost}, 5},
		"values":         {console.OverrideQuery{Kind: console.KindOverride}, 1},
		"ended":          {console.OverrideQuery{State: console.OverridesEnded}, 1},
		"history":        {console.OverrideQuery{State: console.OverridesAll}, 7},
		"ends soon":      {console.OverrideQuery{Within: 3 * time.Hour}, 3},
		"ends soon of B": {console.OverrideQuery{Within: 4 * time.Hour, TenantID: b.ID}, 1},
		"another id":     {console.OverrideQuery{TenantID: "ten_x"}, 0},
	} {
		for _, size := range []int{1, 2, 50} {
			c.q.Page = console.Page{Limit: size}
			seen := map[string]bool{}
			for {
				rows, next, err := s.List(e.ctx, c.q)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, r := range rows {
					if seen[r.ID] {
						t.Errorf("%s: %s twice", name, r.ID)
					}
					seen[r.ID] = true
					if r.TenantName == "" || r.Plan != "free" || r.WithoutEffect() && r.EndedAt == nil {
						t.Errorf("%s: row %+v", name, r)
					}
				}
				if c.q.Page.After = next; next == "" {
					break
				}
			}
			if len(seen) != c.want {
				t.Errorf("%s, pages of %d: %d rows, want %d", name, size, len(seen), c.want)
			}
		}
	}
	rows, _, err := s.List(e.ctx, console.OverrideQuery{Within: 100 * time.Hour})
	if err != nil || len(rows) != 5 || !slices.IsSortedFunc(rows, func(a, b console.OverrideRow) int { return a.ExpiresAt.Compare(*b.ExpiresAt) }) {
		t.Errorf("not the soonest first: %+v (%v)", rows, err)
	}
	_, _, err = s.List(e.ctx, console.OverrideQuery{Page: console.Page{After: "x"}})
	wantCode(t, err, console.CodeInvalid)
}

func TestOverrides_PeakOfTheLastHourStandsBesideTheBase(t *testing.T) {
	t.Parallel()
	e, _, ten := lawful(t)
	live := usage.NewLive(usage.LiveConfig{Now: e.clock.now})
	at := e.clock.now().Add(-10 * time.Minute).Truncate(time.Minute).Unix()
	live.Apply(usage.Batch{Replica: "gw", Boot: "b", Seq: 1, Through: at + 30, Rows: []usage.Row{
		{Second: at, Tenant: ten.ID, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 5, Cost: 100},
		{Second: at + 20, Tenant: ten.ID, Route: "find", Outcome: usage.OutcomeLimited, Requests: 25},
	}})
	e.deps.Traffic = live
	s := console.NewOverrides(e.deps)
	for limit, want := range map[string]struct {
		peak int64
		of   float64
	}{"plan.requests": {30, 0.5}, "route:report.reports": {100, 1}, "shared:search": {125, 125.0 / 300}} {
		l := inForce(t, e, s, ten.ID, limit)
		if l.Peak == nil || l.Peak.PerMinute != want.peak || l.Peak.OfBase != want.of || l.Peak.AsOf.Unix() != at+30 || l.Peak.Known == 0 {
			t.Errorf("%s: peak %+v, want %+v", limit, l.Peak, want)
		}
	}
	if l := inForce(t, e, s, ten.ID, "plan.quota"); l.Peak != nil {
		t.Errorf("a quota has a peak a minute: %+v", l.Peak)
	}
	e.clock.add(2 * time.Hour)
	if l := inForce(t, e, s, ten.ID, "plan.requests"); l.Peak != nil {
		t.Errorf("of an hour that nobody reported: %+v", l.Peak)
	}
}

func TestOverrides_ChangeOfPlanSaysWhatChanges(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	if _, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.quota", Amount: new(int64(90_000)), Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	got, err := s.PlanChange(e.ctx, ten.ID, "pro")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range got.Limits {
		before, after := "-", "-"
		if l.Before != nil {
			before = l.Before.Now().Text
		}
		if l.After != nil {
			after = l.After.Now().Text
		}
		lines = append(lines, fmt.Sprintf("%s: %s → %s %v", l.ID, before, after, l.Tighter))
	}
	if want := []string{"plan.requests: 60/minute, burst 60 → 600/minute, burst 100 false", "plan.quota: 90000 a month → 90000 a month, more is billed up to 90000 false"}; !slices.Equal(lines, want) {
		t.Errorf("to pro: %q", lines)
	}
	if got, err = s.PlanChange(e.ctx, ten.ID, "bare"); err != nil || len(got.Unused) != 1 || len(got.Limits) != 2 || got.Limits[0].After != nil {
		t.Errorf("to bare: %+v (%v)", got, err)
	}
	bare := "bare"
	if _, err := e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Plan: &bare}); err != nil {
		t.Fatal(err)
	}
	if got, err = s.PlanChange(e.ctx, ten.ID, "free"); err != nil || len(got.Regain) != 1 || len(got.Limits) != 2 || !got.Limits[0].Tighter {
		t.Errorf("back to free: %+v (%v)", got, err)
	}
	_, err = s.PlanChange(e.ctx, ten.ID, "gold")
	fieldOf(t, "a plan that is not there", err, "plan")
	_, err = s.PlanChange(e.ctx, "ten_none", "free")
	wantCode(t, err, console.CodeNotFound)
}
