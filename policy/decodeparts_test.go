package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Documents that were published before a part of the format came keep their
// digest: their bytes are in signatures.
func TestCanonical_OlderDocumentsKeepTheirDigest(t *testing.T) {
	t.Parallel()
	if got := DigestOf(example(t).Canonical()); got != "sha256:5faab57d187d13f17295935c184312367d885ba48c08fd25776ccf4ef8da38ef" {
		t.Errorf("the example's digest is now %s", got)
	}
	for _, later := range []string{"sync", "expires_at", "quota", "concurrency", "user", "replicas_expected"} {
		if strings.Contains(string(example(t).Canonical()), `"`+later+`":`) {
			t.Errorf("a document without %s has it in its bytes", later)
		}
	}
}

// onRoute is the smallest document with more on its route, onTop with more at
// the top.
func onRoute(more string) string { return smallest + "  " + more + "\n" }
func onTop(more string) string   { return smallest + more + "\n" }

func TestParse_ReadsEachPart(t *testing.T) {
	t.Parallel()
	route := func(d *Document) Route { return d.Routes[0] }
	limit := func(d *Document) Limit { return d.Routes[0].Limits[0] }
	end := time.Date(2027, 1, 31, 10, 20, 30, 400_000, time.UTC)
	for _, c := range []struct {
		name, src string
		got       func(d *Document) any
		want      any
	}{
		{"shadow", onRoute("limits: [{name: a, per: tenant, rate: 5/minute, mode: shadow}]"), func(d *Document) any { return limit(d).Mode }, ModeShadow},
		{"enforce by default", onRoute("limits: [{name: a, per: tenant, rate: 5/minute}]"), func(d *Document) any { return limit(d).Mode }, ModeEnforce},
		{"leased", onRoute("limits: [{name: a, per: tenant, rate: 5/minute, sync: leased}]"), func(d *Document) any { return limit(d).Sync }, SyncLeased},
		{"exact by default", onRoute("limits: [{name: a, per: tenant, rate: 5/minute}]"), func(d *Document) any { return limit(d).Sync }, SyncExact},
		{"an end", onRoute("limits: [{name: a, per: tenant, rate: 5/minute, expires_at: 2027-01-31T10:20:30.0004Z}]"), func(d *Document) any { return *limit(d).ExpiresAt }, end},
		{"an end in quotes", onRoute("limits: [{name: a, per: tenant, rate: 5/minute, expires_at: \"2027-01-31T10:20:30.0004Z\"}]"), func(d *Document) any { return *limit(d).ExpiresAt }, end},
		{"no end", onRoute("limits: [{name: a, per: tenant, rate: 5/minute}]"), func(d *Document) any { return limit(d).ExpiresAt }, (*time.Time)(nil)},
		{"one dimension in a list", onRoute("limits: [{name: a, per: [tenant], rate: 5/minute}]"), func(d *Document) any { return limit(d).Per }, PerTenant},
		{"two dimensions", onRoute("limits: [{name: a, per: [ip, tenant], rate: 5/minute}]"), func(d *Document) any { return limit(d).Per }, Per("tenant,ip")},
		{"a header among them", onRoute("limits: [{name: a, per: [\"header:x-org\", ip], rate: 5/minute}, {name: b, per: ip, rate: 5/minute}]"), func(d *Document) any { return limit(d).Per }, Per("ip,header:X-Org")},
		{"a field of the body", onRoute("motive: abuse\n  limits: [{name: a, per: \"body:user.name\", rate: 5/minute}]"), func(d *Document) any { return limit(d).Per }, Per("body:user.name")},
		{"user's header", onTop("user: {header: x-user-id}"), func(d *Document) any { return *d.User }, User{Header: "X-User-Id"}},
		{"user's token", onTop("user: {jwt: {jwks_file: /k.json, audience: api}}"), func(d *Document) any { return *d.User.JWT }, UserJWT{JWKSFile: "/k.json", Claim: "sub", Audience: "api"}},
		{"gateways", onTop("replicas_expected: 12"), func(d *Document) any { return d.ReplicasExpected }, int64(12)},
		{"reserve", onRoute("cost: {reserve: 500, settle_header: x-cost}"), func(d *Document) any { return fmt.Sprint(route(d).Cost, " ", route(d).SettleHeader) }, "500 X-Cost"},
		{"graphql by default", onRoute("cost: {graphql: {max: 100}}"), func(d *Document) any { return *route(d).GraphQL },
			GraphQLCost{Max: 100, DefaultListSize: 10, ListArguments: []string{"first", "last", "limit"}, MaxDepth: 50, MaxBreadth: 1000}},
		{"graphql in full", onRoute("cost: {graphql: {max: 100, default_list_size: 3, list_arguments: [top], weights: {Query.a: 0, \"*.b\": 7}, max_depth: 4, max_breadth: 5}}"),
			func(d *Document) any { return *route(d).GraphQL },
			GraphQLCost{Max: 100, DefaultListSize: 3, ListArguments: []string{"top"}, Weights: map[string]int64{"Query.a": 0, "*.b": 7}, MaxDepth: 4, MaxBreadth: 5}},
		{"graphql without arguments", onRoute("cost: {graphql: {max: 100, list_arguments: []}}"), func(d *Document) any { return route(d).GraphQL.ListArguments }, []string{}},
		{"concurrency", onRoute("concurrency: {per: [credential, tenant], max: 3, lease: 1m30s, mode: shadow}"), func(d *Document) any { return *route(d).Concurrency },
			Concurrency{Per: "tenant,credential", Max: 3, Lease: 90 * time.Second, Mode: ModeShadow}},
		{"quota by default", onTop("plans: {p: {quota: {amount: 5, period: month}}}"), func(d *Document) any { return *d.Plans["p"].Quota },
			Quota{Amount: 5, Counts: CountsCost, Period: PeriodMonth, Alignment: AlignCalendar, TimeZone: "UTC", Over: OverBlock, Mode: ModeEnforce}},
		{"quota in full", onTop("plans: {p: {quota: {amount: 5, counts: requests, period: lifetime, alignment: anniversary, time_zone: Asia/Tokyo, over: bill, max: 9, mode: shadow}}}"),
			func(d *Document) any { return *d.Plans["p"].Quota },
			Quota{Amount: 5, Counts: CountsRequests, Period: PeriodLifetime, Alignment: AlignAnniversary, TimeZone: "Asia/Tokyo", Over: OverBill, Max: 9, Mode: ModeShadow}},
	} {
		d, r := Parse([]byte(c.src))
		if !r.OK() {
			t.Errorf("%s: %v", c.name, r)
			continue
		}
		if got := c.got(d); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestParse_ReadsShareAndIdentityUser(t *testing.T) {
	t.Parallel()
	src := strings.Replace(onTop("replicas_expected: 2\nuser: {header: X-User}"), "{mode: closed}", "{mode: open, fallback: share}", 1)
	src = strings.Replace(src, "  match: [/]", "  match: [/]\n  identity: user\n  limits: [{name: a, per: user, rate: 5/minute}]", 1)
	d, r := Parse([]byte(src))
	if !r.OK() {
		t.Fatal(r)
	}
	if f := d.Routes[0].OnStoreFailure.Fallback; !f.Share || f.Unlimited || f.Rate.set() {
		t.Errorf("fallback %+v", f)
	}
	if d.Routes[0].Identity != IdentityUser {
		t.Errorf("identity %s", d.Routes[0].Identity)
	}
}

// badPart is a document with one thing wrong: the problem names its field and says
// what would be right.
type badPart struct{ src, path, want string }

func refusesEach(t *testing.T, parts []badPart) {
	t.Helper()
	for _, c := range parts {
		d, r := Parse([]byte(c.src))
		if _, ok := problemAt(r.Problems, c.path, c.want); !ok || d != nil {
			t.Errorf("%s: problems %q, want one at %s with %q", c.src[len(smallest):], r.Problems, c.path, c.want)
		}
		for _, p := range r.Problems {
			if p.Line == 0 {
				t.Errorf("%v is on no line", p)
			}
		}
	}
}

func TestParse_RefusesBadPartsOfLimits(t *testing.T) {
	t.Parallel()
	limit := func(more string) string {
		return onRoute("limits: [{name: a, rate: 5/minute, " + more + "}]")
	}
	refusesEach(t, []badPart{
		{limit("per: \"ip,tenant\""), "routes[0].limits[0].per", "write [ip, tenant]"},
		{limit("per: []"), "routes[0].limits[0].per", "name at least one dimension"},
		{limit("per: \"\""), "routes[0].limits[0].per", "must be one of global, tenant"},
		{limit("per: 5"), "routes[0].limits[0].per", "a dimension such as tenant"},
		{limit("per: {kind: ip}"), "routes[0].limits[0].per", "a dimension such as tenant"},
		{limit("per: [ip, 5]"), "routes[0].limits[0].per[1]", "must be text"},
		{limit("per: [ip, \"tenant,user\"]"), "routes[0].limits[0].per[1]", "must be a list"},
		{limit("per: [ip, [tenant]]"), "routes[0].limits[0].per[1]", "must be text"},
		{limit("per: [ip, \"\"]"), "routes[0].limits[0].per[1]", "is empty"},
		{limit("per: [tenant, user, ip, credential, global]"), "routes[0].limits[0].per", "at most 4"},
		{limit("per: Tenant"), "routes[0].limits[0].per", "\"Tenant\" is not known"},
		{limit("per: tenant, mode: audit"), "routes[0].limits[0].mode", "enforce, shadow"},
		{limit("per: tenant, mode: true"), "routes[0].limits[0].mode", "enforce, shadow"},
		{limit("per: tenant, sync: eventual"), "routes[0].limits[0].sync", "exact, leased"},
		{limit("per: tenant, expires_at: 2027-01-31"), "routes[0].limits[0].expires_at", "a time in UTC such as"},
		{limit("per: tenant, expires_at: 2027-01-31T00:00:00+00:00"), "routes[0].limits[0].expires_at", "a time in UTC such as"},
		{limit("per: tenant, expires_at: 2027-01-31T00:00:00.0000001Z"), "routes[0].limits[0].expires_at", "at most microseconds"},
		{limit("per: tenant, expires_at: 2027-02-30T00:00:00Z"), "routes[0].limits[0].expires_at", "a time in UTC such as"},
		{limit("per: tenant, expires_at: 1800000000"), "routes[0].limits[0].expires_at", "must be text"},
		{limit("per: tenant, expires_at: \"\""), "routes[0].limits[0].expires_at", "a time in UTC such as"},
		{limit("per: tenant, expires_at: 0001-01-01T00:00:00Z"), "routes[0].limits[0].expires_at", "years 2000 to 9999"},
	})
}

func TestParse_RefusesBadPartsOfPlansAndConcurrency(t *testing.T) {
	t.Parallel()
	quota := func(more string) string { return onTop("plans: {p: {quota: {amount: 5, " + more + "}}}") }
	slots := func(more string) string { return onRoute("concurrency: {per: tenant, " + more + "}") }
	refusesEach(t, []badPart{
		{quota("period: hour"), "plans.p.quota.period", "one of day, week, month, year, lifetime"},
		{quota("period: 30d"), "plans.p.quota.period", "one of day, week, month, year, lifetime"},
		{quota("counts: cost"), "plans.p.quota.period", "is missing"},
		{quota("period: day, alignment: utc"), "plans.p.quota.alignment", "calendar, anniversary"},
		{quota("period: day, time_zone: CET+1"), "plans.p.quota.time_zone", "Europe/Berlin or UTC"},
		{quota("period: day, over: warn"), "plans.p.quota.over", "block, bill"},
		{quota("period: day, over: bill, max: 0"), "plans.p.quota.max", "smallest allowed is 1"},
		{quota("period: day, over: bill, max: 4"), "plans.p.quota.max", "at least the amount, 5"},
		{quota("period: day, rollover: 1"), "plans.p.quota.rollover", "not a known field"},
		{onTop("plans: {p: {concurrency: {max: 5}}}"), "plans.p.concurrency", "not a known field"},
		{onTop("plans: {p: {quota: 5}}"), "plans.p.quota", "must be a map"},
		{slots("max: 5"), "routes[0].concurrency.lease", "is missing"},
		{slots("lease: 5s"), "routes[0].concurrency.max", "is missing"},
		{slots("max: 5, lease: 5"), "routes[0].concurrency.lease", "a duration such as 90s"},
		{slots("max: 5, lease: 5 s"), "routes[0].concurrency.lease", "a duration such as 90s"},
		{slots("max: 5, lease: +5s"), "routes[0].concurrency.lease", "a duration such as 90s"},
		{slots("max: 5, lease: 100ms"), "routes[0].concurrency.lease", "1s to 1h"},
		{slots("max: 5, lease: 61m"), "routes[0].concurrency.lease", "1h1m must be 1s to 1h"},
		{slots("max: 5, lease: 5s, burst: 3"), "routes[0].concurrency.burst", "not a known field"},
		{onRoute("concurrency: {max: 5, lease: 5s}"), "routes[0].concurrency.per", "is missing"},
	})
}

func TestParse_RefusesBadPartsOfCostsUsersAndFallbacks(t *testing.T) {
	t.Parallel()
	refusesEach(t, []badPart{
		{onRoute("cost: {}"), "routes[0].cost", "give a whole number, graphql, or reserve and settle_header"},
		{onRoute("cost: {reserve: 5}"), "routes[0].cost.settle_header", "is missing"},
		{onRoute("cost: {settle_header: X-Cost}"), "routes[0].cost.reserve", "is missing"},
		{onRoute("cost: {reserve: 0, settle_header: X-Cost}"), "routes[0].cost.reserve", "smallest allowed is 1"},
		{onRoute("cost: {graphql: {}}"), "routes[0].cost.graphql.max", "is missing"},
		{onRoute("cost: {graphql: {max: 5}, settle_header: X-Cost}"), "routes[0].cost", "give graphql, or reserve and settle_header"},
		{onRoute("cost: {graphql: 5}"), "routes[0].cost.graphql", "must be a map"},
		{onRoute("cost: {graphql: {max: 5, weights: [a]}}"), "routes[0].cost.graphql.weights", "a map from Type.field"},
		{onRoute("cost: {graphql: {max: 5, weights: {Query.a: }}}"), "routes[0].cost.graphql.weights.Query.a", "is empty"},
		{onRoute("cost: {graphql: {max: 5, max_depth: 0}}"), "routes[0].cost.graphql.max_depth", "smallest allowed is 1"},
		{onRoute("cost: {graphql: {max: 5, max_depth: 101}}"), "routes[0].cost.graphql.max_depth", "largest allowed is 100"},
		{onRoute("cost: free"), "routes[0].cost", "or {graphql: …}, or {reserve: …, settle_header: …}"},
		{onTop("user: {}"), "user", "write {header: X-User-Id}"},
		{onTop("user: X-User"), "user", "must be a map"},
		{onTop("user: {jwt: {}}"), "user.jwt.jwks_file", "is missing"},
		{onTop("user: {jwt: {jwks_file: f, algorithms: [none]}}"), "user.jwt.algorithms", "not a known field"},
		{onTop("user: {header: X-User, jwt: {jwks_file: f}}"), "user", "give one of them"},
		{onTop("replicas_expected: 0"), "replicas_expected", "smallest allowed is 1"},
		{onTop("replicas_expected: 10001"), "replicas_expected", "largest allowed is 10000"},
		{strings.Replace(smallest, "{mode: closed}", "{mode: open, fallback: share}", 1), "routes[0].on_store_failure.fallback", "needs replicas_expected"},
		{strings.Replace(smallest, "{mode: closed}", "{mode: open, fallback: {share: true}}", 1), "routes[0].on_store_failure.fallback.share", "not a known field"},
		{strings.Replace(smallest, "{mode: closed}", "{mode: closed, fallback: share}", 1), "routes[0].on_store_failure.fallback", "no place under mode closed"},
		{strings.Replace(smallest, "{mode: closed}", "{mode: open, fallback: Share}", 1), "routes[0].on_store_failure.fallback", "share or unlimited"},
	})
}

func TestParse_NewListsAndMapsAreBounded(t *testing.T) {
	t.Parallel()
	many := func(n int, item func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = item(i)
		}
		return strings.Join(parts, ", ")
	}
	argument := func(i int) string { return fmt.Sprintf("a%d", i) }
	weight := func(i int) string { return fmt.Sprintf("Query.f%d: %d", i, i) }
	for _, c := range []struct {
		name, src, path string
	}{
		{"arguments", onRoute("cost: {graphql: {max: 5, list_arguments: [" + many(maxListArguments+1, argument) + "]}}"), "routes[0].cost.graphql.list_arguments"},
		{"weights", onRoute("cost: {graphql: {max: 5, weights: {" + many(maxWeights+1, weight) + "}}}"), "routes[0].cost.graphql.weights"},
	} {
		if _, r := Parse([]byte(c.src)); len(r.Problems) != 1 || r.Problems[0].Path != c.path || !strings.Contains(r.Problems[0].Message, "at most") {
			t.Errorf("%s: %v", c.name, r)
		}
	}
	for name, src := range map[string]string{
		"arguments": onRoute("cost: {graphql: {max: 5, list_arguments: [" + many(maxListArguments, argument) + "]}}"),
		"weights":   onRoute("cost: {graphql: {max: 5, weights: {" + many(maxWeights, weight) + "}}}"),
	} {
		if _, r := Parse([]byte(src)); !r.OK() {
			t.Errorf("%s at the bound: %v", name, r)
		}
	}
	d := everyPart()
	d.Routes[0].GraphQL = &GraphQLCost{Max: 5, ListArguments: slices.Repeat([]string{"a"}, maxListArguments+1), Weights: map[string]int64{}}
	for i := range maxWeights + 1 {
		d.Routes[0].GraphQL.Weights[fmt.Sprintf("Query.f%d", i)] = 1
	}
	r := Validate(d)
	if _, ok := problemAt(r.Problems, "routes[0].cost.graphql.weights", "at most 1000"); !ok {
		t.Errorf("weights by hand: %v", r)
	}
	if _, ok := problemAt(r.Problems, "routes[0].cost.graphql.list_arguments", "at most 16"); !ok {
		t.Errorf("arguments by hand: %v", r)
	}
}

// A value that could not be read is told once here too.
func TestParse_TellsNoProblemOfANewPartTwice(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"per":        onRoute("limits: [{name: a, rate: 5/minute, per: [5, ip]}]"),
		"lease":      onRoute("concurrency: {per: tenant, max: 5, lease: soon}"),
		"places":     onRoute("concurrency: {per: tenant, max: many, lease: 5s}"),
		"slots":      onRoute("concurrency: 5"),
		"amount":     onTop("plans: {p: {quota: {amount: many, period: day}}}"),
		"no amount":  onTop("plans: {p: {quota: {period: day}}}"),
		"period":     onTop("plans: {p: {quota: {amount: 5, period: 5}}}"),
		"max":        onTop("plans: {p: {quota: {amount: 5, period: day, over: bill, max: many}}}"),
		"zone":       onTop("plans: {p: {quota: {amount: 5, period: day, time_zone: 5}}}"),
		"graphql":    onRoute("cost: {graphql: {max: many}}"),
		"reserve":    onRoute("cost: {reserve: many, settle_header: X-Cost}"),
		"header":     onRoute("cost: {reserve: 5, settle_header: 5}"),
		"user":       onTop("user: 5"),
		"user's":     onTop("user: {header: 5}"),
		"end":        onRoute("limits: [{name: a, per: ip, rate: 5/minute, expires_at: later}]"),
		"identity":   onRoute("identity: [user]"),
		"keys' file": onTop("user: {jwt: {jwks_file: 5, audience: a}}"),
	} {
		if _, r := Parse([]byte(src)); len(r.Problems) != 1 {
			t.Errorf("%s: %d problems, want 1:\n%v", name, len(r.Problems), r)
		}
	}
}
