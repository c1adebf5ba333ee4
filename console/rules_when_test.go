package console_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
)

// A rule is met by the changes that it names and by no other.
func TestRules_MeetWhatTheyName(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{test: failingTests})
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	route := func(fields string) []byte {
		return []byte(guarded + "  - {name: extra, match: [\"GET /extra\"], motive: fairness, " + fields + "}\n")
	}
	closed := "on_store_failure: {mode: closed}"
	for name, c := range map[string]struct {
		src []byte
		met string // rules that are met, in the order of RuleKinds
	}{
		"nothing":          {[]byte(guarded), ""},
		"looser":           {changed(guarded, "rate: 20/minute", "rate: 30/minute"), "any looser"},
		"tighter":          {changed(guarded, "rate: 20/minute", "rate: 19/minute"), "any tighter"},
		"description":      {changed(guarded, "identity: ip", "identity: ip\n    description: x"), "any"},
		"fail open":        {changed(guarded, "{mode: closed}", "{mode: open, fallback: {rate: 1/minute, burst: 1}}"), "any looser fail-mode"},
		"fallback":         {changed(guarded, "fallback: {rate: 300/minute", "fallback: {rate: 200/minute"), "any tighter fail-mode"},
		"removed limit":    {changed(guarded, "limits: [{name: all, per: tenant, counts: requests, rate: 1000/minute, burst: 100}]\n    ", ""), "any looser removal"},
		"identity":         {changed(guarded, "identity: ip", "identity: api_key"), "any tighter credentials"},
		"key header":       {changed(guarded, "plans:", "credentials: {headers: [{name: X-Key}]}\nplans:"), "any looser tighter credentials"},
		"trusted proxies":  {changed(guarded, "plans:", "client_ip: {trusted_proxies: [10.0.0.0/8]}\nplans:"), "any looser tighter credentials"},
		"unlimited":        {changed(guarded, "rate: 1000/minute, burst: 1000}", "rate: unlimited}"), "any looser unlimited"},
		"new closed route": {route("identity: api_key, " + closed), "any looser tighter"},
		"new open route":   {route("identity: api_key, on_store_failure: {mode: open, fallback: unlimited}"), "any looser tighter fail-mode unlimited"},
		"new route for anyone": {route("identity: ip, limits: [{name: l, per: ip, rate: unlimited}], " + closed),
			"any looser tighter credentials unlimited"},
	} {
		d := e.draft(t, owner, c.src)
		var met []string
		for _, kind := range console.RuleKinds() {
			e.rules(t, console.ApprovalRule{When: kind, Approvals: 1})
			r := e.ready(t, d.ID)
			if !r.Report.OK() {
				t.Fatalf("%s: %v", name, r.Report)
			}
			if len(r.Needed) == 1 {
				met = append(met, kind)
			}
		}
		if got := strings.Join(met, " "); got != c.met {
			t.Errorf("%s meets %q, want %q", name, got, c.met)
		}
	}
	d := e.withTests(t, []byte(guarded))
	e.rules(t, console.ApprovalRule{When: console.WhenFailingTests, Approvals: 1})
	if r := e.ready(t, d.ID); len(r.Needed) != 1 || !r.TestsExcused || !strings.Contains(r.Needed[0].Text(), "failing tests needs 1 approval by others, and has 0") {
		t.Errorf("failing tests meet %+v", r.Needed)
	}
}

func TestRules_HoldOnlyForWhatTheyName(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change string // old → new
		only   string
		met    bool
	}{
		{"rate: 20/minute → rate: 30/minute", "route:login.per-ip", true},
		{"rate: 20/minute → rate: 30/minute", "login", true},
		{"rate: 20/minute → rate: 30/minute", "everything", false},
		{"rate: 20/minute → rate: 30/minute", "free", false},
		{"{mode: closed} → {mode: open, fallback: {rate: 1/minute, burst: 1}}", "login", true},
		{"{mode: closed} → {mode: open, fallback: {rate: 1/minute, burst: 1}}", "everything", false},
		{"rate: 1000/minute, burst: 1000 → rate: 2000/minute, burst: 1000", "free", true},
		{"rate: 1000/minute, burst: 1000 → rate: 2000/minute, burst: 1000", "plan.requests", true},
		{"rate: 1000/minute, burst: 1000 → rate: 2000/minute, burst: 1000", "fre", false},
		{"match: [\"POST /login\"] → match: [\"POST /login\", \"POST /signin\"]", "login", true},
		{"name: login → name: signin", "signin", true},
		{"name: login → name: signin", "login", true},
	} {
		before, after, _ := strings.Cut(c.change, " → ")
		d := e.draft(t, owner, changed(guarded, before, after))
		e.rules(t, console.ApprovalRule{When: console.WhenAny, Only: []string{"nothing", c.only}, Approvals: 1})
		if r := e.ready(t, d.ID); (len(r.Needed) == 1) != c.met {
			t.Errorf("%s, only %s: needed %+v, changes %+v", c.change, c.only, r.Needed, r.Changes)
		}
	}
	gone := strings.Index(guarded, "  - name: login")
	rest := strings.Index(guarded, "  - name: everything")
	d := e.draft(t, owner, []byte(guarded[:gone]+guarded[rest:]))
	for only, want := range map[string]int{"login": 1, "everything": 0} {
		e.rules(t, console.ApprovalRule{When: console.WhenRemoval, Only: []string{only}, Approvals: 3})
		if r := e.ready(t, d.ID); len(r.Needed) != want {
			t.Errorf("a route that goes, only %s: %+v", only, r.Needed)
		}
	}
}
