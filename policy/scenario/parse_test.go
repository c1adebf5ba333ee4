package scenario_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

const example = `
tests:
  - name: a stranger cannot guess passwords
    description: five tries, then one each 12 s
    given: {plan: free, ip: 203.0.113.7}
    steps:
      - {send: 5, request: POST /login, body: {username: anna}, expect: admitted}
      - {request: POST /login, body: {username: anna}, expect: {refused_by: "route:login.per-account", at: 1, retry_in: 12s}}
      - {after: 1m, send: 10, in: 30s, lasts: 1500ms, cost: 3, headers: {X-Region: eu}, request: POST api.example/login, expect: {route: login}}
`

func parsed(t *testing.T, src string) *scenario.Suite {
	t.Helper()
	s, report := scenario.Parse([]byte(src))
	if !report.OK() {
		t.Fatalf("problems:\n%v", report.Error())
	}
	return s
}

func TestParse_ReadsEveryField(t *testing.T) {
	t.Parallel()
	got := parsed(t, example)
	want := &scenario.Suite{Tests: []scenario.Test{{
		Name: "a stranger cannot guess passwords", Description: "five tries, then one each 12 s",
		Given: scenario.Caller{Plan: "free", IP: "203.0.113.7"},
		Steps: []scenario.Step{
			{Send: 5, Request: "POST /login", Body: map[string]string{"username": "anna"}},
			{Send: 1, Request: "POST /login", Body: map[string]string{"username": "anna"},
				Expect: scenario.Expect{RefusedBy: "route:login.per-account", At: 1, RetryIn: 12 * time.Second}},
			{Send: 10, Request: "POST api.example/login", In: 30 * time.Second, After: time.Minute, Lasts: 1500 * time.Millisecond, Cost: 3,
				Headers: map[string]string{"X-Region": "eu"}, Expect: scenario.Expect{Route: "login"}},
		},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if method, host, path := got.Tests[0].Steps[2].SplitRequest(); method != "POST" || host != "api.example" || path != "/login" {
		t.Errorf("parted into %q, %q, %q", method, host, path)
	}
}

func TestParse_JSONMeansTheSame(t *testing.T) {
	t.Parallel()
	src := "{\"tests\":\t[{\"name\": \"a \\u263a \\ud83d\\ude00 \\\\ud83d\", \"steps\": [\n\t{\"send\": 2, \"request\": \"GET \\/\", \"expect\": \"admitted\"}]}]}"
	if got := parsed(t, src).Tests[0]; got.Name != "a ☺ 😀 \\ud83d" || got.Steps[0].Send != 2 || got.Steps[0].Request != "GET /" {
		t.Errorf("%+v", got)
	}
}

func TestParse_NothingIsASuiteWithoutTests(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "\n", "# nothing yet\n", "tests: []", "{\"tests\": []}"} {
		if s, report := scenario.Parse([]byte(src)); s == nil || len(s.Tests) != 0 || !report.OK() || report.Problems == nil || report.Warnings == nil {
			t.Errorf("%q: %+v, %v", src, s, report)
		}
	}
}

func step(fields string) string {
	return "tests: [{name: a, steps: [{request: GET /, " + fields + "}]}]"
}

func TestParse_TellsEachProblemWithItsPath(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("a: b, ", 51)
	for src, want := range map[string]string{
		"- 1":                           "must be a map with the field tests",
		"test: []":                      "test: is not a known field; known here: tests",
		"{}":                            "tests: is missing",
		"tests: {}":                     "tests: must be a list of tests",
		"tests:":                        "tests: is empty",
		"tests: [{name: a}]":            "tests[0].steps: is missing",
		"tests: [{steps: []}]":          "tests[0].name: is missing",
		"tests: [{name: a, steps: []}]": "tests[0].steps: is empty",
		"tests: [{name: '', steps: [{request: GET /}]}]":                                      "tests[0].name: is empty",
		"tests: [{name: 5, steps: [{request: GET /}]}]":                                       "tests[0].name: must be text",
		"tests: [{name: [], steps: [{request: GET /}]}]":                                      "tests[0].name: must be text",
		"tests: [{name: a, name: b, steps: [{request: GET /}]}]":                              "tests[0].name: is there twice, first on line 1",
		"tests: [&x {name: a, steps: [{request: GET /}]}]":                                    "tests[0]: has the anchor &x",
		"tests: [{name: &x a, steps: [{request: GET /}]}]":                                    "tests[0].name: has the anchor &x",
		"tests: [{name: !!str a, steps: [{request: GET /}]}]":                                 "tests[0].name: has the tag !!str",
		"x: &x {}\ntests: *x":                                                                 "tests: uses the alias *x",
		"tests: [{<<: {name: a}, steps: [{request: GET /}]}]":                                 "tests[0]: has a field name that is not plain text",
		"tests: [{name: a, steps: [{request: GET /}]}, {name: a, steps: [{request: GET /}]}]": `tests[1].name: "a" is the name of the test on line 1, too`,
		"tests: [{name: a, given: {plan: p, tenant: t}, steps: [{request: GET /}]}]":          "tests[0].given: names a tenant and a plan",
		"tests: [{name: a, given: {ip: 1.2.3}, steps: [{request: GET /}]}]":                   `tests[0].given.ip: "1.2.3" is not an address`,
		"tests: [{name: \"a\\u202e\", steps: [{request: GET /}]}]":                            "tests[0].name: holds a character that is not allowed: U+202E",
		"tests: [{name: \"a\\nb\", steps: [{request: GET /}]}]":                               "tests[0].name: must be one line",
		"tests: [{name: a, steps: [{send: 1}]}]":                                              "tests[0].steps[0].request: is missing",
		"tests: [{name: a, steps: [{request: get /}]}]":                                       `tests[0].steps[0].request: "get /" must be a method and a path`,
		"tests: [{name: a, steps: [{request: GET}]}]":                                         "tests[0].steps[0].request",
		"tests: [{name: a, steps: [{request: 'GET /a?b'}]}]":                                  "tests[0].steps[0].request",
		step("send: 0"):                                   "tests[0].steps[0].send: 0 is out of range: 1 to 1000000",
		step("send: 1000001"):                             "tests[0].steps[0].send: 1000001 is out of range",
		step("send: 1e3"):                                 "tests[0].steps[0].send: must be a whole number in plain digits, not \"1e3\"",
		step("send: 0x10"):                                "tests[0].steps[0].send: must be a whole number in plain digits",
		step("send: 1_000"):                               "tests[0].steps[0].send: must be a whole number in plain digits",
		step("send: '5'"):                                 "tests[0].steps[0].send: must be a whole number in plain digits",
		step("send: 99999999999999999999"):                "tests[0].steps[0].send",
		step("cost: 281474976710656"):                     "tests[0].steps[0].cost: 281474976710656 is out of range",
		step("in: 5"):                                     "tests[0].steps[0].in: must be a duration",
		step("in: -5s"):                                   "tests[0].steps[0].in: must be a duration",
		step("in: 1us"):                                   "tests[0].steps[0].in: must be a duration of whole milliseconds",
		step("after: 9601h"):                              "tests[0].steps[0].after: 9601h is too long: at most 400 days",
		step("body: [a]"):                                 "tests[0].steps[0].body: must be a map of names and texts, not a list",
		step("body: {a: 1}"):                              "tests[0].steps[0].body.a: must be text, not \"1\": write it in quotes",
		step("body: {a: b, a: c}"):                        "tests[0].steps[0].body.a: is there twice",
		step("body: {" + many + "}"):                      "tests[0].steps[0].body: has 51 values",
		step("body: {a: b}, query: x"):                    "tests[0].steps[0]: has a body and a query",
		step("headers: {'a b': c}"):                       `tests[0].steps[0].headers: "a b" cannot be the name of a header`,
		step(`headers: {a: "b\nc"}`):                      "tests[0].steps[0].headers.a: must be one line",
		step("expect: refused"):                           `tests[0].steps[0].expect: must be admitted, or a map such as {refused_by: route:login.per-ip, at: 6}, not "refused"`,
		step("expect: {at: 1}"):                           "tests[0].steps[0].expect.at: is about a refusal",
		step("expect: {refused_by: x, at: 2}"):            "tests[0].steps[0].expect.at: 2 is more than the 1 requests",
		step("expect: {refused_by: x, retry_in: 1500ms}"): "tests[0].steps[0].expect.retry_in: must be whole seconds",
		"tests: [{name: a, steps: [{request: GET /, send: 1000000}, {request: GET /, send: 1000000}, {request: GET /, send: 1000000}, {request: GET /, send: 1000000}, {request: GET /, send: 1000000}, {request: GET /}]}]": "tests: send 5000001 requests in all",
		"tests: [":          "is not valid YAML",
		"tests: []\n---\na": "holds a second document",
		"\xff":              "is not valid UTF-8",
		"#" + strings.Repeat("a", scenario.MaxSourceBytes): "is 1048577 bytes long",
	} {
		s, report := scenario.Parse([]byte(src))
		found := slices.ContainsFunc(report.Problems, func(p policy.Problem) bool { return strings.Contains(p.String(), want) })
		if s != nil || !found {
			t.Errorf("%.200s\ngives %v\nwant  %s", src, report.Problems, want)
		}
	}
}

func TestParse_TellsAllProblemsWithTheirLines(t *testing.T) {
	t.Parallel()
	_, report := scenario.Parse([]byte("tests:\n  - name: a\n    steps:\n      - send: 0\n        request: GET /\n      - request: x\n        in: 5\n"))
	var lines []int
	for _, p := range report.Problems {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(lines, []int{4, 6, 7}) {
		t.Errorf("lines %v of %v", lines, report.Problems)
	}
}

func TestParse_BoundsWhatItTells(t *testing.T) {
	t.Parallel()
	src := "tests: [" + strings.Repeat("{}, ", scenario.MaxTests) + "]"
	if _, report := scenario.Parse([]byte(src)); len(report.Problems) != 201 || !strings.Contains(report.Problems[200].Message, "1800 more problems") {
		t.Errorf("%d problems, the last %v", len(report.Problems), report.Problems[len(report.Problems)-1])
	}
	if _, report := scenario.Parse([]byte("tests: [" + strings.Repeat("{}, ", scenario.MaxTests+1) + "]")); len(report.Problems) != 1 {
		t.Errorf("%d problems of a list that is too long", len(report.Problems))
	}
}

func genSuite() *rapid.Generator[*scenario.Suite] {
	line := rapid.OneOf(rapid.StringMatching(`[ -~]{1,40}`), rapid.SampledFrom([]string{"admitted", "null", "true", "1", "~", "2026-01-01", "- a", "a: b", "#", "ä☺😀", "<<", "!!x", "&a", "*a", "0x1", "'", "\""}))
	text := rapid.OneOf(line, rapid.SampledFrom([]string{"a\nb", "a\n", "\na", "\ta", " a ", "a\n\n  b"}))
	name := rapid.StringMatching(`[A-Za-z][A-Za-z0-9-]{0,8}`)
	span := rapid.Map(rapid.Int64Range(0, 400*24*3600*1000), func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond })
	maybe := func(g *rapid.Generator[string]) *rapid.Generator[string] { return rapid.OneOf(rapid.Just(""), g) }
	return rapid.Custom(func(t *rapid.T) *scenario.Suite {
		s := &scenario.Suite{}
		for i := range rapid.IntRange(0, 3).Draw(t, "tests") {
			test := scenario.Test{Name: fmt.Sprint(i) + line.Draw(t, "name"), Description: maybe(text).Draw(t, "description")}
			test.Given = scenario.Caller{User: maybe(line).Draw(t, "user"), IP: rapid.SampledFrom([]string{"", "203.0.113.7", "2001:db8::1"}).Draw(t, "ip")}
			if rapid.Bool().Draw(t, "tenant?") {
				test.Given.Tenant = maybe(line).Draw(t, "tenant")
			} else {
				test.Given.Plan = maybe(line).Draw(t, "plan")
			}
			for range rapid.IntRange(1, 3).Draw(t, "steps") {
				step := scenario.Step{
					Send: rapid.Int64Range(1, 1000).Draw(t, "send"), Request: "GET " + rapid.SampledFrom([]string{"/", "h/", "h:80/a/b"}).Draw(t, "request"),
					In: span.Draw(t, "in"), After: span.Draw(t, "after"), Lasts: span.Draw(t, "lasts"), Cost: rapid.Int64Range(0, 1<<47).Draw(t, "cost"),
				}
				if rapid.Bool().Draw(t, "query?") {
					step.Query = text.Draw(t, "query")
				} else if m := rapid.MapOfN(name, text, 0, 3).Draw(t, "body"); len(m) > 0 {
					step.Body = m
				}
				if m := rapid.MapOfN(name, line, 0, 3).Draw(t, "headers"); len(m) > 0 {
					step.Headers = m
				}
				if rapid.Bool().Draw(t, "refused?") {
					step.Expect = scenario.Expect{RefusedBy: line.Draw(t, "by"), At: rapid.Int64Range(0, step.Send).Draw(t, "at"), RetryIn: span.Draw(t, "retry").Truncate(time.Second)}
				}
				step.Expect.Route = maybe(line).Draw(t, "route")
				test.Steps = append(test.Steps, step)
			}
			s.Tests = append(s.Tests, test)
		}
		return s
	})
}

func TestYAML_ReadsBackAsTheSameSuite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := genSuite().Draw(t, "suite")
		src := want.YAML()
		got, report := scenario.Parse(src)
		if !report.OK() || !reflect.DeepEqual(got, want) && len(want.Tests) > 0 {
			t.Fatalf("%s\nproblems %v\n%+v\nwant %+v", src, report.Problems, got, want)
		}
	})
}

func TestYAML_IsReadable(t *testing.T) {
	t.Parallel()
	want := `tests:
  - name: a stranger cannot guess passwords
    description: five tries, then one each 12 s
    given: {plan: free, ip: 203.0.113.7}
    steps:
      - send: 5
        request: POST /login
        body: {username: anna}
        expect: admitted
      - send: 1
        request: POST /login
        body: {username: anna}
        expect: {refused_by: 'route:login.per-account', at: 1, retry_in: 12s}
`
	got := string(parsed(t, example).YAML())
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`{"tests": [{"name": "\ud83d\ude00", "steps": [{"request": "GET /"}]}]}`))
	f.Add([]byte("tests: [*a, &a {}, !!x y, {<<: 1}]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, report := scenario.Parse(src)
		if (s == nil) == report.OK() {
			t.Fatalf("suite %v with problems %v", s, report.Problems)
		}
		if s == nil {
			return
		}
		_ = s.Check(&policy.Document{})
		again := s.YAML()
		back, report := scenario.Parse(again)
		if !report.OK() && len(again) <= scenario.MaxSourceBytes {
			t.Fatalf("%s\ncannot be read back: %v", again, report.Error())
		}
		if report.OK() && !bytes.Equal(again, back.YAML()) {
			t.Fatalf("%s\nis written otherwise the second time:\n%s", again, back.YAML())
		}
	})
}
