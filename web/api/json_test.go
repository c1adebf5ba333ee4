package api

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
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

func TestTests_ObjectTextOrNone(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"tests": []}`: `{"tests": []}`, `"tests: []\n"`: "tests: []\n", `""`: ""} {
		var s Tests
		if err := json.Unmarshal([]byte(body), &s); err != nil || string(s.of()) != want || s.of() == nil {
			t.Errorf("%s: %q %v", body, s.source, err)
		}
	}
	if (*Tests)(nil).of() != nil {
		t.Error("tests that are left out are not those in force")
	}
}

func TestUnmarshal_DocumentAndTestsAreNotBuiltInMemory(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]any{
		`{"tests":{"a":1,"a":2}}`: map[string]any{}, `{"tests":"x: y"}`: "text", `{"tests":""}`: "", `{"tests":[1]}`: nil, `{"tests":null}`: nil,
	} {
		var v any
		if err := unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got := v.(map[string]any)["tests"]
		if a, b := mustJSON(t, got), mustJSON(t, want); a != b {
			t.Errorf("%s stands for %s, want %s", body, a, b)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func FuzzUnmarshalPublication(f *testing.F) {
	for _, seed := range []string{`{}`, `{"document":{"a":[1]},"tests":"x"}`, `{"a":1,"a":2}`, `[[[`, `{"document":`, `"x"`, "{\"a\":\"\xff\"}", `{"confirm":{"no-limits":"0 limits"}} x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var generic any
		if unmarshal([]byte(body), &generic) != nil {
			return
		}
		if !json.Valid([]byte(body)) {
			t.Errorf("%q was taken for JSON", body)
		}
		var in publishBody
		_ = unmarshal([]byte(body), &in) // whatever its shape, it must not panic
	})
}

func TestOptions_AreReadAndTheirPasswordIsNoPartOfAKey(t *testing.T) {
	t.Parallel()
	o := Options{
		Note: "n", Confirm: map[string]string{"cut-half": "yes"}, BreakGlass: &BreakGlass{Reason: "r", Password: "hunter2"},
		Canary: &Canary{Zone: "eu-1", Hold: "5m", Promote: true, MaxRefusedRise: 0.1},
	}
	got, err := o.options()
	if err != nil || got.Note != "n" || got.Confirmed["cut-half"] != "yes" || got.BreakGlass.Password != "hunter2" || got.Canary.Zone != "eu-1" ||
		got.Canary.Hold != 5*time.Minute || !got.Canary.Promote || got.Canary.MaxRefusedRise != 0.1 {
		t.Errorf("%v, %+v", err, got)
	}
	if text := mustJSON(t, o.public()); strings.Contains(text, "hunter2") || !strings.Contains(text, `"reason":"r"`) {
		t.Errorf("a key stands for %s", text)
	}
	if o.BreakGlass.Password != "hunter2" {
		t.Error("the password is gone from the request, too")
	}
	if again := canaryOf(*got.Canary); again != *o.Canary && again.Hold != "5m0s" {
		t.Errorf("canary = %+v", again)
	}
	none, err := Options{}.options()
	if err != nil || none.BreakGlass != nil || none.Canary != nil {
		t.Errorf("%v, %+v", err, none)
	}
}

func TestComparison_IsToldInTimesAndShares(t *testing.T) {
	t.Parallel()
	c := comparisonOf(decisionlog.Comparison{
		Entries: 9, Sample: decisionlog.Whole / 4, Refused: decisionlog.Change{Requests: 3, Tenants: 1}, Both: decisionlog.Totals{Admitted: 5, Refused: 1},
		Rows: []decisionlog.Row{{Tenant: "ten_a", Limit: "plan.requests", Refused: true, Requests: 3, First: 1_700_000_000_000_000, Peak: 2}, {Limit: "x"}}, MoreRows: 4,
	})
	if c.Share != 0.25 || c.NewlyRefused.Requests != 3 || c.SameAdmitted != 5 || c.SameRefused != 1 || c.MoreRows != 4 || c.Notes == nil {
		t.Errorf("comparison = %+v", c)
	}
	if r := c.Rows[0]; r.Outcome != "newly-refused" || !r.First.Equal(time.Unix(1_700_000_000, 0)) || c.Rows[1].Outcome != "newly-admitted" {
		t.Errorf("rows = %+v", c.Rows)
	}
}
