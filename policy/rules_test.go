package policy

import (
	"strings"
	"testing"
	"time"
)

// everyPart is a document without problems or warnings that uses every part.
func everyPart() *Document {
	d := valid()
	d.User, d.ReplicasExpected = &User{Header: "X-User"}, 2
	d.Plans["free"] = Plan{
		Limits: d.Plans["free"].Limits,
		Quota:  &Quota{Amount: 1000, Period: PeriodMonth, Over: OverBill, Max: 2000},
	}
	d.Routes[0].Concurrency = &Concurrency{Per: PerTenant, Max: 2, Lease: 90 * time.Second}
	d.Routes[1].Limits = append(d.Routes[1].Limits, perMinute("per-account", "body:username", 5), perMinute("per-client", "ip,header:X-Client", 5))
	return d
}

// checkRules applies each change alone and wants exactly one problem.
func checkRules(t *testing.T, list []breakage) {
	t.Helper()
	if r := Validate(everyPart()); !r.OK() || len(r.Warnings) > 0 {
		t.Fatal(r, r.Warnings)
	}
	for _, c := range list {
		d := everyPart()
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

func TestValidate_Dimensions(t *testing.T) {
	t.Parallel()
	own := func(per Per) func(d *Document) {
		return func(d *Document) { d.Routes[0].Limits = append(d.Routes[0].Limits, perMinute("b", per, 50)) }
	}
	at := "routes[0].limits[1].per"
	list := []breakage{
		{"body of a fair route", own("body:username"), at, "only on a route with motive abuse"},
		{"body among others", own("ip,body:username"), at, "only on a route with motive abuse"},
		{"body of a shared limit", func(d *Document) { d.Shared[0].Per = "tenant,body:a" }, "routes[0].uses[0]", "only on a route with motive abuse"},
		{"field of the body", func(d *Document) { d.Routes[1].Limits[1].Per = "body:user name" }, "routes[1].limits[1].per", "1 to 64 letters"},
		{"no field", func(d *Document) { d.Routes[1].Limits[1].Per = "body:" }, "routes[1].limits[1].per", "1 to 64 letters"},
		{"a long field", func(d *Document) { d.Routes[1].Limits[1].Per = Per("body:" + strings.Repeat("a", 65)) }, "routes[1].limits[1].per", "1 to 64 letters"},
		{"no header", own("header:"), at, "is missing"},
		{"not a header", own("header:a b"), at, "name of a header"},
		{"hop by hop", own("header:connection"), at, "hop-by-hop"},
		{"the address by hand", own("header:x-real-ip"), at, "count per ip"},
		{"the address as the document says", func(d *Document) { d.ClientIP.Header = "CF-Connecting-IP"; own("header:cf-connecting-ip")(d) }, at, "count per ip"},
		{"twice", own("tenant,ip,tenant"), at, "tenant is there twice"},
		{"the same header twice", own("header:x-a,ip,header:X-A"), at, "header:X-A is there twice"},
		{"five", own("tenant,user,ip,header:a,header:b"), at, "at most 4"},
		{"global and another", own("global,ip"), at, "combines with nothing"},
		{"unknown among others", own("ip,planet"), at, `"planet" is not known`},
		{"user without one", func(d *Document) { d.User = nil; own("user")(d) }, at, "user: {header: X-User-Id}"},
		{"tenant without a key", func(d *Document) { d.Routes[1].Limits[0].Per = "tenant,ip" }, "routes[1].limits[0].per", "identity ip, which has no tenant"},
		{"tenant of a user", func(d *Document) { d.Routes[1].Identity = IdentityUser; d.Routes[1].Limits[0].Per = PerTenant }, "routes[1].limits[0].per", "identity user, which has no tenant"},
		{"body of a plan", func(d *Document) { d.Plans["free"].Limits[0].Per = "tenant,body:a" }, "plans.free.limits[0].per", "limit of a plan"},
		{"header for everyone", func(d *Document) { d.Global.Limits[0].Per = "header:X-Client" }, "global.limits[0].per", "one of global, ip"},
		{"a header alone", func(d *Document) { d.Routes[2].Limits = []Limit{perMinute("a", "header:X-Client", 5)} }, "routes[2].limits", "per a header alone"},
		{"headers alone", func(d *Document) {
			d.Routes[2].Limits = []Limit{perMinute("a", "header:X-Client", 5), perMinute("b", "tenant,header:X-Client", 5)}
		}, "routes[2].limits", "per a header alone"},
		{"a header and what refuses nobody", func(d *Document) {
			looks, open := perMinute("b", PerTenant, 5), Limit{Name: "c", Per: PerTenant, Rate: Rate{Unlimited: true}}
			looks.Mode = ModeShadow
			d.Routes[2].Limits = []Limit{perMinute("a", "header:X-Client", 5), looks, open}
		}, "routes[2].limits", "per a header alone"},
	}
	for _, name := range []string{"X-Request-Id", "x-request-id", "X-Correlation-ID", "traceparent", "Request-Id", "X-B3-TraceId", "b3", "X-Amzn-Trace-Id",
		"CF-Ray", "Idempotency-Key", "X-Cloud-Trace-Context"} {
		list = append(list, breakage{name, own(Per("header:" + name)), at, "differs on each request"})
	}
	checkRules(t, list)
}

func TestValidate_DimensionsThatFit(t *testing.T) {
	t.Parallel()
	for _, per := range []Per{PerGlobal, PerTenant, PerCredential, PerUser, PerIP, "header:X-Client", "tenant,ip", "ip,header:X-Client,header:X-App,credential", "user,ip"} {
		d := everyPart()
		d.Routes[0].Limits = append(d.Routes[0].Limits, perMinute("b", per, 50))
		if r := Validate(d); !r.OK() {
			t.Errorf("%s: %v", per, r)
		}
	}
	for _, per := range []Per{PerTenant, PerUser, "tenant,ip", "header:X-Client"} {
		d := everyPart()
		d.Plans["free"].Limits[0].Per, d.Plans["pro"].Limits[0].Per = per, per
		if r := Validate(d); !r.OK() {
			t.Errorf("plan per %s: %v", per, r)
		}
	}
}

func TestValidate_QuotaAndConcurrency(t *testing.T) {
	t.Parallel()
	quota := func(change func(q *Quota)) func(d *Document) {
		return func(d *Document) { change(d.Plans["free"].Quota) }
	}
	slots := func(change func(c *Concurrency)) func(d *Document) {
		return func(d *Document) { change(d.Routes[0].Concurrency) }
	}
	checkRules(t, []breakage{
		{"negative amount", quota(func(q *Quota) { q.Amount = -1 }), "plans.free.quota.amount", "0 to 9007199254740991"},
		{"amount too large", quota(func(q *Quota) { q.Amount, q.Max = MaxAmount+1, 0 }), "plans.free.quota.amount", "0 to 9007199254740991"},
		{"no period", quota(func(q *Quota) { q.Period = "" }), "plans.free.quota.period", "one of day, week, month, year, lifetime"},
		{"unknown period", quota(func(q *Quota) { q.Period = "fortnight" }), "plans.free.quota.period", "one of day"},
		{"unknown alignment", quota(func(q *Quota) { q.Alignment = "rolling" }), "plans.free.quota.alignment", "calendar, anniversary"},
		{"unknown zone", quota(func(q *Quota) { q.TimeZone = "Mars/Olympus" }), "plans.free.quota.time_zone", "Europe/Berlin or UTC"},
		{"the machine's zone", quota(func(q *Quota) { q.TimeZone = "Local" }), "plans.free.quota.time_zone", "Europe/Berlin or UTC"},
		{"unknown over", quota(func(q *Quota) { q.Over = "ask"; q.Max = 0 }), "plans.free.quota.over", "block, bill"},
		{"counts", quota(func(q *Quota) { q.Counts = "bytes" }), "plans.free.quota.counts", "cost, requests"},
		{"mode", quota(func(q *Quota) { q.Mode = "off" }), "plans.free.quota.mode", "enforce, shadow"},
		{"max with block", quota(func(q *Quota) { q.Over = OverBlock }), "plans.free.quota.max", "is for over: bill"},
		{"max below the amount", quota(func(q *Quota) { q.Max = 999 }), "plans.free.quota.max", "at least the amount, 1000"},
		{"max too large", quota(func(q *Quota) { q.Max = MaxAmount + 1 }), "plans.free.quota.max", "(2^53-1)"},
		{"no places", slots(func(c *Concurrency) { c.Max = 0 }), "routes[0].concurrency.max", "is missing"},
		{"negative places", slots(func(c *Concurrency) { c.Max = -1 }), "routes[0].concurrency.max", "1 to 100000"},
		{"too many places", slots(func(c *Concurrency) { c.Max = MaxConcurrency + 1 }), "routes[0].concurrency.max", "1 to 100000"},
		{"no lease", slots(func(c *Concurrency) { c.Lease = 0 }), "routes[0].concurrency.lease", "is missing"},
		{"short lease", slots(func(c *Concurrency) { c.Lease = time.Millisecond }), "routes[0].concurrency.lease", "1ms must be 1s to 1h"},
		{"long lease", slots(func(c *Concurrency) { c.Lease = 2 * time.Hour }), "routes[0].concurrency.lease", "2h must be 1s to 1h"},
		{"no dimension", slots(func(c *Concurrency) { c.Per = "" }), "routes[0].concurrency.per", "is missing"},
		{"body", slots(func(c *Concurrency) { c.Per = "body:a" }), "routes[0].concurrency.per", "motive abuse"},
		{"mode of slots", slots(func(c *Concurrency) { c.Mode = "off" }), "routes[0].concurrency.mode", "enforce, shadow"},
	})
}

func TestValidate_CostsThatAreComputed(t *testing.T) {
	t.Parallel()
	graphQL := func(change func(g *GraphQLCost)) func(d *Document) {
		return func(d *Document) {
			g := &GraphQLCost{Max: 50}
			change(g)
			d.Routes[0].GraphQL = g
		}
	}
	at := "routes[0].cost.graphql"
	checkRules(t, []breakage{
		{"no max", graphQL(func(g *GraphQLCost) { g.Max = 0 }), at + ".max", "is missing"},
		{"negative max", graphQL(func(g *GraphQLCost) { g.Max = -1 }), at + ".max", "must be 1 to"},
		{"max above a burst", graphQL(func(g *GraphQLCost) { g.Max = 51 }), at + ".max", "51 can never pass route:report.reports, whose burst is 50"},
		{"list size", graphQL(func(g *GraphQLCost) { g.DefaultListSize = -1 }), at + ".default_list_size", "must be 1 to"},
		{"depth", graphQL(func(g *GraphQLCost) { g.MaxDepth = 101 }), at + ".max_depth", "1 to 100"},
		{"breadth", graphQL(func(g *GraphQLCost) { g.MaxBreadth = -1 }), at + ".max_breadth", "1 to 10000"},
		{"weight without a type", graphQL(func(g *GraphQLCost) { g.Weights = map[string]int64{"search": 5} }), at + ".weights.search", "Type.field"},
		{"weight of two fields", graphQL(func(g *GraphQLCost) { g.Weights = map[string]int64{"a.b.c": 5} }), at + ".weights.a.b.c", "Type.field"},
		{"negative weight", graphQL(func(g *GraphQLCost) { g.Weights = map[string]int64{"Query.a": -5} }), at + ".weights.Query.a", "-5 must be 0 to"},
		{"argument", graphQL(func(g *GraphQLCost) { g.ListArguments = []string{"first", "1st"} }), at + ".list_arguments", `"1st" is not the name`},
		{"argument twice", graphQL(func(g *GraphQLCost) { g.ListArguments = []string{"first", "last", "first"} }), at + ".list_arguments", "twice"},
		{"two kinds", func(d *Document) { d.Routes[0].GraphQL, d.Routes[0].SettleHeader = &GraphQLCost{Max: 5}, "x-cost" }, "routes[0].cost", "give one of them"},
		{"reserve above a burst", func(d *Document) { d.Routes[0].SettleHeader, d.Routes[0].Cost = "x-cost", 51 }, "routes[0].cost.reserve", "51 can never pass"},
		{"no reserve", func(d *Document) { d.Routes[0].SettleHeader, d.Routes[0].Cost = "x-cost", -1 }, "routes[0].cost.reserve", "must be 1 to"},
		{"header", func(d *Document) { d.Routes[0].SettleHeader = "te" }, "routes[0].cost.settle_header", "hop-by-hop"},
		{"our own header", func(d *Document) { d.Routes[0].SettleHeader = "ratelimit-policy" }, "routes[0].cost.settle_header", "another meaning"},
		{"no room for a debt", func(d *Document) {
			d.Routes[0].SettleHeader = "x-cost"
			d.Plans["pro"].Limits[0].Rate, d.Plans["pro"].Limits[0].Burst = Rate{Tokens: 1, Period: time.Hour}, 2_501_999
		}, "routes[0].cost.reserve", "plan.requests of plan pro cannot keep a debt: its burst 2501999 must be at most 1250999"},
	})
}

func TestValidate_UserShareAndTimes(t *testing.T) {
	t.Parallel()
	share := StoreFailure{Mode: FailOpen, Fallback: &Fallback{Share: true}}
	checkRules(t, []breakage{
		{"no way to the user", func(d *Document) { d.User = &User{} }, "user", "write {header: X-User-Id}"},
		{"two ways", func(d *Document) { d.User.JWT = &UserJWT{JWKSFile: "f"} }, "user", "give one of them"},
		{"the key's header", func(d *Document) { d.User.Header = "x-api-key" }, "user.header", "carries the API key"},
		{"the address", func(d *Document) { d.User.Header = "X-Forwarded-For" }, "user.header", "not the user"},
		{"request id", func(d *Document) { d.User.Header = "X-Request-Id" }, "user.header", "differs on each request"},
		{"no keys", func(d *Document) { d.User = &User{JWT: &UserJWT{}} }, "user.jwt.jwks_file", "is missing"},
		{"identity without a user", func(d *Document) { d.User = nil; d.Routes[2].Identity = IdentityUser }, "routes[2].identity", "user: {header: X-User-Id}"},
		{"negative replicas", func(d *Document) { d.ReplicasExpected = -1 }, "replicas_expected", "1 to 10000"},
		{"share of nobody", func(d *Document) { d.ReplicasExpected = 0; d.Routes[0].OnStoreFailure = share }, "routes[0].on_store_failure.fallback", "needs replicas_expected"},
		{"share and a rate", func(d *Document) { d.Routes[0].OnStoreFailure.Fallback.Share = true }, "routes[0].on_store_failure.fallback", "give one of them"},
		{"share of nothing against abuse", func(d *Document) {
			d.Global.Limits, d.Routes[1].Limits, d.Routes[1].OnStoreFailure = nil, nil, share
		}, "routes[1].on_store_failure.fallback", "nothing to divide"},
		{"shadow and leased", func(d *Document) { l := &d.Routes[0].Limits[0]; l.Mode, l.Sync = ModeShadow, SyncLeased }, "routes[0].limits[0].sync", "not for mode shadow"},
		{"unknown mode", func(d *Document) { d.Routes[0].Limits[0].Mode = "off" }, "routes[0].limits[0].mode", "enforce, shadow"},
		{"unknown sync", func(d *Document) { d.Routes[0].Limits[0].Sync = "lazy" }, "routes[0].limits[0].sync", "exact, leased"},
		{"no year", func(d *Document) { d.Routes[0].Limits[0].ExpiresAt = new(time.Time) }, "routes[0].limits[0].expires_at", "years 2000 to 9999"},
		{"cost above what leasing leaves", func(d *Document) {
			d.Routes[0].Limits[0] = Limit{Name: "reports", Per: PerTenant, Rate: Rate{Tokens: 200, Period: time.Second}, Burst: 25, Sync: SyncLeased}
		}, "routes[0].cost", "of whose burst leasing leaves 15"},
	})
	d := everyPart()
	d.Routes[1].OnStoreFailure = share
	if r := Validate(d); !r.OK() {
		t.Errorf("share against abuse: %v", r)
	}
}

func TestValidate_WarnsOfWhatIsRarelyMeant(t *testing.T) {
	t.Parallel()
	share := StoreFailure{Mode: FailOpen, Fallback: &Fallback{Share: true}}
	leased := func(rate string, burst int64) func(d *Document) {
		return func(d *Document) {
			d.Routes[2].Limits = []Limit{{Name: "a", Per: PerTenant, Rate: rateOf(t, rate), Burst: burst, Sync: SyncLeased}}
		}
	}
	for _, c := range []breakage{
		{"leased and slow", leased("600/minute", 600), "routes[2].limits[0].sync", "leased gains nothing at 600/minute"},
		{"leased with a small burst", leased("1000/second", 90), "routes[2].limits[0].sync", "leased has no effect"},
		{"amount 0", func(d *Document) { d.Plans["free"].Quota.Amount = 0 }, "plans.free.quota.amount", "admits nothing"},
		{"a cost beyond a quota", func(d *Document) { q := d.Plans["free"].Quota; q.Amount, q.Max = 5, 19 }, "routes[0].cost", "20 is more than the quota of plan free admits in a whole period, 19"},
		{"header that is not believed", func(d *Document) { d.ClientIP.TrustedProxies = nil }, "user.header", "never believed"},
		{"any audience", func(d *Document) { d.User = &User{JWT: &UserJWT{JWKSFile: "f"}} }, "user.jwt.audience", "another service"},
		{"token and key in one place", func(d *Document) { d.User = &User{JWT: &UserJWT{JWKSFile: "f", Audience: "a"}} }, "user.jwt", "looks for an API key too"},
		{"a share below a request", func(d *Document) { d.ReplicasExpected = 3; d.Routes[0].OnStoreFailure = share }, "routes[0].on_store_failure.fallback",
			"leaves 16 of the burst 50 of route:report.reports to each of 3 gateways"},
		{"user without limits", func(d *Document) { d.Global.Limits, d.Routes[2].Identity = nil, IdentityUser }, "routes[2]", "plans do not apply to identity user"},
		{"share of nothing", func(d *Document) {
			d.Global.Limits, d.Routes[2].Identity, d.Routes[2].OnStoreFailure = nil, IdentityIP, share
		}, "routes[2].on_store_failure.fallback", "everything is admitted"},
	} {
		d := everyPart()
		c.change(d)
		r := Validate(d)
		if _, ok := problemAt(r.Warnings, c.path, c.message); !ok || !r.OK() {
			t.Errorf("%s: warnings %q, problems %q, want a warning at %s with %q", c.name, r.Warnings, r.Problems, c.path, c.message)
		}
	}
	for rate, burst := range map[string]int64{"50000/second": 50_000, "100/second": 10, "6000/minute": 600} {
		d := everyPart()
		leased(rate, burst)(d)
		if r := Validate(d); len(r.Warnings) > 0 {
			t.Errorf("leased %s, burst %d: %v", rate, burst, r.Warnings)
		}
	}
}
