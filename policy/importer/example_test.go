package importer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/importer"
)

func ExampleEnvoyRateLimit() {
	doc, notes, err := importer.EnvoyRateLimit([]byte(`
domain: shop
descriptors:
  - key: generic_key
    value: login
    descriptors:
      - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 20}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range doc.Routes {
		fmt.Printf("%s: %s per %s\n", r.Name, r.Limits[0].Rate, r.Limits[0].Per)
	}
	for _, n := range notes {
		if n.Todo {
			fmt.Println("to do:", n.Message)
		}
	}
	// Output:
	// generic-key-login-remote-address: 20/minute per ip
	// to do: descriptors do not say which requests they are made for: that stands in Envoy's routes (rate_limits.actions). Each of the 1 routes needs a match
	// to do: what happens while the store is away stands in Envoy's filter (failure_mode_deny): each route needs an on_store_failure
}

func ExampleOpenAPI() {
	routes, _, err := importer.OpenAPI([]byte(`
openapi: 3.1.0
servers: [{url: https://api.example.com/v1}]
paths:
  /pets/{pet-id}:
    get: {operationId: getPet, security: [{key: []}]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range routes {
		fmt.Println(r.Name, r.Match)
	}
	// Output:
	// get-pet [GET /v1/pets/{pet_id}]
}

// A document that imports made is finished like any other: what was left out is
// what validation asks for, and nothing else.
func TestImport_TogetherMakeAPolicy(t *testing.T) {
	t.Parallel()
	doc, _, err := importer.EnvoyRateLimit([]byte("domain: d\ndescriptors:\n- {key: remote_address, rate_limit: {unit: second, requests_per_unit: 5}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	routes, _, err := importer.OpenAPI([]byte(`{"openapi":"3.0.0","paths":{"/a":{"get":{}},"/b/{c}":{"post":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	doc.Routes[0].Match = []string{"/"}
	doc.Routes = append(doc.Routes, routes...)
	report := policy.Validate(doc)
	if len(report.Problems) != len(doc.Routes) {
		t.Errorf("%v", report)
	}
	for _, p := range report.Problems {
		if !strings.HasSuffix(p.Path, ".on_store_failure") {
			t.Errorf("%v", p)
		}
	}
	for i := range doc.Routes {
		doc.Routes[i].OnStoreFailure = policy.StoreFailure{Mode: policy.FailClosed}
	}
	back, report := policy.Parse(doc.YAML())
	if !report.OK() {
		t.Fatal(report)
	}
	if changes := policy.Diff(doc, back); len(changes) != 0 {
		t.Errorf("%+v", changes)
	}
}
