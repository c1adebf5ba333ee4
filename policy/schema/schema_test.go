package schema_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/policy/schema"
)

func compile(t *testing.T, raw []byte) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// valueOf reads YAML as an editor does before it asks the schema.
func valueOf(t *testing.T, src string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(src), &v); err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return v
}

func step(fields string) string {
	return "tests: [{name: a, steps: [{request: GET /, " + fields + "}]}]"
}

func TestTests_TakesWhatTheParserTakes(t *testing.T) {
	t.Parallel()
	s := compile(t, schema.Tests())
	for _, src := range []string{
		"tests: []",
		"tests: [{name: a, steps: [{request: GET /}]}]",
		"tests: [{name: a, description: 'two\n\nlines', given: {plan: free, ip: 203.0.113.7, user: anna}, steps: [{request: POST api.example/login}]}]",
		"tests: [{name: a, given: {tenant: ten_1, ip: '2001:db8::1'}, steps: [{request: GET /}]}]",
		"tests: [{name: a, given: {}, steps: [{request: GET /}]}]",
		step("send: 5, in: 30s, after: 1m30s, lasts: 1500ms, cost: 3"),
		step("send: 1000000"), step("in: 0.5s"), step("after: 9600h"),
		step("headers: {X-Region: eu}"), step("headers: {}"), step("body: {username: anna, 'a b': c}"), step("query: '{me {name}}'"),
		step("expect: admitted"), step("expect: {}"), step("expect: {route: login}"),
		step("expect: {refused_by: 'route:login.per-ip', at: 1, retry_in: 12s, route: login}"),
	} {
		if err := s.Validate(valueOf(t, src)); err != nil {
			t.Errorf("%s: %v", src, err)
		}
		if _, r := scenario.Parse([]byte(src)); !r.OK() {
			t.Errorf("%s: %v", src, r.Error())
		}
	}
}

func TestTests_RefusesOnlyWhatTheParserRefuses(t *testing.T) {
	t.Parallel()
	s := compile(t, schema.Tests())
	for _, src := range []string{
		"[]", "{}", "tests: {}", "test: []", "tests: [{name: a}]", "tests: [{steps: [{request: GET /}]}]", "tests: [{name: a, steps: []}]", "tests: [{name: '', steps: [{request: GET /}]}]",
		"tests: [{name: a, given: {plan: p, tenant: t}, steps: [{request: GET /}]}]", "tests: [{name: a, given: {ip: host}, steps: [{request: GET /}]}]", "tests: [{name: a, given: {who: x}, steps: [{request: GET /}]}]",
		"tests: [{name: a, steps: [{send: 1}]}]", "tests: [{name: a, steps: [{request: get /}]}]", "tests: [{name: a, steps: [{request: GET}]}]", "tests: [{name: a, steps: [{request: 'GET /a?b'}]}]",
		"tests: [{name: \"a\\nb\", steps: [{request: GET /}]}]",
		step("send: 0"), step("send: 1000001"), step("send: '5'"), step("send: 1.5"), step("cost: 0"), step("in: 5"), step("in: -5s"), step("after: soon"),
		step("headers: {'a b': c}"), step("body: {a: 1}"), step("body: [a]"), step("body: {a: b}, query: x"), step("expect: refused"), step("expect: {at: 1}"), step("expect: {retry_in: 5s}"),
		step("expect: {refused_by: x, at: 0}"), step("expect: {refused: x}"), step("unknown: 1"), step("query: ''"),
		"tests: [{name: " + strings.Repeat("x", 1001) + ", steps: [{request: GET /}]}]",
	} {
		if err := s.Validate(valueOf(t, src)); err == nil {
			t.Errorf("the schema takes %s", src)
		}
		if _, r := scenario.Parse([]byte(src)); r.OK() {
			t.Errorf("the parser takes %s", src)
		}
	}
}

func TestSchemas_AreCopies(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]func() []byte{"policy": schema.Policy, "tests": schema.Tests} {
		raw := get()
		raw[0] = 'x'
		if again := get(); again[0] != '{' {
			t.Errorf("%s: the caller can change the schema", name)
		}
		compile(t, get())
	}
}

// The parser names the fields that it knows: they are those of the schema.
func TestTests_KnowsTheFieldsThatTheParserKnows(t *testing.T) {
	t.Parallel()
	var root struct {
		Properties map[string]any
		Defs       map[string]struct {
			Properties map[string]struct {
				Properties map[string]any
				AnyOf      []struct{ Properties map[string]any }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(schema.Tests(), &root); err != nil {
		t.Fatal(err)
	}
	test, step1 := root.Defs["test"], root.Defs["step"]
	for src, want := range map[string][]string{
		"zzz: 1": slices.Sorted(maps.Keys(root.Properties)),
		"tests: [{name: a, zzz: 1, steps: [{request: GET /}]}]":          slices.Sorted(maps.Keys(test.Properties)),
		"tests: [{name: a, given: {zzz: 1}, steps: [{request: GET /}]}]": slices.Sorted(maps.Keys(test.Properties["given"].Properties)),
		step("zzz: 1"):           slices.Sorted(maps.Keys(step1.Properties)),
		step("expect: {zzz: 1}"): slices.Sorted(maps.Keys(step1.Properties["expect"].AnyOf[1].Properties)),
	} {
		_, r := scenario.Parse([]byte(src))
		if text := r.Error(); !strings.Contains(text, "known here: "+strings.Join(want, ", ")+"\n") && !strings.HasSuffix(text, "known here: "+strings.Join(want, ", ")) {
			t.Errorf("the schema has %s, the parser says\n%s", strings.Join(want, ", "), text)
		}
	}
}

// The suite of the manual is one that is read, and fits the manual's document.
func TestTests_OfTheManualAreRead(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/policy-format.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(begins string) string {
		_, after, ok := strings.Cut(string(manual), "```yaml\n"+begins)
		text, _, _ := strings.Cut(after, "```")
		if !ok {
			t.Fatalf("the manual has no example that begins with %s", begins)
		}
		return begins + text
	}
	src := block("tests:")
	if err := compile(t, schema.Tests()).Validate(valueOf(t, src)); err != nil {
		t.Error(err)
	}
	suite, r := scenario.Parse([]byte(src))
	if !r.OK() {
		t.Fatal(r.Error())
	}
	d, r := policy.Parse([]byte(block("apiVersion:")))
	if !r.OK() {
		t.Fatal(r.Error())
	}
	if r := suite.Check(d); !r.OK() {
		t.Error(r.Error())
	}
	for _, cause := range scenario.Causes() {
		if !strings.Contains(string(manual), "`"+cause+"`") {
			t.Errorf("the manual does not name the cause %s", cause)
		}
	}
}
