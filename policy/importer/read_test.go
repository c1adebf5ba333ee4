package importer

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
)

// plain is a tree as Go values, whatever it was read from.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			out = append(out, plain(c))
		}
		return out
	default:
		return n.ShortTag() + " " + n.Value
	}
}

func TestReadTree_ReadsJSONAndYAMLAlike(t *testing.T) {
	t.Parallel()
	fromJSON, err := readTree([]byte("\ufeff{\"a\": [1, -2, 1.5, true, null, \"x\\/y\"],\n\t\"b\": {\"c\": {}, \"d\": []}}"))
	if err != nil {
		t.Fatal(err)
	}
	fromYAML, err := readTree([]byte("a: [1, -2, 1.5, true, null, x/y]\nb: {c: {}, d: []}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plain(fromJSON), plain(fromYAML)) {
		t.Errorf("JSON is\n%v, YAML\n%v", plain(fromJSON), plain(fromYAML))
	}
	if c := child(child(fromJSON, "b"), "c"); c == nil || c.Line != 2 {
		t.Errorf("c is %+v, want it on line 2", c)
	}
}

// Whatever JSON holds is what the tree holds.
func TestReadJSON_KeepsEachValue(t *testing.T) {
	t.Parallel()
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Map(rapid.String(), func(s string) any { return strings.ToValidUTF8(s, "x") }), rapid.Map(rapid.Int32(), func(n int32) any { return n }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Just[any](nil))
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), value(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	var text func(v any) any
	text = func(v any) any {
		switch v := v.(type) {
		case []any:
			out := []any{}
			for _, item := range v {
				out = append(out, text(item))
			}
			return out
		case map[string]any:
			out := map[string]any{}
			for k, item := range v {
				out[k] = text(item)
			}
			return out
		case string:
			return "!!str " + v
		case int32:
			return fmt.Sprintf("!!int %d", v)
		case bool:
			return fmt.Sprintf("!!bool %v", v)
		}
		return "!!null null"
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), value(3), 0, 3), func(m map[string]any) any { return m }).Draw(t, "value")
		src, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		n, err := readTree(src)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		if got := plain(n); !reflect.DeepEqual(got, text(v)) {
			t.Fatalf("reads %v of %s", got, src)
		}
	})
}

func TestReadTree_RefusesBombsBeforeTheyAreBuilt(t *testing.T) {
	t.Parallel()
	laughs := "a0: &a0 [x,x,x,x]\n"
	for i := 1; i < 20; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [*a%d,*a%d,*a%d]\n", i, i, i-1, i-1, i-1)
	}
	for name, c := range map[string]struct{ src, want string }{
		"laughs":        {laughs, "uses the alias *a0"},
		"many values":   {"{\"a\":[" + strings.Repeat("0,", maxValues) + "0]}", "holds more than 1000000 values"},
		"deep JSON":     {"{\"a\":" + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "}", "lies deeper than 100 levels"},
		"deep YAML":     {"a: " + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), "lies deeper than 100 levels"},
		"dashes":        {strings.Repeat("- ", maxMarks+1), fmt.Sprintf("holds %d line ends, colons, commas, brackets and dashes: at most %d", maxMarks+1, maxMarks)},
		"too large":     {strings.Repeat(" ", MaxSourceBytes+1), "is 8388609 bytes long"},
		"two documents": {"a: 1\n---\na: 2\n", "line 2: document: holds a second document"},
		"broken behind": {"a: 1\n---\n{", "is not valid YAML"},
		"broken":        {"a: [", "is not valid YAML"},
		"no JSON":       {"{\"a\": 01x}", "must be"},
	} {
		n, err := readTree([]byte(c.src))
		if name == "no JSON" { // not valid JSON, so it is read as YAML, where 01x is text
			if err != nil || child(n, "a").Value != "01x" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	at := "{\"a\":" + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + "}"
	if _, err := readTree([]byte(at)); err != nil {
		t.Errorf("at the bound: %v", err)
	}
}

func TestNotes_AreBounded(t *testing.T) {
	t.Parallel()
	var l noteList
	if notes := l.all(); notes == nil || len(notes) != 0 {
		t.Errorf("no notes are %v: in JSON that would be null", notes)
	}
	for range maxNotes + 7 {
		l.say("x", 1, "y")
	}
	notes := l.all()
	if len(notes) != maxNotes+1 || notes[maxNotes].Message != "there are 7 more notes" || !notes[maxNotes].Todo {
		t.Errorf("%d notes, the last %+v", len(notes), notes[len(notes)-1])
	}
}

// A description from somewhere else is one that a policy takes.
func TestPlainText_IsAllowedInAPolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		got := plainText(s)
		d := &policy.Document{APIVersion: policy.APIVersion, Description: got, Routes: []policy.Route{{Name: "a", Match: []string{"/"}, OnStoreFailure: policy.StoreFailure{Mode: policy.FailClosed}}}}
		if r := policy.Validate(d); !r.OK() {
			t.Fatalf("%q becomes %q: %v", s, got, r)
		}
		if len(got) > 300 || !utf8.ValidString(got) || plainText(got) != got {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
	for s, want := range map[string]string{"a\n\tb  c ": "a b c", "x\u202ey": "x y", "x\u2028y": "x y", "\x00": "", "é→🙂": "é→🙂", "a\u200fb": "a b", "a\u0085b": "a b"} {
		if got := plainText(s); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
	if got := plainText(strings.Repeat("é", 200)); len(got) > 300 || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestNames_AreGivenOutOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, seen := names{}, map[string]bool{}
		for _, s := range rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a", "a-2", "A", "a 2", "a-2-2", ""})), 1, 20).Draw(t, "texts") {
			name := n.of(s)
			if seen[name] || len(name) > 63 || name == "" || name[0] == '-' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				t.Fatalf("%q becomes %q, after %v", s, name, seen)
			}
			seen[name] = true
		}
	})
	n := names{}
	for _, c := range [][2]string{{"listPets", "list-pets"}, {"listPets", "list-pets-2"}, {"list-pets-2", "list-pets-2-2"}, {"HTTPServer", "httpserver"}, {"GET /v1/{id}", "get-v1-id"}, {"—", "route"}, {"", "route-2"}} {
		if got := n.of(c[0]); got != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
}
