package policy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// genTree makes trees that are near enough to documents to be read far into,
// with every kind of value in every place.
func genTree(depth int) *rapid.Generator[*node] {
	return rapid.Custom(func(t *rapid.T) *node {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return &node{kind: kindInt, text: strconv.FormatInt(rapid.Int64Range(-2, 1<<53).Draw(t, "number"), 10)}
		case 1:
			return textNode(genText().Draw(t, "text"))
		case 2:
			return textNode(rapid.SampledFrom([]string{
				"60/minute", "unlimited", "0", "1e3/day", "tenant", "ip", "user", "open", "closed", "share", "cost", "api_key", "abuse", "headgate/v1", "/", "GET /a/{id}",
			}).Draw(t, "word"))
		case 3:
			return &node{kind: kindBool, text: "true"}
		case 4:
			return &node{kind: kindNull, text: "null"}
		case 5:
			return &node{kind: kindList, items: rapid.SliceOfN(genTree(depth-1), 0, 3).Draw(t, "items")}
		}
		return genMap(t, depth)
	})
}

func genMap(t *rapid.T, depth int) *node {
	n := &node{kind: kindMap}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"apiVersion", "routes", "plans", "shared", "global", "limits", "name", "per", "rate", "burst", "counts", "match", "cost", "uses", "mode", "fallback",
		"on_store_failure", "identity", "motive", "client_ip", "credentials", "invalid", "headers", "trusted_proxies", "quota", "user", "x y", "é", "", "a.b", "[0]", "description",
	}), 0, 5, rapid.ID[string]).Draw(t, "fields") {
		n.keys = append(n.keys, key{text: name})
		n.items = append(n.items, genTree(depth-1).Draw(t, name))
	}
	return n
}

// jsonOf and yamlSource write a tree in the two languages.
func jsonOf(n *node) []byte {
	var b bytes.Buffer
	writeCanonical(&b, n)
	return b.Bytes()
}

func yamlSource(t *rapid.T, n *node) []byte {
	b, err := yaml.Marshal(yamlOfAny(n))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// yamlOfAny is yamlOf for trees that no document has.
func yamlOfAny(n *node) *yaml.Node {
	switch n.kind {
	case kindBool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: n.text}
	case kindNull:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: n.text}
	case kindMap, kindList:
		y := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if n.kind == kindMap {
			y = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		for i, item := range n.items {
			if n.kind == kindMap {
				y.Content = append(y.Content, yamlText(n.keys[i].text))
			}
			y.Content = append(y.Content, yamlOfAny(item))
		}
		return y
	default:
		return yamlOf(n)
	}
}

// told is a report without its lines, in an order of its own.
func told(list []Problem) string {
	lines := make(map[string]bool, len(list))
	for _, p := range list {
		lines[p.Path+": "+p.Message] = true
	}
	return strings.Join(sortedKeys(lines), "\n")
}

// YAML and JSON mean the same: what one refuses the other refuses, for the same
// reasons in the same places.
func TestParse_ReadsYAMLAndJSONAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := genMap(t, 4)
		j, y := jsonOf(tree), yamlSource(t, tree)
		fromJSON, rj := ParseLoose(j)
		fromYAML, ry := ParseLoose(y)
		// A repeated field is told with the line of the first, which differs.
		if a, b := told(rj.Problems), told(ry.Problems); a != b {
			t.Fatalf("JSON\n%s\nhas the problems\n%s\nYAML\n%s\nhas\n%s", j, a, y, b)
		}
		if a, b := told(rj.Warnings), told(ry.Warnings); a != b {
			t.Fatalf("JSON warns of\n%s\nYAML of\n%s", a, b)
		}
		if (fromJSON == nil) != (fromYAML == nil) {
			t.Fatalf("JSON gives %v, YAML %v", fromJSON, fromYAML)
		}
		if fromJSON != nil && !bytes.Equal(fromJSON.Canonical(), fromYAML.Canonical()) {
			t.Fatalf("JSON gives\n%s, YAML\n%s", fromJSON.Canonical(), fromYAML.Canonical())
		}
	})
}

// mutate changes one place of a tree, somewhere below n.
func mutate(t *rapid.T, n *node) {
	if len(n.items) > 0 && rapid.IntRange(0, 5).Draw(t, "deeper") > 0 {
		mutate(t, n.items[rapid.IntRange(0, len(n.items)-1).Draw(t, "where")])
		return
	}
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0:
		*n = *genTree(2).Draw(t, "other")
	case 1:
		if len(n.items) > 0 { // a field or an item is lost
			n.items = n.items[1:]
			n.keys = n.keys[min(1, len(n.keys)):]
		}
	case 2:
		if len(n.items) > 0 { // a field or an item is doubled
			n.items = append(n.items, n.items[0])
			if len(n.keys) > 0 {
				n.keys = append(n.keys, n.keys[0])
			}
		}
	case 3:
		if n.kind == kindInt {
			n.text = rapid.SampledFrom([]string{"-1", "0", "1", "9007199254740993", "281474976710655"}).Draw(t, "number")
		}
	case 4:
		if len(n.keys) > 0 {
			n.keys[0].text += "x"
		}
	}
}

// A validly signed policy may still be poison: whatever it holds, reading it
// ends in a report or in a document that can be enforced, never in a panic.
func TestParse_TakesNoPoison(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := encodeDocument(genDocument().Draw(t, "document").withDefaults())
		for range rapid.IntRange(1, 3).Draw(t, "mutations") {
			mutate(t, tree)
		}
		src := jsonOf(tree)
		d, r := Parse(src)
		if (d == nil) == r.OK() {
			t.Fatalf("document %v and report %v", d, r)
		}
		for _, p := range r.Problems {
			if p.Message == "" || p.Line != 1 {
				t.Fatalf("problem %+v lacks its message or line\n%s", p, src)
			}
		}
		if d == nil {
			return
		}
		c, err := Compile(d)
		if err != nil {
			t.Fatalf("a valid document does not compile: %v\n%s", err, src)
		}
		for _, path := range []string{"/", "/r0/7", "/r1/7/", "/r0"} {
			if r, ok := c.Match("GET", "h.example", path); ok && (r.Cost < 1 || r.Route == nil) {
				t.Fatalf("route %+v\n%s", r, src)
			}
		}
		checkLimits(t, c)
	})
}

// checkLimits holds what every store relies on.
func checkLimits(t *rapid.T, c *Compiled) {
	check := func(l CompiledLimit) {
		n := l.Numbers
		switch {
		case l.Unlimited:
			if n != (Numbers{}) {
				t.Fatalf("unlimited %s has numbers %+v", l.ID, n)
			}
		case n.Period < 1 || n.Tokens < 0 || n.Burst < 0 || n.Full()+n.Tokens >= MaxUnits || max(n.Tokens, n.Period, n.Burst) > maxStored:
			t.Fatalf("%s has numbers %+v", l.ID, n)
		case n.Blocked() != (l.Rate.Blocked() || l.Burst == 0):
			t.Fatalf("%s at %s, burst %d is blocked: %v", l.ID, l.Rate, l.Burst, n.Blocked())
		}
	}
	for _, l := range c.Global {
		check(l)
	}
	for _, p := range c.Plans {
		for _, l := range p {
			check(l)
		}
	}
	for _, r := range c.Routes {
		for _, l := range r.Limits {
			check(l)
			if l.Counts == CountsCost && !l.Unlimited && !l.Numbers.Blocked() && r.Cost > l.Burst {
				t.Fatalf("cost %d of %s can never pass %s", r.Cost, r.Name, l.ID)
			}
		}
	}
}

func TestLineAt_FindsTheNearestLine(t *testing.T) {
	t.Parallel()
	src := strings.Join([]string{
		"apiVersion: headgate/v1", // 1
		"plans:",                  // 2
		"  free:",                 // 3
		"    limits:",             // 4
		"    - name: a",           // 5
		"      per: tenant",       // 6
		"    - {name: b,",         // 7
		"       per: tenant}",     // 8
		"routes:",                 // 9
		"- name: x",               // 10
		"",                        // 11
		"-",                       // 12
		"  name: y",               // 13
	}, "\n")
	y, err := readSource([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"":                          1,
		"apiVersion":                1,
		"plans":                     2,
		"plans.free":                3,
		"plans.pro":                 2,
		"plans.free.limits":         4,
		"plans.free.limits[0]":      5,
		"plans.free.limits[0].per":  6,
		"plans.free.limits[0].rate": 5,
		"plans.free.limits[1]":      7,
		"plans.free.limits[1].per":  8,
		"plans.free.limits[2]":      4,
		"routes":                    9,
		"routes[0].name":            10,
		"routes[0].match[3]":        10,
		"routes[1].name":            13,
		"routes[x]":                 9,
		"nothing.here[4]":           1,
	} {
		if got := y.lineAt(path); got != want {
			t.Errorf("%q is on line %d, want %d", path, got, want)
		}
	}
}

func TestJSON_LinesAreThoseOfTheTokens(t *testing.T) {
	t.Parallel()
	n, err := readSource([]byte("{\n\"a\"\n:\n{\"b\": [1,\n2,\n\n3]}}"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"": 1, "a": 2, "a.b": 4, "a.b[0]": 4, "a.b[1]": 5, "a.b[2]": 7} {
		if got := n.lineAt(path); got != want {
			t.Errorf("%q is on line %d, want %d", path, got, want)
		}
	}
}

func TestParent_GoesUpToTheDocument(t *testing.T) {
	t.Parallel()
	var got []string
	for at := "routes[3].limits[0].rate"; at != ""; at = parent(at) {
		got = append(got, at)
	}
	if text := fmt.Sprint(got); text != "[routes[3].limits[0].rate routes[3].limits[0] routes[3].limits routes[3] routes]" {
		t.Errorf("parents %s", text)
	}
}
