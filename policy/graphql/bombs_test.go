package graphql

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// bombs are queries that cost a careless reader its memory or its time.
func bombs() map[string]string {
	fill := func(s string, size int) string { return strings.Repeat(s, size/len(s)) }
	chain := func(n int, uses int) string {
		var b strings.Builder
		b.WriteString("{...F0}")
		for i := range n {
			fmt.Fprintf(&b, "fragment F%d on X{a{%s}}", i, strings.Repeat(fmt.Sprintf("...F%d ", i+1), uses))
		}
		fmt.Fprintf(&b, "fragment F%d on X{a}", n)
		return b.String()
	}
	free := strings.NewReplacer("a{", "free{").Replace
	return map[string]string{
		"10^6 aliases":                  "{" + fill("a:b ", 4_000_000) + "}",
		"aliases within the bytes":      "{" + fill("a:b ", MaxQueryBytes-10) + "}",
		"fields within the bytes":       "{" + fill("a ", MaxQueryBytes-10) + "}",
		"deep fields":                   fill("{a", MaxQueryBytes-10),
		"deep fields, closed":           strings.Repeat("{a", 900) + strings.Repeat("}", 900),
		"deep inline fragments":         "{" + strings.Repeat("...{", 998) + "a" + strings.Repeat("}", 999),
		"deeper inline fragments":       fill("{...", MaxQueryBytes-10),
		"deep lists":                    "{a(x:" + fill("[", MaxQueryBytes-10),
		"deep objects":                  "{a(x:" + fill("{a:", MaxQueryBytes-10),
		"deep types":                    "query($a:" + fill("[", MaxQueryBytes-10),
		"fragments that double":         chain(40, 2),
		"fragments that grow tenfold":   chain(40, 10),
		"free fragments that double":    free(chain(40, 2)),
		"a long chain of fragments":     chain(1500, 1),
		"a ring of fragments":           strings.Replace(chain(40, 2), "F40 on X{a}", "F40 on X{...F0}", 1),
		"many operations":               fill("query{a}", MaxQueryBytes-10),
		"many named operations":         many("query Q%d{a} ", 3000),
		"many fragments of a name":      "{a}" + fill("fragment F on X{a}", MaxQueryBytes-10),
		"many arguments":                "{a(" + fill("x:1 ", MaxQueryBytes-10) + ")}",
		"many arguments, all different": "{a(" + many("x%d:1 ", 5000) + ")}",
		"many directives":               "{a" + fill("@b ", MaxQueryBytes-10) + "}",
		"many skips":                    "{a" + fill("@skip(if:false)", MaxQueryBytes-10) + "}",
		"many variables":                "query(" + fill("$a:B ", MaxQueryBytes-10) + "){a}",
		"many comments":                 fill("#\n", MaxQueryBytes),
		"one comment":                   "#" + fill("x", MaxQueryBytes-10),
		"commas":                        fill(",", MaxQueryBytes),
		"quotes":                        fill(`"`, MaxQueryBytes),
		"strings":                       "{a(x:[" + fill(`""`, MaxQueryBytes-20) + "])}",
		"strings apart":                 "{a(x:[" + fill(`"" `, MaxQueryBytes-20) + "])}",
		"escapes":                       `{a(x:"` + fill(`\u0041`, MaxQueryBytes-20) + `")}`,
		"block strings":                 `{a(x:"""` + fill("\n  x", MaxQueryBytes-20),
		"quotes in a block string":      `{a(x:"""` + fill(`"x`, MaxQueryBytes-20),
		"numbers":                       "{a(x:" + fill("9", MaxQueryBytes-10),
		"huge sizes":                    strings.Repeat("{a(first:999999999999)", 40) + strings.Repeat("{a", 1) + strings.Repeat("}", 41),
		"NULs":                          fill("\x00", MaxQueryBytes),
		"invalid UTF-8":                 fill("\xff", MaxQueryBytes),
	}
}

// many writes a text with the numbers from 0.
func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

//nolint:paralleltest // memory of the whole process is measured
func TestCost_RefusesBombsCheaply(t *testing.T) {
	r := rules()
	r.Max = 1000
	p := New(r)
	cheap := map[string]bool{"escapes": true, "deep inline fragments": true} // odd, and no reason to refuse them
	for name, query := range bombs() {                                       // one at a time: their memory is measured
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := p.Cost([]Operation{{Query: query}})
		runtime.ReadMemStats(&after)
		if !cheap[name] {
			checkError(t, err)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 10
		t.Logf("%s: %d KiB in %d allocations: %v", name, allocated, after.Mallocs-before.Mallocs, err)
		if allocated > 8<<10 {
			t.Errorf("%s: allocated %d KiB, want at most 8 MiB", name, allocated)
		}
	}
}

// TestCost_WorkIsBoundedByTheDocument counts selections that are priced: as many as
// the document has, twice at most, however fragments multiply them.
func TestCost_WorkIsBoundedByTheDocument(t *testing.T) {
	t.Parallel()
	p := New(rules())
	for name, query := range bombs() {
		doc, err := parse(query)
		if err != nil {
			continue // nothing is priced
		}
		v, err := newVisit(p, doc, doc.Operations[0], nil)
		if err != nil {
			continue
		}
		if _, err := v.set(doc.Operations[0].SelectionSet, scope{root: "Query"}); err != nil && !errors.Is(err, ErrTooComplex) && !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %v", name, err)
		}
		if v.steps > 2*MaxTokens {
			t.Errorf("%s: %d steps for %d bytes", name, v.steps, len(query))
		}
	}
}

func TestCost_AVariableIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	large := make([]any, 10_000)
	for i := range large {
		large[i] = map[string]any{"first": i}
	}
	doc, err := parse("query($v:V){" + strings.Repeat("a(x:$v){b} ", 900) + "}")
	if err != nil {
		t.Fatal(err)
	}
	v, err := newVisit(New(rules()), doc, doc.Operations[0], map[string]any{"v": large})
	if err != nil {
		t.Fatal(err)
	}
	found, err := v.set(doc.Operations[0].SelectionSet, scope{root: "Query"})
	if err != nil || found.cost != 900*(1+9999) || len(v.values.sizes) != 1 {
		t.Errorf("cost %d, %v, %d sizes", found.cost, err, len(v.values.sizes))
	}
}

func TestCost_BoundsOfShapeAreTold(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("{a", n) + strings.Repeat("}", n) }
	wide := func(n int) string { return "{" + strings.Repeat("a ", n) + "}" }
	spread := func(n int) string { return "{b...F} fragment F on X" + wide(n-1) }
	total := func(n int) string {
		return "{" + strings.Repeat("a{...F} ", n/100) + strings.Repeat("b ", n%100) + "} fragment F on X" + wide(99)
	}
	tight := rules()
	tight.MaxDepth, tight.MaxBreadth = 3, 4
	loose := rules()
	loose.MaxDepth, loose.MaxBreadth = 100_000, 100_000
	for _, c := range []struct {
		name       string
		rules      Rules
		most, more string
		word       string
	}{
		{"depth by default", rules(), deep(defaultDepth), deep(defaultDepth + 1), "deeper than 50"},
		{"depth", tight, deep(3), deep(4), "deeper than 3"},
		{"depth through fragments", tight, "{a{...F}} fragment F on X{a{b}}", "{a{...F}} fragment F on X{a{b{c}}}", "deeper than 3"},
		{"breadth by default", rules(), wide(defaultBreadth), wide(defaultBreadth + 1), "more than 1000 fields"},
		{"breadth", tight, wide(4), wide(5), "more than 4 fields"},
		{"breadth through fragments", tight, spread(4), spread(5), "more than 4 fields"},
		{"all fields", loose, total(MaxFields), total(MaxFields + 1), "more than 10000 fields"},
		{"levels", loose, deep(999), deep(1001), "deeper than"},
		{"tokens", loose, "{a" + strings.Repeat("@b", (MaxTokens-3)/2) + "}", "{a" + strings.Repeat("@b", (MaxTokens-1)/2) + "}", "tokens"},
		{"bytes", loose, "{a}" + strings.Repeat(" ", MaxQueryBytes-3), "{a}" + strings.Repeat(" ", MaxQueryBytes-2), "bytes"},
	} {
		if _, err := Cost(c.most, "", nil, c.rules); err != nil {
			t.Errorf("%s, the most: %v", c.name, err)
		}
		if _, err := Cost(c.more, "", nil, c.rules); !errors.Is(err, ErrTooComplex) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s, one more: %v; want ErrTooComplex with %q", c.name, err, c.word)
		}
	}
	p := New(loose)
	half := Operation{Query: total(MaxFields / 2)}
	if _, err := p.Cost([]Operation{half, half}); err != nil {
		t.Errorf("two halves: %v", err)
	}
	if _, err := p.Cost([]Operation{half, half, {Query: "{a}"}}); !errors.Is(err, ErrTooComplex) {
		t.Errorf("and one more: %v", err)
	}
	if _, err := p.Cost(make([]Operation, MaxBatch+1)); !errors.Is(err, ErrTooComplex) {
		t.Errorf("many operations: %v", err)
	}
}
