package policy

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const smallest = "apiVersion: headgate/v1\nroutes:\n- name: all\n  match: [/]\n  on_store_failure: {mode: closed}\n"

// problemAt finds a problem by path and part of its message.
func problemAt(list []Problem, path, part string) (Problem, bool) {
	for _, p := range list {
		if p.Path == path && strings.Contains(p.Message, part) {
			return p, true
		}
	}
	return Problem{}, false
}

func TestParse_TakesTheSmallestDocument(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"YAML":             smallest,
		"YAML with BOM":    "\ufeff" + smallest,
		"YAML with CR LF":  strings.ReplaceAll(smallest, "\n", "\r\n"),
		"YAML with ---":    "# comment\n---\n" + smallest + "...\n",
		"JSON":             `{"apiVersion":"headgate/v1","routes":[{"name":"all","match":["/"],"on_store_failure":{"mode":"closed"}}]}`,
		"JSON with spaces": "\n\t {\"apiVersion\" : \"headgate\\/v1\",\r\n\"routes\":[{\"name\":\"\\u0061ll\",\"match\":[\"/\"],\"on_store_failure\":{\"mode\":\"closed\"}}]} \n",
		"JSON with BOM":    "\ufeff" + `{"apiVersion":"headgate/v1","routes":[{"name":"all","match":["/"],"on_store_failure":{"mode":"closed"}}]}`,
	} {
		d, r := Parse([]byte(src))
		if !r.OK() || d == nil || d.Routes[0].Name != "all" {
			t.Errorf("%s: %+v, %v", name, d, r)
			continue
		}
		if len(r.Warnings) != 0 {
			t.Errorf("%s: warnings %v", name, r.Warnings)
		}
	}
}

func TestParse_FillsInDefaults(t *testing.T) {
	t.Parallel()
	d, r := Parse([]byte(smallest))
	if !r.OK() {
		t.Fatal(r)
	}
	if d.Routes[0].Cost != 1 || d.Routes[0].Identity != IdentityAPIKey || d.Routes[0].Motive != MotiveFairness {
		t.Errorf("route %+v", d.Routes[0])
	}
	if d.ClientIP.Header != "X-Forwarded-For" || d.ClientIP.IPv6Prefix != 64 || d.ClientIP.TrustedProxies != nil {
		t.Errorf("client IP %+v", d.ClientIP)
	}
	if !reflect.DeepEqual(d.Credentials.Headers, []CredentialHeader{{"Authorization", "Bearer"}, {"X-API-Key", ""}}) {
		t.Errorf("headers %+v", d.Credentials.Headers)
	}
	if d.Credentials.Invalid != (InvalidLimit{Rate{Tokens: 30, Period: time.Minute}, 30}) {
		t.Errorf("invalid limit %+v", d.Credentials.Invalid)
	}
}

func TestParse_BurstDefaultsToTheRatesCount(t *testing.T) {
	t.Parallel()
	d, r := Parse([]byte(smallest + "  limits:\n  - {name: a, per: tenant, rate: 6000/minute}\n  - {name: b, per: tenant, rate: unlimited}\n" +
		"  - {name: c, per: tenant, rate: 0}\n  - {name: d, per: tenant, rate: 10/second, burst: 0}\n"))
	if !r.OK() {
		t.Fatal(r)
	}
	for i, want := range []int64{6000, 0, 0, 0} {
		if got := d.Routes[0].Limits[i].Burst; got != want {
			t.Errorf("burst of %s is %d, want %d", d.Routes[0].Limits[i].Name, got, want)
		}
	}
}

// Each of these could be read differently by another program.
// slip is a source that is refused: for one problem, at a path and (but for 0)
// on a line.
type slip struct {
	name, src, path, message string
	line                     int
}

func slips() []slip {
	return []slip{
		{"empty", "", "", "empty", 1},
		{"comments alone", "# nothing\n", "", "empty", 1},
		{"a list", "- a\n", "", "must be a map", 1},
		{"text", "policy\n", "", "must be a map", 1},
		{"null", "null\n", "", "must be a map", 1},
		{"unknown field", smallest + "global_limits: []\n", "global_limits", "not a known field", 6},
		{"unknown field below", smallest + "  costs: 1\n", "routes[0].costs", "known here: concurrency, cost, description", 6},
		{"field in another case", smallest + "Plans: {}\n", "Plans", "not a known field", 6},
		{"duplicate field", smallest + "  cost: 1\n  cost: 2\n", "routes[0].cost", "twice, first on line 6", 7},
		{"duplicate field in JSON", "{\"apiVersion\":\"headgate/v1\",\n\"apiVersion\":\"headgate/v1\"}", "apiVersion", "twice, first on line 1", 2},
		{"duplicate by escape", `{"plans":{"a":{},"\u0061":{}}}`, "plans.a", "twice", 1},
		{"anchor", smallest + "  limits: &a []\n", "routes[0].limits", "anchors are not allowed", 6},
		{"anchor on a field name", smallest + "&a plans: {}\n", "", "anchor, alias or tag", 6},
		{"alias", smallest + "  description: *a\n", "", "unknown anchor", 0},
		{"merge key", smallest + "  <<: {cost: 2}\n", "routes[0]", "merge keys are not allowed", 6},
		{"tag", smallest + "  description: !!str 5\n", "routes[0].description", "tags are not allowed", 6},
		{"own tag", smallest + "  description: !secret x\n", "routes[0].description", "tags are not allowed", 6},
		{"field name that is a list", smallest + "[a]: 1\n", "", "not text", 6},
		{"second document", smallest + "---\n" + smallest, "", "second document", 6},
		{"broken second document", smallest + "---\na: [\n", "", "not valid YAML", 0},
		{"tab as indent", "apiVersion: headgate/v1\n\troutes: []\n", "", "not valid YAML", 2},
		{"open bracket", "routes: [\n", "", "not valid YAML", 0},
		{"float cost", smallest + "  cost: 1.0\n", "routes[0].cost", "not the number 1.0", 6},
		{"half cost", smallest + "  cost: 0.5\n", "routes[0].cost", "not the number 0.5", 6},
		{"exponent", smallest + "  cost: 1e3\n", "routes[0].cost", "not the number 1e3", 6},
		{"hexadecimal", smallest + "  cost: 0x10\n", "routes[0].cost", "not the number 0x10", 6},
		{"octal", smallest + "  cost: 010\n", "routes[0].cost", "not the number 010", 6},
		{"underscore", smallest + "  cost: 1_000\n", "routes[0].cost", "plain digits", 6},
		{"plus sign", smallest + "  cost: +5\n", "routes[0].cost", "plain digits", 6},
		{"comma", smallest + "  cost: 1,5\n", "routes[0].cost", "not the text \"1,5\"", 6},
		{"NaN", smallest + "  cost: .nan\n", "routes[0].cost", "not the number .nan", 6},
		{"infinity", smallest + "  cost: .inf\n", "routes[0].cost", "not the number .inf", 6},
		{"number in quotes", smallest + "  cost: \"5\"\n", "routes[0].cost", "not the text \"5\"", 6},
		{"cost zero", smallest + "  cost: 0\n", "routes[0].cost", "smallest allowed is 1", 6},
		{"cost minus one", smallest + "  cost: -1\n", "routes[0].cost", "smallest allowed is 1", 6},
		{"cost too large", smallest + "  cost: 281474976710656\n", "routes[0].cost", "largest allowed is 281474976710655", 6},
		{"cost beyond 64 bit", smallest + "  cost: 99999999999999999999\n", "routes[0].cost", "largest allowed is", 6},
		{"cost empty", smallest + "  cost:\n", "routes[0].cost", "is empty", 6},
		{"cost true", smallest + "  cost: true\n", "routes[0].cost", "not true or false", 6},
		{"name is a number", "routes: [{name: 5}]\n", "routes[0].name", "must be text, not the number 5", 1},
		{"route is text", "routes: [all]\n", "routes[0]", "must be a map, not the text \"all\"", 1},
		{"route is empty", "routes: [~]\n", "routes[0]", "is empty", 1},
		{"routes is a map", "routes: {a: 1}\n", "routes", "must be a list of routes, not a map", 1},
		{"plans is a list", "plans: []\n", "plans", "must be a map of plans by name, not a list", 1},
		{"null in JSON", `{"routes":null}`, "routes", "is empty", 1},
		{"1e309 in JSON", `{"routes":[{"cost":1e309}]}`, "routes[0].cost", "not the number 1e309", 1},
		{"NaN in JSON", `{"routes":[{"cost":NaN}]}`, "routes[0].cost", "not valid JSON", 1},
		{"comma at the end in JSON", `{"routes":[],}`, "", "not valid JSON", 1},
		{"comment in JSON", "{\n// no\n\"routes\":[]}", "", "not valid JSON", 2},
		{"two JSON objects", "{}\n{}", "", "after the end", 2},
		{"JSON that ends early", "{\"routes\":[\n", "routes[0]", "not valid JSON", 2},
		{"lone surrogate in JSON", `{"description":"\ud800"}`, "description", "not allowed: U+FFFD", 1},
		{"control character in JSON", `{"description":"a\u0000b"}`, "description", "not allowed: U+0000", 1},
		{"control character in YAML", "description: \"a\\x1bb\"\n", "description", "not allowed: U+001B", 1},
		{"line separator", "description: \"a\\u2028b\"\n", "description", "not allowed: U+2028", 1},
		{"text that turns round", "description: \"a\\u202eb\"\n", "description", "not allowed: U+202E", 1},
		{"delete character", `{"description":"a\u007fb"}`, "description", "not allowed: U+007F", 1},
		{"text too long", "description: " + strings.Repeat("a", 1001) + "\n", "description", "at most 1000", 1},
		{"invalid UTF-8", "apiVersion: headgate/v1\ndescription: \xff\n", "", "not valid UTF-8", 2},
		{"overlong UTF-8", "apiVersion: \xc0\xaf\n", "", "not valid UTF-8", 1},
		{"NUL", "apiVersion: a\x00b\n", "", "not valid YAML", 0},
	}
}

func TestParse_IsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range slips() {
		d, r := Parse([]byte(c.src))
		if r.OK() || d != nil {
			t.Errorf("%s: taken", c.name)
			continue
		}
		p, ok := problemAt(r.Problems, c.path, c.message)
		if !ok {
			t.Errorf("%s: problems %q, want one at %q with %q", c.name, r.Problems, c.path, c.message)
		} else if c.line != 0 && p.Line != c.line {
			t.Errorf("%s: on line %d, want %d", c.name, p.Line, c.line)
		}
	}
}

func TestParse_TellsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	src := `apiVersion: headgate/v1
globl: {}
plans:
  free:
    limits: [{name: requests, per: tenant, rate: "1,000/minute"}]
routes:
  - name: Reports
    match: ["GET /v1/reports/{id"]
    cost: 1.5
    on_store_failure: {mode: ajar}
`
	_, r := Parse([]byte(src))
	want := []struct {
		path string
		line int
	}{
		{"globl", 2}, {"plans.free.limits[0].rate", 5}, {"routes[0].name", 7}, {"routes[0].match[0]", 8}, {"routes[0].cost", 9}, {"routes[0].on_store_failure.mode", 10},
	}
	if len(r.Problems) != len(want) {
		t.Fatalf("%d problems, want %d:\n%v", len(r.Problems), len(want), r)
	}
	for i, w := range want {
		if p := r.Problems[i]; p.Path != w.path || p.Line != w.line {
			t.Errorf("problem %d is %v, want %s on line %d", i, p, w.path, w.line)
		}
	}
}

// A value that could not be read is told once, not again by validation.
func TestParse_TellsNoProblemTwice(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"rate":             smallest + "  limits: [{name: a, per: tenant, rate: fast}]\n",
		"rate and burst":   smallest + "  limits: [{name: a, per: tenant, rate: fast, burst: 5}]\n",
		"burst":            smallest + "  limits: [{name: a, per: tenant, rate: 5/minute, burst: -1}]\n",
		"limits":           smallest + "  limits: many\n",
		"name":             "apiVersion: headgate/v1\nroutes:\n- name: [a]\n  match: [/]\n  on_store_failure: {mode: closed}\n",
		"on_store_failure": "apiVersion: headgate/v1\nroutes:\n- name: a\n  match: [/]\n  on_store_failure: closed\n",
		"mode":             "apiVersion: headgate/v1\nroutes:\n- name: a\n  match: [/]\n  on_store_failure: {mode: 1}\n",
		"fallback":         "apiVersion: headgate/v1\nroutes:\n- name: a\n  match: [/]\n  on_store_failure: {mode: open, fallback: some}\n",
		"match":            "apiVersion: headgate/v1\nroutes:\n- name: a\n  match: /\n  on_store_failure: {mode: closed}\n",
		"proxies":          smallest + "client_ip: {trusted_proxies: [10.0.0.0/33]}\n",
		"empty proxy":      smallest + "client_ip: {trusted_proxies: [\"\"]}\n",
		"header":           smallest + "client_ip: {header: 5}\n",
		"bits":             smallest + "client_ip: {ipv6_prefix: 129}\n",
		"routes":           "apiVersion: headgate/v1\nroutes: none\n",
	} {
		_, r := Parse([]byte(src))
		if len(r.Problems) != 1 {
			t.Errorf("%s: %d problems, want 1:\n%v", name, len(r.Problems), r)
		}
	}
}

func TestParse_TakesAddressesAndRanges(t *testing.T) {
	t.Parallel()
	d, r := Parse([]byte(smallest + "client_ip: {trusted_proxies: [192.0.2.7, \"2001:db8::1\", 10.0.0.0/8]}\n"))
	if !r.OK() {
		t.Fatal(r)
	}
	if got := fmt.Sprint(d.ClientIP.TrustedProxies); got != "[192.0.2.7/32 2001:db8::1/128 10.0.0.0/8]" {
		t.Errorf("trusted proxies %s", got)
	}
}

func TestParseLoose_GivesTheDocumentWhileOnlyValuesAreWrong(t *testing.T) {
	t.Parallel()
	d, r := ParseLoose([]byte(smallest + "  limits: [{name: a, per: tenant, rate: 1e3/minute}, {name: a, per: tenant, rate: 5/minute, burst: 9}]\n"))
	if r.OK() || d == nil {
		t.Fatalf("document %v, report %v", d, r)
	}
	if d.Routes[0].Limits[0].Rate.set() || d.Routes[0].Limits[1].Burst != 9 {
		t.Errorf("limits %+v", d.Routes[0].Limits)
	}
	if d, _ := Parse([]byte(smallest + "  cost: 0\n")); d != nil {
		t.Error("Parse gives a document with problems")
	}
	if d, _ := ParseLoose([]byte(smallest + "  costs: 1\n")); d != nil {
		t.Error("ParseLoose gives a document that lacks what its source has")
	}
	if d, r := ParseLoose([]byte(smallest)); d == nil || !r.OK() {
		t.Errorf("ParseLoose of a good document: %v", r)
	}
}

func TestReport_ReadsAsText(t *testing.T) {
	t.Parallel()
	r := Report{Problems: []Problem{{Path: "routes[0].rate", Line: 7, Message: "is missing"}, {Message: "is empty"}}}
	if got, want := r.Error(), "line 7: routes[0].rate: is missing\ndocument: is empty"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	if r.OK() || !(Report{Warnings: r.Problems}).OK() {
		t.Error("warnings alone must be OK")
	}
}

func TestParse_ReportIsBounded(t *testing.T) {
	t.Parallel()
	var src strings.Builder
	src.WriteString(smallest)
	for i := range 1000 {
		fmt.Fprintf(&src, "x%d: 1\n", i)
	}
	_, r := Parse([]byte(src.String()))
	if len(r.Problems) != maxProblems+1 || !strings.Contains(r.Problems[maxProblems].Message, "more problems") {
		t.Errorf("%d problems, want %d and how many more", len(r.Problems), maxProblems)
	}
	if len(r.Error()) > 64<<10 {
		t.Errorf("report of %d bytes", len(r.Error()))
	}
}

func FuzzPolicyImport(f *testing.F) {
	f.Add([]byte(smallest))
	for _, name := range []string{"example.yaml", "example.canonical.json", "layers.yaml", "layers.canonical.json", "mistakes.yaml"} {
		f.Add(readTestdata(f, name))
	}
	for _, s := range []string{"{", "a: *b", "a: &b 1", "? [a]", "{\"a\":1}", "---\n---\n", "routes: [{match: [/{]}]", "plans: {a: {limits: [{rate: 0}]}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, r := Parse(src)
		if (d == nil) == r.OK() {
			t.Fatalf("document %v and report %v", d, r)
		}
		if d == nil {
			if len(r.Problems) == 0 || r.Problems[0].Message == "" {
				t.Fatalf("report %+v tells nothing", r)
			}
			return
		}
		want := d.Canonical()
		back, r := Parse(want)
		if !r.OK() || !bytes.Equal(back.Canonical(), want) {
			t.Fatalf("canonical bytes come back differently: %v\n%s", r, want)
		}
		if back, r = Parse(d.YAML()); !r.OK() || !bytes.Equal(back.Canonical(), want) {
			t.Fatalf("YAML comes back differently: %v\n%s", r, d.YAML())
		}
		if _, err := Compile(d); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	src := readTestdata(b, "example.yaml")
	canonical := readTestdata(b, "example.canonical.json")
	large := manyRoutes(b, 10_000).Document
	for name, text := range map[string][]byte{"YAML": src, "JSON": canonical, "10000 routes YAML": large.YAML(), "10000 routes JSON": large.Canonical()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, r := Parse(text); !r.OK() {
					b.Fatal(r)
				}
			}
		})
	}
}
