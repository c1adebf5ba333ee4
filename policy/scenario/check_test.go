package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

const document = `
apiVersion: headgate/v1
global: {limits: [{name: all, per: global, rate: 50000/second, burst: 50000}]}
shared: [{name: search, per: tenant, rate: 300/minute, burst: 60}]
plans:
  free:
    limits: [{name: requests, per: tenant, rate: 60/minute, burst: 60}, {name: watched, per: tenant, rate: 60/minute, burst: 60, mode: shadow}]
    quota: {amount: 100000, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
  pro: {limits: [{name: requests, per: tenant, rate: 60/minute, burst: 60, mode: shadow}]}
routes:
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}, {name: per-account, per: "body:username", rate: 5/minute, burst: 5}]
    concurrency: {per: ip, max: 2, lease: 90s}
    on_store_failure: {mode: closed}
  - name: rest
    match: ["/"]
    identity: api_key
    motive: fairness
    uses: [search]
    on_store_failure: {mode: closed}
`

func documentOf(t *testing.T) *policy.Document {
	t.Helper()
	d, report := policy.Parse([]byte(document))
	if !report.OK() {
		t.Fatal(report.Error())
	}
	return d
}

func TestCheck_NamesWhatThereIs(t *testing.T) {
	t.Parallel()
	d := documentOf(t)
	for src, want := range map[string]string{
		step("expect: {refused_by: 'route:login.per-user'}"):                 `tests[0].steps[0].expect.refused_by: "route:login.per-user" is not a limit of the policy; it has route:login.concurrency, route:login.per-account, route:login.per-ip`,
		step("expect: {refused_by: nothing}"):                                `"nothing" is not a limit of the policy; it has global.all, plan.quota, plan.requests, plan.watched, route:login.concurrency, route:login.per-account, route:login.per-ip, shared:search`,
		step("expect: {refused_by: plan.watched}"):                           "tests[0].steps[0].expect.refused_by: plan.watched is in shadow mode",
		step("expect: {route: log}"):                                         `tests[0].steps[0].expect.route: "log" is not a route of the policy; it has login, rest`,
		"tests: [{name: a, given: {plan: gold}, steps: [{request: GET /}]}]": `tests[0].given.plan: "gold" is not a plan of the policy; it has free, pro`,
	} {
		report := parsed(t, src).Check(d)
		if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(), want) {
			t.Errorf("%s\ngives %v\nwant  %s", src, report.Problems, want)
		}
	}
}

func TestCheck_TakesWhatCanComeTrue(t *testing.T) {
	t.Parallel()
	d := documentOf(t)
	ids := append([]string{
		"global.all", "shared:search", "plan.requests", "plan.quota", "route:login.per-ip", "route:login.per-account", "route:login.concurrency",
	}, scenario.Causes()...)
	for _, id := range ids {
		report := parsed(t, step("expect: {refused_by: '"+id+"', route: rest}")).Check(d)
		if !report.OK() || len(report.Warnings) != 0 || report.Problems == nil || report.Warnings == nil {
			t.Errorf("%s: %v", id, report)
		}
	}
	if !slices.IsSorted(scenario.Causes()) {
		t.Error("causes are not in order")
	}
}

func TestCheck_WarnsOfAUserThatNobodyKnows(t *testing.T) {
	t.Parallel()
	report := parsed(t, "tests: [{name: a, given: {user: anna}, steps: [{request: GET /}]}]").Check(documentOf(t))
	if !report.OK() || len(report.Warnings) != 1 || report.Warnings[0].Path != "tests[0].given.user" {
		t.Errorf("%v", report)
	}
}

func TestCheck_BoundsTheNamesItLists(t *testing.T) {
	t.Parallel()
	d := documentOf(t)
	for i := range 30 {
		d.Plans[strings.Repeat("x", i+1)] = policy.Plan{}
	}
	report := parsed(t, "tests: [{name: a, given: {plan: gold}, steps: [{request: GET /}]}]").Check(d)
	if !strings.HasSuffix(report.Problems[0].Message, " and 12 more") {
		t.Errorf("%v", report.Problems)
	}
}
