package console_test

import (
	"testing"

	"github.com/headgate/headgate/console"
)

// A rule that names something cannot be got around by renaming it first, nor by
// a route that takes its requests.
func TestRules_AreNotEscapedByOtherNamesAndRoutes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(guarded), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	extra := func(match, fields string) []byte {
		return []byte(guarded + "  - {name: extra, match: [\"" + match + "\"], motive: fairness, on_store_failure: {mode: closed}, " + fields + "}\n")
	}
	const key = "identity: api_key"
	for name, c := range map[string]struct {
		src  []byte
		when string
		only string
		met  bool
	}{
		"route renamed":                 {changed(guarded, "name: login", "name: signin"), console.WhenAny, "login", true},
		"route renamed, limit id":       {changed(guarded, "name: login", "name: signin", "20/minute, burst: 20", "90/minute, burst: 20"), console.WhenLooser, "route:login.per-ip", true},
		"route renamed, another's":      {changed(guarded, "name: login", "name: signin"), console.WhenAny, "everything", false},
		"limit renamed":                 {changed(guarded, "name: per-ip", "name: per-address"), console.WhenLooser, "route:login.per-ip", true},
		"plan's limit renamed":          {changed(guarded, "name: requests", "name: calls"), console.WhenLooser, "plan.requests", true},
		"both renamed":                  {changed(guarded, "name: login", "name: signin", "name: per-ip", "name: per-address"), console.WhenLooser, "route:login.per-ip", true},
		"counted per something else":    {changed(guarded, "name: per-ip, per: ip", "name: per-ip, per: global"), console.WhenLooser, "login", true},
		"narrower route by host":        {extra("POST api.example/login", key), console.WhenLooser, "login", true},
		"all of a host":                 {extra("api.example/", key), console.WhenLooser, "route:login.per-ip", true},
		"with an ample limit":           {extra("POST api.example/login", key+", limits: [{name: l, per: tenant, rate: 100000/second}]"), console.WhenLooser, "login", true},
		"requests of another route":     {extra("GET /x", key), console.WhenLooser, "login", false},
		"requests of the general route": {extra("GET /x", key), console.WhenLooser, "everything", true},
		"pattern added elsewhere":       {changed(guarded, `match: ["/"]`, `match: ["/", "POST api.example/login"]`), console.WhenLooser, "login", true},
		"pattern moved away":            {changed(guarded, `match: ["POST /login"]`, `match: ["POST /nowhere"]`), console.WhenLooser, "login", true},
		"pattern gone":                  {changed(guarded, `match: ["POST /login"]`, `match: ["POST /nowhere"]`), console.WhenRemoval, "login", true},
		"pattern more":                  {changed(guarded, `match: ["POST /login"]`, `match: ["POST /login", "POST /signin"]`), console.WhenRemoval, "login", false},
	} {
		d := e.draft(t, owner, c.src)
		e.rules(t, console.ApprovalRule{When: c.when, Only: []string{c.only}, Approvals: 1})
		r := e.ready(t, d.ID)
		if !r.Report.OK() {
			t.Fatalf("%s: %v", name, r.Report)
		}
		if (len(r.Needed) == 1) != c.met {
			t.Errorf("%s: %s only %s: needed %+v, want %v; changes %+v", name, c.when, c.only, r.Needed, c.met, r.Changes)
		}
	}
}
