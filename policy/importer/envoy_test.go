package importer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// told is the notes as text, one a line.
func told(notes []Note) string {
	var b strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&b, "%v line %d %s: %s\n", n.Todo, n.Line, n.Path, n.Message)
	}
	return b.String()
}

func envoy(t *testing.T, src string) (*policy.Document, []Note) {
	t.Helper()
	d, notes, err := EnvoyRateLimit([]byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return d, notes
}

const envoyExample = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 60}
  - key: generic_key
    value: Login
    descriptors:
      - key: remote_address
        rate_limit: {name: per-ip, unit: hour, requests_per_unit: 20}
        shadow_mode: true
      - key: user_id
        detailed_metric: true
        rate_limit: {unit: day, requests_per_unit: 100, replaces: [{name: per-ip}]}
  - key: database
    value: users
    rate_limit: {unit: Second, requests_per_unit: 500}
  - key: database
    rate_limit: {unlimited: true}
  - key: health
    value: ok
  - key: banned
    value: "yes"
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: path
    value: /v1/reports
    rate_limit: {unit: week, requests_per_unit: 7}
  - key: bulk
    value: x
    rate_limit: {unit: month, requests_per_unit: 1000}
`

func TestEnvoy_MakesARouteOfEachDescriptor(t *testing.T) {
	t.Parallel()
	d, notes := envoy(t, envoyExample)
	limit := func(name string, per policy.Per, n int64, period time.Duration) []policy.Limit {
		return []policy.Limit{{Name: name, Per: per, Rate: policy.Rate{Tokens: n, Period: period}, Burst: n}}
	}
	shadow := limit("per-ip", policy.PerIP, 20, time.Hour)
	shadow[0].Mode = policy.ModeShadow
	want := []policy.Route{
		{Name: "remote-address", Description: "descriptor remote_address", Limits: limit("requests", policy.PerIP, 60, time.Minute)},
		{Name: "generic-key-login-remote-address", Description: "descriptor generic_key=Login, remote_address", Limits: shadow},
		{Name: "generic-key-login-user-id", Description: "descriptor generic_key=Login, user_id", Limits: limit("requests", "", 100, 24*time.Hour)},
		{Name: "database-users", Description: "descriptor database=users", Limits: limit("requests", policy.PerGlobal, 500, time.Second)},
		{Name: "database", Description: "descriptor database", Limits: []policy.Limit{{Name: "requests", Rate: policy.Rate{Unlimited: true}}}},
		{Name: "health-ok", Description: "descriptor health=ok"},
		{Name: "banned-yes", Description: "descriptor banned=yes", Limits: limit("requests", policy.PerGlobal, 0, time.Second)},
		{Name: "path-v1-reports", Description: "descriptor path=/v1/reports", Limits: limit("requests", policy.PerGlobal, 7, 7*24*time.Hour)},
		{Name: "bulk-x", Description: "descriptor bulk=x", Limits: []policy.Limit{{Name: "requests", Per: policy.PerGlobal}}},
	}
	for i := range want {
		want[i].Identity = policy.IdentityIP
	}
	if len(d.Routes) != len(want) {
		t.Fatalf("%d routes, want %d", len(d.Routes), len(want))
	}
	for i, r := range d.Routes {
		if !reflect.DeepEqual(r, want[i]) {
			t.Errorf("route %d is\n%+v, want\n%+v", i, r, want[i])
		}
	}
	text := told(notes)
	for _, part := range []string{
		"fixed windows", "false line 0 ", "true line 0 routes: descriptors do not say which requests", "failure_mode_deny", "identity ip",
		"true line 13 descriptors[1].descriptors[1].rate_limit.replaces: replacing per-ip cannot be said",
		"true line 11 descriptors[1].descriptors[1]: counts each value of user_id apart",
		"false line 12 descriptors[1].descriptors[1].detailed_metric: is not needed",
		"true line 17 descriptors[3]: counts each value of database apart",
		"true line 19 descriptors[4]: has no rate limit",
		"0 admits nothing", `descriptors[6]: path looks like a path: match: ["/v1/reports"]`,
		"descriptors[7].rate_limit.unit: a rate's period is at most 31 days: 1000 a month is a quota",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the notes do not say %q:\n%s", part, text)
		}
	}
}

// What descriptors cannot say is never guessed: validation refuses the document
// until somebody has decided each of it, and then takes it.
func TestEnvoy_LeavesWhatItCannotKnowToValidation(t *testing.T) {
	t.Parallel()
	d, _ := envoy(t, envoyExample)
	report := policy.Validate(d)
	for i, r := range d.Routes {
		for _, part := range []string{"match", "on_store_failure"} {
			found := false
			for _, p := range report.Problems {
				found = found || p.Path == fmt.Sprintf("routes[%d].%s", i, part) && strings.Contains(p.Message, "is missing")
			}
			if !found {
				t.Errorf("route %s has no problem at %s", r.Name, part)
			}
		}
	}
	text := report.Error()
	for _, want := range []string{"routes[2].limits[0].per: is missing", "routes[4].limits[0].per: is missing", "routes[8].limits[0].rate: is missing"} {
		if !strings.Contains(text, want) {
			t.Errorf("validation does not say %q:\n%s", want, text)
		}
	}
	if _, written := policy.Parse(d.YAML()); !samePaths(written.Problems, report.Problems) {
		t.Errorf("written and read again it has the problems\n%v, was\n%v", written, report)
	}
	for i := range d.Routes {
		r := &d.Routes[i]
		r.Match, r.OnStoreFailure = []string{fmt.Sprintf("/r%d", i)}, policy.StoreFailure{Mode: policy.FailClosed}
		for j := range r.Limits {
			if r.Limits[j].Per == "" {
				r.Limits[j].Per = policy.PerIP
			}
			if r.Limits[j].Rate == (policy.Rate{}) {
				r.Limits[j].Rate, r.Limits[j].Burst = policy.Rate{Tokens: 1, Period: time.Hour}, 1
			}
		}
	}
	if report := policy.Validate(d); !report.OK() {
		t.Errorf("all is decided, and still:\n%v", report)
	}
}

func samePaths(a, b []policy.Problem) bool {
	paths := func(list []policy.Problem) []string {
		var out []string
		for _, p := range list {
			out = append(out, p.Path)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(paths(a), paths(b))
}

func TestEnvoy_NotesWhatCannotBeSaid(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"[{key: remote_address, value: 10.0.0.1, rate_limit: {unit: second, requests_per_unit: 1}}]":                  "is for the address 10.0.0.1 alone",
		"[{key: masked_remote_address, rate_limit: {unit: second, requests_per_unit: 1}}]":                            "client_ip.ipv6_prefix",
		"[{key: path, value: /api/*, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}]":       "share_threshold: one count for all values",
		"[{key: path, value: /api/*, rate_limit: {unit: second, requests_per_unit: 1}}]":                              "values that begin with /api/",
		"[{key: a, value: b, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 1}}]":                    "descriptors[0].quota_mode: is not known here and was left out",
		"[{key: a, value: b, rate_limit: {unit: year, requests_per_unit: 1}}]":                                        "is a quota of a plan",
		"[{key: a, value: b, value_to_metric: true, rate_limit: {unit: second, requests_per_unit: 1, algorithm: x}}]": "rate_limit.algorithm: is not known",
		"[{key: a, value: b, rate_limit: {unit: second, requests_per_unit: 1}, descriptors: }]":                       "descriptors[0].descriptors: is empty",
	} {
		_, notes := envoy(t, "domain: d\ndescriptors: "+src+"\n")
		if text := told(notes); !strings.Contains(text, want) {
			t.Errorf("%s: the notes do not say %q:\n%s", src, want, text)
		}
	}
}

func TestEnvoy_TellsProblemsWithPathAndLine(t *testing.T) {
	t.Parallel()
	limited := func(limit string) string {
		return "domain: d\ndescriptors:\n- key: a\n  rate_limit: " + limit + "\n"
	}
	for src, want := range map[string]string{
		"":                                      "line 1: document: is empty",
		"- a":                                   "must be a map",
		"domain: d":                             "it must have a domain and descriptors",
		"descriptors: []":                       "it must have a domain and descriptors",
		"domain: d\ndescriptors: []":            "descriptors: is empty: there is nothing to import",
		"domain: d\ndescriptors: {}":            "line 2: descriptors: must be a list",
		"domain: d\ndescriptors:\n- value: x\n": "line 3: descriptors[0].key: is missing",
		"domain: d\ndescriptors:\n- x\n":        "line 3: descriptors[0]: must be a map",
		"domain: [d]\ndescriptors: []":          "domain: must be text",
		"domain: d\ndomain: e\ndescriptors: []": "domain: is there twice",
		limited("{unit: fortnight, requests_per_unit: 5}"):               `line 4: descriptors[0].rate_limit.unit: "fortnight" is not known: it must be one of second`,
		limited("{unit: second, requests_per_unit: 1000000000000}"):      "must be a whole number of 0 to 4294967295",
		limited("{unit: second, requests_per_unit: -1}"):                 "must be a whole number",
		limited("{unit: second, requests_per_unit: 1e3}"):                "must be a whole number",
		limited("{unit: second, requests_per_unit: '1,000'}"):            "must be a whole number",
		limited("{unit: second}"):                                        "requests_per_unit: is missing",
		limited("{requests_per_unit: 5}"):                                "unit: is missing",
		limited("{unlimited: true, unit: second, requests_per_unit: 5}"): "is unlimited and has requests_per_unit",
		limited("{unlimited: perhaps}"):                                  "unlimited: must be true or false",
		limited("5"):                                                     "rate_limit: must be a map",
		"domain: d\ndescriptors: &a [{key: x}, *a]":                      "uses the alias *a",
		"domain: d\ndescriptors: [{key: x}]\n---\ndomain: e":             "holds a second document",
		"domain: [": "is not valid YAML",
		"a: \xff":   "is not valid UTF-8",
		"domain: d\ndescriptors: " + strings.Repeat("[", 200) + strings.Repeat("]", 200): "lies deeper than 100 levels",
	} {
		d, _, err := EnvoyRateLimit([]byte(src))
		var report policy.Report
		if d != nil || !errors.As(err, &report) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", src, err, want)
		}
	}
}

func TestEnvoy_JSONMeansTheSame(t *testing.T) {
	t.Parallel()
	fromYAML, _ := envoy(t, "domain: d\ndescriptors: [{key: a, value: b/c, rate_limit: {unit: second, requests_per_unit: 5}}]")
	fromJSON, notes := envoy(t, "{\n\t\"domain\": \"d\",\n\t\"descriptors\": [\n\t\t{\"key\": \"a\", \"value\": \"b\\/c\", \"zone\": 1, \"rate_limit\": {\"unit\": \"second\", \"requests_per_unit\": 5}}]}")
	if !reflect.DeepEqual(fromYAML, fromJSON) {
		t.Errorf("YAML gives\n%+v, JSON\n%+v", fromYAML, fromJSON)
	}
	if text := told(notes); !strings.Contains(text, "line 4 descriptors[0].zone") {
		t.Errorf("notes have no lines:\n%s", text)
	}
}

func TestEnvoy_BoundsWhatItReads(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for range maxRoutes + 1 {
		b.WriteString("- {key: a, value: b, rate_limit: {unit: second, requests_per_unit: 5}}\n")
	}
	if _, _, err := EnvoyRateLimit([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "more than 10000 descriptors") {
		t.Errorf("%v", err)
	}
	for name, src := range map[string]string{
		"size":  strings.Repeat("a", MaxSourceBytes+1),
		"marks": strings.Repeat("-\n", maxMarks),
		"JSON":  "{\"a\":" + strings.Repeat("[", 1<<16) + strings.Repeat("]", 1<<16) + "}",
	} {
		if _, _, err := EnvoyRateLimit([]byte(src)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzEnvoyRateLimit(f *testing.F) {
	f.Add([]byte(envoyExample))
	f.Add([]byte(`{"domain":"d","descriptors":[{"key":"a","rate_limit":{"unlimited":true}}]}`))
	f.Add([]byte("domain: d\ndescriptors: [{key: a, descriptors: [{key: b}]}]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, notes, err := EnvoyRateLimit(src)
		if (d == nil) != (err != nil) {
			t.Fatalf("document %v and error %v", d, err)
		}
		if d == nil {
			return
		}
		names := map[string]bool{}
		for _, r := range d.Routes {
			if names[r.Name] {
				t.Fatalf("two routes are called %s", r.Name)
			}
			names[r.Name] = true
		}
		for _, p := range policy.Validate(d).Problems { // what is not decided, and nothing else
			if !strings.Contains(p.Message, "is missing") && !strings.HasPrefix(p.Message, "has ") {
				t.Fatalf("%v\n%s", p, told(notes))
			}
		}
	})
}
