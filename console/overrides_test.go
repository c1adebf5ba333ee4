package console_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
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
		"over already":                  {console.NewOverride{Limit: "plan.requests", Rate: "70/minute", ExpiresAt: &past}, "expires_at", "future"},
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
