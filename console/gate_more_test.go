package console_test

import (
	"fmt"
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

// sharing is a document whose limits are counted in every way.
const sharing = `apiVersion: headgate/v1
global: {limits: [{name: all, per: global, counts: requests, rate: 9000/minute, burst: 9000}]}
shared: [{name: search, per: tenant, rate: 900/minute, burst: 900}]
plans:
  free: {limits: [{name: points, per: tenant, rate: 900/minute, burst: 900}]}
routes:
  - {name: a, match: ["GET /a"], identity: api_key, motive: fairness, uses: [search], on_store_failure: {mode: closed},
     limits: [{name: everyone, per: global, rate: 900/minute, burst: 900}, {name: points, per: tenant, rate: 900/minute, burst: 900}]}
  - {name: b, match: ["/"], identity: api_key, motive: fairness, uses: [search], on_store_failure: {mode: closed}}
`

// Each limit is held against the demand of whom it counts, in what it counts.
func TestR098_EachLimitIsHeldAgainstTheDemandItCounts(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "Acme")
	all := usage.Demand{Requests: 9, Tenants: 4, PeakRequests: 8000, PeakCost: 99_000, TenantPeakRequests: 1, TenantPeakCost: 1}
	a := usage.Demand{Requests: 60, Cost: 70, Tenants: 3, PeakRequests: 10, PeakCost: 800, TenantPeakRequests: 10, TenantPeakCost: 700}
	b := usage.Demand{Requests: 30, Cost: 30, Tenants: 2}
	one := usage.Demand{Requests: 5, PeakRequests: 10, PeakCost: 600}
	e.deps.Traffic = hour{usage.Hour{
		Known: time.Hour, All: all, Routes: map[string]usage.Demand{"a": a, "b": b}, Tenants: map[string]usage.Demand{ten.ID: one, "ten_gone": all},
	}}
	e.policies = console.NewPolicies(e.deps)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(sharing), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, now, want string }{
		"everything":       {"rate: 9000/minute", "rate: 7000/minute", "global.all admits 7000 a minute, and callers asked for 8000"},
		"route, everybody": {"{name: everyone, per: global, rate: 900/minute", "{name: everyone, per: global, rate: 750/minute", "route:a.everyone admits 750 a minute, and callers asked for 800"},
		"route, tenant":    {"{name: points, per: tenant, rate: 900/minute, burst: 900}]}\n  - {name: b", "{name: points, per: tenant, rate: 650/minute, burst: 900}]}\n  - {name: b", "route:a.points admits 650 a minute, and one tenant asked for 700"},
		"plan":             {"free: {limits: [{name: points, per: tenant, rate: 900/minute", "free: {limits: [{name: points, per: tenant, rate: 550/minute", "plan free: limit points admits 550 a minute, and one tenant asked for 600"},
		"above it":         {"free: {limits: [{name: points, per: tenant, rate: 900/minute", "free: {limits: [{name: points, per: tenant, rate: 610/minute", ""},
		"only looking":     {"rate: 9000/minute, burst: 9000", "rate: 7000/minute, burst: 9000, mode: shadow", ""},
		"a day":            {"rate: 9000/minute", "rate: 10000000/day", "global.all admits 6944.44 a minute"},
	} {
		src := strings.Replace(sharing, c.old, c.now, 1)
		if src == sharing {
			t.Fatalf("%s changes nothing", name)
		}
		got := ""
		for _, asked := range e.ready(t, e.draft(t, owner, []byte(src)).ID).Confirmations {
			if asked.Code == console.ConfirmBelowPeak {
				got = asked.Text
			}
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	shared := e.ready(t, e.draft(t, owner, []byte(strings.Replace(sharing, "rate: 900/minute, burst: 900}]\nplans", "rate: 800/minute, burst: 900}]\nplans", 1))).ID)
	if len(shared.Changes) != 1 || shared.Changes[0].Impact.Tenants != 3 || shared.Changes[0].Impact.RequestsPerDay != 90*24 {
		t.Errorf("a shared limit concerns %+v", shared.Changes[0].Impact)
	}
}

// What live counts no longer tell apart concerns nobody knows whom.
func TestVersions_DoNotGuessWhomTheyConcern(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	many := map[string]usage.Demand{}
	for i := range 1000 {
		many[fmt.Sprintf("r%d", i)] = usage.Demand{Requests: 1}
	}
	for name, h := range map[string]usage.Hour{
		"too many routes": {Known: time.Hour, Routes: many},
		"too short":       {Known: 30 * time.Second, Routes: map[string]usage.Demand{"a": {Requests: 5}}},
		"nothing":         {},
	} {
		e.deps.Traffic = hour{h}
		e.policies = console.NewPolicies(e.deps)
		if head := e.head(t); head == 0 {
			if _, err := e.policies.Publish(e.ctx, owner, []byte(sharing), nil, 0, console.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		src := strings.NewReplacer("{name: everyone, per: global, rate: 900/minute", "{name: everyone, per: global, rate: 901/minute",
			"rate: 900/minute, burst: 900}]\nplans", "rate: 901/minute, burst: 900}]\nplans").Replace(sharing)
		for _, c := range e.ready(t, e.draft(t, owner, []byte(src)).ID).Changes {
			if c.Impact == nil || c.Impact.Tenants != -1 || c.Impact.RequestsPerDay != -1 || c.Impact.Source == "" {
				t.Errorf("%s: %s concerns %+v", name, c.LimitID, c.Impact)
			}
		}
	}
}

func TestConfirmations_NameFewOfManyPlaces(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	src := guarded
	for i := range 9 {
		src += fmt.Sprintf("  - {name: x%d, match: [\"GET /x%d\"], identity: api_key, motive: fairness, limits: [{name: l, per: tenant, rate: 100/minute, burst: 10}], on_store_failure: {mode: closed}}\n", i, i)
	}
	if _, err := e.policies.Publish(e.ctx, owner, []byte(src), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	r := e.ready(t, e.draft(t, owner, []byte(strings.ReplaceAll(src, "rate: 100/minute", "rate: 10/minute"))).ID)
	if len(r.Confirmations) != 1 || !strings.Contains(r.Confirmations[0].Text, "; and 4 more.") || strings.Count(r.Confirmations[0].Text, ";") != 5 {
		t.Fatalf("confirmations %+v", r.Confirmations)
	}
}

func TestTests_ResultsOfVeryManyStepsAreKeptWithoutThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	steps := 5000
	e.proven(prover{test: func(_ *policy.Document, s *scenario.Suite) ([]scenario.Result, error) {
		out := passing(s)
		out[0].Steps = make([]scenario.StepResult, steps)
		return out, nil
	}})
	v, err := e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{})
	if err != nil || len(v.Proof.Tests) != 1 || len(v.Proof.Tests[0].Steps) != 5000 {
		t.Fatalf("%d steps (%v)", len(v.Proof.Tests[0].Steps), err)
	}
	steps++
	v, err = e.policies.Publish(e.ctx, owner, document("11"), nil, 1, console.PublishOptions{})
	if err != nil || len(v.Proof.Tests) != 1 || v.Proof.Tests[0].Name == "" || len(v.Proof.Tests[0].Steps) != 0 {
		t.Fatalf("tests %+v (%v)", v.Proof.Tests, err)
	}
}

func TestCheck_IsValidateWithoutReading(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tenant(t, "A") // on free
	for name, src := range map[string][]byte{
		"good":    document("10"),
		"plan":    []byte(strings.ReplaceAll(string(document("10")), "free:", "gold:")),
		"several": []byte(strings.ReplaceAll(string(document("10")), "per: tenant", "per: header:x-request-id")),
	} {
		doc, want := e.policies.Validate(e.ctx, src)
		if doc == nil {
			t.Fatalf("%s: %v", name, want)
		}
		got := e.policies.Check(e.ctx, doc)
		if paths(got.Problems) != paths(want.Problems) || paths(got.Warnings) != paths(want.Warnings) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	counts, err := e.tenants.CountByPlan(e.ctx)
	if err != nil || !maps.Equal(counts, map[string]int64{"free": 1}) {
		t.Errorf("tenants by plan %v (%v)", counts, err)
	}
}

func paths(problems []policy.Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Path+": "+p.Message)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestDrafts_TextsThatCannotBeStoredAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.draft(t, owner, document("10"))
	for name, text := range map[string]string{"not UTF-8": "\xff", "NUL": "a\x00b", "too long": strings.Repeat("x", 1<<20+1)} {
		_, err := e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte(text))
		fieldOf(t, name, err, "tests")
	}
	for _, name := range []string{"", "two\nlines", strings.Repeat("x", 121)} {
		_, err := e.policies.RenameDraft(e.ctx, owner, d.ID, d.ETag, name)
		fieldOf(t, name, err, "name")
	}
	saved, err := e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte("# kept\r\ntests: []\r\n"))
	if err != nil || saved.Tests != "# kept\ntests: []\n" || saved.ETag == d.ETag {
		t.Fatalf("draft %+v (%v)", saved, err)
	}
}

// A draft begins with the tests in force, whatever its document comes from.
func TestDrafts_BeginWithTheTestsInForce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{})
	if _, err := e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, src := range [][]byte{nil, document("20")} {
		if d := e.draft(t, owner, src); d.Tests != suite || d.Base != 1 || e.ready(t, d.ID).TestsChanged {
			t.Errorf("draft %+v", d)
		}
	}
}
