package policy

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// These are known ways in which limiters went wrong, at the place where the
// policy is the one to stop them.

// A rate held per second rounds a slow limit to 0, or shows it as 0.
func TestR011_SlowRatesAreNotRounded(t *testing.T) {
	t.Parallel()
	for in, wait := range map[string]time.Duration{
		"10/hour":  360 * time.Second,
		"1/day":    24 * time.Hour,
		"3/day":    8 * time.Hour,
		"1/744h":   744 * time.Hour,
		"7/minute": 8_571_429 * time.Microsecond, // 60/7 s, rounded up
	} {
		r := rateOf(t, in)
		n, err := NumbersOf(r, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Duration((n.Period+n.Tokens-1)/n.Tokens) * time.Microsecond; got != wait {
			t.Errorf("%s brings a token every %v, want %v", in, got, wait)
		}
		if r.String() != in {
			t.Errorf("%s is shown as %s", in, r)
		}
	}
}

// Numbers near 2^53 lose units in a store that counts in doubles.
func TestR014_NumbersThatAStoreCannotCountAreRefusedWithTheLargest(t *testing.T) {
	t.Parallel()
	limit := func(rate, burst string) string {
		return smallest + "  limits: [{name: a, per: tenant, rate: " + rate + ", burst: " + burst + "}]\n"
	}
	for _, c := range []struct{ rate, burst, path, want string }{
		{"1/second", "9007199254740993", "burst", "largest allowed is 281474976710655"},
		{"1/second", "9007199255", "burst", "largest allowed is 9007199254"},
		{"9007199254740993/second", "1", "rate", "largest allowed is 281474976710655"},
		{"1/hour", "2502000", "burst", "largest allowed is 2501999"},
	} {
		_, r := Parse([]byte(limit(c.rate, c.burst)))
		if _, ok := problemAt(r.Problems, "routes[0].limits[0]."+c.path, c.want); !ok || len(r.Problems) != 1 {
			t.Errorf("%s, burst %s: %v", c.rate, c.burst, r)
		}
	}
	d, r := Parse([]byte(limit("1/second", "9007199254")))
	if !r.OK() || d.Routes[0].Limits[0].Burst != 9007199254 {
		t.Errorf("the largest burst: %v", r)
	}
}

// Zero, null, -1 and missing mean different things in different systems. Here
// zero blocks, one word is unlimited, and all others are mistakes.
func TestR020_ZeroUnlimitedAndMissingAreThreeThings(t *testing.T) {
	t.Parallel()
	parse := func(rest string) (*Document, Report) {
		return Parse([]byte(smallest + "  limits: [{name: a, per: tenant" + rest + "}]\n"))
	}
	for _, zero := range []string{", rate: 0", ", rate: \"0\"", ", rate: 0/minute", ", rate: 0/day, burst: 0"} {
		d, r := parse(zero)
		if !r.OK() || !d.Routes[0].Limits[0].Rate.Blocked() {
			t.Errorf("%s: %v", zero, r)
			continue
		}
		c, err := Compile(d)
		if err != nil || !c.Routes[0].Limits[0].Numbers.Blocked() || c.Routes[0].Limits[0].Unlimited {
			t.Errorf("%s compiles to %+v, %v", zero, c, err)
		}
		if !strings.Contains(string(d.Canonical()), `"rate":"0"`) {
			t.Errorf("%s is written as %s", zero, d.Canonical())
		}
	}
	d, r := parse(", rate: unlimited")
	if !r.OK() || !d.Routes[0].Limits[0].Rate.Unlimited {
		t.Errorf("unlimited: %v", r)
	}
	for _, wrong := range []string{"", ", rate: ", ", rate: null", ", rate: ~", ", rate: -1", ", rate: -1/minute", ", rate: 60", ", rate: \"\"", ", rate: none",
		", rate: Infinity", ", rate: .inf", ", rate: false", ", burst: 5", ", rate: unlimited, burst: 5", ", rate: unlimited, burst: 0", ", rate: 0, burst: 5",
		", rate: 60/minute, burst: -1", ", rate: 60/minute, burst: unlimited", ", rate: 60/minute, burst: "} {
		if d, r := parse(wrong); d != nil || len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].Path, "routes[0].limits[0].") {
			t.Errorf("%q: %v", wrong, r.Problems)
		}
	}
}

// A rate of thousands a minute with a burst of one refuses an ordinary page.
func TestR030_BurstDefaultsToAWholePeriodAndOneIsWarnedOf(t *testing.T) {
	t.Parallel()
	parse := func(rest string) (*Document, Report) {
		return Parse([]byte(smallest + "plans: {p: {limits: [{name: a, per: tenant, rate: 6000/minute" + rest + "}]}}\n"))
	}
	d, r := parse("")
	if !r.OK() || d.Plans["p"].Limits[0].Burst != 6000 || len(r.Warnings) != 0 {
		t.Errorf("default: %+v, %v", d, r)
	}
	_, r = parse(", burst: 1")
	if p, ok := problemAt(r.Warnings, "plans.p.limits[0].burst", "closer than 10ms"); !r.OK() || !ok || p.Line != 6 {
		t.Errorf("burst 1: problems %v, warnings %v", r.Problems, r.Warnings)
	}
}

// Fractions work in tests and fail in scripts, or are cut off to nothing.
func TestR031_FractionsAreExactOrRefused(t *testing.T) {
	t.Parallel()
	for _, cost := range []string{"0.5", "1.5", "1e3", "\"1,5\"", "1,5", ".nan", "\"2\""} {
		if _, r := Parse([]byte(smallest + "  cost: " + cost + "\n")); len(r.Problems) != 1 || r.Problems[0].Path != "routes[0].cost" {
			t.Errorf("cost %s: %v", cost, r.Problems)
		}
	}
	for period, want := range map[string]int64{"0.5s": 500_000, "600.001s": 600_001_000, "1.5h": 5_400_000_000} {
		d, r := Parse([]byte(smallest + "  limits: [{name: a, per: tenant, rate: 7/" + period + "}]\n"))
		if !r.OK() {
			t.Errorf("period %s: %v", period, r)
			continue
		}
		if got := d.Routes[0].Limits[0].Rate.Period.Microseconds(); got != want {
			t.Errorf("period %s is %d µs, want %d", period, got, want)
		}
	}
}

// So do fractions of everything that came to be counted later.
func TestR031_FractionsOfQuotasPlacesAndWeightsAreRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"0.5", "1.5", "1e3", "\"1,5\"", ".nan", "-1", "\"2\"", "0x10", "1_000", "010", "~", "9007199254740993"} {
		for path, src := range map[string]string{
			"plans.p.quota.amount":                     smallest + "plans: {p: {quota: {amount: " + n + ", period: month}}}\n",
			"plans.p.quota.max":                        smallest + "plans: {p: {quota: {amount: 1, period: month, over: bill, max: " + n + "}}}\n",
			"routes[0].concurrency.max":                smallest + "  concurrency: {per: tenant, lease: 9s, max: " + n + "}\n",
			"routes[0].cost.reserve":                   smallest + "  cost: {settle_header: X-Cost, reserve: " + n + "}\n",
			"routes[0].cost.graphql.max":               smallest + "  cost: {graphql: {max: " + n + "}}\n",
			"routes[0].cost.graphql.weights.Query.a":   smallest + "  cost: {graphql: {max: 5, weights: {Query.a: " + n + "}}}\n",
			"routes[0].cost.graphql.default_list_size": smallest + "  cost: {graphql: {max: 5, default_list_size: " + n + "}}\n",
			"replicas_expected":                        smallest + "replicas_expected: " + n + "\n",
		} {
			if d, r := Parse([]byte(src)); d != nil || len(r.Problems) != 1 || r.Problems[0].Path != path {
				t.Errorf("%s %s: %v", path, n, r.Problems)
			}
		}
	}
	for lease, want := range map[string]time.Duration{"1.5s": 1500 * time.Millisecond, "600.001s": 600_001 * time.Millisecond, "0.5h": 30 * time.Minute} {
		d, r := Parse([]byte(smallest + "  concurrency: {per: tenant, max: 2, lease: " + lease + "}\n"))
		if !r.OK() || d.Routes[0].Concurrency.Lease != want {
			t.Errorf("lease %s: %v", lease, r)
		}
	}
	for _, lease := range []string{"90", "1.0000001s", "-5s", "fast", "\"1,5s\"", "1e3s", "~", "\"\""} {
		if _, r := Parse([]byte(smallest + "  concurrency: {per: tenant, max: 2, lease: " + lease + "}\n")); len(r.Problems) != 1 || r.Problems[0].Path != "routes[0].concurrency.lease" {
			t.Errorf("lease %s: %v", lease, r.Problems)
		}
	}
}

// A quota near 2^53 is exact or refused with the largest that is.
func TestR014_QuotasEndAtTheLargestExactNumber(t *testing.T) {
	t.Parallel()
	quota := func(n string) string {
		return smallest + "plans: {p: {quota: {amount: " + n + ", period: month}}}\n"
	}
	_, r := Parse([]byte(quota("9007199254740993")))
	if _, ok := problemAt(r.Problems, "plans.p.quota.amount", "the largest allowed is 9007199254740991"); !ok || len(r.Problems) != 1 {
		t.Errorf("2^53+1: %v", r)
	}
	d, r := Parse([]byte(quota("9007199254740991")))
	if !r.OK() || d.Plans["p"].Quota.Amount != 1<<53-1 || !strings.Contains(string(d.Canonical()), `"amount":9007199254740991`) {
		t.Errorf("2^53-1: %v", r)
	}
}

// Quotas and places tell nothing, none and everything apart too.
func TestR020_QuotasAndPlacesOfNothing(t *testing.T) {
	t.Parallel()
	d, r := Parse([]byte(smallest + "plans: {p: {quota: {amount: 0, period: day}}, q: {}}\n"))
	if !r.OK() || d.Plans["p"].Quota.Amount != 0 || d.Plans["q"].Quota != nil {
		t.Fatalf("amount 0: %v", r)
	}
	if _, ok := problemAt(r.Warnings, "plans.p.quota.amount", "admits nothing"); !ok {
		t.Errorf("amount 0: warnings %v", r.Warnings)
	}
	for _, wrong := range []string{"{period: day}", "{amount: -1, period: day}", "{amount: , period: day}", "{amount: unlimited, period: day}", "{amount: none, period: day}"} {
		if _, r := Parse([]byte(smallest + "plans: {p: {quota: " + wrong + "}}\n")); len(r.Problems) != 1 || r.Problems[0].Path != "plans.p.quota.amount" {
			t.Errorf("quota %s: %v", wrong, r.Problems)
		}
	}
	for _, wrong := range []string{"0", "-1", "unlimited", "~"} {
		if _, r := Parse([]byte(smallest + "  concurrency: {per: tenant, lease: 9s, max: " + wrong + "}\n")); len(r.Problems) != 1 || r.Problems[0].Path != "routes[0].concurrency.max" {
			t.Errorf("max %s: %v", wrong, r.Problems)
		}
	}
}

// A counter named after its numbers is shared by routes that happen to have the
// same; a copied rule must count on its own.
func TestCase_EqualNumbersAreNotOneBucket(t *testing.T) {
	t.Parallel()
	src := "apiVersion: headgate/v1\nshared: [{name: g, per: tenant, rate: 3/minute}]\nroutes:\n"
	for _, name := range []string{"a", "b"} {
		src += fmt.Sprintf("- {name: %s, match: [/%s], limits: [{name: l, per: tenant, rate: 3/minute}], on_store_failure: {mode: closed}}\n", name, name)
	}
	for _, name := range []string{"c", "d"} {
		src += fmt.Sprintf("- {name: %s, match: [/%s], uses: [g], on_store_failure: {mode: closed}}\n", name, name)
	}
	d, r := Parse([]byte(src))
	if !r.OK() {
		t.Fatal(r)
	}
	c, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(i int) uint64 { return c.Routes[i].Limits[0].Hash }
	if hash(0) == hash(1) || hash(0) == hash(2) {
		t.Error("routes with equal numbers share a bucket")
	}
	if hash(2) != hash(3) {
		t.Error("routes that use one shared limit have two buckets")
	}
}

// A change of plan must carry the bucket over.
func TestCase_APlansLimitIsOneBucketOnEveryPlan(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	if free, pro := c.Plans["free"][0], c.Plans["pro"][0]; free.Hash != pro.Hash || free.ID != pro.ID || free.Numbers == pro.Numbers {
		t.Errorf("free %+v, pro %+v", free, pro)
	}
}

// A call that is larger than the bucket would wait for ever.
func TestCase_ACostAboveTheBurstIsNotPublished(t *testing.T) {
	t.Parallel()
	src := func(cost int) []byte {
		return fmt.Appendf(nil, "%s  cost: %d\n  limits: [{name: a, per: tenant, rate: 60/minute, burst: 10}]\n", smallest, cost)
	}
	if _, r := Parse(src(10)); !r.OK() {
		t.Errorf("cost 10: %v", r)
	}
	if _, r := Parse(src(11)); len(r.Problems) != 1 || r.Problems[0].Path != "routes[0].cost" || r.Problems[0].Line != 6 {
		t.Errorf("cost 11: %v", r.Problems)
	}
}

// Doubled rows double the document; both places must be named.
func TestCase_DoubledRulesAreRefusedByName(t *testing.T) {
	t.Parallel()
	const route = "- {name: a, match: [/a], on_store_failure: {mode: closed}}\n"
	_, r := Parse([]byte("apiVersion: headgate/v1\nroutes:\n" + route + route + "- {name: rest, match: [/], on_store_failure: {mode: closed}}\n"))
	if p, ok := problemAt(r.Problems, "routes[1].name", "routes[0]"); !ok || p.Line != 4 {
		t.Errorf("name: %v", r.Problems)
	}
	if _, ok := problemAt(r.Problems, "routes[1].match[0]", `matches the same requests as "/a" of route a`); !ok {
		t.Errorf("pattern: %v", r.Problems)
	}
}

// An empty document is not "no limits".
func TestCase_AnEmptyPolicyIsRefused(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "{}", "apiVersion: headgate/v1\n", "apiVersion: headgate/v1\nroutes: []\n", `{"apiVersion":"headgate/v1","routes":[]}`, "null", "[]"} {
		if d, r := Parse([]byte(src)); d != nil || r.OK() {
			t.Errorf("%q was taken", src)
		}
	}
}

// Two rules of equal rank for one request: whoever wins would hang on chance.
func TestCase_RulesOfEqualRankAreRefused(t *testing.T) {
	t.Parallel()
	route := func(name, match string) string {
		return fmt.Sprintf("- {name: %s, match: [\"%s\"], on_store_failure: {mode: closed}}\n", name, match)
	}
	rules := []string{route("broad", "/api/"), route("get", "GET /api/v2/"), route("item", "/api/v2/items/{id}"), route("rest", "/")}
	permute(rules, func(order []string) {
		_, r := Parse([]byte("apiVersion: headgate/v1\nroutes:\n" + strings.Join(order, "")))
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Message, "of route get") || !strings.Contains(r.Problems[0].Message, "of route item") {
			t.Errorf("in this order: %v\n%s", r.Problems, strings.Join(order, ""))
		}
	})
}

// A request uses one policy from start to end while others read and compile it.
func TestCase_ADocumentIsReadFromManySides(t *testing.T) {
	t.Parallel()
	d := example(t)
	want, digest := string(d.YAML()), DigestOf(d.Canonical())
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 10 {
				c, err := Compile(d)
				if err != nil || c.Digest != digest || string(d.YAML()) != want || len(Diff(d, c.Document)) != 0 || !Validate(d).OK() {
					t.Errorf("the document changed while it was read (%v)", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// scribble overwrites everything that can be reached from a value.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(k))
			scribble(item) // reaches slices that the map's value shares
		}
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Int, reflect.Int64:
		v.SetInt(-7)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		panic("a document holds a " + v.Kind().String())
	}
}

func TestCase_NothingWrittenIntoADocumentReachesWhatItCompiledTo(t *testing.T) {
	t.Parallel()
	d := example(t)
	c, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	filled := d.withDefaults()
	scribble(reflect.ValueOf(d))
	if d.Routes[0].Limits[0].Name != "scribbled" || d.Routes[0].Match[0] != "scribbled" || d.Plans["free"].Limits[0].Burst != -7 {
		t.Fatal("the test does not scribble")
	}
	if DigestOf(c.Document.Canonical()) != c.Digest || DigestOf(filled.Canonical()) != c.Digest {
		t.Errorf("the compiled document became\n%s", c.Document.YAML())
	}
}
