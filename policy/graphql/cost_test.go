package graphql

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

// rules are those of most tests: lists count 25 when nothing is said.
func rules() Rules {
	return Rules{DefaultListSize: 25, ListArguments: []string{"first", "last", "limit"}, Weights: map[string]int64{
		"Query.search": 10, "Mutation.import": 100, "User.avatar": 5, "*.free": 0, "Node.cheap": 1, "User.cheap": 7,
	}}
}

func TestCost_IsWeightTimesTheListsAround(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		want        int64
	}{
		{"one field", `{a}`, 1},
		{"fields add up", `{a b c}`, 3},
		{"an alias counts each time", `{a x:a y:a}`, 3},
		{"nested", `{a{b{c}}}`, 3},
		{"a list", `{users(first:10){name email}}`, 1 + 10*2},
		{"lists multiply", `{users(first:10){posts(last:5){title}}}`, 1 + 10*(1+5)},
		{"the larger of two sizes", `{users(first:10,last:3){name}}`, 1 + 10},
		{"a size inside an input object", `{users(page:{first:10}){name}}`, 1 + 10},
		{"a size inside a list of objects", `{users(pages:[{limit:4},{limit:6}]){name}}`, 1 + 6},
		{"a list of scalars", `{ids(first:10)}`, 10},
		{"weighted list of scalars", `{search(first:10)}`, 100},
		{"a connection without a size", `{users{edges{node{name}}}}`, 1 + 25*3},
		{"a connection's nodes", `{users{nodes{name} total}}`, 1 + 25*3},
		{"a connection by fragment", `{users{...F}} fragment F on C{nodes{name}}`, 1 + 25*2},
		{"a connection with a size", `{users(first:2){edges{node{name}}}}`, 1 + 2*3},
		{"an object without a size", `{viewer{profile{name}}}`, 3},
		{"null size", `{users(first:null){name}}`, 1 + 25},
		{"zero size", `{users(first:0){name}}`, 1 + 25},
		{"negative size", `{users(first:-1){name}}`, 1 + 25},
		{"large negative size", `{users(first:-90){name}}`, 1 + 90},
		{"fractional size", `{users(first:2.5){name}}`, 1 + 3},
		{"size as text", `{users(first:"40"){name}}`, 1 + 40},
		{"size as a word", `{users(first:ALL){name}}`, 1 + 25},
		{"size as a list", `{users(first:[900]){name}}`, 1 + 25},
		{"size in exponents", `{users(first:1e3){name}}`, 1 + 1000},
		{"root weight", `{search{name}}`, 11},
		{"root weight under an alias", `{a:search b:search}`, 20},
		{"mutation", `mutation{import{id}}`, 101},
		{"root weights hold by operation", `mutation{search}`, 1},
		{"subscription", `subscription{a{b}}`, 2},
		{"weight by field", `{free a{free}}`, 1},
		{"nothing costs less than one", `{free}`, 1},
		{"inline fragment", `{a{...on X{b c}}}`, 3},
		{"inline fragment without a type", `{a{...{b}}}`, 2},
		{"weight under a type condition", `{a{...on User{avatar}}}`, 6},
		{"weight of an unknown type", `{a{avatar}}`, 6},
		{"an interface is no way to a lower price", `{a{...on Actor{avatar}}}`, 6},
		{"weight of the named type", `{a{...on Node{cheap}}}`, 2},
		{"weight of an unknown type is the highest", `{a{cheap}}`, 8},
		{"a condition at the root is no way to a lower price", `{...on Node{search cheap}}`, 11},
		{"a condition at the root may raise it", `{...on User{cheap}}`, 7},
		{"the root's own condition", `{...on Query{search}}`, 10},
		{"a fragment at the root", `{...F} fragment F on Query{search}`, 10},
		{"a fragment at the root and below", `{...F a{...F}} fragment F on Query{search b}`, 11 + 1 + 11},
		{"fragments count at each use", `{a{...F} b{...F}} fragment F on X{c d}`, 2 + 4},
		{"fragments within fragments", `{a{...F}} fragment F on X{b...G} fragment G on Y{c}`, 3},
		{"an unused fragment costs nothing", `{a} fragment F on X{b c d}`, 1},
		{"introspection costs", `{__schema{types{name}}}`, 3},
		{"a name of a type costs", `{a{__typename}}`, 2},
		{"comments and strings cost nothing", "{a(x:\"{b c}\") # {d e}\n}", 1},
		{"block strings cost nothing", `{a(x:"""{b "c" d}
""")}`, 1},
	} {
		got, err := Cost(c.query, "", nil, rules())
		if err != nil || got != c.want {
			t.Errorf("%s: %s costs %d, %v; want %d", c.name, c.query, got, err, c.want)
		}
	}
}

func TestCost_ReadsVariables(t *testing.T) {
	t.Parallel()
	const list = `query($n:Int){users(first:$n){name}}`
	const page = `query($p:Page){users(page:$p){name}}`
	for _, c := range []struct {
		name, query, variables string
		want                   int64
	}{
		{"given", list, `{"n":10}`, 11},
		{"given as text", list, `{"n":"10"}`, 11},
		{"given in exponents", list, `{"n":1e2}`, 101},
		{"missing", list, `{}`, 26},
		{"null", list, `{"n":null}`, 26},
		{"not a number", list, `{"n":true}`, 26},
		{"no digits", list, `{"n":"all"}`, 26},
		{"not a number at all", list, `{"n":"NaN"}`, 26},
		{"default", `query($n:Int=7){users(first:$n){name}}`, `{}`, 8},
		{"default given over", `query($n:Int=7){users(first:$n){name}}`, `{"n":9}`, 10},
		{"default set aside by null", `query($n:Int=7){users(first:$n){name}}`, `{"n":null}`, 26},
		{"not defined", `query{users(first:$n){name}}`, `{"n":1}`, 26},
		{"inside an object", `query($n:Int){users(page:{first:$n}){name}}`, `{"n":10}`, 11},
		{"an object", page, `{"p":{"after":"x","deep":[{"first":10}]}}`, 11},
		{"an object by default", `query($p:Page={first:12}){users(page:$p){name}}`, `{}`, 13},
		{"an object that says nothing", page, `{"p":{"after":"x"}}`, 2},
		{"in a fragment", `query($n:Int){a{...F}} fragment F on X{users(first:$n){name}}`, `{"n":4}`, 1 + 1 + 4},
		{"skipped", `query($s:Boolean!){a b@skip(if:$s)}`, `{"s":true}`, 1},
		{"not skipped", `query($s:Boolean!){a b@skip(if:$s)}`, `{"s":false}`, 2},
		{"not known whether skipped", `query($s:Boolean!){a b@skip(if:$s)}`, `{}`, 2},
		{"skipped by a word", `query($s:Boolean!){a b@skip(if:$s)}`, `{"s":"true"}`, 2},
		{"skipped by default", `query($s:Boolean=true){a b@skip(if:$s)}`, `{}`, 1},
		{"skipped by a variable that is not defined", `{a b@skip(if:$s)}`, `{"s":true}`, 2},
		{"included", `query($s:Boolean!){a b@include(if:$s)}`, `{"s":true}`, 2},
		{"not included", `query($s:Boolean!){a b@include(if:$s)}`, `{"s":false}`, 1},
		{"literals", `{a b@skip(if:true) c@include(if:false) d@skip(if:false) e@include(if:true)}`, `{}`, 3},
		{"both", `{a@skip(if:false)@include(if:false) b@skip(if:true)@include(if:true) c}`, `{}`, 1},
		{"fragments are left out", `{a ...F@skip(if:true) ...on X@include(if:false){b}} fragment F on X{c}`, `{}`, 1},
		{"other directives change nothing", `{a@defer(if:true) b@live}`, `{}`, 2},
	} {
		ops, err := fromJSON([]byte(`{"query":` + quoted(c.query) + `,"variables":` + c.variables + `}`))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := New(rules()).Cost(ops); err != nil || got != c.want {
			t.Errorf("%s: %s with %s costs %d, %v; want %d", c.name, c.query, c.variables, got, err, c.want)
		}
	}
}

func TestCost_TakesVariablesOfGoTypesToo(t *testing.T) {
	t.Parallel()
	for _, n := range []any{10, int64(10), 10.0, 9.5, json.Number("10"), "10"} {
		got, err := Cost(`query($n:Int){users(first:$n){name}}`, "", map[string]any{"n": n}, rules())
		if err != nil || got != 11 {
			t.Errorf("%T(%v): %d, %v; want 11", n, n, got, err)
		}
	}
}

func TestCost_OperationNamePicks(t *testing.T) {
	t.Parallel()
	const two = `query A{a} mutation B{import} fragment F on X{c}`
	for name, want := range map[string]int64{"A": 1, "B": 100} {
		if got, err := Cost(two, name, nil, rules()); err != nil || got != want {
			t.Errorf("%s costs %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "C", "a"} {
		if _, err := Cost(two, name, nil, rules()); !errors.Is(err, ErrSyntax) {
			t.Errorf("operation %q: %v, want ErrSyntax", name, err)
		}
	}
	if _, err := Cost(`{a}`, "A", nil, rules()); !errors.Is(err, ErrSyntax) {
		t.Errorf("a name for an operation without one: %v, want ErrSyntax", err)
	}
}

func TestCost_RefusesWhatTwoUpstreamsCouldReadInTwoWays(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"empty":                          ``,
		"no operation":                   `fragment F on X{a}`,
		"a type":                         `type A{a:Int}`,
		"empty selection":                `{}`,
		"empty selection below":          `{a{}}`,
		"empty arguments":                `{a()}`,
		"unclosed":                       `{a`,
		"unclosed string":                `{a(x:"b)}`,
		"rest":                           `{a} b`,
		"control character":              "{a\x00}",
		"invalid UTF-8":                  "{a(x:\"\xff\")}",
		"unknown fragment":               `{a{...F}}`,
		"fragment in itself":             `{...F} fragment F on X{...F}`,
		"fragments in a ring":            `{...F} fragment F on X{a{...G}} fragment G on X{b{...F}}`,
		"two fragments of a name":        `{...F} fragment F on X{a} fragment F on X{a b}`,
		"two operations of a name":       `query A{a} query A{b}`,
		"two operations without a name":  `{a} {b}`,
		"one of two without a name":      `{a} query B{b}`,
		"two variables of a name":        `query($a:Int,$a:Int){a}`,
		"two arguments of a name":        `{a(first:1,first:1000){b}}`,
		"two skips":                      `{a@skip(if:true)@skip(if:false)}`,
		"skip without a condition":       `{a@skip}`,
		"skip with another argument":     `{a@skip(unless:true)}`,
		"skip with two":                  `{a@skip(if:true,if:false)}`,
		"variables of a fragment":        `{...F} fragment F($a:Int=1) on X{a}`,
		"block string ending in a quote": `{a(x:["""y"""" ], z:["]){expensive}b(x:["])}`,
		"a comment ending in U+2028":     "{a #\u2028 expensive\n}",
		"a comment ending in U+2029":     "{a #\u2029 expensive\n}",
		"a comment ending in U+0085":     "{a #\u0085 expensive\n}",
		"empty block string and a quote": `{a(x:"""""""")}`,
	} {
		if cost, err := Cost(query, "", nil, rules()); !errors.Is(err, ErrSyntax) || cost != 0 {
			t.Errorf("%s: %s: %d, %v; want ErrSyntax", name, query, cost, err)
		}
	}
}

func TestCost_MaxIsTheHighestThatPasses(t *testing.T) {
	t.Parallel()
	r := rules()
	r.Max = 21
	if got, err := Cost(`{users(first:10){name email}}`, "", nil, r); err != nil || got != 21 {
		t.Errorf("at the highest: %d, %v", got, err)
	}
	r.Max = 20
	if got, err := Cost(`{users(first:10){name email}}`, "", nil, r); !errors.Is(err, ErrOverMax) || got != 21 {
		t.Errorf("above: %d, %v; want 21 and ErrOverMax", got, err)
	}
	one := Operation{Query: `{a b c}`}
	r.Max = 8
	if got, err := New(r).Cost([]Operation{one, one, one}); !errors.Is(err, ErrOverMax) || got != 9 {
		t.Errorf("a batch counts together: %d, %v; want 9 and ErrOverMax", got, err)
	}
}

func TestCost_SaturatesInsteadOfWrapping(t *testing.T) {
	t.Parallel()
	r := rules()
	r.Weights["*.huge"] = math.MaxInt64
	for name, query := range map[string]string{
		"sizes multiply":     `{a(first:4000000000){b(first:4000000000){c(first:4000000000){d}}}}`,
		"size of 400 digits": `{a(first:` + digits(400) + `){b(first:9){c}}}`,
		"size beyond floats": `{a(first:1e999){b(first:2){c}}}`,
		"weights add up":     `{huge x:huge y:huge}`,
		"negative size":      `{a(first:-9223372036854775808){b(first:9){c}}}`,
	} {
		if got, err := Cost(query, "", nil, r); err != nil || got != math.MaxInt64 {
			t.Errorf("%s: %d, %v; want the highest int64", name, got, err)
		}
		r.Max = 1000
		if _, err := Cost(query, "", nil, r); !errors.Is(err, ErrOverMax) {
			t.Errorf("%s: %v, want ErrOverMax", name, err)
		}
		r.Max = 0
	}
}

func TestNew_TakesRulesThatNobodyChecked(t *testing.T) {
	t.Parallel()
	r := Rules{Max: -1, DefaultListSize: -5, MaxDepth: -1, MaxBreadth: -1, Weights: map[string]int64{"*.a": -3, "nonsense": 9, "Query.b": -1}}
	if got, err := Cost(`{a b c{nodes{d}}}`, "", nil, r); err != nil || got != 3 {
		t.Errorf("%d, %v; want 3", got, err)
	}
	if got, err := New(Rules{}).Cost(nil); !errors.Is(err, ErrSyntax) || got != 0 {
		t.Errorf("no operations: %d, %v", got, err)
	}
}

func TestNew_KeepsNothingOfItsRules(t *testing.T) {
	t.Parallel()
	r := rules()
	p := New(r)
	r.Weights["Query.search"] = 1
	r.ListArguments[0] = "x"
	if got, err := p.Cost([]Operation{{Query: `{search(first:2){a}}`}}); err != nil || got != 12 {
		t.Errorf("%d, %v; want 12", got, err)
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '9'
	}
	return string(b)
}
