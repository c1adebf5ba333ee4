package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// perMinute is a limit of n a minute.
func perMinute(name string, per Per, n int64) Limit {
	return Limit{Name: name, Per: per, Counts: CountsCost, Rate: Rate{Tokens: n, Period: time.Minute}, Burst: n}
}

func rateOf(t testing.TB, s string) Rate {
	t.Helper()
	r, err := ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// valid is a document without problems or warnings that has one of everything.
func valid() *Document {
	return &Document{
		APIVersion: APIVersion,
		ClientIP:   ClientIP{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Global:     Global{Limits: []Limit{perMinute("all", PerGlobal, 1000)}},
		Shared:     []Limit{perMinute("search", PerTenant, 100)},
		Plans: map[string]Plan{
			"free": {Limits: []Limit{perMinute("requests", PerTenant, 60)}},
			"pro":  {Limits: []Limit{perMinute("requests", PerTenant, 600)}},
		},
		Routes: []Route{
			{
				Name: "report", Match: []string{"GET /v1/reports/{id}"}, Cost: 20, Uses: []string{"search"},
				Limits:         []Limit{perMinute("reports", PerTenant, 50)},
				OnStoreFailure: StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 5, Period: time.Minute}, Burst: 5}},
			},
			{
				Name: "login", Match: []string{"POST /login"}, Identity: IdentityIP, Motive: MotiveAbuse,
				Limits:         []Limit{perMinute("per-ip", PerIP, 20)},
				OnStoreFailure: StoreFailure{Mode: FailClosed},
			},
			{Name: "rest", Match: []string{"/"}, OnStoreFailure: StoreFailure{Mode: FailOpen, Fallback: &Fallback{Unlimited: true}}},
		},
	}
}

func TestValidate_PassesAValidDocument(t *testing.T) {
	t.Parallel()
	if r := Validate(valid()); !r.OK() || len(r.Warnings) != 0 {
		t.Errorf("problems %v, warnings %v", r.Problems, r.Warnings)
	}
	if r := Validate(nil); r.OK() {
		t.Error("no document at all is valid")
	}
}

type breakage struct {
	name    string
	change  func(d *Document)
	path    string
	message string
}

// checkBreakages applies each change alone and wants exactly one problem.
func checkBreakages(t *testing.T, list []breakage) {
	t.Helper()
	for _, c := range list {
		d := valid()
		c.change(d)
		r := Validate(d)
		if len(r.Problems) != 1 || r.Problems[0].Path != c.path || !strings.Contains(r.Problems[0].Message, c.message) {
			t.Errorf("%s: problems %q, want one at %s with %q", c.name, r.Problems, c.path, c.message)
		}
		if _, err := Compile(d); err == nil {
			t.Errorf("%s: compiles", c.name)
		}
	}
}

func TestValidate_DocumentAndEdges(t *testing.T) {
	t.Parallel()
	checkBreakages(t, edgeBreakages())
}

func edgeBreakages() []breakage {
	prefix := netip.MustParsePrefix
	return []breakage{
		{"no version", func(d *Document) { d.APIVersion = "" }, "apiVersion", "must be headgate/v1"},
		{"other version", func(d *Document) { d.APIVersion = "headgate/v2" }, "apiVersion", `"headgate/v2" is not known`},
		{"no routes", func(d *Document) { d.Routes, d.Shared = nil, nil }, "routes", "no routes"},
		{"no valid range", func(d *Document) { d.ClientIP.TrustedProxies[0] = netip.Prefix{} }, "client_ip.trusted_proxies[0]", "not an address range"},
		{"bits beyond the range", func(d *Document) { d.ClientIP.TrustedProxies[0] = prefix("10.1.0.0/8") }, "client_ip.trusted_proxies[0]", "did you mean 10.0.0.0/8"},
		{"IPv4 in IPv6", func(d *Document) { d.ClientIP.TrustedProxies[0] = prefix("::ffff:10.0.0.0/104") }, "client_ip.trusted_proxies[0]", "write it as IPv4"},
		{"range twice", func(d *Document) { d.ClientIP.TrustedProxies = append(d.ClientIP.TrustedProxies, prefix("10.0.0.0/8")) }, "client_ip.trusted_proxies[1]", "twice"},
		{"hop-by-hop header", func(d *Document) { d.ClientIP.Header = "te" }, "client_ip.header", "hop-by-hop"},
		{"RFC 7239", func(d *Document) { d.ClientIP.Header = "forwarded" }, "client_ip.header", "not supported yet"},
		{"header with a space", func(d *Document) { d.ClientIP.Header = "X Forwarded" }, "client_ip.header", "name of a header"},
		{"bits", func(d *Document) { d.ClientIP.IPv6Prefix = 129 }, "client_ip.ipv6_prefix", "1 to 128"},
		{"no headers", func(d *Document) { d.Credentials.Headers = []CredentialHeader{} }, "credentials.headers", "no key could"},
		{"header without a name", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{}} }, "credentials.headers[0].name", "missing"},
		{"header twice", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X-Key"}, {Name: "x-key"}} }, "credentials.headers[1].name", "twice"},
		{"Connection", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "connection"}} }, "credentials.headers[0].name", "hop-by-hop"},
		{"Host", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "Host"}} }, "credentials.headers[0].name", "another meaning"},
		{"request id", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X-Request-ID"}} }, "credentials.headers[0].name", "differs on each request"},
		{"header with a line feed", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X\nY"}} }, "credentials.headers[0].name", "name of a header"},
		{"scheme of two words", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X", Scheme: "a b"}} }, "credentials.headers[0].scheme", "one word"},
		{"invalid unlimited", func(d *Document) { d.Credentials.Invalid.Rate.Unlimited = true }, "credentials.invalid.rate", "must be bounded"},
		{"invalid blocked", func(d *Document) { d.Credentials.Invalid.Rate = blockedRate() }, "credentials.invalid.rate", "must admit something"},
		{"invalid burst", func(d *Document) { d.Credentials.Invalid = InvalidLimit{Rate: Rate{Tokens: 1, Period: time.Second}} }, "credentials.invalid.burst", "at least 1"},
	}
}

func TestValidate_Limits(t *testing.T) {
	t.Parallel()
	checkBreakages(t, limitBreakages())
}

func limitBreakages() []breakage {
	own := func(d *Document) *Limit { return &d.Routes[0].Limits[0] }
	free := func(d *Document) *Limit { return &d.Plans["free"].Limits[0] }
	return []breakage{
		{"no name", func(d *Document) { own(d).Name = "" }, "routes[0].limits[0].name", "missing"},
		{"name with a dot", func(d *Document) { own(d).Name = "a.b" }, "routes[0].limits[0].name", "lower-case"},
		{"name with a capital", func(d *Document) { own(d).Name = "Reports" }, "routes[0].limits[0].name", "lower-case"},
		{"name begins with -", func(d *Document) { own(d).Name = "-a" }, "routes[0].limits[0].name", "not begin with -"},
		{"name too long", func(d *Document) { own(d).Name = strings.Repeat("a", 64) }, "routes[0].limits[0].name", "1 to 63"},
		{"name twice on a route", func(d *Document) { d.Routes[0].Limits = append(d.Routes[0].Limits, *own(d)) }, "routes[0].limits[1].name", "duplicate, routes[0].limits[0] has that name too"},
		{"name twice in a plan", func(d *Document) { d.Plans["free"] = Plan{Limits: []Limit{*free(d), *free(d)}} }, "plans.free.limits[1].name", "duplicate, plans.free.limits[0] has that name too"},
		{"name twice in shared", func(d *Document) { d.Shared = append(d.Shared, d.Shared[0]) }, "shared[1].name", "duplicate, shared[0] has that name too"},
		{"name twice in global", func(d *Document) { d.Global.Limits = append(d.Global.Limits, d.Global.Limits[0]) }, "global.limits[1].name", "duplicate, global.limits[0] has that name too"},
		{"reserved on a route", func(d *Document) { own(d).Name = "concurrency" }, "routes[0].limits[0].name", "reserved"},
		{"reserved in a plan", func(d *Document) {
			for name := range d.Plans {
				d.Plans[name].Limits[0].Name = name
			}
			free(d).Name = "quota"
		}, "plans.free.limits[0].name", "reserved"},
		{"no dimension", func(d *Document) { own(d).Per = "" }, "routes[0].limits[0].per", "missing"},
		{"unknown dimension", func(d *Document) { own(d).Per = "planet" }, "routes[0].limits[0].per", "must be one of"},
		{"plan per ip", func(d *Document) { free(d).Per = PerIP }, "plans.free.limits[0].per", "write [tenant, ip]"},
		{"plan per global", func(d *Document) { free(d).Per = PerGlobal }, "plans.free.limits[0].per", "of a plan"},
		{"global per tenant", func(d *Document) { d.Global.Limits[0].Per = PerTenant }, "global.limits[0].per", "global, ip"},
		{"tenant on a route with ip", func(d *Document) { d.Routes[1].Limits[0].Per = PerTenant }, "routes[1].limits[0].per", "no tenant"},
		{"credential on a route with ip", func(d *Document) { d.Routes[1].Limits[0].Per = PerCredential }, "routes[1].limits[0].per", "no tenant"},
		{"counts", func(d *Document) { own(d).Counts = "bytes" }, "routes[0].limits[0].counts", "one of cost, requests"},
		{"no rate", func(d *Document) { own(d).Rate = Rate{} }, "routes[0].limits[0].rate", "missing"},
		{"rate without a period", func(d *Document) { own(d).Rate = Rate{Tokens: 5} }, "routes[0].limits[0].rate", "missing"},
		{"negative rate", func(d *Document) { own(d).Rate.Tokens = -1 }, "routes[0].limits[0].rate", "must be 0 to"},
		{"period too short", func(d *Document) { own(d).Rate.Period = time.Microsecond }, "routes[0].limits[0].rate", "shortest allowed is 1ms"},
		{"period too long", func(d *Document) { own(d).Rate.Period = MaxPeriod + time.Second }, "routes[0].limits[0].rate", "longest allowed is 744h"},
		{"negative burst", func(d *Document) { own(d).Burst = -1 }, "routes[0].limits[0].burst", "must not be negative"},
		{"burst beside 0", func(d *Document) { *own(d) = Limit{Name: "a", Per: PerTenant, Rate: blockedRate(), Burst: 5} }, "routes[0].limits[0].burst", "never refills"},
		{"burst beyond 2^53", func(d *Document) { own(d).Burst = 1 << 50 }, "routes[0].limits[0].burst", "largest allowed is 7505999378"},
	}
}

func TestValidate_Routes(t *testing.T) {
	t.Parallel()
	checkBreakages(t, routeBreakages())
}

func routeBreakages() []breakage {
	return []breakage{
		{"no name", func(d *Document) { d.Routes[0].Name = "" }, "routes[0].name", "missing"},
		{"name twice", func(d *Document) { d.Routes[2].Name = "report" }, "routes[2].name", "duplicate, routes[0] has that name too"},
		{"plan name", func(d *Document) { d.Plans["Free Plan"] = Plan{} }, "plans.Free Plan", "lower-case"},
		{"unknown identity", func(d *Document) { d.Routes[0].Identity = "face" }, "routes[0].identity", "one of api_key, user, ip"},
		{"unknown motive", func(d *Document) { d.Routes[0].Motive = "greed" }, "routes[0].motive", "one of fairness, quota, abuse"},
		{"negative cost", func(d *Document) { d.Routes[0].Cost = -1 }, "routes[0].cost", "must be 1 to"},
		{"no pattern", func(d *Document) { d.Routes[0].Match = nil }, "routes[0].match", "at least one pattern"},
		{"broken pattern", func(d *Document) { d.Routes[0].Match = []string{"GET reports"} }, "routes[0].match[0]", "begins with a slash"},
		{"pattern twice", func(d *Document) { d.Routes[1].Match = append(d.Routes[1].Match, "GET /v1/reports/{name}") }, "routes[1].match[1]",
			`"GET /v1/reports/{name}" of route login matches the same requests as "GET /v1/reports/{id}" of route report`},
		{"crossing patterns", func(d *Document) { d.Routes[1].Match = append(d.Routes[1].Match, "/v1/reports/latest") }, "routes[1].match[1]",
			`"/v1/reports/latest" of route login and "GET /v1/reports/{id}" of route report match some of the same requests and neither is more specific`},
		{"unknown shared limit", func(d *Document) { d.Routes[0].Uses = append(d.Routes[0].Uses, "serch") }, "routes[0].uses[1]", `"serch" is not the name`},
		{"shared limit twice", func(d *Document) { d.Routes[0].Uses = []string{"search", "search"} }, "routes[0].uses[1]", "twice"},
		{"shared tenant limit on ip", func(d *Document) { d.Routes[1].Uses = []string{"search"} }, "routes[1].uses[0]", "counted per tenant"},
		{"no fail mode", func(d *Document) { d.Routes[0].OnStoreFailure = StoreFailure{} }, "routes[0].on_store_failure", "every route says"},
		{"fallback without mode", func(d *Document) { d.Routes[0].OnStoreFailure.Mode = "" }, "routes[0].on_store_failure.mode", "open or closed"},
		{"unknown fail mode", func(d *Document) { d.Routes[0].OnStoreFailure.Mode = "ajar" }, "routes[0].on_store_failure.mode", "open or closed"},
		{"closed with fallback", func(d *Document) { d.Routes[0].OnStoreFailure.Mode = FailClosed }, "routes[0].on_store_failure.fallback", "admits nothing"},
		{"open without fallback", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback = nil }, "routes[0].on_store_failure.fallback", "mode open needs"},
		{"abuse open without fallback", func(d *Document) { d.Routes[1].OnStoreFailure = StoreFailure{Mode: FailOpen} }, "routes[1].on_store_failure.fallback", "against abuse"},
		{"abuse open unlimited", func(d *Document) {
			d.Routes[1].OnStoreFailure = StoreFailure{Mode: FailOpen, Fallback: &Fallback{Unlimited: true}}
		},
			"routes[1].on_store_failure.fallback", "against abuse"},
		{"fallback without rate", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback = &Fallback{} }, "routes[0].on_store_failure.fallback.rate", "missing"},
		{"fallback of nothing", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback = &Fallback{Rate: blockedRate()} }, "routes[0].on_store_failure.fallback", "write mode closed"},
		{"fallback without burst", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback.Burst = 0 }, "routes[0].on_store_failure.fallback", "write mode closed"},
		{"fallback burst too large", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback.Burst = 1 << 50 }, "routes[0].on_store_failure.fallback.burst", "largest allowed"},
		{"fallback unlimited and a rate", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback.Unlimited = true }, "routes[0].on_store_failure.fallback", "give one of them"},
	}
}

// No problem hides another: two mistakes in different places are both told,
// whatever they are.
func TestValidate_NoProblemHidesAnother(t *testing.T) {
	t.Parallel()
	all := slices.Concat(edgeBreakages(), limitBreakages(), routeBreakages())
	pairs := 0
	for i, a := range all {
		for _, b := range all[i+1:] {
			if part(a) == part(b) || a.name == "no routes" || b.name == "no routes" {
				continue // the second change may take the first one back
			}
			d := valid()
			a.change(d)
			b.change(d)
			r := Validate(d)
			for _, want := range []breakage{a, b} {
				if _, ok := problemAt(r.Problems, want.path, want.message); !ok {
					t.Errorf("%s and %s: problems %q, want one at %s", a.name, b.name, r.Problems, want.path)
				}
			}
			pairs++
		}
	}
	if pairs < 1000 {
		t.Errorf("only %d pairs", pairs)
	}
}

// part is the part of the document that a breakage touches.
func part(b breakage) string {
	top, rest, _ := strings.Cut(b.path, ".")
	if top == "client_ip" || top == "credentials" || top == "plans" {
		second, _, _ := strings.Cut(rest, ".")
		second, _, _ = strings.Cut(second, "[")
		return top + "." + second
	}
	name, _, _ := strings.Cut(top, "[")
	return name
}

func TestValidate_CostThatCanNeverPass(t *testing.T) {
	t.Parallel()
	cost := "routes[0].cost"
	checkBreakages(t, []breakage{
		{"own limit", func(d *Document) { d.Routes[0].Limits[0].Burst = 19 }, cost, "20 can never pass route:report.reports, whose burst is 19"},
		{"shared limit", func(d *Document) { d.Shared[0].Burst = 19 }, cost, "shared:search"},
		{"global limit", func(d *Document) { d.Global.Limits[0].Burst = 19 }, cost, "global.all"},
		{"one plan's limit", func(d *Document) { d.Plans["free"].Limits[0].Burst = 19 }, cost, "plan.requests of plan free, whose burst is 19"},
	})
	for name, change := range map[string]func(d *Document){
		"equal": func(d *Document) { d.Plans["free"].Limits[0].Burst = 20 },
		"counts requests": func(d *Document) {
			d.Plans["free"].Limits[0].Burst = 19
			d.Plans["free"].Limits[0].Counts = CountsRequests
		},
		"admits nothing": func(d *Document) { d.Plans["free"].Limits[0].Burst = 0 },
		"rate 0":         func(d *Document) { d.Plans["free"].Limits[0].Rate, d.Plans["free"].Limits[0].Burst = blockedRate(), 0 },
		"unlimited": func(d *Document) {
			d.Plans["free"].Limits[0].Rate, d.Plans["free"].Limits[0].Burst = Rate{Unlimited: true}, 0
		},
		"plan, but identity ip": func(d *Document) { d.Routes[1].Cost = 20; d.Plans["free"].Limits[0].Burst = 20 },
		"shared, but not used":  func(d *Document) { d.Shared[0].Burst = 5; d.Routes[0].Uses = nil },
	} {
		d := valid()
		change(d)
		if r := Validate(d); !r.OK() {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestValidate_CostNamesEachLimitAndStaysBounded(t *testing.T) {
	t.Parallel()
	d := valid()
	for i := range 300 {
		d.Plans[fmt.Sprintf("p%d", i)] = Plan{Limits: []Limit{perMinute("requests", PerTenant, 10)}}
	}
	r := Validate(d)
	if len(r.Problems) != maxCostProblems+1 {
		t.Errorf("%d problems, want %d", len(r.Problems), maxCostProblems+1)
	}
}

func TestValidate_WarnsOfSlips(t *testing.T) {
	t.Parallel()
	for _, c := range []breakage{
		{"nothing matches /", func(d *Document) { d.Routes = d.Routes[:2] }, "routes", `no pattern "/"`},
		{"/ for one method", func(d *Document) { d.Routes[2].Match = []string{"GET /"} }, "routes", `no pattern "/"`},
		{"burst 1", func(d *Document) {
			d.Plans["pro"].Limits[0] = Limit{Name: "requests", Per: PerTenant, Counts: CountsRequests, Rate: rateOf(t, "6000/minute"), Burst: 1}
		},
			"plans.pro.limits[0].burst", "closer than 10ms"},
		{"rate 0", func(d *Document) { d.Plans["pro"].Limits[0].Rate, d.Plans["pro"].Limits[0].Burst = blockedRate(), 0 }, "plans.pro.limits[0].rate", "admits nothing"},
		{"burst 0", func(d *Document) { d.Plans["pro"].Limits[0].Burst = 0 }, "plans.pro.limits[0].burst", "admits nothing"},
		{"everyone is trusted", func(d *Document) { d.ClientIP.TrustedProxies[0] = netip.MustParsePrefix("0.0.0.0/0") }, "client_ip.trusted_proxies[0]", "trusts everyone"},
		{"header that is never read", func(d *Document) { d.ClientIP.TrustedProxies, d.ClientIP.Header = nil, "CF-Connecting-IP" }, "client_ip.header", "never read"},
		{"shared limit unused", func(d *Document) { d.Routes[0].Uses = nil }, "shared[0]", "used by no route"},
		{"plans count differently", func(d *Document) { d.Plans["pro"].Limits[0].Per = PerCredential }, "plans.pro.limits[0].per", "fresh bucket"},
		{"nothing limits a route with ip", func(d *Document) { d.Global.Limits, d.Routes[1].Limits = nil, nil }, "routes[1]", "has no limit"},
	} {
		d := valid()
		c.change(d)
		r := Validate(d)
		if !r.OK() || len(r.Warnings) != 1 || r.Warnings[0].Path != c.path || !strings.Contains(r.Warnings[0].Message, c.message) {
			t.Errorf("%s: problems %q, warnings %q, want one at %s with %q", c.name, r.Problems, r.Warnings, c.path, c.message)
		}
	}
}

func TestValidate_KnowsEveryPatternForEverything(t *testing.T) {
	t.Parallel()
	for _, match := range []string{"/", "/{rest...}"} {
		d := valid()
		d.Routes[2].Match = []string{match}
		if r := Validate(d); len(r.Warnings) != 0 {
			t.Errorf("%s: %v", match, r.Warnings)
		}
	}
	for _, match := range []string{"GET /", "h.example/", "/{$}", "/{x}", "/a/"} {
		d := valid()
		d.Routes[2].Match = []string{match}
		if r := Validate(d); len(r.Warnings) != 1 {
			t.Errorf("%s: %v", match, r.Warnings)
		}
	}
}

func TestValidate_RefusesLimitsThatHashAlike(t *testing.T) {
	t.Parallel()
	v := &validator{doc: valid()}
	v.collisions(func(id string) uint64 {
		if id == "shared:search" || id == "route:report.reports" {
			return 7
		}
		return LimitHash(id)
	})
	got := v.problems.all()
	if len(got) != 1 || got[0].Path != "routes[0].limits[0].name" || !strings.Contains(got[0].Message, "shared:search") {
		t.Errorf("problems %q", got)
	}
	v = &validator{doc: valid()} // plan.requests stands in two plans and is one limit
	v.collisions(LimitHash)
	if got := v.problems.all(); len(got) != 0 {
		t.Errorf("problems %q", got)
	}
}

func TestValidate_BoundsTheSearchForConflicts(t *testing.T) {
	t.Parallel()
	d := valid()
	for i := range 5000 {
		d.Routes[0].Match = append(d.Routes[0].Match, fmt.Sprintf("/x%d/{b}/e%d", i, i))
	}
	for i := range 5000 {
		d.Routes[1].Match = append(d.Routes[1].Match, fmt.Sprintf("/{a}/y%d/z%d", i, i))
	}
	r := Validate(d)
	if _, ok := problemAt(r.Problems, "routes[1].match", "too many"); !ok {
		t.Errorf("problems %q", r.Problems)
	}
}

func TestValidate_LeavesTheDocumentAlone(t *testing.T) {
	t.Parallel()
	d := valid()
	_ = Validate(d)
	if !reflect.DeepEqual(d, valid()) {
		t.Errorf("the document changed: %+v", d)
	}
}

func TestMissingPlans_NamesEachOnce(t *testing.T) {
	t.Parallel()
	d := valid()
	if got := d.MissingPlans([]string{"pro", "gold", "free", "basic", "gold"}); !reflect.DeepEqual(got, []string{"basic", "gold"}) {
		t.Errorf("missing %q", got)
	}
	if got := d.MissingPlans(nil); len(got) != 0 {
		t.Errorf("missing %q of none", got)
	}
}
