package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/replay"
)

// tested runs one test with the fields given and steps.
func tested(t *testing.T, given string, steps ...string) scenario.Result {
	t.Helper()
	ten := policy.TenantRecord{ID: "ten_a", Plan: "free", State: policy.TenantActive, Overrides: []policy.Override{
		{Limit: "plan.requests", Rate: "60/minute", Burst: new(int64(3)), Reason: "x"},
	}}
	src := "tests: [{name: a, given: " + given + ", steps: [{" + strings.Join(steps, "}, {") + "}]}]"
	results, err := replay.Engine{}.Test(t.Context(), documentOf(t, testPolicy), suiteOf(t, src),
		knows(ten, policy.TenantRecord{ID: "ten_s", Plan: "free", State: policy.TenantSuspended}))
	if err != nil || len(results) != 1 || results[0].Name != "a" {
		t.Fatalf("%+v, %v", results, err)
	}
	return results[0]
}

func TestTest_WhatHoldsPasses(t *testing.T) {
	t.Parallel()
	const free = "{plan: free}"
	for what, c := range map[string]struct {
		given string
		steps []string
	}{
		"each account has its own bucket": {"{ip: 203.0.113.7}", []string{
			"send: 5, request: POST /login, body: {username: anna}",
			"request: POST /login, body: {username: Anna}, expect: {refused_by: 'route:login.per-account', at: 1, retry_in: 12s}",
			"send: 5, request: POST /login, body: {username: bert}, expect: {route: login}",
			"after: 11999ms, request: POST /login, body: {username: anna}, expect: {refused_by: 'route:login.per-account', retry_in: 1s}",
			"after: 1ms, request: POST /login, body: {username: anna}",
		}},
		"requests are spread from first to last": {"{plan: pro}", []string{
			"send: 20, in: 10s, request: GET /v1/search, expect: {refused_by: no-route, at: 1}",
			"send: 8, in: 1400ms, request: GET api.example/search, expect: {route: search}", // one comes back every 200 ms
			"after: 1200ms, send: 8, in: 70ms, request: GET other.example/search, expect: {refused_by: 'shared:search', at: 7}",
		}},
		"a tenant has its overrides":      {"{tenant: ten_a}", []string{"send: 4, request: GET api.example/search, expect: {refused_by: plan.requests, at: 4, retry_in: 1s}"}},
		"a suspended tenant stays out":    {"{tenant: ten_s}", []string{"request: GET api.example/search, expect: {refused_by: tenant-suspended, at: 1}"}},
		"no key":                          {"{}", []string{"request: GET api.example/search, expect: {refused_by: missing-credential}"}},
		"a dot segment":                   {free, []string{"request: GET /v1/../login, expect: {refused_by: ambiguous-path}"}},
		"places come back when they end":  {free, []string{"send: 2, request: GET /v1/reports/1, lasts: 1s", "request: GET /v1/reports/1, expect: {refused_by: 'route:report.concurrency', at: 1, retry_in: 1s}", "after: 1s, send: 2, request: GET /v1/reports/1"}},
		"places last as long as requests": {free, []string{"send: 2, request: GET /v1/reports/1, lasts: 1h", "after: 59m, request: GET /v1/reports/1, expect: {refused_by: 'route:report.concurrency'}", "after: 1m, send: 2, request: GET /v1/reports/1"}},
		"requests end at once":            {free, []string{"send: 3, request: GET /v1/reports/1"}},
		"a quota is a month's": {free, []string{
			"send: 6, request: GET /v1/reports/1", "request: GET /v1/reports/1, expect: {refused_by: plan.quota}", "after: 744h, send: 6, request: GET /v1/reports/1",
		}},
		"a stated cost":            {free, []string{"request: GET /v1/reports/1, cost: 26", "request: GET /v1/reports/1, expect: {refused_by: plan.quota}"}},
		"a cost that never passes": {free, []string{"request: GET /v1/reports/1, cost: 101, expect: {refused_by: 'route:report.region'}"}},
		"regions have buckets": {"{plan: pro}", []string{
			"send: 20, request: GET /v1/reports/1, headers: {x-region: eu}", "request: GET /v1/reports/1, headers: {X-Region: eu}, expect: {refused_by: 'route:report.region'}",
			"send: 20, request: GET /v1/reports/1, headers: {X-Region: us}", "request: GET /v1/reports/1, expect: {refused_by: 'route:report.key'}",
		}},
		"a query is priced": {"{plan: pro}", []string{
			"send: 9, request: POST /graphql, query: '{search { id }}'", "request: POST /graphql, query: '{search { id }}', expect: {refused_by: 'route:graphql.points'}",
			"request: POST /graphql, query: '{search {', expect: {refused_by: bad-query}",
		}},
		"leased limits admit what their bucket holds": {"{plan: pro}", []string{"send: 51, request: POST /graphql, query: '{a}', expect: {refused_by: global.all, at: 48}"}},
		"a user has its own":                          {"{user: anna}", []string{"send: 4, request: GET /me, expect: {refused_by: 'route:me.each', at: 4, retry_in: 20m}"}},
		"a user is needed":                            {"{}", []string{"request: GET /me, expect: {refused_by: missing-credential}"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if got := tested(t, c.given, c.steps...); !got.Passed || got.Detail != "" || len(got.Steps) != len(c.steps) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTest_SaysWhatCameInstead(t *testing.T) {
	t.Parallel()
	login := "send: 6, request: POST /login, body: {username: anna}"
	for expect, want := range map[string]string{
		"admitted": "step 1 (POST /login): expected all 6 requests to be admitted, but route:login.per-account refused request 6",
		"{refused_by: 'route:login.per-ip', at: 6}":                         "expected route:login.per-ip to refuse request 6, but route:login.per-account refused request 6",
		"{refused_by: 'route:login.per-account', at: 5}":                    "expected route:login.per-account to refuse request 5, but route:login.per-account refused request 6",
		"{refused_by: 'route:login.per-ip'}":                                "expected route:login.per-ip to refuse, but route:login.per-account refused request 6",
		"{refused_by: 'route:login.per-account', at: 6, retry_in: 13s}":     "expected route:login.per-account to say that a repeat can pass in 13s, but it said 12s",
		"{refused_by: 'route:login.per-account', at: 6, route: everything}": "expected route everything, but the requests met route login",
	} {
		got := tested(t, "{}", login+", expect: "+expect)
		if got.Passed || !strings.HasSuffix(got.Detail, want) {
			t.Errorf("%s: %q\nwant %q", expect, got.Detail, want)
		}
	}
	for steps, want := range map[string]string{
		"request: GET /x, expect: {route: login}":                                      "step 1 (GET /x): expected route login, but no route matched",
		"request: POST /login, expect: {refused_by: 'route:login.per-ip', at: 1}":      "step 1 (POST /login): expected route:login.per-ip to refuse request 1, but the request was admitted",
		"send: 2, request: POST /login, expect: {refused_by: 'route:login.per-ip'}":    "expected route:login.per-ip to refuse, but all 2 requests were admitted",
		"request: GET /x, expect: {refused_by: no-route, retry_in: 1s}":                "expected no-route to say that a repeat can pass in 1s, but it tells no time",
		"request: POST /login}, {request: GET /x, expect: admitted}, {request: GET /x": "step 2 (GET /x): expected all 1 requests to be admitted, but no-route refused request 1",
	} {
		if got := tested(t, "{}", steps); got.Passed || !strings.HasSuffix(got.Detail, want) {
			t.Errorf("%s: %q\nwant %q", steps, got.Detail, want)
		}
	}
	if got := tested(t, "{tenant: ten_x}", "request: GET /me"); got.Passed || got.Detail != `there is no tenant "ten_x"` || got.Steps == nil {
		t.Errorf("%+v", got)
	}
}

func TestTest_TellsWhatCame(t *testing.T) {
	t.Parallel()
	got := tested(t, "{}", "send: 8, in: 7s, request: POST /login, body: {username: anna}").Steps[0]
	want := scenario.StepResult{Route: "login", Admitted: 5, Refused: 3, RefusedBy: "route:login.per-account", At: 6, RetryMillis: 7000, Reason: "limit"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTest_EachTestHasItsOwnStore(t *testing.T) {
	t.Parallel()
	one := "{name: %s, given: {ip: 203.0.113.7}, steps: [{send: 5, request: POST /login, body: {username: anna}}]}"
	src := fmt.Sprintf("tests: ["+one+", "+one+"]", "a", "b")
	results, err := replay.Engine{}.Test(t.Context(), documentOf(t, testPolicy), suiteOf(t, src), nil)
	if err != nil || slices.ContainsFunc(results, func(r scenario.Result) bool { return !r.Passed }) {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestTest_AnswersTheSameEveryTime(t *testing.T) {
	t.Parallel()
	src := "tests: [{name: a, given: {plan: pro}, steps: [{send: 3000, in: 20s, lasts: 1s, request: GET /v1/reports/1}]}]"
	var before []scenario.Result
	for range 3 {
		results, err := replay.Engine{}.Test(t.Context(), documentOf(t, testPolicy), suiteOf(t, src), nil)
		if err != nil || before != nil && results[0].Steps[0] != before[0].Steps[0] || results[0].Steps[0].Admitted == 0 {
			t.Fatalf("%+v, before %+v, %v", results, before, err)
		}
		before = results
	}
}

func TestTest_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	src := "tests: [{name: a, steps: [{send: 1000000, request: POST /login}]}]"
	if _, err := (replay.Engine{}).Test(ctx, documentOf(t, testPolicy), suiteOf(t, src), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := (replay.Engine{}).Test(t.Context(), &policy.Document{}, suiteOf(t, src), nil); err == nil {
		t.Error("a document with problems was tested")
	}
}

// An expired limit of today is still in force at the beginning, so a suite says the
// same every day.
func TestTest_LimitsThatExpireHold(t *testing.T) {
	t.Parallel()
	soon := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
	src := strings.Replace(testPolicy, "rate: 3/hour, burst: 3", "rate: 3/hour, burst: 3, expires_at: '"+soon+"'", 1)
	suite := suiteOf(t, "tests: [{name: a, given: {user: x}, steps: [{send: 4, request: GET /me, expect: {refused_by: 'route:me.each', at: 4}}]}]")
	results, err := replay.Engine{}.Test(t.Context(), documentOf(t, src), suite, nil)
	if err != nil || !results[0].Passed {
		t.Errorf("%+v, %v", results, err)
	}
}
