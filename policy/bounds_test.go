package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// items writes n items of a YAML flow list.
func items(n int, item func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = item(i)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// Each list is taken at its bound and refused, by name, one above.
func TestParse_ListsAreBounded(t *testing.T) {
	t.Parallel()
	limit := func(i int) string { return fmt.Sprintf("{name: l%d, per: tenant, rate: 5/minute}", i) }
	for _, c := range []struct {
		path string
		most int
		src  func(n int) string
	}{
		{"routes[0].limits", maxLimits, func(n int) string { return smallest + "  limits: " + items(n, limit) + "\n" }},
		{"plans.p.limits", maxLimits, func(n int) string { return smallest + "plans: {p: {limits: " + items(n, limit) + "}}\n" }},
		{"global.limits", maxLimits, func(n int) string {
			return smallest + "global: {limits: " + strings.ReplaceAll(items(n, limit), "tenant", "global") + "}\n"
		}},
		{"shared", maxShared, func(n int) string { return smallest + "shared: " + items(n, limit) + "\n" }},
		{"routes[0].uses", maxUses, func(n int) string {
			names := func(i int) string { return fmt.Sprintf("l%d", i) }
			return smallest + "  uses: " + items(n, names) + "\nshared: " + items(n, limit) + "\n"
		}},
		{"routes[0].match", maxMatches, func(n int) string {
			return "apiVersion: headgate/v1\nroutes:\n- name: a\n  on_store_failure: {mode: closed}\n  match: " +
				items(n, func(i int) string { return fmt.Sprintf("/p%d", i) }) + "\n"
		}},
		{"credentials.headers", maxHeaders, func(n int) string {
			return smallest + "credentials: {headers: " + items(n, func(i int) string { return fmt.Sprintf("{name: X-%d}", i) }) + "}\n"
		}},
		{"client_ip.trusted_proxies", maxTrustedProxies, func(n int) string {
			return smallest + "client_ip: {trusted_proxies: " + items(n, func(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i/256, i%256) }) + "}\n"
		}},
		{"plans", maxPlans, func(n int) string {
			list := items(n, func(i int) string { return fmt.Sprintf("p%d: {}", i) })
			return smallest + "plans: {" + strings.Trim(list, "[]") + "}\n"
		}},
		{"routes", maxRoutes, func(n int) string {
			return "apiVersion: headgate/v1\nroutes:" + routesBlock(n)
		}},
	} {
		if _, r := Parse([]byte(c.src(c.most))); !r.OK() {
			t.Errorf("%s with %d items: %v", c.path, c.most, r)
		}
		d, r := Parse([]byte(c.src(c.most + 1)))
		p, ok := problemAt(r.Problems, c.path, fmt.Sprintf("at most %d are allowed", c.most))
		if d != nil || !ok || p.Line == 0 {
			t.Errorf("%s with %d items: %v", c.path, c.most+1, r)
		}
		if len(r.Problems) != 1 && c.path != "shared" {
			t.Errorf("%s with %d items: %d problems, want 1", c.path, c.most+1, len(r.Problems))
		}
	}
}

func routesBlock(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\n- {name: r%d, match: [/r%d], on_store_failure: {mode: closed}}", i, i)
	}
	return b.String() + "\n"
}

// Far above its bound a list or map is refused before its items are looked at.
func TestReadSource_RefusesHugeListsAndMaps(t *testing.T) {
	t.Parallel()
	list := strings.Repeat("0,", maxItems) + "0"
	fields := items(maxFields+1, func(i int) string { return fmt.Sprintf(`"f%d":0`, i) })
	fields = strings.Trim(fields, "[]")
	items, names := fmt.Sprintf("a: has %d items: at most %d are allowed", maxItems+1, maxItems), fmt.Sprintf("a: has %d fields: at most %d are allowed", maxFields+1, maxFields)
	for src, want := range map[string]string{
		`{"a":[` + list + `]}`:                                 items,
		`{"a":{` + fields + `}}`:                               names,
		"a: [" + list + "]\n":                                  items,
		"a: {" + strings.ReplaceAll(fields, ":", ": ") + "}\n": names,
	} {
		_, err := readSource([]byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", src, err, want)
		}
	}
}

func TestReadSource_BoundsDepthAlikeInBothLanguages(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		nested := strings.Repeat(`{"a":`, depth) + "0" + strings.Repeat("}", depth)
		_, err := readSource([]byte(nested))
		if (err == nil) != want {
			t.Errorf("JSON of %d levels: %v", depth, err)
		}
		_, err = readSource([]byte("# YAML\n" + strings.ReplaceAll(nested, ":", ": ")))
		if (err == nil) != want {
			t.Errorf("YAML of %d levels: %v", depth, err)
		}
	}
}

func TestReadSource_BoundsAllValuesTogether(t *testing.T) {
	t.Parallel()
	inner := "[" + strings.Repeat("0,", 9999) + "0]"
	src := `{"a":[` + strings.Repeat(inner+",", 40) + inner + `]}`
	if _, err := readSource([]byte(src)); err == nil || !strings.Contains(err.Error(), "holds 410043 values: at most 400000 are allowed") {
		t.Errorf("%v", err)
	}
}

func TestParse_TakesADocumentAtTheSizeBound(t *testing.T) {
	t.Parallel()
	at := func(size int) []byte { return append([]byte(smallest), strings.Repeat(" ", size-len(smallest))...) }
	if _, r := Parse(at(MaxSourceBytes)); !r.OK() {
		t.Errorf("%d bytes: %v", MaxSourceBytes, r)
	}
	if _, r := Parse(at(MaxSourceBytes + 1)); r.OK() || !strings.Contains(r.Error(), "8388609 bytes long: the largest allowed is 8388608") {
		t.Errorf("%d bytes: %v", MaxSourceBytes+1, r)
	}
}

func TestReport_SaysWhenANewerBuildMayHelp(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{
		smallest + "antigravity: 1\n": true,
		smallest + "  cost: {reserve: 5, settle_header: X-Cost, settle_body: cost}\n": true,
		smallest + "  limits: [{name: a, per: tenant, rate: 5/minute, warmup: 3s}]\n": true,
		smallest + "client_ip: {header: Forwarded}\n":                                 true,
		strings.Replace(smallest, "v1", "v2", 1):                                      true,
		smallest:                                                                      false,
		smallest + "  cost: 0\n":                                                      false,
		smallest + "  identity: face\n":                                               false,
		smallest + "  cost: 1\n  cost: 1\n":                                           false,
		"{":                                                                           false,
	} {
		if _, r := Parse([]byte(src)); r.TooNew() != want {
			t.Errorf("%q: too new is %v, want %v (%v)", src, r.TooNew(), want, r)
		}
	}
}

func TestReport_ListsAreNeverNull(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{"good": smallest, "unreadable": "{", "with problems": smallest + "x: 1\n"} {
		if _, r := Parse([]byte(src)); r.Problems == nil || r.Warnings == nil {
			t.Errorf("%s: %#v", name, r)
		}
	}
	if r := Validate(valid()); r.Problems == nil || r.Warnings == nil {
		t.Errorf("validated: %#v", r)
	}
}

func TestClip_CutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "",
		strings.Repeat("a", 60):       strings.Repeat("a", 60),
		strings.Repeat("a", 61):       strings.Repeat("a", 60) + "…",
		"a" + strings.Repeat("é", 31): "a" + strings.Repeat("é", 29) + "…",
	} {
		if got := clip(in); got != want {
			t.Errorf("clip(%q) = %q, want %q", in, got, want)
		}
	}
}

// over a bound, the present size and the bound are told, whatever is too large.
func TestR093_TellsSizeAndBound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxText+1)
	for src, want := range map[string]string{
		strings.Repeat(" ", MaxSourceBytes+1):                         "is 8388609 bytes long: the largest allowed is 8388608",
		strings.Repeat("- a\n", 500_000):                              "holds 1000000 line ends, colons, commas, brackets and dashes, and at most 600000",
		"{" + strings.Repeat(`"a":0,`, 400_000) + `"b":0}`:            "holds 400002 values: at most 400000",
		smallest + "description: " + long + "\n":                      "is 1001 bytes long: at most 1000",
		"apiVersion: headgate/v1\nroutes:" + routesBlock(maxRoutes+1): "has 10001 routes: at most 10000",
	} {
		if _, r := Parse([]byte(src)); r.OK() || !strings.Contains(r.Error(), want) {
			t.Errorf("%.30s: %v, want %s", src, r, want)
		}
	}
}

// of two rules with one name both places are told.
func TestR093_DuplicatesAreNamedWithBothPlaces(t *testing.T) {
	t.Parallel()
	twice := func(l string) string { return "[" + l + ", " + l + "]" }
	limit := "{name: a, per: tenant, rate: 5/minute}"
	for src, want := range map[string][2]string{
		"apiVersion: headgate/v1\nroutes: " + twice("{name: a, match: [/], on_store_failure: {mode: closed}}"): {"routes[1].name", `"a" is a duplicate, routes[0] has that name too: routes must differ`},
		smallest + "  limits: " + twice(limit) + "\n":                                                          {"routes[0].limits[1].name", "routes[0].limits[0] has that name too"},
		smallest + "shared: " + twice(limit) + "\n":                                                            {"shared[1].name", "shared[0] has that name too"},
		smallest + "plans: {p: {limits: " + twice(limit) + "}}\n":                                              {"plans.p.limits[1].name", "plans.p.limits[0] has that name too"},
		smallest + "global: {limits: " + strings.ReplaceAll(twice(limit), "tenant", "ip") + "}\n":              {"global.limits[1].name", "global.limits[0] has that name too"},
		smallest + "plans: {p: {}, p: {}}\n":                                                                   {"plans.p", "is there twice, first on line 6"},
		smallest + "- {name: b, match: [/], on_store_failure: {mode: closed}}\n":                               {"routes[1].match[0]", `"/" of route b matches the same requests as "/" of route all`},
	} {
		d, r := Parse([]byte(src))
		if _, ok := problemAt(r.Problems, want[0], want[1]); d != nil || !ok {
			t.Errorf("%s\n%v, want %s", src, r, want)
		}
	}
}

func TestCountValues_CountsWhatIsRead(t *testing.T) {
	t.Parallel()
	var count func(n *node) int
	count = func(n *node) int {
		all := 1
		for _, item := range n.items {
			all += count(item)
		}
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		src := jsonOf(encodeDocument(genDocument().Draw(t, "document").withDefaults()))
		n, err := readJSON(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := countValues(src, false), count(n); got != want {
			t.Fatalf("counts %d values of %d in\n%s", got, want, src)
		}
	})
	for src, want := range map[string]int{`{}`: 1, `[]`: 1, `[[]]`: 2, `[[],[]]`: 3, `{"a":{}}`: 2, `[ ]`: 1, `[",[{\",",1]`: 3, `[1`: 1, `,,`: 3, ``: 1} {
		if got := countValues([]byte(src), false); got != want {
			t.Errorf("%s holds %d values, want %d", src, got, want)
		}
	}
	for src, want := range map[string]int{`]`: 0, `,1]`: 1, `,[1,2],{"a":"]",":":2}],5`: 2, `,"a":1,"b":[1,2]}`: 2} {
		if got := countValues([]byte(src), true); got != want {
			t.Errorf("%s leaves %d, want %d", src, got, want)
		}
	}
}
