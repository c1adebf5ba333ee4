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
)

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

func TestOverrides_RecordsCarryThoseThatHold(t *testing.T) {
	t.Parallel()
	e, _, ten := lawful(t)
	relay := console.NewRelay(e.deps, e.store)
	e.deps.Nudge = relay.Nudge
	s := console.NewOverrides(e.deps)
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
