package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const somePolicy = `# what anna is owed
apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
routes:
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 60/minute, burst: 60}}
`

const someTests = `tests:
  - name: the burst is what was bought
    given: {plan: free}
    steps:
      - {send: 60, request: GET /things, expect: admitted}
      - {send: 1, request: GET /things, expect: {refused_by: plan.requests, at: 1, retry_in: 1s}}
`

// folder is a folder with policy.yaml and its tests.
func folder(t *testing.T, document, tests string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "policy.yaml")
	put(t, file, document)
	if tests != "" {
		put(t, filepath.Join(dir, "policy.tests.yaml"), tests)
	}
	return dir, file
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ends runs a command that must end with the status and say the words.
func ends(t *testing.T, status int, args []string, words ...string) (out string) {
	t.Helper()
	code, out, errs := invoke(args, nil)
	if code != status {
		t.Fatalf("%v: status %d, want %d\n%s\n%s", args, code, status, out, errs)
	}
	for _, word := range words {
		if !strings.Contains(out+errs, word) {
			t.Errorf("%v: nothing says %q:\n%s\n%s", args, word, out, errs)
		}
	}
	return out
}

func with(document, old, replacement string) string {
	return strings.Replace(document, old, replacement, 1)
}

func TestPolicyValidate_TellsEveryProblemWithFileLineAndPath(t *testing.T) {
	t.Parallel()
	dir, good := folder(t, somePolicy, someTests)
	bad := filepath.Join(dir, "bad.yaml")
	put(t, bad, with(with(somePolicy, "rate: 60/minute", "rate: 60/fortnight"), "motive: fairness", "motive: greed"))
	ends(t, 0, []string{"policy", "validate", good}, "1 file: no problems")
	ends(t, 2, []string{"policy", "validate", good, bad}, bad+":5: plans.free.limits[0].rate: ", bad+":10: routes[0].motive: ", "bad.yaml has 2 problems")
	var found []checked
	if err := json.Unmarshal([]byte(ends(t, 2, []string{"policy", "validate", "--json", bad})), &found); err != nil || len(found) != 1 || found[0].Problems[1].Line != 10 {
		t.Errorf("%v, %+v", err, found)
	}
	put(t, filepath.Join(dir, "policy.tests.yaml"), with(someTests, "plan.requests", "plan.request"))
	ends(t, 2, []string{"policy", "validate", good}, "policy.tests.yaml: tests[0].steps[1].expect.refused_by: ")
	ends(t, 0, []string{"policy", "validate", "--no-tests", good})
	ends(t, 1, []string{"policy", "validate", filepath.Join(dir, "none.yaml")}, "none.yaml")
	ends(t, 2, []string{"policy", "validate"}, "<file>")
}

func TestPolicyDiff_OfTwoFilesNeedsNoConsole(t *testing.T) {
	t.Parallel()
	dir, file := folder(t, somePolicy, "")
	other, broken := filepath.Join(dir, "other.yaml"), filepath.Join(dir, "broken.yaml")
	put(t, other, with(somePolicy, "burst: 60}]", "burst: 20}]"))
	put(t, broken, "routes: [")
	ends(t, 0, []string{"policy", "diff", file, other}, "High risk:", "burst: 60 → 20 (tighter)")
	ends(t, 0, []string{"policy", "diff", "--exit-code", file, file}, "Nothing changes.")
	ends(t, 2, []string{"policy", "diff", "--exit-code", file, other}, "1 difference")
	ends(t, 2, []string{"policy", "diff", file, broken}, "cannot be read as a policy")
	ends(t, 1, []string{"policy", "diff", other}, "--console-url: is required", "--token: is required")
	var got comparison
	if err := json.Unmarshal([]byte(ends(t, 0, []string{"policy", "diff", "--json", file, other})), &got); err != nil || len(got.Changes) != 1 || got.Changes[0].Risk != "high" {
		t.Errorf("%v, %+v", err, got)
	}
	if out := ends(t, 0, []string{"policy", "diff", "--json", file, file}); !strings.Contains(out, `"changes": []`) {
		t.Errorf("no changes are not an empty list: %s", out)
	}
}

func TestPolicyTest_FailsWithStatus2AndSaysWhatCame(t *testing.T) {
	t.Parallel()
	dir, file := folder(t, somePolicy, someTests)
	ends(t, 0, []string{"policy", "test", file}, "ok    the burst is what was bought", "1 of 1 test passed")
	ends(t, 0, []string{"policy", "test", "--score", file}, "small changes of the policy")
	ends(t, 2, []string{"policy", "test", "--min-score=100", file}, "100 % are asked for")
	ends(t, 2, []string{"policy", "test", "--min-score=101", file}, "--min-score must be 0 to 100")
	tighter := filepath.Join(dir, "tighter.yaml")
	put(t, tighter, with(somePolicy, "burst: 60}]", "burst: 20}]"))
	tests := filepath.Join(dir, "policy.tests.yaml")
	ends(t, 2, []string{"policy", "test", tighter, "--tests", tests}, "FAIL  the burst is what was bought", "plan.requests refused request 21", "1 test of")
	ends(t, 2, []string{"policy", "test", tighter}, "tighter.tests.yaml does not exist")
	var got testReport
	if err := json.Unmarshal([]byte(ends(t, 2, []string{"policy", "test", "--json", tighter, "--tests", tests})), &got); err != nil || got.Passed || len(got.Results) != 1 {
		t.Errorf("%v, %+v", err, got)
	}
	put(t, tests, with(someTests, "plan: free", "tenant: acme"))
	ends(t, 2, []string{"policy", "test", file}, `there is no tenant "acme"`, "--on-console")
	put(t, tests, "tests: [{name: x}]")
	ends(t, 2, []string{"policy", "test", file}, "policy.tests.yaml:1: tests[0].steps")
	put(t, tests, "")
	ends(t, 0, []string{"policy", "test", file}, "0 of 0 tests passed")
}

func TestPolicySchema_PrintsBoth(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"policy", "tests"} {
		var schema map[string]any
		if err := json.Unmarshal([]byte(ends(t, 0, []string{"policy", "schema", of})), &schema); err != nil || schema["$schema"] == nil {
			t.Errorf("%s: %v", of, err)
		}
	}
	out := filepath.Join(t.TempDir(), "schema.json")
	ends(t, 0, []string{"policy", "schema", "--out", out})
	if !json.Valid([]byte(read(t, out))) {
		t.Error("the file is not JSON")
	}
	ends(t, 2, []string{"policy", "schema", "nothing"}, "nothing")
}

func TestPolicyImport_Envoy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "policy.yaml")
	put(t, in, "domain: shop\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, requests_per_unit: 20}\n")
	ends(t, 0, []string{"policy", "import", "envoy", in, "-o", out}, "to do", "before it can be published")
	if text := read(t, out); !strings.Contains(text, "20/minute") {
		t.Errorf("imported:\n%s", text)
	}
	ends(t, 2, []string{"policy", "validate", out}) // a place that somebody has to decide is a problem, not a guess
	ends(t, 1, []string{"policy", "import", "envoy", in, "-o", out}, "exists already")
	ends(t, 0, []string{"policy", "import", "envoy", in, "-o", out, "--force"})
	put(t, in, "domain: [")
	ends(t, 2, []string{"policy", "import", "envoy", in}, "cannot be imported")
}

func TestPolicyImport_OpenAPIAddsRoutesAndLeavesThoseThatAreThere(t *testing.T) {
	t.Parallel()
	dir, file := folder(t, "# headgate: base v41\n"+somePolicy, "")
	in, out := filepath.Join(dir, "openapi.yaml"), filepath.Join(dir, "out.yaml")
	put(t, in, `openapi: 3.0.3
info: {title: shop, version: "1"}
paths:
  /pets: {get: {operationId: listPets, responses: {"200": {description: ok}}}}
  /all: {get: {operationId: everything, responses: {"200": {description: ok}}}}
`)
	ends(t, 0, []string{"policy", "import", "openapi", in, "--into", file, "-o", out}, "route everything is there already")
	text := read(t, out)
	if !strings.HasPrefix(text, "# headgate: base v41\n") || !strings.Contains(text, "GET /pets") || strings.Contains(text, "GET /all") || !strings.Contains(text, "60/minute") {
		t.Errorf("imported:\n%s", text)
	}
	alone := ends(t, 0, []string{"policy", "import", "openapi", in})
	if !strings.Contains(alone, "GET /pets") || !strings.Contains(alone, "GET /all") {
		t.Errorf("imported:\n%s", alone)
	}
}

func TestOrigin_IsReadBackFromTheTopAlone(t *testing.T) {
	t.Parallel()
	o := origin{base: 41, draft: "drf_abc234", etag: "e7", known: true}
	for name, src := range map[string]string{
		"plain": "a: 1\n", "comments": "# one\n\n# two\na: 1\n", "noted": "# one\n# headgate: base v7\na: 1\n", "CRLF": "# headgate: base v7\r\na: 1\r\n", "empty": "",
	} {
		noted := o.noted([]byte(src))
		if got := originOf(noted); got != o {
			t.Errorf("%s: %+v of\n%s", name, got, noted)
		}
		if strings.Count(string(noted), "# headgate:") != 1 {
			t.Errorf("%s: noted twice:\n%s", name, noted)
		}
		want := strings.Replace(src, "# headgate: base v7\n", "", 1)
		if plain := string(withoutNote(noted)); plain != want && name != "CRLF" {
			t.Errorf("%s: without the note it is\n%s", name, plain)
		}
	}
	if originOf([]byte("a: 1\n# headgate: base v7\n")).known {
		t.Error("a comment further down was taken for the note")
	}
}

func FuzzOrigin(f *testing.F) {
	for _, seed := range []string{"", "# headgate: base v41\n", "# headgate: base v41 draft drf_a@b\na: 1", "#\r\n# headgate: base v1\r\n", "\ufeff# x\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		noted := origin{base: 5}.noted([]byte(src))
		if got := originOf(noted); !got.known || got.base != 5 {
			t.Errorf("%q: %+v", noted, got)
		}
	})
}
