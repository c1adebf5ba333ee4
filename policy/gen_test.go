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
		d.Global.Limits = genLimits(t, "g", 2, PerGlobal, PerIP)
		d.Shared = genLimits(t, "s", 3, PerGlobal, PerIP)
		if n := rapid.IntRange(0, 3).Draw(t, "plans"); n > 0 {
			d.Plans = map[string]Plan{}
			for i := range n {
				d.Plans[fmt.Sprintf("plan-%d", i)] = Plan{
					Description: genText().Draw(t, "description"),
					Limits:      genLimits(t, "p", 2, PerTenant, PerCredential),
				}
			}
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "routes") {
			d.Routes = append(d.Routes, genRoute(t, i, d.Shared))
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
		out = append(out, l)
	}
	return out
}

// genRateAndBurst keeps bursts above the costs that genRoute makes.
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
	return r, rapid.Int64Range(5, maxBurst(n)).Draw(t, "burst")
}

func genRoute(t *rapid.T, i int, shared []Limit) Route {
	r := Route{
		Name:        fmt.Sprintf("route-%d", i),
		Description: genText().Draw(t, "description"),
		Match:       []string{fmt.Sprintf("/r%d/{id}", i), fmt.Sprintf("GET h.example/r%d/", i)},
		Identity:    rapid.SampledFrom([]Identity{"", IdentityAPIKey, IdentityIP}).Draw(t, "identity"),
		Motive:      rapid.SampledFrom([]Motive{"", MotiveFairness, MotiveQuota}).Draw(t, "motive"),
		Cost:        rapid.Int64Range(0, 5).Draw(t, "cost"),
	}
	per := []Per{PerGlobal, PerIP, PerTenant, PerCredential}
	if r.Identity == IdentityIP {
		per = per[:2]
	}
	r.Limits = genLimits(t, "l", 2, per...)
	for _, l := range shared {
		if rapid.Bool().Draw(t, "uses") {
			r.Uses = append(r.Uses, l.Name)
		}
	}
	switch rapid.IntRange(0, 2).Draw(t, "fail mode") {
	case 0:
		r.OnStoreFailure = StoreFailure{Mode: FailClosed}
	case 1:
		r.OnStoreFailure = StoreFailure{Mode: FailOpen, Fallback: &Fallback{Unlimited: true}}
	default:
		r.OnStoreFailure = StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 7, Period: time.Minute}, Burst: 7}}
	}
	return r
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
