package policy_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

const exampleSource = `
apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute}]
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    cost: 20
    limits: [{name: reports, per: tenant, rate: 100/minute, burst: 20}]
    on_store_failure: {mode: open, fallback: {rate: 200/minute}}
  - name: everything-else
    match: ["/"]
    on_store_failure: {mode: closed}
`

func ExampleParse() {
	_, report := policy.Parse([]byte("apiVersion: headgate/v1\nroutes:\n- name: all\n  match: [\"/\"]\n  costs: 5\n"))
	for _, p := range report.Problems {
		fmt.Println(p)
	}
	// Output:
	// line 3: routes[0].on_store_failure: is missing: every route says what happens while the store is away, {mode: open, fallback: …} or {mode: closed}
	// line 5: routes[0].costs: is not a known field; known here: concurrency, cost, description, identity, limits, match, motive, name, on_store_failure, uses
}

func ExampleCompile() {
	document, report := policy.Parse([]byte(exampleSource))
	if !report.OK() {
		fmt.Println(report)
		return
	}
	compiled, err := policy.Compile(document)
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := policy.CanonicalPath("/v1/%72eports/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	route, _ := compiled.Match("GET", "api.example", path)
	fmt.Println(route.Name, "costs", route.Cost)
	for _, l := range compiled.Effective("free") {
		fmt.Println(l.ID, l.Rate, "burst", l.Burst, "from", l.Source)
	}
	// Output:
	// report costs 20
	// plan.requests 60/minute burst 60 from plan free
	// route:report.reports 100/minute burst 20 from route report
}

func ExampleDiff() {
	before, _ := policy.Parse([]byte(exampleSource))
	after, _ := policy.Parse([]byte(strings.Replace(exampleSource, "60/minute", "10/minute", 1)))
	for _, c := range policy.Diff(before, after) {
		fmt.Printf("%s: %s (%s)\n", c.LimitID, c.Text, c.Effect)
	}
	// Output:
	// plan.requests: plan free: limit requests 60/minute → 10/minute (tighter)
	// plan.requests: plan free: limit requests, burst: 60 → 10 (tighter)
}

func ExampleVerifyPolicy() {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // from a file, outside examples
	public := private.Public().(ed25519.PublicKey)
	document, _ := policy.Parse([]byte(exampleSource))
	signed := policy.SignPolicy(private, "prod", 1, "", document.Canonical(), time.Unix(0, 0))

	fmt.Println(policy.VerifyPolicy([]ed25519.PublicKey{public}, "prod", signed))
	err := policy.VerifyPolicy([]ed25519.PublicKey{public}, "staging", signed)
	fmt.Println(errors.Is(err, policy.ErrBadSignature))
	// Output:
	// <nil>
	// true
}

func ExampleNumbersOf() {
	rate, err := policy.ParseRate("6000/minute")
	if err != nil {
		fmt.Println(err)
		return
	}
	numbers, err := policy.NumbersOf(rate, 500)
	fmt.Printf("%d token every %d µs, at most %d (%v)\n", numbers.Tokens, numbers.Period, numbers.Burst, err)
	_, err = policy.NumbersOf(rate, 1<<50)
	fmt.Println(err)
	// Output:
	// 1 token every 10000 µs, at most 500 (<nil>)
	// burst 1125899906842624 is too large for the rate 6000/minute: the largest allowed is 900719925474
}

func ExampleCanonicalPath() {
	for _, path := range []string{"/v1/%6Cogin", "/v1/x/%2e%2e/login", "/v1%2flogin"} {
		canonical, err := policy.CanonicalPath(path)
		fmt.Printf("%q %v\n", canonical, err)
	}
	// Output:
	// "/v1/login" <nil>
	// "" dot segment: ambiguous path
	// "" encoded slash or backslash in "v1%2flogin": ambiguous path
}

func ExampleMerge() {
	limit := func(name string, perMinute int64) policy.Limit {
		return policy.Limit{Name: name, Per: policy.PerIP, Rate: policy.Rate{Tokens: perMinute, Period: time.Minute}, Burst: perMinute}
	}
	document := func(a, b int64) *policy.Document {
		return &policy.Document{APIVersion: policy.APIVersion, Shared: []policy.Limit{limit("a", a), limit("b", b)}}
	}
	merged, clashes := policy.Merge(document(10, 10), document(20, 10), document(10, 30))
	fmt.Println(merged.Shared[0].Rate, merged.Shared[1].Rate, clashes)
	merged, clashes = policy.Merge(document(10, 10), document(20, 10), document(30, 10))
	fmt.Println(merged.Shared[0].Rate, merged.Shared[1].Rate, clashes)
	// Output:
	// 20/minute 30/minute []
	// 20/minute 10/minute [shared: limit a]
}

func ExampleCuts() {
	document := func(rate policy.Rate) *policy.Document {
		return &policy.Document{APIVersion: policy.APIVersion, Shared: []policy.Limit{{Name: "search", Per: policy.PerTenant, Rate: rate, Burst: 10}}}
	}
	for _, c := range policy.Cuts(document(policy.Rate{Tokens: 1000, Period: time.Minute}), document(policy.Rate{Tokens: 10, Period: time.Minute})) {
		fmt.Printf("%s: %s\n", c.Kind, c.Text)
	}
	// Output:
	// cut-half: shared: limit search admits 10 a minute instead of 1000: 1 % is left
}

func ExampleByRisk() {
	before := &policy.Document{APIVersion: policy.APIVersion, Plans: map[string]policy.Plan{"free": {}, "pro": {}}}
	after := &policy.Document{APIVersion: policy.APIVersion, Description: "next year", Plans: map[string]policy.Plan{"free": {}}}
	for _, g := range policy.ByRisk(policy.Diff(before, after)) {
		for _, c := range g.Changes {
			fmt.Printf("%s: %s\n", g.Risk, c.Text)
		}
	}
	// Output:
	// high: plan pro is removed (was no limits)
	// low: description is now next year
}
