package api

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestUnmarshal_DuplicatesAreNamedExceptInsideDocuments(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a":1,"a":2}`:                     `"a"`,
		`{"a":{"b":1,"b":2}}`:               `"a.b"`,
		`{"a":[{"b":1},{"b":1,"b":2}]}`:     `"a[1].b"`,
		`{"document":{"a":1,"a":2},"x":[]}`: "",
		`{"a":{"document":{"b":1,"b":2}}}`:  `"a.document.b"`,
		`{"a":1,"A":2}`:                     `"A"`,
		`{"document":{"A":1,"a":2}}`:        "",
		`{"a":1}`:                           "",
		`[1,2,{"a":null}]`:                  "",
	} {
		var v any
		err := unmarshal([]byte(body), &v)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestDocument_ObjectOrText(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, `"a: 1\n"`: "a: 1\n", `null`: `null`} {
		var d Document
		if err := json.Unmarshal([]byte(body), &d); err != nil || string(d.source) != want && body != "null" {
			t.Errorf("%s: %q %v", body, d.source, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"b":[1,2,{"c":"\u0000"}]}}`, `{"document":{"a":1,"a":2}}`, `[[[[`, `{"a":1}x`, `1e999`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v any
		if err := unmarshal(b, &v); err == nil && !json.Valid(b) {
			t.Errorf("%q was taken", b)
		}
	})
}

func TestUnmarshal_A10_BombIsRefusedBeforeItCostsMemory(t *testing.T) { //nolint:paralleltest // measures the memory of the process
	many := strings.Repeat("[[]],", 1_000_000) + "[]"
	for name, c := range map[string]struct{ body, names string }{
		"document":  {`{"document":[` + many + `]}`, ""}, // left to the schema, which wants an object or a text
		"elsewhere": {`{"note":[` + many + `]}`, "1000"},
		"top":       {`[` + many + `]`, "1000"},
		"text":      {`{"note":"` + strings.Repeat("a", 1<<20) + `"}`, "64 KiB"},
	} {
		var v any
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := unmarshal([]byte(c.body), &v)
		runtime.ReadMemStats(&after)
		if (err == nil) != (c.names == "") || err != nil && !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: took %d MiB", name, used>>20)
		}
	}
}
