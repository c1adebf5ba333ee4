package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func compiled(t testing.TB) *Compiled {
	t.Helper()
	c, err := Compile(example(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompile_NamesLimitsByScope(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	var got []string
	for _, list := range [][]CompiledLimit{c.Global, c.Plans["free"], c.Plans["pro"], c.Routes[0].Limits, c.Routes[1].Limits} {
		for _, l := range list {
			got = append(got, l.ID+" of "+l.Source)
			if l.Hash != LimitHash(l.ID) {
				t.Errorf("hash of %s is %x", l.ID, l.Hash)
			}
		}
	}
	want := "global.all of global, plan.requests of plan free, plan.requests of plan pro, shared:search of shared search, " +
		"route:report.reports of route report, route:login.per-ip of route login, route:login.everyone of route login"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("limits are\n%s, want\n%s", text, want)
	}
}

func TestCompile_GivesReducedNumbers(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	for _, x := range []struct {
		got  CompiledLimit
		want Numbers
	}{
		{c.Global[0], Numbers{1, 20, 50_000}},
		{c.Plans["pro"][0], Numbers{1, 10_000, 500}},
		{c.Routes[0].Limits[0], Numbers{1, 200_000, 60}},
		{c.Routes[1].Limits[1], Numbers{1, 90_000, 1000}},
		{c.Routes[2].Limits[0], Numbers{0, 1, 0}},
	} {
		if x.got.Numbers != x.want || x.got.Unlimited {
			t.Errorf("%s: %+v, want %+v", x.got.ID, x.got.Numbers, x.want)
		}
	}
	if !c.Routes[2].Limits[0].Numbers.Blocked() {
		t.Error("the rate 0 does not block")
	}
	if staff := c.Plans["staff"][0]; !staff.Unlimited || staff.Numbers != (Numbers{}) || staff.Burst != 0 {
		t.Errorf("unlimited became %+v", staff)
	}
}

func TestCompile_RefusesProblems(t *testing.T) {
	t.Parallel()
	d := valid()
	d.Routes[0].OnStoreFailure = StoreFailure{}
	_, err := Compile(d)
	var r Report
	if !errors.As(err, &r) || len(r.Problems) != 1 {
		t.Errorf("Compile: %v, want its report", err)
	}
	if _, err := Compile(nil); err == nil {
		t.Error("nothing compiles")
	}
}

func TestCompile_KeepsNothingOfItsInput(t *testing.T) {
	t.Parallel()
	d := valid()
	c, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	want := c.Digest
	d.Routes[0].Name, d.Routes[0].Cost = "other", 7
	d.Routes[0].Limits[0].Name = "other"
	d.Routes[0].Match[0], d.Routes[0].Uses[0], d.Routes[0].OnStoreFailure.Fallback.Burst = "/other", "other", 1
	d.Plans["free"].Limits[0].Burst = 1
	d.ClientIP.TrustedProxies[0] = netip.Prefix{}
	if c.Routes[0].Route.Name != "report" || DigestOf(c.Document.Canonical()) != want {
		t.Error("a change of the input reached the compiled policy")
	}
}

func TestMatch_FindsTheRoute(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	for _, x := range []struct{ method, path, want string }{
		{"GET", "/v1/reports/7", "report"},
		{"HEAD", "/v1/reports/7", "report"},
		{"POST", "/v1/reports/7", "everything-else"},
		{"POST", "/login", "login"},
		{"POST", "/login/", "login"},
		{"GET", "/login", "everything-else"},
		{"GET", "/v0/a/b", "withdrawn"},
		{"GET", "/", "everything-else"},
	} {
		r, ok := c.Match(x.method, "api.example:8443", x.path)
		if !ok || r.Name != x.want {
			t.Errorf("%s %s: %+v, want %s", x.method, x.path, r, x.want)
		}
	}
	if r, _ := c.Match("GET", "", "/v1/reports/7"); r != c.Routes[0] || r.Cost != 20 || r.Route != &c.Document.Routes[0] {
		t.Errorf("route %+v is not the compiled one", r)
	}
}

func TestMatch_TellsWhenNothingMatches(t *testing.T) {
	t.Parallel()
	d := valid()
	d.Routes = d.Routes[:2]
	c, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := c.Match("GET", "", "/v1/other"); ok || r != nil {
		t.Errorf("matched %+v", r)
	}
}

func TestMatch_IsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				if r, ok := c.Match("GET", "", fmt.Sprintf("/v1/reports/%d-%d", i, j)); !ok || r.Name != "report" {
					t.Errorf("matched %+v", r)
					return
				}
			}
		})
	}
	wg.Wait()
}

//nolint:paralleltest // AllocsPerRun counts what the whole process allocates
func TestMatch_AllocatesNothing(t *testing.T) {
	c := compiled(t)
	if n := testing.AllocsPerRun(100, func() { c.Match("GET", "api.example", "/v1/reports/7") }); n != 0 {
		t.Errorf("Match allocates %v times", n)
	}
}

func TestEffective_ListsWhatATenantMeets(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	var got []string
	for _, e := range c.Effective("pro") {
		got = append(got, fmt.Sprintf("%s on %q at %d", e.ID, e.Route, e.Cost))
	}
	want := []string{
		`global.all on "" at 0`, `plan.requests on "" at 0`, `shared:search on "report" at 20`, `route:report.reports on "report" at 20`,
		`route:withdrawn.nothing on "withdrawn" at 1`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("effective limits are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, e := range c.Effective("unknown") {
		if strings.HasPrefix(e.ID, "plan.") {
			t.Errorf("an unknown plan has the limit %s", e.ID)
		}
	}
}
