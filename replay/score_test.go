package replay_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/replay"
)

const loginTests = `
tests:
  - name: five tries for an account
    given: {ip: 203.0.113.7}
    steps:
      - {send: 5, request: POST /login, body: {username: anna}}
      - {request: POST /login, body: {username: anna}, expect: {refused_by: "route:login.per-account", retry_in: 12s}}
      - {send: 5, request: POST /login, body: {username: bert}}
  - name: fails anyway
    steps: [{request: POST /login, expect: {refused_by: "route:login.per-ip"}}]
  - name: two reports at once
    given: {plan: pro}
    steps:
      - {send: 2, lasts: 5s, request: GET /v1/reports/1}
      - {send: 1, request: GET /v1/reports/1, expect: {refused_by: "route:report.concurrency"}}
`

func scored(t *testing.T, policySrc, suite string) scenario.Score {
	t.Helper()
	got, err := replay.Engine{}.Score(t.Context(), documentOf(t, policySrc), suiteOf(t, suite), nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// about is the mutant whose text ends so.
func about(t *testing.T, s scenario.Score, text string) scenario.Mutant {
	t.Helper()
	at := slices.IndexFunc(s.Mutants, func(m scenario.Mutant) bool { return m.Text == "no test would notice if "+text })
	if at < 0 {
		t.Fatalf("no mutant %q", text)
	}
	return s.Mutants[at]
}

func TestScore_TellsWhatNoTestWouldNotice(t *testing.T) {
	t.Parallel()
	got := scored(t, testPolicy, loginTests)
	for text, by := range map[string]string{
		"route:login.per-account were 10/minute instead of 5/minute":                                            "five tries for an account",
		"route:login.per-account were 2/minute instead of 5/minute":                                             "five tries for an account",
		"route:login.per-account were not there":                                                                "five tries for an account",
		"route:login.per-account were in shadow mode":                                                           "five tries for an account",
		"route:login.per-account were counted per global instead of body:username":                              "five tries for an account",
		"route:login.per-ip were 10/minute instead of 20/minute":                                                "",
		"route:login.per-ip were not there":                                                                     "",
		"route login were not there":                                                                            "five tries for an account",
		"route:report.concurrency were 4 instead of 2":                                                          "two reports at once",
		"route:report.concurrency were not there":                                                               "two reports at once",
		"route me were not there":                                                                               "",
		"a request of route report cost 10 instead of 5":                                                        "",
		"the quota of plan free were 60 instead of 30":                                                          "",
		"plan free had no quota":                                                                                "",
		"plan.requests were 120/minute with a burst of 20 instead of 60/minute with a burst of 10 on plan free": "",
		"route search did not draw from shared:search":                                                          "",
		"global.all were not there":                                                                             "",
	} {
		m := about(t, got, text)
		if m.Killed != (by != "") || m.By != by || m.Path == "" {
			t.Errorf("%+v, want it killed by %q", m, by)
		}
	}
	if m := about(t, got, "route:login.per-account were 10/minute instead of 5/minute"); m.Path != "routes[0].limits[0].rate" {
		t.Errorf("%+v", m)
	}
	killed := 0
	for _, m := range got.Mutants {
		if m.Killed {
			killed++
		}
	}
	if got.Partial || got.Total != len(got.Mutants) || got.Killed != killed || killed == 0 || killed == got.Total {
		t.Errorf("%d of %d, partial %t, with %d of %d told", got.Killed, got.Total, got.Partial, killed, len(got.Mutants))
	}
	if !slices.IsSortedFunc(got.Mutants, func(a, b scenario.Mutant) int {
		if a.Killed == b.Killed {
			return 0
		} else if a.Killed {
			return 1
		}
		return -1
	}) {
		t.Error("survivors do not come first")
	}
}

func TestScore_LeavesTheDocumentAsItIs(t *testing.T) {
	t.Parallel()
	d, before := documentOf(t, testPolicy), documentOf(t, testPolicy)
	one, err := replay.Engine{}.Score(t.Context(), d, suiteOf(t, loginTests), nil)
	two, err2 := replay.Engine{}.Score(t.Context(), d, suiteOf(t, loginTests), nil)
	if err != nil || err2 != nil || !reflect.DeepEqual(one, two) || !reflect.DeepEqual(d, before) {
		t.Errorf("%v, %v; the same twice: %t, unchanged: %t", err, err2, reflect.DeepEqual(one, two), reflect.DeepEqual(d, before))
	}
}

func TestScore_ABoundedNumberOfAllOverTheDocument(t *testing.T) {
	t.Parallel()
	var routes strings.Builder
	for i := range 300 {
		fmt.Fprintf(&routes, `
  - name: extra-%d
    match: ["GET /extra-%d"]
    identity: ip
    motive: fairness
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}]
    on_store_failure: {mode: closed}`, i, i)
	}
	got := scored(t, testPolicy+routes.String(), "tests: []")
	last := slices.ContainsFunc(got.Mutants, func(m scenario.Mutant) bool { return strings.HasPrefix(m.Path, "routes[30") })
	if got.Total > 200 || got.Total < 150 || !last {
		t.Errorf("%d mutants, of the end of the document: %t", got.Total, last)
	}
}

func TestScore_TellsWhatWasTriedWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := replay.Engine{}.Score(ctx, documentOf(t, testPolicy), suiteOf(t, loginTests), nil)
	if err != nil || !got.Partial || got.Mutants == nil {
		t.Errorf("%+v, %v", got, err)
	}
}
