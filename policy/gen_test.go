package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// genDocument makes valid documents of every supported shape.
func genDocument() *rapid.Generator[*Document] {
	return rapid.Custom(func(t *rapid.T) *Document {
		d := &Document{APIVersion: APIVersion, Description: genText().Draw(t, "description")}
		d.ClientIP = genClientIP(t)
		d.Credentials = genCredentials(t)
		d.User = rapid.SampledFrom([]*User{nil, {Header: "x-user"}, {JWT: &UserJWT{JWKSFile: "/etc/keys.json"}},
			{JWT: &UserJWT{JWKSFile: "k", Claim: "email", Issuer: "i", Audience: "a"}}}).Draw(t, "user")
		d.ReplicasExpected = rapid.Int64Range(0, 3).Draw(t, "replicas")
		d.Global.Limits = genLimits(t, "g", 2, PerGlobal, PerIP)
		d.Shared = genLimits(t, "s", 3, PerGlobal, PerIP)
		if n := rapid.IntRange(0, 3).Draw(t, "plans"); n > 0 {
			d.Plans = map[string]Plan{}
			for i := range n {
				d.Plans[fmt.Sprintf("plan-%d", i)] = Plan{
					Description: genText().Draw(t, "description"),
					Limits:      genLimits(t, "p", 2, PerTenant, PerCredential, "tenant,ip", "header:x-client"),
					Quota:       genQuota(t),
				}
			}
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "routes") {
			d.Routes = append(d.Routes, genRoute(t, i, d))
		}
		return d
	})
}

// genText has what is hard to write in YAML and JSON.
func genText() *rapid.Generator[string] {
	words := []string{"", "", "plain", "yes", "null", "1e3", "0x1F", "~", "- item", "key: value", "# no comment", "a #b", "'", `"`, `\`, "{a}", "[b]",
		"&anchor", "*alias", "!tag", "%dir", "@at", "`tick`", "2026-11-30", "é→…", "line\nbreak\n", "\n", "\ttab", " space ", "<b>&amp;", "|", ">", "=", "<<", "12:30:45",
		"long " + strings.Repeat("word ", 40), "trailing\n\n", " \n leading", "🙂"}
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "words"), rapid.SampledFrom([]string{"", " "}).Draw(t, "glue"))
	})
}

func genClientIP(t *rapid.T) ClientIP {
	var c ClientIP
	for i := range rapid.IntRange(0, 2).Draw(t, "proxies") {
		c.TrustedProxies = append(c.TrustedProxies, netip.MustParsePrefix([]string{"10.0.0.0/8", "2001:db8::/32"}[i]))
	}
	c.Header = rapid.SampledFrom([]string{"", "X-Forwarded-For", "CF-Connecting-IP"}).Draw(t, "header")
	c.IPv6Prefix = rapid.SampledFrom([]int{0, 48, 64, 128}).Draw(t, "bits")
	return c
}

func genCredentials(t *rapid.T) Credentials {
	return rapid.SampledFrom([]Credentials{
		{},
		{Headers: []CredentialHeader{{Name: "x-key"}}},
		{Invalid: InvalidLimit{Rate: Rate{Tokens: 3, Period: time.Second}, Burst: 1}},
	}).Draw(t, "credentials")
}

func genLimits(t *rapid.T, prefix string, most int, per ...Per) []Limit {
	var out []Limit
	for i := range rapid.IntRange(0, most).Draw(t, "limits") {
		l := Limit{
			Name:        fmt.Sprintf("%s%d", prefix, i),
			Description: genText().Draw(t, "description"),
			Per:         rapid.SampledFrom(per).Draw(t, "per"),
			Counts:      rapid.SampledFrom([]Counts{"", CountsCost, CountsRequests}).Draw(t, "counts"),
		}
		l.Rate, l.Burst = genRateAndBurst(t)
		l.Mode = rapid.SampledFrom([]LimitMode{"", ModeEnforce, ModeShadow}).Draw(t, "mode")
		if l.Mode != ModeShadow {
			l.Sync = rapid.SampledFrom([]LimitSync{"", SyncExact, SyncLeased}).Draw(t, "sync")
		}
		l.ExpiresAt = genMoment(t)
		out = append(out, l)
	}
	return out
}

func genMoment(t *rapid.T) *time.Time {
	if rapid.IntRange(0, 3).Draw(t, "ends") > 0 {
		return nil
	}
	micros := rapid.Int64Range(1<<50, 1<<53).Draw(t, "end")
	zone := rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("x", 3600)}).Draw(t, "zone")
	return new(time.UnixMicro(micros).In(zone))
}

func genQuota(t *rapid.T) *Quota {
	if rapid.Bool().Draw(t, "no quota") {
		return nil
	}
	q := &Quota{
		Amount:    rapid.Int64Range(0, MaxAmount).Draw(t, "amount"),
		Counts:    rapid.SampledFrom([]Counts{"", CountsCost, CountsRequests}).Draw(t, "counts"),
		Period:    rapid.SampledFrom(quotaPeriods()).Draw(t, "period"),
		Alignment: rapid.SampledFrom([]Alignment{"", AlignCalendar, AlignAnniversary}).Draw(t, "alignment"),
		TimeZone:  rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin", "America/New_York"}).Draw(t, "zone"),
		Over:      rapid.SampledFrom([]QuotaOver{"", OverBlock, OverBill}).Draw(t, "over"),
		Mode:      rapid.SampledFrom([]LimitMode{"", ModeEnforce, ModeShadow}).Draw(t, "mode"),
	}
	if q.Over == OverBill && rapid.Bool().Draw(t, "bounded") {
		q.Max = rapid.Int64Range(max(q.Amount, 1), MaxAmount).Draw(t, "max")
	}
	return q
}

// genCost makes costs up to 5, of each kind.
func genCost(t *rapid.T, r *Route) {
	switch rapid.IntRange(0, 3).Draw(t, "kind of cost") {
	case 0:
		r.Cost, r.SettleHeader = rapid.Int64Range(1, 5).Draw(t, "reserve"), "x-cost"
	case 1:
		r.GraphQL = &GraphQLCost{
			Max:             rapid.Int64Range(1, 5).Draw(t, "max"),
			DefaultListSize: rapid.Int64Range(0, 9).Draw(t, "list size"),
			ListArguments:   rapid.SampledFrom([][]string{nil, {}, {"top", "first"}}).Draw(t, "arguments"),
			Weights:         rapid.SampledFrom([]map[string]int64{nil, {"Query.search": 10}, {"*.a": 0, "Query.a": 3}}).Draw(t, "weights"),
			MaxDepth:        rapid.Int64Range(0, MaxGraphQLDepth).Draw(t, "depth"),
			MaxBreadth:      rapid.Int64Range(0, MaxGraphQLBreadth).Draw(t, "breadth"),
		}
	default:
		r.Cost = rapid.Int64Range(0, 5).Draw(t, "cost")
	}
}

// genRateAndBurst keeps bursts above the costs that genRoute makes, leased or
// not, and leaves room for debts.
func genRateAndBurst(t *rapid.T) (Rate, int64) {
	switch rapid.IntRange(0, 5).Draw(t, "kind of rate") {
	case 0:
		return Rate{Unlimited: true}, 0
	case 1:
		return blockedRate(), 0
	}
	r := genRate().Draw(t, "rate")
	n, err := NumbersOf(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r, rapid.Int64Range(10, maxBurst(n)/2).Draw(t, "burst")
}

func genRoute(t *rapid.T, i int, d *Document) Route {
	r := Route{
		Name:        fmt.Sprintf("route-%d", i),
		Description: genText().Draw(t, "description"),
		Match:       []string{fmt.Sprintf("/r%d/{id}", i), fmt.Sprintf("GET h.example/r%d/", i)},
		Identity:    rapid.SampledFrom([]Identity{"", IdentityAPIKey, IdentityIP}).Draw(t, "identity"),
		Motive:      rapid.SampledFrom([]Motive{"", MotiveFairness, MotiveQuota, MotiveAbuse}).Draw(t, "motive"),
	}
	genCost(t, &r)
	r.Limits = genLimits(t, "l", 2, genPer(d, r)...)
	if len(r.Limits) > 0 { // a header never is the only dimension
		r.Limits = append(r.Limits, Limit{Name: "always", Per: PerIP, Rate: Rate{Tokens: 60, Period: time.Minute}, Burst: 60})
	}
	for _, l := range d.Shared {
		if rapid.Bool().Draw(t, "uses") {
			r.Uses = append(r.Uses, l.Name)
		}
	}
	if rapid.Bool().Draw(t, "concurrency") {
		r.Concurrency = &Concurrency{
			Per:   rapid.SampledFrom(genPer(d, r)).Draw(t, "per"),
			Max:   rapid.Int64Range(1, MaxConcurrency).Draw(t, "max"),
			Lease: time.Duration(rapid.Int64Range(1e6, 3600e6).Draw(t, "lease")) * time.Microsecond,
			Mode:  rapid.SampledFrom([]LimitMode{"", ModeEnforce, ModeShadow}).Draw(t, "mode"),
		}
	}
	r.OnStoreFailure = genStoreFailure(t, d, r)
	return r
}

// genPer has dimensions that fit a route, in several orders and spellings.
func genPer(d *Document, r Route) []Per {
	per := []Per{PerGlobal, PerIP, "header:x-client", "ip,header:X-Client,header:a"}
	if r.Identity != IdentityIP {
		per = append(per, PerTenant, PerCredential, "ip,credential", "header:x-client,tenant")
	}
	if d.User != nil {
		per = append(per, PerUser, "ip,user")
	}
	if r.Motive == MotiveAbuse {
		per = append(per, "body:username", "body:a.b,ip")
	}
	return per
}

func genStoreFailure(t *rapid.T, d *Document, r Route) StoreFailure {
	open := []*Fallback{{Rate: Rate{Tokens: 7, Period: time.Minute}, Burst: 7}}
	if r.Motive != MotiveAbuse {
		open = append(open, &Fallback{Unlimited: true})
	}
	if d.ReplicasExpected > 0 && (r.Motive != MotiveAbuse || len(r.Limits) > 0) {
		open = append(open, &Fallback{Share: true})
	}
	if rapid.Bool().Draw(t, "closed") {
		return StoreFailure{Mode: FailClosed}
	}
	return StoreFailure{Mode: FailOpen, Fallback: rapid.SampledFrom(open).Draw(t, "fallback")}
}

// example is the document of testdata/example.yaml.
func example(t testing.TB) *Document {
	t.Helper()
	d, r := Parse(readTestdata(t, "example.yaml"))
	if !r.OK() {
		t.Fatalf("the example has problems:\n%v", r)
	}
	return d
}
