package graphql

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tree is a query that a test can change and compute by hand.
type tree struct {
	name      string // of a field; "" for an inline fragment; "...F" for a spread
	arguments string
	on        string
	below     []*tree
}

func (n *tree) write(b *strings.Builder) {
	switch {
	case strings.HasPrefix(n.name, "..."):
		b.WriteString(n.name + " ")
		return
	case n.name == "":
		b.WriteString("...")
		if n.on != "" {
			b.WriteString(" on " + n.on)
		}
	default:
		b.WriteString(n.name + n.arguments)
	}
	if len(n.below) > 0 {
		b.WriteString("{")
		for _, c := range n.below {
			c.write(b)
		}
		b.WriteString("}")
	}
	b.WriteString(" ")
}

// sets lists the nodes that have something below: where a field can be added.
func (n *tree) sets() []*tree {
	var out []*tree
	if len(n.below) > 0 {
		out = append(out, n)
	}
	for _, c := range n.below {
		out = append(out, c.sets()...)
	}
	return out
}

// document is an operation and its fragments; fragment i uses only later ones.
type document struct {
	operation string
	root      *tree
	fragments []*tree
}

func (d *document) String() string {
	var b strings.Builder
	b.WriteString(d.operation + "($n:Int,$s:Boolean){")
	for _, c := range d.root.below {
		c.write(&b)
	}
	b.WriteString("}")
	for i, f := range d.fragments {
		fmt.Fprintf(&b, " fragment F%d on %s{", i, f.on)
		for _, c := range f.below {
			c.write(&b)
		}
		b.WriteString("}")
	}
	return b.String()
}

func genNode(t *rapid.T, depth, fragment, fragments int) *tree {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case kind == 0 && fragment+1 < fragments:
		return &tree{name: fmt.Sprintf("...F%d", rapid.IntRange(fragment+1, fragments-1).Draw(t, "spread"))}
	case kind == 1 && depth > 0:
		return &tree{on: rapid.SampledFrom([]string{"", "User", "Node", "Query"}).Draw(t, "on"), below: genSet(t, depth-1, fragment, fragments)}
	}
	n := &tree{
		name:      rapid.SampledFrom([]string{"a", "b", "search", "avatar", "free", "cheap", "edges", "nodes", "x:a", "edges:a"}).Draw(t, "field"),
		arguments: rapid.SampledFrom([]string{"", "", "", "(first:3)", "(last:$n)", "(first:2,limit:7)", "(page:{first:4})", "@skip(if:$s)", "@include(if:true)", "(first:0)"}).Draw(t, "arguments"),
	}
	if depth > 0 && kind > 4 {
		n.below = genSet(t, depth-1, fragment, fragments)
	}
	return n
}

func genSet(t *rapid.T, depth, fragment, fragments int) []*tree {
	out := make([]*tree, rapid.IntRange(1, 4).Draw(t, "width"))
	for i := range out {
		out[i] = genNode(t, depth, fragment, fragments)
	}
	return out
}

func genDocument(t *rapid.T) *document {
	n := rapid.IntRange(0, 4).Draw(t, "fragments")
	d := &document{operation: rapid.SampledFrom([]string{"query", "mutation", "subscription"}).Draw(t, "operation")}
	d.root = &tree{below: genSet(t, 4, -1, n)}
	for i := range n {
		d.fragments = append(d.fragments, &tree{on: rapid.SampledFrom([]string{"User", "Node", "Query", "T"}).Draw(t, "on"), below: genSet(t, 3, i, n)})
	}
	return d
}

// price is what a document costs with variables; a refusal counts as more than anything.
func (d *document) price(t *rapid.T, variables map[string]any) int64 {
	cost, err := Cost(d.String(), "", variables, rules())
	if errors.Is(err, ErrTooComplex) {
		return 1 << 62
	}
	if err != nil {
		t.Fatalf("%s: %v", d, err)
	}
	return cost
}

func TestCost_AddingAFieldNeverLowersIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument(t)
		variables := rapid.SampledFrom([]map[string]any{nil, {"n": json.Number("12"), "s": true}, {"n": nil, "s": false}, {"n": "x"}}).Draw(t, "variables")
		before := d.price(t, variables)
		sets := d.root.sets()
		for _, f := range d.fragments {
			sets = append(sets, f.sets()...)
		}
		at := rapid.SampledFrom(sets).Draw(t, "where")
		added := genNode(t, 2, len(d.fragments), len(d.fragments))
		at.below = slices.Insert(slices.Clone(at.below), rapid.IntRange(0, len(at.below)).Draw(t, "place"), added)
		if after := d.price(t, variables); after < before {
			t.Fatalf("%s costs %d, less than %d before a field was added", d, after, before)
		}
	})
}

func TestCost_FragmentsCostWhatTheirFieldsWouldWrittenOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument(t)
		out := &document{operation: d.operation, root: d.writtenOut(d.root)}
		if len(out.String()) > MaxQueryBytes/4 {
			return // beyond bounds that differ by design
		}
		if a, b := d.price(t, nil), out.price(t, nil); a != b {
			t.Fatalf("%s costs %d, written out %d: %s", d, a, b, out)
		}
	})
}

// writtenOut is a selection with inline fragments in place of named ones.
func (d *document) writtenOut(n *tree) *tree {
	if name, ok := strings.CutPrefix(n.name, "...F"); ok {
		f := d.fragments[int(name[0]-'0')]
		return d.writtenOut(&tree{on: f.on, below: f.below})
	}
	c := *n
	c.below = nil
	for _, b := range n.below {
		c.below = append(c.below, d.writtenOut(b))
	}
	return &c
}

func TestCost_OrderAndAliasesChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument(t)
		before := d.price(t, nil)
		for _, set := range append(d.root.sets(), d.root) {
			set.below = rapid.Permutation(set.below).Draw(t, "order")
			for _, c := range set.below {
				if c.name != "" && !strings.ContainsAny(c.name, ".:") {
					c.name = "alias:" + c.name
				}
			}
		}
		if after := d.price(t, nil); after != before {
			t.Fatalf("%s costs %d, %d before", d, after, before)
		}
	})
}

func TestCost_ALargerListOrWeightNeverLowersIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument(t)
		n := rapid.Int64Range(1, 1<<40).Draw(t, "n")
		more := rapid.Int64Range(n, 1<<41).Draw(t, "more")
		if a, b := d.price(t, map[string]any{"n": n}), d.price(t, map[string]any{"n": more}); b < a {
			t.Fatalf("%s costs %d with %d, %d with %d", d, a, n, b, more)
		}
		heavier := rules()
		for key, w := range heavier.Weights {
			heavier.Weights[key] = w + rapid.Int64Range(0, 50).Draw(t, key)
		}
		heavier.DefaultListSize += rapid.Int64Range(0, 50).Draw(t, "default")
		got, err := Cost(d.String(), "", nil, heavier)
		if before := d.price(t, nil); err == nil && got < before {
			t.Fatalf("%s costs %d by higher weights, %d before", d, got, before)
		}
	})
}

func TestCost_ABatchCostsTheSumOfItsOperations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var ops []Operation
		var want int64
		for range rapid.IntRange(1, 5).Draw(t, "operations") {
			d := genDocument(t)
			cost := d.price(t, nil)
			if cost == 1<<62 {
				return
			}
			want += cost
			ops = append(ops, Operation{Query: d.String()})
		}
		if got, err := New(rules()).Cost(ops); !errors.Is(err, ErrTooComplex) && (err != nil || got != want) {
			t.Fatalf("%d, %v; want %d", got, err, want)
		}
	})
}

func FuzzCost(f *testing.F) {
	for _, query := range bombs() {
		if len(query) < 4000 {
			f.Add(query, "", []byte(`{"n":1}`))
		}
	}
	f.Add(`query A($n:Int=3){users(first:$n){...F @skip(if:$s)}} fragment F on User{name}`, "A", []byte(`{"n":"7","s":true}`))
	f.Add(`{a(x:"""b "c" d""", y:[1.5e3 {z:$q}])}`, "", []byte(`{"q":{"first":[1,{"last":2}]}}`))
	r := rules()
	r.Max = 1_000_000
	p := New(r)
	f.Fuzz(func(t *testing.T, query, name string, variables []byte) {
		value, err := readJSON(variables)
		if err != nil {
			value = nil
		}
		given, _ := value.(map[string]any)
		cost, err := p.Cost([]Operation{{query, name, given}})
		switch {
		case err == nil && (cost < 1 || cost > r.Max):
			t.Errorf("cost %d", cost)
		case errors.Is(err, ErrOverMax) && cost <= r.Max:
			t.Errorf("cost %d is not over %d", cost, r.Max)
		case err != nil:
			checkError(t, err)
		}
		again, errAgain := p.Cost([]Operation{{query, name, given}})
		if again != cost || (err == nil) != (errAgain == nil) {
			t.Errorf("%d, %v, and again %d, %v", cost, err, again, errAgain)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add("POST", jsonType, []byte(`{"query":"{a}","variables":{"n":[1,{}]},"operationName":null}`), "a=b")
	f.Add("POST", jsonType, []byte(`[{"query":"{a}"},{"query":"{b}"}]`), "")
	f.Add("POST", "application/graphql", []byte(`{a}`), "")
	f.Add("GET", "", []byte(nil), "query={a}&variables={}")
	f.Fuzz(func(t *testing.T, method, contentType string, body []byte, rawQuery string) {
		ops, err := ParseRequest(method, contentType, body, rawQuery)
		if err != nil {
			checkError(t, err)
			return
		}
		if len(ops) == 0 || len(ops) > MaxBatch {
			t.Errorf("%d operations", len(ops))
		}
		// What was read is what any reader of JSON reads.
		var one struct {
			Query *string `json:"query"`
		}
		if method == "POST" && ops[0].Query != string(body) && json.Unmarshal(body, &one) == nil && one.Query != nil && *one.Query != ops[0].Query {
			t.Errorf("read %q, another reads %q", ops[0].Query, *one.Query)
		}
	})
}
