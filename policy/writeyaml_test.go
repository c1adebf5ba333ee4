package policy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkSameYAML fails unless both writers make the same of a document.
func checkSameYAML(t *rapid.T, d *Document) {
	root := encodeDocument(d.withDefaults())
	want, err := libraryYAML(root)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := writeYAML(root)
	if !ok {
		if !bytes.ContainsAny(want, "\u0085\u2028\u2029") && !bytes.Contains(want, []byte(`\N`)) && !bytes.Contains(want, []byte(`\L`)) && !bytes.Contains(want, []byte(`\P`)) {
			t.Fatalf("left to the library:\n%s", want)
		}
		return
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("writes\n%s\nthe library\n%s", got, want)
	}
}

func TestWriteYAML_WritesWhatTheLibraryWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkSameYAML(t, genDocument().Draw(t, "document")) })
}

func TestWriteYAML_QuotesAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringOfN(rapid.Rune(), 0, 40, 900),
		rapid.StringOfN(rapid.RuneFrom([]rune(" -:#{}[],&*!|>'\"%@`?=~/._0123456789eExXyYnNoftrues\t\né")), 0, 12, -1),
		rapid.SampledFrom([]string{"y", "N", "Yes", "NO", "On", "OFF", "True", "FALSE", "Null", "~", "60/minute", "10/1m30s", "1/2", "01/x", "/", "a ", " a", "a - b", "a:", "1e3", "0", "GET /{$}", "{id}", "a{", "a,b", ""}))
	rapid.Check(t, func(t *rapid.T) {
		s, other := strings.ToValidUTF8(text.Draw(t, "text"), "x"), strings.ToValidUTF8(text.Draw(t, "other"), "x")
		d := &Document{APIVersion: APIVersion, Description: s, Routes: []Route{{Name: other, Match: []string{s, other}, Uses: []string{other},
			GraphQL: &GraphQLCost{Max: 1, Weights: map[string]int64{"A.b": 1, "*.c": 2}}}}, Plans: map[string]Plan{"free": {}, "1": {Description: other}}}
		checkSameYAML(t, d)
	})
}

// What cannot surely be written on a line is left to the library, and still right.
func TestWriteYAML_LeavesLongNamesToTheLibrary(t *testing.T) {
	t.Parallel()
	d := valid()
	long := "Type." + strings.Repeat("x", 200)
	d.Routes[0].GraphQL = &GraphQLCost{Max: 20, Weights: map[string]int64{long: 3}}
	if _, ok := writeYAML(encodeDocument(d.withDefaults())); ok {
		t.Error("a key of 205 bytes was written")
	}
	back, r := ParseLoose(d.YAML())
	if back == nil || back.Routes[0].GraphQL.Weights[long] != 3 {
		t.Errorf("%v, %v", back, r)
	}
}

// The library's part does not grow with the routes: their words are plain.
func TestWriteYAML_NeedsTheLibraryForFewTexts(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 1000} {
		w := &yamlWriter{quoted: [2]map[string]string{{}, {}}}
		if !w.gather(encodeDocument(largest(n).withDefaults())) {
			t.Fatal("left to the library")
		}
		if got := len(w.quoted[inBlock]) + len(w.quoted[inFlow]); got > 5 {
			t.Errorf("%d texts of %d routes are quoted by the library: %s", got, n, fmt.Sprint(sortedKeys(w.quoted[inBlock]), sortedKeys(w.quoted[inFlow])))
		}
	}
}
