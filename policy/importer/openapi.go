package importer

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/policy"
)

// openAPIReader turns operations into routes.
type openAPIReader struct {
	noteList
	doc    *openapi3.T
	tree   *yaml.Node            // of the source, for lines
	byPath map[string]*yaml.Node // path items of the source
	names  names
	routes []policy.Route
	lines  []int          // of each route, in the source
	paths  []string       // of each route, in the source
	hosts  []string       // of servers, as they were met
	left   map[string]int // how often something was met that is told once
}

func openAPI(src []byte) ([]policy.Route, []Note, error) {
	tree, err := readTree(src)
	if err != nil {
		return nil, nil, err
	}
	r := &openAPIReader{tree: tree, names: names{}, left: map[string]int{}}
	if err := r.load(); err != nil {
		return nil, nil, err
	}
	for _, path := range slices.Sorted(mapKeys(r.doc.Paths.Map())) {
		r.path(path, r.doc.Paths.Value(path))
	}
	switch {
	case len(r.routes) == 0:
		return nil, nil, problem("paths", r.line("paths"), "hold no operation: there is nothing to import")
	case len(r.routes) > maxRoutes:
		return nil, nil, problem("paths", r.line("paths"), "hold %d operations: a policy has at most %d routes", len(r.routes), maxRoutes)
	}
	r.conflicts()
	r.summary()
	return r.routes, r.all(), nil
}

// load gives the OpenAPI parser the part of the document that routes are made of:
// schemas and examples, which may be huge, broken or in other files, say nothing
// of routes.
func (r *openAPIReader) load() error {
	if child(r.tree, "swagger") != nil {
		return problem("swagger", r.line("swagger"), "is Swagger 2.0: convert it to OpenAPI 3 first")
	}
	version := child(r.tree, "openapi")
	if version == nil || !strings.HasPrefix(version.Value, "3.") {
		return problem("openapi", r.tree.Line, "must be 3.0 or 3.1: this is no OpenAPI document that can be read")
	}
	raw, err := json.Marshal(r.pruned(version.Value))
	if err != nil {
		return problem("", 0, "cannot be read: %s", clip(err.Error()))
	}
	loader := openapi3.NewLoader() // opens no file and no address
	if r.doc, err = loader.LoadFromData(raw); err != nil {
		return problem("paths", r.line("paths"), "cannot be read: %s", clip(err.Error()))
	}
	return nil
}

func (r *openAPIReader) path(path string, item *openapi3.PathItem) {
	if item == nil {
		return
	}
	operations := item.Operations()
	for _, method := range slices.Sorted(mapKeys(operations)) {
		r.operation(path, method, item, operations[method])
	}
}

func (r *openAPIReader) operation(path, method string, item *openapi3.PathItem, op *openapi3.Operation) {
	where := "paths." + path + "." + strings.ToLower(method)
	line := r.lineOf(path, strings.ToLower(method))
	if method != strings.ToUpper(method) || method == "CONNECT" {
		r.do(where, line, "the method %s cannot be matched: it was left out", clip(method))
		return
	}
	text, ok := r.pattern("paths."+path, r.lineOf(path, ""), path)
	if !ok {
		return
	}
	route := policy.Route{Name: r.names.of(nameOf(path, method, op)), Description: plainText(op.Summary)}
	for _, base := range r.bases(where, line, item, op) {
		if p := method + " " + base + text; !slices.Contains(route.Match, p) {
			route.Match = append(route.Match, p)
		}
	}
	security := &r.doc.Security
	if op.Security != nil {
		security = op.Security
	}
	if len(*security) == 0 {
		r.left["open"]++
	}
	if op.Deprecated {
		r.say(where, line, "is deprecated: route %s was made all the same", route.Name)
	}
	r.routes, r.lines, r.paths = append(r.routes, route), append(r.lines, line), append(r.paths, where)
}

func nameOf(path, method string, op *openapi3.Operation) string {
	if op.OperationID != "" {
		return op.OperationID
	}
	return strings.ToLower(method) + " " + path
}

// bases are the base paths under which an operation is served, without a slash
// at their end; the closest servers count.
func (r *openAPIReader) bases(where string, line int, item *openapi3.PathItem, op *openapi3.Operation) []string {
	servers := r.doc.Servers
	if len(item.Servers) > 0 {
		servers = item.Servers
	}
	if op.Servers != nil && len(*op.Servers) > 0 {
		servers = *op.Servers
	}
	var bases []string
	for _, s := range servers {
		base, host, err := baseOf(s)
		if err != nil {
			r.do(where, line, "the server %q cannot be read: its base path was left out", clip(s.URL))
			continue
		}
		if host != "" && !slices.Contains(r.hosts, host) && len(r.hosts) < 10 {
			r.hosts = append(r.hosts, host)
		}
		if len(s.Variables) > 0 {
			r.left["variables"]++
		}
		if !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	if len(bases) == 0 {
		return []string{""}
	}
	return bases
}

// conflicts has validation look at the patterns, so that what cannot stand
// together is told here already.
func (r *openAPIReader) conflicts() {
	report := policy.Validate(&policy.Document{APIVersion: policy.APIVersion, Routes: r.routes})
	for _, p := range report.Problems {
		var i int
		if n := routeIndex(p.Path); n >= 0 && n < len(r.routes) && strings.Contains(p.Path, ".match") {
			i = n
			r.do(r.paths[i], r.lines[i], "%s", p.Message)
		}
	}
}

// summary notes what concerns all routes.
func (r *openAPIReader) summary() {
	r.do("", 0, "what happens while the store is away is not in an OpenAPI document: each of the %d routes needs an on_store_failure", len(r.routes))
	r.say("", 0, "limits are not in an OpenAPI document: the routes have none of their own, plans and global limits hold")
	if n := r.left["open"]; n > 0 {
		r.do("security", r.line("security"), "%d operations name no security, and each route needs a key (identity api_key): choose ip where callers have none", n)
	}
	if n := r.left["variables"]; n > 0 {
		r.do("servers", r.line("servers"), "servers have variables: the default of each was taken")
	}
	if len(r.hosts) > 0 {
		r.say("servers", r.line("servers"), "hosts were left out, so that the patterns hold for each: %s", strings.Join(r.hosts, ", "))
	}
	if child(r.tree, "webhooks") != nil {
		r.say("webhooks", r.line("webhooks"), "are calls that the API makes itself: they are no routes")
	}
}
