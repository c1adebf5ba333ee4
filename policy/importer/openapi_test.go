package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

const openAPIExample = `openapi: 3.0.3
info: {title: Shop, version: "1"}
servers:
  - url: https://api.example.com/v1/
security: [{key: []}]
paths:
  /pets:
    get: {operationId: listPets, summary: "List  pets\nof all kinds", responses: {"200": {description: ok, content: {application/json: {schema: {$ref: ./pet.yaml}}}}}}
    post: {operationId: create_pet, security: [], responses: {}}
    parameters: [{name: x, in: query, schema: {type: string}}]
  /pets/{pet-id}:
    get: {operationId: "Get/Pet By ID", responses: {}}
    delete: {deprecated: true, responses: {}}
  /files/{name}.json:
    get: {responses: {}}
  /:
    get: {operationId: root, responses: {}}
  /tree/:
    get: {operationId: tree, responses: {}}
  /reports/{a}/{a}:
    get: {operationId: twice, responses: {}}
    servers: [{url: /v2}, {url: "https://{region}.example.com/{base}", variables: {region: {default: eu}, base: {default: v3}}}]
  /elsewhere: {$ref: "./other.yaml#/x"}
  /shared: {$ref: "#/components/pathItems/shared"}
  /lost: {$ref: "#/components/pathItems/nowhere"}
components:
  pathItems:
    shared: {get: {operationId: shared, responses: {}}}
  schemas: {broken: {$ref: "http://127.0.0.1:9/nothing"}}
webhooks: {ping: {post: {responses: {}}}}
`

func openapi(t *testing.T, src string) (map[string]policy.Route, []Note) {
	t.Helper()
	routes, notes, err := OpenAPI([]byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	byName := map[string]policy.Route{}
	for _, r := range routes {
		byName[r.Name] = r
	}
	return byName, notes
}

func TestOpenAPI_MakesARouteOfEachOperation(t *testing.T) {
	t.Parallel()
	routes, notes := openapi(t, openAPIExample)
	for name, match := range map[string][]string{
		"list-pets":           {"GET /v1/pets"},
		"create-pet":          {"POST /v1/pets"},
		"get-pet-by-id":       {"GET /v1/pets/{pet_id}"},
		"delete-pets-pet-id":  {"DELETE /v1/pets/{pet_id}"},
		"get-files-name-json": {"GET /v1/files/{name}"},
		"root":                {"GET /v1/{$}"},
		"tree":                {"GET /v1/tree/{$}"},
		"twice":               {"GET /v2/reports/{a}/{a2}", "GET /v3/reports/{a}/{a2}"},
		"shared":              {"GET /v1/shared"},
	} {
		if got := routes[name].Match; !slices.Equal(got, match) {
			t.Errorf("route %s matches %q, want %q", name, got, match)
		}
		delete(routes, name)
	}
	if len(routes) != 0 {
		t.Errorf("further routes: %+v", routes)
	}
	text := told(notes)
	for _, want := range []string{
		`paths./elsewhere: stands in "./other.yaml#/x", and no file or address is opened`, "true line 23 paths./elsewhere",
		`paths./lost: refers to "#/components/pathItems/nowhere", which is not there`,
		`paths./files/{name}.json: has "{name}.json": a wildcard is a whole segment`,
		"paths./pets/{pet-id}.delete: is deprecated",
		"each of the 9 routes needs an on_store_failure", "1 operations name no security", "servers have variables",
		"hosts were left out, so that the patterns hold for each: api.example.com, eu.example.com", "webhooks: are calls that the API makes itself",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the notes do not say %q:\n%s", want, text)
		}
	}
}

func TestOpenAPI_DescribesByTheSummary(t *testing.T) {
	t.Parallel()
	routes, _ := openapi(t, openAPIExample)
	if got := routes["list-pets"].Description; got != "List pets of all kinds" {
		t.Errorf("description %q", got)
	}
}

// What an OpenAPI document does not say is left to validation, and all else is fine.
func TestOpenAPI_LeavesTheFailModeToValidation(t *testing.T) {
	t.Parallel()
	list, _, err := OpenAPI([]byte(openAPIExample))
	if err != nil {
		t.Fatal(err)
	}
	d := &policy.Document{APIVersion: policy.APIVersion, Routes: list}
	report := policy.Validate(d)
	if len(report.Problems) != len(list) {
		t.Errorf("%d problems of %d routes:\n%v", len(report.Problems), len(list), report)
	}
	for i, p := range report.Problems {
		if p.Path != fmt.Sprintf("routes[%d].on_store_failure", i) {
			t.Errorf("%v", p)
		}
	}
	for i := range list {
		list[i].OnStoreFailure = policy.StoreFailure{Mode: policy.FailClosed}
	}
	c, err := policy.Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/v1/pets/7": "get-pet-by-id", "/v1/pets": "list-pets", "/v1/": "root", "/v1/tree/": "tree", "/v1/tree/x": "", "/v3/reports/1/2": "twice", "/pets": ""} {
		r, ok := c.Match("GET", "", path)
		if ok != (want != "") || ok && r.Name != want {
			t.Errorf("GET %s meets %v, want %q", path, r, want)
		}
	}
}

func TestOpenAPI_TellsConflictsAndWhatCannotBeMatched(t *testing.T) {
	t.Parallel()
	head := "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths:\n"
	for src, want := range map[string]string{
		"  /a/{x}/b: {get: {responses: {}}}\n  /a/b/{y}: {get: {responses: {}}}\n": "match some of the same requests and neither is more specific",
		"  /a/{x}: {get: {responses: {}}}\n  /a/{y}: {get: {responses: {}}}\n":     "matches the same requests as",
		"  /a: {get: {responses: {}}}\n  /b/../c: {get: {responses: {}}}\n":        "can never match",
		"  /a: {get: {responses: {}}, connect: {responses: {}}}\n":                 "the method CONNECT cannot be matched",
		"  /a: {get: {responses: {}}, additionalOperations: {LINK: {}}}\n":         "additionalOperations: cannot be matched",
		"  /a?x=1: {get: {responses: {}}}\n":                                       "told apart by what stands behind the path",
		"  /a: {get: {responses: {}}}\n  x: {get: {responses: {}}}\n":              "",
		"  /a: {get: {servers: [{url: 'http://{x}/'}], responses: {}}}\n":          "the server \"http://{x}/\" cannot be read",
		"  /a/{x}:{y}: {get: {responses: {}}}\n":                                   "a wildcard is a whole segment",
	} {
		routes, notes, err := OpenAPI([]byte(head + src))
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", src, err)
			}
			continue
		}
		if text := told(notes); !strings.Contains(text, want) || len(routes) == 0 {
			t.Errorf("%s: %d routes, and the notes do not say %q:\n%s", src, len(routes), want, text)
		}
	}
}

func TestOpenAPI_PathsThatGoDeeperTakeTheRest(t *testing.T) {
	t.Parallel()
	routes, _ := openapi(t, "openapi: 3.0.0\npaths:\n  /files/{path*}: {get: {operationId: files, responses: {}}}\n  /{1st}/{}: {put: {operationId: odd, responses: {}}}\n")
	if got := routes["files"].Match; !slices.Equal(got, []string{"GET /files/{path...}"}) {
		t.Errorf("%q", got)
	}
	if got := routes["odd"].Match; !slices.Equal(got, []string{"PUT /{p1st}/{p}"}) {
		t.Errorf("%q", got)
	}
}

func TestOpenAPI_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"swagger: '2.0'\npaths: {}": "is Swagger 2.0: convert it to OpenAPI 3 first",
		"openapi: 4.0.0":            "must be 3.0 or 3.1",
		"paths: {}":                 "must be 3.0 or 3.1",
		"openapi: 3.0.0":            "hold no operation",
		"openapi: 3.0.0\npaths: {/a: {parameters: []}}":                                                "hold no operation",
		"openapi: 3.0.0\npaths: &a {/a: *a}":                                                           "uses the alias *a",
		"{\"openapi\": \"3.0.0\", \"paths\": {":                                                        "is not valid",
		"{\"openapi\": \"3.0.0\", \"x\": " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}": "lies deeper than 100 levels",
		strings.Repeat("x", MaxSourceBytes+1):                                                          "is 8388609 bytes long: the largest allowed is 8388608",
	} {
		_, _, err := OpenAPI([]byte(src))
		var report policy.Report
		if !errors.As(err, &report) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gives %v, want %q", src, err, want)
		}
	}
	var b strings.Builder
	b.WriteString(`{"openapi":"3.1.0","paths":{`)
	for i := range maxRoutes + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/p%d":{"get":{}}`, i)
	}
	b.WriteString("}}")
	if _, _, err := OpenAPI([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "hold 10001 operations: a policy has at most 10000 routes") {
		t.Errorf("%v", err)
	}
}

// A document names what it wants read; nothing of it is opened.
func TestOpenAPI_OpensNoFileAndNoAddress(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:1/x", "../x.yaml#/a", "//127.0.0.1/x"} {
		src := fmt.Sprintf("openapi: 3.1.0\npaths:\n  /a: {get: {responses: {'200': {$ref: %q}}, parameters: [{$ref: %q}]}}\n  /b: {$ref: %q}\ncomponents: {pathItems: {c: {$ref: %q}}}\n", ref, ref, ref, ref)
		routes, notes := openapi(t, src)
		if len(routes) != 1 || strings.Count(told(notes), "no file or address is opened") != 2 {
			t.Errorf("%s: %+v\n%s", ref, routes, told(notes))
		}
	}
}

func FuzzOpenAPI(f *testing.F) {
	f.Add([]byte(openAPIExample))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/a/{b}":{"get":{"operationId":"x","security":[{}]}}}}`))
	f.Add([]byte("openapi: 3.0.0\nservers: [{url: ./v1}]\npaths: {/a: {$ref: '#/components/pathItems/a'}}\ncomponents: {pathItems: {a: {get: {}}}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		routes, _, err := OpenAPI(src)
		if (len(routes) == 0) != (err != nil) {
			t.Fatalf("%d routes and error %v", len(routes), err)
		}
		if err != nil {
			return
		}
		names := map[string]bool{}
		for i := range routes {
			if names[routes[i].Name] || len(routes[i].Match) == 0 {
				t.Fatalf("route %+v", routes[i])
			}
			names[routes[i].Name] = true
		}
		for _, p := range policy.Validate(&policy.Document{APIVersion: policy.APIVersion, Routes: routes}).Problems {
			if !strings.Contains(p.Path, ".match") && !strings.HasSuffix(p.Path, ".on_store_failure") && !strings.Contains(p.Message, "more problems") {
				t.Fatalf("%v", p)
			}
		}
	})
}

// Names stay what policies allow, whatever the source calls things.
func TestNames_AreAllowedAndDiffer(t *testing.T) {
	t.Parallel()
	n := names{}
	seen := map[string]bool{}
	for _, text := range []string{"listPets", "ListPets", "list_pets", "", "—", strings.Repeat("x", 300), strings.Repeat("x", 301), "HTTPServer", "a--b", "-a-", "1", "Ünï"} {
		name := n.of(text)
		d := &policy.Document{APIVersion: policy.APIVersion, Routes: []policy.Route{{Name: name, Match: []string{"/"}, OnStoreFailure: policy.StoreFailure{Mode: policy.FailClosed},
			Limits: []policy.Limit{{Name: name, Per: policy.PerIP, Rate: policy.Rate{Tokens: 1, Period: time.Hour}, Burst: 1}}}}}
		if r := policy.Validate(d); !r.OK() || seen[name] {
			t.Errorf("%q becomes %q: %v", text, name, r)
		}
		seen[name] = true
	}
}
