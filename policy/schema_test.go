package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy/schema"
)

// documentSchema compiles the schema once: it does not change, and is safe for
// use by several tests.
var documentSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Policy()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", v); err != nil {
		return nil, err
	}
	return c.Compile("policy.json")
})

// againstSchema is nil when the schema takes a document in JSON.
func againstSchema(t interface{ Fatal(...any) }, src []byte) error {
	s, err := documentSchema()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestSchema_TakesEveryValidDocument(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*Document{"example": example(t), "layers": layers(t), "every field": everyField(), "jwt": withJWT(), "every part": everyPart()} {
		if err := againstSchema(t, d.Canonical()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		if err := againstSchema(t, d.Canonical()); err != nil {
			t.Fatalf("%v\n%s", err, d.Canonical())
		}
	})
}

// An editor must never mark what the product would take.
func TestSchema_RefusesOnlyWhatHasProblems(t *testing.T) {
	t.Parallel()
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		tree := encodeDocument(genDocument().Draw(t, "document").withDefaults())
		for range rapid.IntRange(1, 3).Draw(t, "mutations") {
			mutate(t, tree)
		}
		src := jsonOf(tree)
		err := againstSchema(t, src)
		if err == nil {
			return
		}
		refused++
		if _, r := Parse(src); r.OK() {
			t.Fatalf("%v, but it has no problem:\n%s", err, src)
		}
	})
	if refused == 0 {
		t.Error("no mutation was refused: this shows nothing")
	}
}

// What the schema takes of the spellings that people choose is what is read.
func TestSchema_AgreesOnSpellings(t *testing.T) {
	t.Parallel()
	const around = `{"apiVersion":"headgate/v1","user":{"header":"X-User"},"replicas_expected":2,"shared":[{"name":"s","per":"ip","rate":"9/minute"}],"client_ip":{"trusted_proxies":["10.0.0.0/8"]},` +
		`"routes":[{"name":"a","match":["/"],"motive":"abuse","on_store_failure":{"mode":"closed"},%s}]}`
	limit := func(s string) string { return `"limits":[{"name":"l","per":"ip",` + s + `}]` }
	taken := []string{
		limit(`"rate":"unlimited"`), limit(`"rate":"0"`), limit(`"rate":0`), limit(`"rate":"0/minute"`), limit(`"rate":"10/90s"`), limit(`"rate":"10/1.5h"`), limit(`"rate":"5/1h1m1s1ms1us"`),
		limit(`"rate":"5/.5s"`), limit(`"rate":"5/1µs1ms"`), limit(`"rate":"281474976710655/744h","burst":0`), limit(`"rate":"9/minute","expires_at":"2027-01-31T00:00:00.000001Z"`),
		`"limits":[{"name":"l","per":["ip","header:x-y","body:a.b","user"],"rate":"9/minute"},{"name":"m","per":["ip"],"rate":"9/minute"}]`,
		`"uses":["s"]`, `"uses":[]`, `"cost":7`, `"cost":{"reserve":2,"settle_header":"x-c"}`, `"cost":{"graphql":{"max":3,"weights":{"*.a":0,"_A.b1":5},"list_arguments":[]}}`,
		`"concurrency":{"per":["tenant"],"max":1,"lease":"1m0.5s"}`, `"description":""`,
	}
	for _, field := range taken {
		src := fmt.Sprintf(around, field)
		if err := againstSchema(t, []byte(src)); err != nil {
			t.Errorf("%s: %v", field, err)
		}
		if _, r := Parse([]byte(src)); !r.OK() {
			t.Errorf("%s: %v", field, r)
		}
	}
	for _, field := range []string{
		limit(`"rate":"1,000/minute"`), limit(`"rate":"1.000/minute"`), limit(`"rate":"1e3/minute"`), limit(`"rate":"1 000/minute"`), limit(`"rate":"+5/minute"`), limit(`"rate":"010/minute"`),
		limit(`"rate":5`), limit(`"rate":"5 per minute"`), limit(`"rate":"5/fortnight"`), limit(`"rate":""`), limit(`"rate":null`), limit(`"rate":"9/minute","burst":-1`),
		limit(`"rate":"9/minute","burst":1.5`), limit(`"rate":"9/minute","burst":"9"`), limit(`"rate":"9/minute","mode":"audit"`), limit(`"rate":"9/minute","sync":"lazy"`), limit(`"rate":"9/minute","expires_at":"2027-01-31"`),
		limit(`"rate":"9/minute","limit":9`), limit(`"burst":9`), `"limits":[{"name":"L","per":"ip","rate":"9/minute"}]`, `"limits":[{"name":"l","per":"moon","rate":"9/minute"}]`,
		`"limits":[{"name":"l","per":[],"rate":"9/minute"}]`, `"limits":[{"name":"l","per":["ip","ip"],"rate":"9/minute"}]`, `"limits":{}`, `"cost":0`, `"cost":"5"`, `"cost":{}`, `"cost":{"reserve":5}`,
		`"cost":{"graphql":{}}`, `"cost":{"graphql":{"max":3},"reserve":5}`, `"cost":{"graphql":{"max":3,"weights":{"a":1}}}`, `"uses":["s","s"]`, `"identity":"face"`, `"motive":"greed"`,
		`"concurrency":{"per":"ip","max":1}`, `"concurrency":{"per":"ip","max":0,"lease":"90s"}`, `"concurrency":{"per":"ip","max":1,"lease":90}`, `"concurrency":{"per":"ip","max":1,"lease":"-90s"}`,
		`"unknown":1`, `"description":null`, `"description":"` + strings.Repeat("x", 1001) + `"`,
	} {
		src := fmt.Sprintf(around, field)
		if err := againstSchema(t, []byte(src)); err == nil {
			t.Errorf("the schema takes %s", field)
		}
		if _, r := Parse([]byte(src)); r.OK() {
			t.Errorf("the parser takes %s", field)
		}
	}
	for _, src := range []string{`{}`, `{"apiVersion":"headgate/v1"}`, `{"apiVersion":"headgate/v1","routes":[]}`, `{"apiVersion":"headgate/v2","routes":[{"name":"a","match":["/"],"on_store_failure":{"mode":"closed"}}]}`,
		`{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["/"]}]}`, `{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["x"],"on_store_failure":{"mode":"closed"}}]}`,
		`{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["/"],"on_store_failure":{"mode":"open"}}]}`, `[]`,
		`{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["/"],"on_store_failure":{"mode":"closed","fallback":"share"}}]}`} {
		if err := againstSchema(t, []byte(src)); err == nil {
			t.Errorf("the schema takes %s", src)
		}
		if _, r := Parse([]byte(src)); r.OK() {
			t.Errorf("the parser takes %s", src)
		}
	}
}

// fieldPaths are the paths of all fields of a tree, with [] for items and * for
// names that are the writer's own.
func fieldPaths(path string, n *node, into map[string]bool) {
	for i, v := range n.items {
		at := path + "[]"
		if n.kind == kindMap {
			name := n.keys[i].text
			if path == "plans" || strings.HasSuffix(path, ".weights") {
				name = "*"
			}
			at = strings.TrimPrefix(path+"."+name, ".")
			into[at] = true
		}
		fieldPaths(at, v, into)
	}
}

// schemaPaths are the same of a schema.
func schemaPaths(root, s map[string]any, path string, into map[string]bool) {
	if ref, ok := s["$ref"].(string); ok {
		schemaPaths(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), path, into)
	}
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	properties, _ := s["properties"].(map[string]any)
	for name, sub := range properties {
		into[at(name)] = true
		schemaPaths(root, sub.(map[string]any), at(name), into)
	}
	if sub, ok := s["additionalProperties"].(map[string]any); ok {
		into[at("*")] = true
		schemaPaths(root, sub, at("*"), into)
	}
	if sub, ok := s["items"].(map[string]any); ok {
		schemaPaths(root, sub, path+"[]", into)
	}
	anyOf, _ := s["anyOf"].([]any)
	for _, sub := range anyOf {
		schemaPaths(root, sub.(map[string]any), path, into)
	}
}

func TestSchema_KnowsTheFieldsThatTheParserKnows(t *testing.T) {
	t.Parallel()
	var root map[string]any
	if err := json.Unmarshal(schema.Policy(), &root); err != nil {
		t.Fatal(err)
	}
	known, written := map[string]bool{}, map[string]bool{}
	schemaPaths(root, root, "", known)
	leased := everyField()
	leased.Shared[0].Sync, leased.Plans["p"].Limits[0].Sync = SyncLeased, SyncLeased
	for _, d := range []*Document{everyField(), withJWT(), leased} {
		fieldPaths("", encodeDocument(d.withDefaults()), written)
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		if !written[path] {
			t.Errorf("the schema has %s, which no document has", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(written)) {
		if !known[path] {
			t.Errorf("the schema lacks %s", path)
		}
	}
}

// The parser and the schema must not drift apart in their bounds.
func TestSchema_HasTheBoundsOfTheParser(t *testing.T) {
	t.Parallel()
	text := string(schema.Policy())
	for _, want := range []string{
		fmt.Sprintf(`"maxItems": %d, "items": {"$ref": "#/$defs/route"}`, maxRoutes),
		fmt.Sprintf(`"type": "object", "maxProperties": %d`, maxPlans),
		fmt.Sprintf(`"maxItems": %d, "items": {"$ref": "#/$defs/limit"}}`, maxLimits),
		fmt.Sprintf(`"maxItems": %d, "items": {"$ref": "#/$defs/limit"}},`, maxShared),
		fmt.Sprintf(`"maxItems": %d, "uniqueItems": true, "items": {"type": "string"}`, maxUses),
		fmt.Sprintf(`"maxItems": %d,`, maxMatches),
		fmt.Sprintf(`"maximum": %d`, int64(maxStored)),
		fmt.Sprintf(`"maximum": %d`, int64(MaxAmount)),
		fmt.Sprintf(`"maximum": %d`, MaxConcurrency),
		fmt.Sprintf(`"maximum": %d`, MaxReplicasExpected),
		fmt.Sprintf(`"maxLength": %d`, maxText),
		fmt.Sprintf(`"maxItems": %d, "uniqueItems": true, "items": {"$ref": "#/$defs/dimension"}`, MaxDimensions),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the schema does not say %s", want)
		}
	}
}
