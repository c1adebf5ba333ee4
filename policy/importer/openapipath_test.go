package importer

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
)

func TestPattern_SaysWhatAPathTemplateSays(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct {
		want string
		note string // part of the note that comes with it; "" none
	}{
		"/":                    {"/{$}", ""},
		"/a":                   {"/a", ""},
		"/a/":                  {"/a/{$}", ""},
		"/a/{b}":               {"/a/{b}", ""},
		"/a/{b}/":              {"/a/{b}/{$}", ""},
		"/a/{b-c}/{b.c}":       {"/a/{b_c}/{b_c2}", ""},
		"/a/{b}/{b}/{b}":       {"/a/{b}/{b2}/{b3}", ""},
		"/{+rest}":             {"/{rest}", ""},
		"/{rest*}":             {"/{rest...}", ""},
		"/{rest*}/x":           {"/{rest}/x", ""},
		"/{}":                  {"/{p}", ""},
		"/{1}":                 {"/{p1}", ""},
		"/{née}":               {"/{née}", ""},
		"/a.{format}":          {"/{format}", "matches more than the path does"},
		"/{a}-{b}":             {"/{a}", "matches more than the path does"},
		"/x(Id={Id})":          {"/{Id}", "matches more than the path does"},
		"/a{":                  {"/{a_}", ""},
		"/a}b{c":               {"/{a_b_c}", ""},
		"/a?action={x}":        {"/a", "what stands behind the path (action={x})"},
		"/a#get":               {"/a", "told apart"},
		"a":                    {"", "does not begin with a slash"},
		"":                     {"", "does not begin with a slash"},
		"/caf\u00e9/%7Euser":   {"/caf\u00e9/%7Euser", ""},
		"/users/{id}:activate": {"/users/{id}", "matches more than the path does"},
	} {
		r := &openAPIReader{}
		got, ok := r.pattern("here", 3, path)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q becomes %q, want %q", path, got, c.want)
		}
		if text := told(r.notes); (c.note == "") != (text == "") || !strings.Contains(text, c.note) {
			t.Errorf("%q: notes %q, want %q", path, text, c.note)
		}
	}
}

// Of segments that paths are made of comes a pattern that policies take.
func TestPattern_IsOneThatPoliciesTake(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "v1", "{id}", "{ID}", "{pet-id}", "{a}{b}", "x{y}z", "{1}", "{}", "é", "a.b", "~x", "{a.b}", "{id}"})
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + strings.Join(rapid.SliceOfN(segment, 1, 6).Draw(t, "segments"), "/") + rapid.SampledFrom([]string{"", "/"}).Draw(t, "end")
		r := &openAPIReader{}
		got, ok := r.pattern("", 0, path)
		d := &policy.Document{APIVersion: policy.APIVersion, Routes: []policy.Route{{Name: "a", Match: []string{"GET " + got}, OnStoreFailure: policy.StoreFailure{Mode: policy.FailClosed}}}}
		if report := policy.Validate(d); !ok || !report.OK() {
			t.Fatalf("%q becomes %q: %v", path, got, report)
		}
		if strings.Count(got, "/") != strings.Count(path, "/") {
			t.Fatalf("%q becomes %q, which has another depth", path, got)
		}
	})
}

func TestBaseOf_ReadsServers(t *testing.T) {
	t.Parallel()
	vars := map[string]*openapi3.ServerVariable{"region": {Default: "eu"}, "base": {Default: "v2"}}
	for url, c := range map[string]struct {
		base, host string
		bad        bool
	}{
		"https://api.example.com":               {"", "api.example.com", false},
		"https://api.example.com/":              {"", "api.example.com", false},
		"https://api.example.com:8443/v1/":      {"/v1", "api.example.com", false},
		"/v1":                                   {"/v1", "", false},
		"/":                                     {"", "", false},
		"":                                      {"", "", false},
		"./v1":                                  {"/v1", "", false},
		"v1":                                    {"/v1", "", false},
		".":                                     {"", "", false},
		"//api.example.com/v1":                  {"/v1", "api.example.com", false},
		"https://{region}.example.com/{base}/x": {"/v2/x", "eu.example.com", false},
		"https://{unknown}.example.com":         {"", "", true},
		"http://[::1":                           {"", "", true},
		"https://api.example.com/a%20b?x=1#y":   {"/a%20b", "api.example.com", false},
		"https://user:secret@api.example.com/v1///": {"/v1", "api.example.com", false},
	} {
		base, host, err := baseOf(&openapi3.Server{URL: url, Variables: vars})
		if base != c.base || host != c.host || (err != nil) != c.bad {
			t.Errorf("%q: base %q, host %q, %v, want %+v", url, base, host, err, c)
		}
	}
}

func TestOpenAPI_ServersOfTheOperationGoFirst(t *testing.T) {
	t.Parallel()
	const src = `{"openapi":"3.1.0","servers":[{"url":"/root"},{"url":"/root/"},{"noturl":1},{"url":"/other"}],"paths":{
		"/a":{"get":{"operationId":"a"}},
		"/b":{"servers":[{"url":"/path"}],"get":{"operationId":"b"},"put":{"operationId":"c","servers":[{"url":"/operation"}]}},
		"/d":{"servers":[],"get":{"operationId":"d","servers":[]}},
		"/e":{"servers":"x","get":{"operationId":"e"}}}}`
	routes, _ := openapi(t, src)
	for name, want := range map[string][]string{
		"a": {"GET /root/a", "GET /other/a"}, "b": {"GET /path/b"}, "c": {"PUT /operation/b"}, "d": {"GET /root/d", "GET /other/d"}, "e": {"GET /root/e", "GET /other/e"},
	} {
		if got := routes[name].Match; !slices.Equal(got, want) {
			t.Errorf("%s matches %q, want %q", name, got, want)
		}
	}
}

func TestOpenAPI_SecurityOfTheOperationGoesFirst(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`{"openapi":"3.0.0","security":[{"k":[]}],"paths":{"/a":{"get":{}}}}`:                  "",
		`{"openapi":"3.0.0","security":[{"k":[]}],"paths":{"/a":{"get":{"security":[]}}}}`:     "1 operations name no security",
		`{"openapi":"3.0.0","security":[{"k":[]}],"paths":{"/a":{"get":{"security":[{}]}}}}`:   "1 operations name no security",
		`{"openapi":"3.0.0","paths":{"/a":{"get":{"security":[{"k":[]}]},"put":{}}}}`:          "1 operations name no security",
		`{"openapi":"3.0.0","security":"x","paths":{"/a":{"get":{"security":[{"k":["s"]}]}}}}`: "",
	} {
		_, notes := openapi(t, src)
		if text := told(notes); strings.Contains(text, "name no security") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: the notes say\n%s, want %q", src, text, want)
		}
	}
}

// One operation that is odd does not cost the others.
func TestOpenAPI_TakesWhatItCan(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]int{
		`{"openapi":"3.0.0","paths":{"/a":{"get":{"operationId":["x"],"summary":5,"deprecated":"yes"}}}}`: 1,
		`{"openapi":"3.0.0","paths":{"/a":{"get":{}},"/a":{"put":{}}}}`:                                   1,
		`{"openapi":"3.0.0","paths":{"/a":{"get":5},"/b":[],"/c":{"get":{}}}}`:                            2,
		`{"openapi":"3.0.0","paths":{"x-note":{"get":{}},"/c":{"get":{}}}}`:                               1,
		`{"openapi":"3.0.0","paths":{"/c":{"get":{},"x-headgate-limits":{"a":1}}}}`:                       1,
		`{"openapi":"3.1.0","components":{"pathItems":{"p":{"get":{}},"q":{"$ref":"#/components/pathItems/p"}}},"paths":{"/a":{"$ref":"#/components/pathItems/p"},"/b":{"$ref":"#/components/pathItems/q"},"/c":{"$ref":"#/paths/~1a"}}}`: 1,
		`{"openapi":"3.2.0","paths":{"/a":{"query":{},"get":{}}}}`: 2,
	} {
		routes, notes, err := OpenAPI([]byte(src))
		if err != nil || len(routes) != want {
			t.Errorf("%s gives %d routes, %v, want %d\n%s", src, len(routes), err, want, told(notes))
		}
	}
}
