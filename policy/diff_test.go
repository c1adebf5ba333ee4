package policy

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDiff_OfTheSameMeaningIsEmpty(t *testing.T) {
	t.Parallel()
	a, b := valid(), valid()
	b.Routes[0], b.Routes[2] = b.Routes[2], b.Routes[0] // the order of routes carries no meaning
	b.Routes[1].Match = []string{"POST /login"}
	b.Routes[1].Cost = 1 // the default, spelled out
	b.ClientIP.Header = "X-Forwarded-For"
	if got := Diff(a, b); len(got) != 0 {
		t.Errorf("changes %+v", got)
	}
}

// change is what a test wants to see of a Change.
type change struct {
	name   string
	edit   func(d *Document)
	path   string
	id     string
	kind   string
	values string // before → after
	effect string
	text   string // part of
}

func checkChanges(t *testing.T, list []change) {
	t.Helper()
	for _, c := range list {
		after := valid()
		c.edit(after)
		got := Diff(valid(), after)
		if len(got) != 1 {
			t.Errorf("%s: %d changes %+v, want 1", c.name, len(got), got)
			continue
		}
		g := got[0]
		if g.Path != c.path || g.LimitID != c.id || g.Kind != c.kind || g.Effect != c.effect || g.Before+" → "+g.After != c.values || !strings.Contains(g.Text, c.text) {
			t.Errorf("%s: %+v, want %+v", c.name, g, c)
		}
	}
}

func TestDiff_Limits(t *testing.T) {
	t.Parallel()
	free := func(d *Document) *Limit { return &d.Plans["free"].Limits[0] }
	own := func(d *Document) *Limit { return &d.Routes[0].Limits[0] }
	checkChanges(t, []change{
		{"rate down", func(d *Document) { free(d).Rate.Tokens = 10 }, "plans.free.limits[0].rate", "plan.requests", ChangeChanged, "60/minute → 10/minute", EffectTighter, "plan free: limit requests 60/minute → 10/minute"},
		{"rate up", func(d *Document) { free(d).Rate.Tokens = 61 }, "plans.free.limits[0].rate", "plan.requests", ChangeChanged, "60/minute → 61/minute", EffectLooser, ""},
		{"period longer", func(d *Document) { free(d).Rate.Period = time.Hour }, "plans.free.limits[0].rate", "plan.requests", ChangeChanged, "60/minute → 60/hour", EffectTighter, ""},
		{"same over time", func(d *Document) { free(d).Rate = Rate{Tokens: 1, Period: time.Second} }, "plans.free.limits[0].rate", "plan.requests", ChangeChanged, "60/minute → 1/second", EffectNeutral, ""},
		{"rate 0", func(d *Document) { free(d).Rate = blockedRate() }, "plans.free.limits[0].rate", "plan.requests", ChangeChanged, "60/minute → 0", EffectTighter, ""},
		{"unlimited", func(d *Document) { free(d).Rate = Rate{Unlimited: true} }, "plans.free.limits[0].rate", "plan.requests", ChangeChanged, "60/minute → unlimited", EffectLooser, ""},
		{"burst down", func(d *Document) { free(d).Burst = 30 }, "plans.free.limits[0].burst", "plan.requests", ChangeChanged, "60 → 30", EffectTighter, "burst"},
		{"burst up", func(d *Document) { own(d).Burst = 70 }, "routes[0].limits[0].burst", "route:report.reports", ChangeChanged, "50 → 70", EffectLooser, "route report"},
		{"per", func(d *Document) { own(d).Per = PerCredential }, "routes[0].limits[0].per", "route:report.reports", ChangeChanged, "tenant → credential", EffectNewBucket, "counted per"},
		{"counts", func(d *Document) { own(d).Counts = CountsRequests }, "routes[0].limits[0].counts", "route:report.reports", ChangeChanged, "cost → requests", EffectLooser, ""},
		{"description", func(d *Document) { own(d).Description = "x" }, "routes[0].limits[0].description", "route:report.reports", ChangeAdded, " → x", EffectNeutral, ""},
		{"renamed", func(d *Document) { own(d).Name = "rep" }, "routes[0].limits[0].name", "route:report.rep", ChangeRenamed, "reports → rep", EffectNewBucket, "full bucket"},
		{"added", func(d *Document) { d.Routes[0].Limits = append(d.Routes[0].Limits, perMinute("more", PerIP, 5)) }, "routes[0].limits[1]", "route:report.more", ChangeAdded, " → 5/minute per ip, burst 5", EffectTighter, "new limit more"},
		{"added without effect", func(d *Document) {
			d.Global.Limits = append(d.Global.Limits, Limit{Name: "free", Per: PerIP, Rate: Rate{Unlimited: true}})
		}, "global.limits[1]", "global.free", ChangeAdded, " → unlimited per ip", EffectNeutral, ""},
		{"removed", func(d *Document) { d.Routes[1].Limits = nil }, "routes[1].limits[0]", "route:login.per-ip", ChangeRemoved, "20/minute per ip, burst 20 → ", EffectLooser, "removed"},
		{"global", func(d *Document) { d.Global.Limits[0].Rate.Tokens = 1 }, "global.limits[0].rate", "global.all", ChangeChanged, "1000/minute → 1/minute", EffectTighter, "everything together"},
		{"shared", func(d *Document) { d.Shared[0].Rate.Tokens = 101 }, "shared[0].rate", "shared:search", ChangeChanged, "100/minute → 101/minute", EffectLooser, "shared"},
	})
}

func TestDiff_PlansAndRoutes(t *testing.T) {
	t.Parallel()
	fallback := func(d *Document) *Fallback { return d.Routes[0].OnStoreFailure.Fallback }
	checkChanges(t, []change{
		{"plan added", func(d *Document) { d.Plans["gold"] = Plan{} }, "plans.gold", "", ChangeAdded, " → no limits", EffectNeutral, "new plan gold"},
		{"plan removed", func(d *Document) { delete(d.Plans, "free") }, "plans.free", "", ChangeRemoved, "requests 60/minute per tenant, burst 60 → ", EffectNeutral, "removed"},
		{"plan description", func(d *Document) { p := d.Plans["free"]; p.Description = "x"; d.Plans["free"] = p }, "plans.free.description", "", ChangeAdded, " → x", EffectNeutral, "plan free"},
		{"route added", func(d *Document) { d.Routes = append(d.Routes, Route{Name: "new", Match: []string{"/new"}}) }, "routes[3]", "", ChangeAdded, " → /new", EffectNeutral, "new route new"},
		{"limited route added", func(d *Document) {
			d.Routes = append(d.Routes, Route{Name: "new", Match: []string{"/new"}, Uses: []string{"search"}})
		}, "routes[3]", "", ChangeAdded, " → /new", EffectTighter, ""},
		{"route removed", func(d *Document) { d.Routes = d.Routes[:2] }, "routes[2]", "", ChangeRemoved, "/ → ", EffectNeutral, "route rest"},
		{"limited route removed", func(d *Document) { d.Routes = d.Routes[1:] }, "routes[0]", "", ChangeRemoved, "GET /v1/reports/{id} → ", EffectLooser, ""},
		{"route renamed", func(d *Document) { d.Routes[2].Name = "others" }, "routes[2].name", "", ChangeRenamed, "rest → others", EffectNeutral, ""},
		{"limited route renamed", func(d *Document) { d.Routes[1].Name = "signin" }, "routes[1].name", "", ChangeRenamed, "login → signin", EffectNewBucket, "full buckets"},
		{"match", func(d *Document) { d.Routes[1].Match = append(d.Routes[1].Match, "GET /login") }, "routes[1].match", "", ChangeChanged, "POST /login → GET /login, POST /login", EffectNeutral, ""},
		{"identity", func(d *Document) { d.Routes[2].Identity = IdentityIP }, "routes[2].identity", "", ChangeChanged, "api_key → ip", EffectLooser, ""},
		{"motive", func(d *Document) { d.Routes[2].Motive = MotiveQuota }, "routes[2].motive", "", ChangeChanged, "fairness → quota", EffectNeutral, ""},
		{"cost up", func(d *Document) { d.Routes[0].Cost = 21 }, "routes[0].cost", "", ChangeChanged, "20 → 21", EffectTighter, ""},
		{"cost down", func(d *Document) { d.Routes[0].Cost = 1 }, "routes[0].cost", "", ChangeChanged, "20 → 1", EffectLooser, ""},
		{"uses more", func(d *Document) { d.Routes[2].Uses = []string{"search"} }, "routes[2].uses", "shared:search", ChangeAdded, " → search", EffectTighter, "draws from"},
		{"uses less", func(d *Document) { d.Routes[0].Uses = nil }, "routes[0].uses", "shared:search", ChangeRemoved, "search → ", EffectLooser, "no longer"},
		{"fallback rate", func(d *Document) { fallback(d).Rate.Tokens = 4 }, "routes[0].on_store_failure.fallback.rate", "", ChangeChanged, "5/minute → 4/minute", EffectTighter, ""},
		{"fallback burst", func(d *Document) { fallback(d).Burst = 6 }, "routes[0].on_store_failure.fallback.burst", "", ChangeChanged, "5 → 6", EffectLooser, ""},
		{"fallback unlimited", func(d *Document) { *fallback(d) = Fallback{Unlimited: true} }, "routes[0].on_store_failure.fallback.rate", "", ChangeChanged, "5/minute → unlimited", EffectLooser, ""},
	})
}

func TestDiff_Edges(t *testing.T) {
	t.Parallel()
	checkChanges(t, []change{
		{"description", func(d *Document) { d.Description = "x" }, "description", "", ChangeAdded, " → x", EffectNeutral, ""},
		{"proxies", func(d *Document) { d.ClientIP.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }, "client_ip.trusted_proxies", "", ChangeChanged, "10.0.0.0/8 → 192.0.2.0/24", EffectNewBucket, ""},
		{"no proxies", func(d *Document) { d.ClientIP.TrustedProxies = nil }, "client_ip.trusted_proxies", "", ChangeRemoved, "10.0.0.0/8 → ", EffectNewBucket, ""},
		{"header", func(d *Document) { d.ClientIP.Header = "X-Real-IP" }, "client_ip.header", "", ChangeChanged, "X-Forwarded-For → X-Real-IP", EffectNewBucket, ""},
		{"bits", func(d *Document) { d.ClientIP.IPv6Prefix = 56 }, "client_ip.ipv6_prefix", "", ChangeChanged, "64 → 56", EffectNewBucket, ""},
		{"headers", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X-Key"}} }, "credentials.headers", "", ChangeChanged, "Authorization Bearer, X-API-Key → X-Key", EffectNeutral, ""},
		{"invalid", func(d *Document) { d.Credentials.Invalid = InvalidLimit{Rate{Tokens: 5, Period: time.Minute}, 30} }, "credentials.invalid.rate", "", ChangeChanged, "30/minute → 5/minute", EffectTighter, ""},
	})
}

func TestDiff_FailModeTellsBothParts(t *testing.T) {
	t.Parallel()
	after := valid()
	after.Routes[0].OnStoreFailure = StoreFailure{Mode: FailClosed}
	got := Diff(valid(), after)
	if len(got) != 2 || got[0].Path != "routes[0].on_store_failure.mode" || got[0].Effect != EffectTighter ||
		got[1].Kind != ChangeRemoved || got[1].Before != "5/minute, burst 5" || got[1].Effect != EffectTighter {
		t.Errorf("open → closed: %+v", got)
	}
	if got = Diff(after, valid()); len(got) != 2 || got[0].Effect != EffectLooser || got[1].Effect != EffectLooser {
		t.Errorf("closed → open: %+v", got)
	}
}

func TestDiff_AgainstNothingAddsEverything(t *testing.T) {
	t.Parallel()
	got := Diff(nil, valid())
	added := 0
	for _, c := range got {
		if c.Kind == ChangeAdded {
			added++
		} else if !strings.HasPrefix(c.Path, "client_ip") && !strings.HasPrefix(c.Path, "credentials") {
			t.Errorf("%+v is no addition", c)
		}
	}
	if added != 1+1+1+2+3 { // trusted proxies, global, shared, plans, routes
		t.Errorf("%d additions: %+v", added, got)
	}
}

func TestDiff_RenamesBothARouteAndItsChanges(t *testing.T) {
	t.Parallel()
	after := valid()
	after.Routes[1].Name = "signin"
	after.Routes[1].Limits[0].Rate.Tokens = 10
	got := Diff(valid(), after)
	if len(got) != 2 || got[0].Kind != ChangeRenamed || got[1].LimitID != "route:signin.per-ip" || got[1].Effect != EffectTighter {
		t.Errorf("changes %+v", got)
	}
}

// sorted is a document without the order that carries no meaning.
func sorted(d *Document) *Document {
	d = d.withDefaults()
	slices.SortFunc(d.Routes, func(a, b Route) int { return strings.Compare(a.Name, b.Name) })
	byName := func(a, b Limit) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(d.Shared, byName)
	slices.SortFunc(d.Global.Limits, byName)
	for _, p := range d.Plans {
		slices.SortFunc(p.Limits, byName)
	}
	for i := range d.Routes {
		slices.SortFunc(d.Routes[i].Limits, byName)
		slices.Sort(d.Routes[i].Match)
		slices.Sort(d.Routes[i].Uses)
	}
	return d
}

// No change is missed, none is invented, and there and back cancel out.
func TestDiff_IsEmptyIffTheDocumentsMeanTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := genDocument().Draw(t, "a")
		b := rapid.OneOf(genDocument(), rapid.Just(a)).Draw(t, "b")
		changes, back := Diff(a, b), Diff(b, a)
		same := bytes.Equal(sorted(a).Canonical(), sorted(b).Canonical())
		if same != (len(changes) == 0) {
			t.Fatalf("same: %v, changes %+v", same, changes)
		}
		if len(changes) != len(back) {
			t.Fatalf("%d changes there, %d back:\n%+v\n%+v", len(changes), len(back), changes, back)
		}
		for _, c := range changes {
			if c.Path == "" || c.Text == "" || c.Kind == "" || c.Effect == "" || c.Before == c.After {
				t.Fatalf("change %+v lacks something", c)
			}
		}
	})
}
