package policy

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the test do not hang on the machine
)

// layers is the document of testdata/layers.yaml, which has every part.
func layers(t testing.TB) *Document {
	t.Helper()
	d, r := Parse(readTestdata(t, "layers.yaml"))
	if !r.OK() {
		t.Fatalf("the document has problems:\n%v", r)
	}
	return d
}

func TestLayers_DocumentIsTakenWithoutAWarning(t *testing.T) {
	t.Parallel()
	d, r := Parse(readTestdata(t, "layers.yaml"))
	if !r.OK() || len(r.Warnings) > 0 {
		t.Fatalf("problems %v, warnings %v", r.Problems, r.Warnings)
	}
	golden(t, "layers.canonical.json", d.Canonical())
	golden(t, "layers.out.yaml", d.YAML())
	for _, name := range []string{"layers.canonical.json", "layers.out.yaml"} {
		back, r := Parse(readTestdata(t, name))
		if !r.OK() || !reflect.DeepEqual(back, d) {
			t.Errorf("%s comes back as %+v, %v", name, back, r)
		}
	}
}

// The manual's example is the document of these tests, so that it cannot rot.
func TestLayers_AreTheManualsExample(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../docs/policy-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(manual), "```yaml\n")
	if sample, _, _ := strings.Cut(rest, "```"); sample != string(readTestdata(t, "layers.yaml")) {
		t.Error("docs/policy-format.md shows another document than testdata/layers.yaml")
	}
}

func TestLayers_CompileToWhatAGatewayCharges(t *testing.T) {
	t.Parallel()
	c, err := Compile(layers(t))
	if err != nil {
		t.Fatal(err)
	}
	route := func(name string) *CompiledRoute {
		return c.Routes[slices.IndexFunc(c.Routes, func(r *CompiledRoute) bool { return r.Name == name })]
	}
	if g := c.Global[0]; !g.Leased || g.Shadow || g.ExpiresMicros != 0 {
		t.Errorf("global limit %+v", g)
	}
	want := &CompiledConcurrency{ID: "route:report.concurrency", Hash: LimitHash("route:report.concurrency"), Per: PerTenant,
		Dimensions: []Dimension{{Kind: DimensionTenant}}, Max: 2, Hold: 90 * time.Second, Source: "route report"}
	if got := route("report").Concurrency; !reflect.DeepEqual(got, want) {
		t.Errorf("concurrency %+v, want %+v", got, want)
	}
	if got := route("login").Limits[0].Dimensions; !slices.Equal(got, []Dimension{{DimensionBody, "username"}}) {
		t.Errorf("dimensions of the login %v", got)
	}
	if g := route("graphql").Route.GraphQL; g.Max != 1000 || g.DefaultListSize != 25 || g.Weights["Query.search"] != 10 || g.MaxDepth != DefaultGraphQLDepth {
		t.Errorf("cost %+v", g)
	}
	pro := c.Quotas["pro"]
	if pro.ID != "plan.quota" || pro.Hash != LimitHash("plan.quota") || pro.Amount != 20_000_000 || pro.Max != 40_000_000 ||
		pro.Over != OverBill || pro.Location.String() != "Europe/Berlin" || pro.Source != "plan pro" || pro.Shadow {
		t.Errorf("quota %+v of %+v", pro.Quota, pro)
	}
	if free := c.Quotas["free"]; free.Hash != pro.Hash || free.Location != time.UTC {
		t.Errorf("quotas of two plans are %+v and %+v", free, pro)
	}
}

// Another version, with one change of each kind that limits, quotas,
// concurrency, costs and edges know.
func TestLayers_DifferenceReadsWell(t *testing.T) {
	t.Parallel()
	src := string(readTestdata(t, "layers.yaml"))
	for _, edit := range []struct{ from, to string }{
		{"{header: X-User-Id}", "{jwt: {jwks_file: /etc/headgate/keys.json, audience: api}}\nreplicas_expected: 3"},
		{"burst: 50000, sync: leased", "burst: 50000"},
		{"rate: 300/minute, burst: 60}", "rate: 300/minute, burst: 60, mode: shadow}"},
		{"{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}", "{name: requests, per: [tenant, ip], counts: requests, rate: 60/minute, burst: 60}"},
		{"{amount: 100000, counts: cost, period: month,", "{amount: 200000, counts: cost, period: week,"},
		{"over: bill, max: 40000000", "over: block"},
		{"    cost: 20\n", "    cost: {reserve: 20, settle_header: X-Cost}\n"},
		{"concurrency: {per: tenant, max: 2, lease: 90s}", "concurrency: {per: credential, max: 4, lease: 60s}"},
		{"default_list_size: 25", "default_list_size: 50"},
		{"weights: {Query.search: 10}", "weights: {Query.search: 5, \"*.node\": 2}"},
		{"{name: per-ip, per: ip, rate: 20/minute, burst: 20}", "{name: per-ip, per: ip, rate: 20/minute, burst: 20, expires_at: 2027-01-31T00:00:00Z}"},
		{"{mode: open, fallback: {rate: 300/minute, burst: 300}}", "{mode: open, fallback: share}"},
	} {
		next := strings.Replace(src, edit.from, edit.to, 1)
		if next == src {
			t.Fatalf("%q is not in the document", edit.from)
		}
		src = next
	}
	after, r := Parse([]byte(src))
	if !r.OK() {
		t.Fatal(r)
	}
	var b bytes.Buffer
	for _, c := range Diff(layers(t), after) {
		fmt.Fprintf(&b, "%-6s %-10s %-8s %-45s %-26s %s\n", c.Risk, c.Effect, c.Kind, c.Path, c.LimitID, c.Text)
	}
	fmt.Fprintln(&b, "and back")
	for _, c := range Diff(after, layers(t)) {
		fmt.Fprintf(&b, "%-6s %-10s %-8s %-45s %-26s %s\n", c.Risk, c.Effect, c.Kind, c.Path, c.LimitID, c.Text)
	}
	golden(t, "layers.diff.txt", b.Bytes())
}
