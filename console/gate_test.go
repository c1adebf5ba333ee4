package console_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/usage"
)

// guarded is a document with everything that a confirmation can be about.
const guarded = `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 1000/minute, burst: 1000}]
routes:
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
    limits: [{name: all, per: tenant, counts: requests, rate: 1000/minute, burst: 100}]
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

// changed is a document with parts of it replaced.
func changed(src string, oldNew ...string) []byte {
	return []byte(strings.NewReplacer(oldNew...).Replace(src))
}

func TestR098_WhatMayBeASlipHasToBeConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change []string
		codes  map[string]string // with the word
	}{
		"a tenth":   {[]string{"rate: 1000/minute, burst: 1000", "rate: 100/minute, burst: 1000"}, map[string]string{"cut-half": "yes"}},
		"an hour":   {[]string{"rate: 20/minute", "rate: 20/hour"}, map[string]string{"cut-half": "yes"}},
		"to 0":      {[]string{"rate: 20/minute, burst: 20", `rate: "0", burst: 0`}, map[string]string{"blocked": "yes"}},
		"unlimited": {[]string{"rate: 1000/minute, burst: 100}", "rate: unlimited}"}, map[string]string{"unlimited": "yes"}},
		"shadow":    {[]string{"burst: 20}", "burst: 20, mode: shadow}"}, map[string]string{"shadow": "yes"}},
		"no limits on a plan": {[]string{"limits: [{name: requests, per: tenant, counts: requests, rate: 1000/minute, burst: 1000}]", "{}"},
			map[string]string{"limit-gone": "yes", "plan-no-limits": "yes"}},
		"over already":  {[]string{"burst: 20}", "burst: 20, expires_at: 2001-01-01T00:00:00Z}"}, map[string]string{"limit-gone": "yes"}},
		"ends some day": {[]string{"burst: 20}", "burst: 20, expires_at: 2099-01-01T00:00:00Z}"}, nil},
		"fail open":     {[]string{"{mode: closed}", "{mode: open, fallback: {rate: 10/minute, burst: 10}}"}, map[string]string{"fail-open": "yes"}},
		"nothing":       {[]string{"rate: 20/minute", "rate: 19/minute"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
			src := changed(guarded, c.change...)
			_, err := e.policies.Publish(e.ctx, owner, src, nil, 1, console.PublishOptions{})
			if len(c.codes) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var want []string
			for code := range c.codes {
				want = append(want, "confirm."+code)
			}
			slices.Sort(want)
			got := fieldsOf(t, err, console.CodeInvalid)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("fields %v, want %v: %v", got, want, err)
			}
			v, err := e.policies.Publish(e.ctx, owner, src, nil, 1, console.PublishOptions{Confirmed: c.codes})
			if err != nil || len(v.Proof.Confirmed) != len(c.codes) {
				t.Fatalf("confirmed %+v (%v)", v.Proof.Confirmed, err)
			}
			if v, err := e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{}); err != nil || v.Number != 3 {
				t.Fatalf("rolling back asked: %v", err)
			}
			if v, err := e.policies.Rollback(e.ctx, owner, 2, console.PublishOptions{}); err != nil || v.Number != 4 {
				t.Fatalf("rolling back to what was in force asked: %v", err)
			}
		})
	}
}

func TestR094_APolicyThatBoundsNobodyHasToBeTypedAlsoToRollBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := e.policies.Publish(e.ctx, owner, []byte("apiVersion: headgate/v1\n"), nil, 0, console.PublishOptions{})
	if got := fieldsOf(t, err, console.CodeInvalid); !slices.Contains(got, "routes") {
		t.Fatalf("no routes at all: fields %v", got)
	}
	bare := []byte(`apiVersion: headgate/v1
routes: [{name: all, match: ["/"], identity: ip, motive: fairness, on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}}]
`)
	if _, err := e.policies.Publish(e.ctx, owner, bare, nil, 0, console.PublishOptions{}); err != nil {
		t.Fatalf("the first version: %v", err)
	}
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 1, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{Confirmed: map[string]string{"no-limits": "yes"}})
	if got := fieldsOf(t, err, console.CodeInvalid); !slices.Equal(got, []string{"confirm.no-limits"}) || !strings.Contains(err.Error(), `Type "0 limits"`) {
		t.Fatalf("fields %v: %v", got, err)
	}
	words := map[string]string{"no-limits": " 0 limits "}
	if _, err = e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{Confirmed: words}); err != nil {
		t.Fatal(err)
	}
	if ev := e.events(t)[0]; ev.Action != "policy.rollback" || !strings.Contains(string(ev.After), `"routes":1`) || !strings.Contains(string(ev.After), "no-limits") {
		t.Fatalf("event %s", ev.After)
	}
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 3, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = e.policies.Publish(e.ctx, owner, bare, nil, 4, console.PublishOptions{Confirmed: map[string]string{"no-limits": "0"}})
	if got := fieldsOf(t, err, console.CodeInvalid); !slices.Contains(got, "confirm.no-limits") || !slices.Contains(got, "confirm.route-gone") {
		t.Fatalf("fields %v", got)
	}
}

func TestR098_ALimitBelowThePeakMinuteHasToBeConfirmed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "Acme")
	busy := usage.Demand{Requests: 5000, Cost: 5000, Tenants: 1, PeakRequests: 640, PeakCost: 640, TenantPeakRequests: 640, TenantPeakCost: 640}
	e.deps.Traffic = hour{usage.Hour{Known: time.Hour, All: busy, Routes: map[string]usage.Demand{"everything": busy}, Tenants: map[string]usage.Demand{ten.ID: busy}}}
	e.policies = console.NewPolicies(e.deps)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		src  []byte
		want bool
		in   string
	}{
		"route":             {changed(guarded, "rate: 1000/minute, burst: 100}", "rate: 600/minute, burst: 100}"), true, "route:everything.all admits 600 a minute, and one tenant asked for 640"},
		"plan":              {changed(guarded, "rate: 1000/minute, burst: 1000", "rate: 10/second, burst: 1000"), true, "plan free: limit requests admits 600 a minute"},
		"still above":       {changed(guarded, "rate: 1000/minute", "rate: 650/minute"), false, ""},
		"an unknown caller": {changed(guarded, "rate: 20/minute", "rate: 19/minute"), false, ""},
	} {
		_, err := e.policies.Publish(e.ctx, owner, c.src, nil, 7, console.PublishOptions{}) // a stale base: only what Ready says is looked at
		wantCode(t, err, console.CodeConflict)
		d := e.draft(t, owner, c.src)
		var texts string
		for _, asked := range e.ready(t, d.ID).Confirmations {
			if asked.Code == console.ConfirmBelowPeak {
				texts = asked.Text
			}
		}
		if (texts != "") != c.want || !strings.Contains(texts, c.in) {
			t.Errorf("%s: %q", name, texts)
		}
	}
}

func TestConfirmations_ProgramsThatKnowOfNoneAreAskedForTypedOnesAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	o := console.PublishOptions{ConfirmTypedOnly: true}
	v, err := e.policies.Publish(e.ctx, owner, changed(guarded, "rate: 20/minute", "rate: 2/minute"), nil, 1, o)
	if err != nil || len(v.Proof.Confirmed) != 0 || len(v.Proof.Unconfirmed) != 1 || v.Proof.Unconfirmed[0].Code != "cut-half" {
		t.Fatalf("proof %+v (%v)", v.Proof, err)
	}
	if ev := e.events(t)[0]; !strings.Contains(string(ev.After), `"unconfirmed":["cut-half"]`) {
		t.Fatalf("event %s", ev.After)
	}
	bare := []byte("apiVersion: headgate/v1\nroutes: [{name: all, match: [\"/\"], identity: ip, motive: fairness, on_store_failure: {mode: closed}}]\n")
	_, err = e.policies.Publish(e.ctx, owner, bare, nil, 2, o)
	if got := fieldsOf(t, err, console.CodeInvalid); !slices.Equal(got, []string{"confirm.no-limits"}) {
		t.Fatalf("fields %v", got)
	}
	if e.head(t) != 2 {
		t.Fatalf("head %d", e.head(t))
	}
}

func TestVersions_KeepWhomTheyConcernedThen(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "Acme")
	e.tenant(t, "Beta")
	of := func(requests, tenants int64) usage.Demand {
		return usage.Demand{Requests: requests, Cost: requests, Tenants: tenants}
	}
	e.deps.Traffic = hour{usage.Hour{
		Known: 30 * time.Minute, All: of(900, 3), Routes: map[string]usage.Demand{"everything": of(300, 2)}, Tenants: map[string]usage.Demand{ten.ID: of(200, 1)},
	}}
	e.policies = console.NewPolicies(e.deps)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	src := changed(guarded, "rate: 1000/minute, burst: 1000", "rate: 900/minute, burst: 1000", "burst: 100}", "burst: 90}", "rate: 20/minute", "rate: 19/minute",
		"plans:", "credentials: {invalid: {per: ip, rate: 10/minute, burst: 10}}\nplans:", "match: [\"/\"]", "match: [\"/\"]\n    description: rest")
	if _, err := e.policies.Publish(e.ctx, owner, src, nil, 1, console.PublishOptions{Confirmed: map[string]string{"cut-half": "y"}}); err != nil {
		t.Fatal(err)
	}
	v, err := e.policies.Version(e.ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*console.Impact{
		"plan.requests":        {Tenants: 2, RequestsPerDay: 9600, Source: "tenants on the plan; live counts of 30 of the last 60 minutes, extrapolated"},
		"route:everything.all": {Tenants: 2, RequestsPerDay: 14400, Source: "live counts of 30 of the last 60 minutes, extrapolated"},
		"route:login.per-ip":   {Tenants: 0, RequestsPerDay: 0, Source: "live counts of 30 of the last 60 minutes, extrapolated"},
	}
	for _, c := range v.Changes {
		switch {
		case strings.HasSuffix(c.Path, "description"):
			if c.Impact != nil {
				t.Errorf("%s concerns %+v", c.Path, c.Impact)
			}
		case c.LimitID == "":
			if c.Impact == nil || c.Impact.RequestsPerDay != 43200 || c.Impact.Tenants != 3 {
				t.Errorf("%s concerns %+v", c.Path, c.Impact)
			}
		case c.Impact == nil || want[c.LimitID] == nil || *c.Impact != *want[c.LimitID]:
			t.Errorf("%s concerns %+v, want %+v", c.LimitID, c.Impact, want[c.LimitID])
		}
	}
	if len(v.Changes) < 5 || !slices.IsSortedFunc(v.Changes, func(a, b console.RatedChange) int {
		return strings.Index("hml", a.Risk[:1]) - strings.Index("hml", b.Risk[:1])
	}) {
		t.Errorf("changes %+v", v.Changes)
	}
	renamed := e.ready(t, e.draft(t, owner, changed(string(src), "name: everything", "name: rest", "burst: 90}", "burst: 91}")).ID)
	for _, c := range renamed.Changes {
		if c.LimitID == "route:rest.all" && (c.Impact == nil || c.Impact.RequestsPerDay != 14400) {
			t.Errorf("under its new name %+v concerns %+v", c, c.Impact)
		}
	}
	added := e.ready(t, e.draft(t, owner, []byte(string(src)+"  - {name: n, match: [\"GET /n\"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}\n")).ID)
	if len(added.Changes) != 1 || added.Changes[0].Impact == nil || added.Changes[0].Impact.RequestsPerDay != -1 {
		t.Errorf("a new route concerns %+v", added.Changes)
	}
	e.deps.Traffic = nil
	e.policies = console.NewPolicies(e.deps)
	if r := e.ready(t, e.draft(t, owner, []byte(guarded)).ID); r.Changes[0].Impact == nil || r.Changes[0].Impact.RequestsPerDay != -1 {
		t.Errorf("without live counts %+v", r.Changes[0].Impact)
	}
}

func TestTests_FailingOnesHoldUpPublicationsButNoRollback(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	verdict := passing
	e.proven(prover{test: func(d *policy.Document, s *scenario.Suite) ([]scenario.Result, error) { return verdict(s), nil }})
	if _, err := e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	verdict = func(s *scenario.Suite) []scenario.Result { out, _ := failingTests(nil, s); return out }
	_, err := e.policies.Publish(e.ctx, owner, document("20"), nil, 1, console.PublishOptions{}) // with the tests in force
	got := errorWith(t, err, console.CodeInvalid)
	if results, ok := got.Detail.([]scenario.Result); !ok || len(results) != 1 || got.Fields[0].Field != "tests" {
		t.Fatalf("detail %+v, fields %+v", got.Detail, got.Fields)
	}
	d := e.draft(t, owner, document("20"))
	if r := e.ready(t, d.ID); r.Draft.Tests != suite || r.Blocked() != "Tests fail." || r.TestsChanged {
		t.Fatalf("blocked %q, tests %q", r.Blocked(), r.Draft.Tests)
	}
	_, err = e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeInvalid)
	if _, err := e.policies.Publish(e.ctx, owner, document("20"), []byte{}, 1, console.PublishOptions{}); err != nil {
		t.Fatalf("without tests: %v", err)
	}
	e.rules(t, console.ApprovalRule{When: console.WhenFailingTests, Approvals: 1}) // which is about new versions
	v, err := e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{})
	if err != nil || v.Tests != suite || len(v.Proof.Tests) != 1 || v.Proof.Tests[0].Passed {
		t.Fatalf("version %+v (%v)", v.Proof, err)
	}
}

func TestTests_ARuleLetsFailingOnesThroughWithItsApprovals(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{test: failingTests})
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher)
	e.rules(t, console.ApprovalRule{When: console.WhenFailingTests, Approvals: 1})
	d := e.draft(t, ann, document("10"))
	d, err := e.policies.SaveTests(e.ctx, ann, d.ID, d.ETag, []byte(suite))
	if err != nil {
		t.Fatal(err)
	}
	if r := e.ready(t, d.ID); r.Blocked() != "Approvals are missing." || !r.TestsExcused {
		t.Fatalf("blocked %q", r.Blocked())
	}
	_, err = e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	e.approve(t, bob, d.ID)
	if v, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{}); err != nil || v.Proof.Tests[0].Passed {
		t.Fatalf("version %+v (%v)", v.Proof, err)
	}
}

func TestTests_ThatCannotRunLetNothingThrough(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{})
	wantCode(t, err, console.CodeUnavailable)
	d := e.draft(t, owner, document("10"))
	if d, err = e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte(suite)); err != nil {
		t.Fatal(err)
	}
	if r := e.ready(t, d.ID); r.TestsUnknown == "" {
		t.Fatalf("readiness %+v", r)
	}
	e.proven(prover{test: func(*policy.Document, *scenario.Suite) ([]scenario.Result, error) { return nil, errBroken }})
	_, err = e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{})
	wantCode(t, err, console.CodeInternal)
	_, err = e.policies.Publish(e.ctx, owner, document("10"), []byte("tests: [{name: x, nonsense: 1}]"), 0, console.PublishOptions{})
	if got := fieldsOf(t, err, console.CodeInvalid); got[0] != "tests" {
		t.Fatalf("fields %v", got)
	}
	if _, err := e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, make([]byte, 2<<20)); !slices.Equal(fieldsOf(t, err, console.CodeInvalid), []string{"tests"}) {
		t.Fatal(err)
	}
	if _, ok, _ := e.policies.Head(e.ctx); ok {
		t.Fatal("something was published")
	}
}

func TestBreakGlass_PublishesWithoutApprovalsAndIsReviewedByAnother(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob, ed := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher), e.person(t, "Ed", console.RoleEditor)
	e.rules(t, always)
	glass := func(reason, password string) console.PublishOptions {
		return console.PublishOptions{BreakGlass: &console.BreakGlass{Reason: reason, Password: password}}
	}
	for name, c := range map[string]struct {
		who  console.Actor
		o    console.PublishOptions
		code console.Code
		in   string
	}{
		"no reason":      {ann, glass(" ", rightPassword), console.CodeInvalid, "break_glass.reason"},
		"no password":    {ann, glass("night", ""), console.CodeInvalid, "break_glass.password"},
		"wrong password": {ann, glass("night", "wrong horse battery"), console.CodeInvalid, "break_glass.password"},
		"editor":         {ed, glass("night", rightPassword), console.CodeForbidden, ""},
	} {
		_, err := e.policies.Publish(e.ctx, c.who, document("10"), nil, 0, c.o)
		if got := fieldsOf(t, err, c.code); c.in != "" && !slices.Equal(got, []string{c.in}) {
			t.Errorf("%s: fields %v", name, got)
		}
	}
	v, err := e.policies.Publish(e.ctx, ann, document("10"), nil, 0, glass("the night shift is alone", rightPassword))
	if err != nil || v.Proof.BreakGlass != "the night shift is alone" || len(v.Proof.Missing) != 1 {
		t.Fatalf("version %+v (%v)", v.Proof, err)
	}
	if ev := e.events(t)[0]; !strings.Contains(string(ev.After), "night shift") || strings.Contains(string(ev.After), rightPassword) {
		t.Fatalf("event %s", ev.After)
	}
	open, err := e.policies.Reviews(e.ctx, true)
	if err != nil || len(open) != 1 || open[0].Author != "Ann" || len(open[0].Missing) != 1 || open[0].Version != v.Number {
		t.Fatalf("reviews %+v (%v)", open, err)
	}
	wantCode(t, e.policies.CloseReview(e.ctx, ann, v.Number, "looks fine"), console.CodeForbidden)
	wantCode(t, e.policies.CloseReview(e.ctx, bob, v.Number, ""), console.CodeInvalid)
	wantCode(t, e.policies.CloseReview(e.ctx, bob, 99, "looks fine"), console.CodeNotFound)
	if err := e.policies.CloseReview(e.ctx, bob, v.Number, "looks fine"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.policies.CloseReview(e.ctx, bob, v.Number, "again"), console.CodeConflict)
	if n, err := e.policies.OpenReviews(e.ctx); n != 0 || err != nil {
		t.Fatalf("%d open (%v)", n, err)
	}
	all, err := e.policies.Reviews(e.ctx, false)
	if err != nil || len(all) != 1 || all[0].ClosedBy != "Bob" || all[0].Note != "looks fine" || e.events(t)[0].Action != "review.close" {
		t.Fatalf("reviews %+v (%v)", all, err)
	}
}

func TestBreakGlass_ThatWasNotNeededIsAnOrdinaryPublication(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	v, err := e.policies.Publish(e.ctx, ann, document("10"), nil, 0, console.PublishOptions{BreakGlass: &console.BreakGlass{Reason: "r", Password: rightPassword}})
	if err != nil || v.Proof.BreakGlass != "" {
		t.Fatalf("version %+v (%v)", v.Proof, err)
	}
	if n, err := e.policies.OpenReviews(e.ctx); n != 0 || err != nil {
		t.Fatalf("%d open (%v)", n, err)
	}
}

func TestBreakGlass_GuessesArePartOfSignInsLimit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.deps.Passwords = e.operators
	e.policies = console.NewPolicies(e.deps)
	ann := e.person(t, "Ann", console.RolePublisher)
	codes := map[console.Code]int{}
	for range 30 {
		_, err := e.policies.Publish(e.ctx, ann, document("10"), nil, 0, console.PublishOptions{BreakGlass: &console.BreakGlass{Reason: "r", Password: "wrong horse battery"}})
		codes[console.CodeOf(err)]++
	}
	if codes[console.CodeRateLimited] == 0 || codes[console.CodeInvalid] > 12 {
		t.Fatalf("answers %v", maps.Collect(maps.All(codes)))
	}
	_, err := e.operators.SignIn(e.ctx, "ann@example.com", rightPassword, ann.IP)
	wantCode(t, err, console.CodeRateLimited)
}

func TestR090_OneBadRuleOfFiftyPublishesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, bad := range map[string]string{
		"period":    "{name: l, per: tenant, rate: 10/0s, burst: 10}",
		"dimension": "{name: l, per: nobody, rate: 10/minute, burst: 10}",
		"missing":   "{name: l, per: tenant, burst: 10}",
		"number":    `{name: l, per: tenant, rate: "1,000/minute", burst: 10}`,
	} {
		src := strings.Builder{}
		src.WriteString(guarded)
		for i := range 50 {
			limit := "{name: l, per: tenant, rate: 10/minute, burst: 10}"
			if i == 37 {
				limit = bad
			}
			src.WriteString(strings.NewReplacer("N", string(rune('a'+i%25))+strings.Repeat("x", i/25), "LIMIT", limit).Replace(
				"  - {name: rN, match: [\"GET /N\"], identity: api_key, motive: fairness, limits: [LIMIT], on_store_failure: {mode: closed}}\n"))
		}
		_, err := e.policies.Publish(e.ctx, owner, []byte(src.String()), nil, 0, console.PublishOptions{})
		got := errorWith(t, err, console.CodeInvalid)
		if len(got.Fields) != 1 || !strings.HasPrefix(got.Fields[0].Field, "routes[39].limits[0]") {
			t.Errorf("%s: fields %+v", name, got.Fields)
		}
	}
	if _, ok, _ := e.policies.Head(e.ctx); ok {
		t.Fatal("something was published")
	}
}
