package importer

import (
	"iter"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// child is the value of a field of a map; nil when there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// line is where a field stands, or the nearest one around it; 0 when it is
// nowhere.
func (r *openAPIReader) line(path ...string) int {
	n, line := r.tree, 0
	for _, name := range path {
		if n = child(n, name); n == nil {
			return line
		}
		line = n.Line
	}
	return line
}

// lineOf is where an operation stands, or the path if it stands elsewhere.
func (r *openAPIReader) lineOf(path, method string) int {
	item := r.byPath[path]
	if item == nil {
		return r.line("paths")
	}
	if op := child(item, method); op != nil {
		return op.Line
	}
	return item.Line
}

// operationFields are the fields of a path item that hold operations.
func operationFields() []string {
	return []string{"get", "put", "post", "delete", "options", "head", "patch", "trace", "query", "connect"}
}

// pruned is the document with what routes are made of, and nothing else.
func (r *openAPIReader) pruned(version string) map[string]any {
	doc := map[string]any{"openapi": version, "info": map[string]any{"title": "x", "version": "x"}}
	if s := serversOf(child(r.tree, "servers")); s != nil {
		doc["servers"] = s
	}
	if s := securityOf(child(r.tree, "security")); s != nil {
		doc["security"] = s
	}
	paths, items := map[string]any{}, map[string]any{}
	r.byPath = r.items("paths", child(r.tree, "paths"), paths)
	r.items("components.pathItems", child(child(r.tree, "components"), "pathItems"), items)
	doc["paths"] = paths
	if len(items) > 0 {
		doc["components"] = map[string]any{"pathItems": items}
	}
	return doc
}

// items prunes path items, and gives those of the source. One in another file is
// left out, and said so.
func (r *openAPIReader) items(where string, n *yaml.Node, into map[string]any) map[string]*yaml.Node {
	found := map[string]*yaml.Node{}
	if n == nil || n.Kind != yaml.MappingNode {
		return found
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, item := n.Content[i].Value, n.Content[i+1]
		if strings.HasPrefix(name, "x-") {
			continue
		}
		at := where + "." + clip(name)
		if _, twice := into[name]; twice {
			r.do(at, item.Line, "is there twice: the first was taken")
			continue
		}
		ref := child(item, "$ref")
		if ref != nil && !strings.HasPrefix(ref.Value, "#/") {
			r.do(at, item.Line, "stands in %q, and no file or address is opened: bundle the document first; the path was left out", clip(ref.Value))
			continue
		}
		if ref != nil && !r.resolves(ref.Value) {
			r.do(at, item.Line, "refers to %q, which is not there: the path was left out", clip(ref.Value))
			continue
		}
		into[name], found[name] = r.item(at, item), item
	}
	return found
}

// resolves reports whether a reference leads to a path item of the document that
// is not a reference itself.
func (r *openAPIReader) resolves(ref string) bool {
	n := r.tree
	for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		if n = child(n, step); n == nil {
			return false
		}
	}
	return strings.HasPrefix(ref, "#/components/pathItems/") && n.Kind == yaml.MappingNode && child(n, "$ref") == nil
}

func (r *openAPIReader) item(where string, n *yaml.Node) map[string]any {
	out := map[string]any{}
	if ref := child(n, "$ref"); ref != nil {
		out["$ref"] = ref.Value
	}
	if s := serversOf(child(n, "servers")); s != nil {
		out["servers"] = s
	}
	for _, method := range operationFields() {
		if op := child(n, method); op != nil {
			out[method] = operationOf(op)
		}
	}
	if child(n, "additionalOperations") != nil {
		r.do(where+".additionalOperations", n.Line, "cannot be matched: they were left out")
	}
	return out
}

func operationOf(n *yaml.Node) map[string]any {
	out := map[string]any{"responses": map[string]any{}}
	for _, name := range [...]string{"operationId", "summary"} {
		if v := child(n, name); v != nil && v.Kind == yaml.ScalarNode {
			out[name] = v.Value
		}
	}
	if v := child(n, "deprecated"); v != nil && v.Value == "true" {
		out["deprecated"] = true
	}
	if s := securityOf(child(n, "security")); s != nil {
		out["security"] = s
	}
	if s := serversOf(child(n, "servers")); s != nil {
		out["servers"] = s
	}
	return out
}

// securityOf keeps which schemes are asked for, {} included: that means none.
func securityOf(n *yaml.Node) []any {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := []any{}
	for _, item := range n.Content {
		scheme := map[string]any{}
		for i := 0; i+1 < len(item.Content); i += 2 {
			scheme[item.Content[i].Value] = []any{}
		}
		if len(scheme) > 0 {
			out = append(out, scheme)
		}
	}
	return out
}

func serversOf(n *yaml.Node) []any {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var out []any
	for _, item := range n.Content {
		u := child(item, "url")
		if u == nil || u.Kind != yaml.ScalarNode {
			continue
		}
		server, variables := map[string]any{"url": u.Value}, map[string]any{}
		if vars := child(item, "variables"); vars != nil && vars.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(vars.Content); i += 2 {
				if def := child(vars.Content[i+1], "default"); def != nil {
					variables[vars.Content[i].Value] = map[string]any{"default": def.Value}
				}
			}
			server["variables"] = variables
		}
		out = append(out, server)
	}
	return out
}

// baseOf is the base path of a server, without a slash at its end, and its host.
func baseOf(s *openapi3.Server) (base, host string, err error) {
	text := s.URL
	for name, v := range s.Variables {
		text = strings.ReplaceAll(text, "{"+name+"}", v.Default)
	}
	if strings.ContainsAny(text, "{}") {
		return "", "", strconv.ErrSyntax
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", "", err
	}
	base = strings.TrimRight(u.EscapedPath(), "/")
	if base != "" && base[0] != '/' {
		base = "/" + strings.TrimPrefix(base, "./")
	}
	return strings.TrimSuffix(base, "/."), u.Hostname(), nil
}

// pattern turns a path template into a pattern. Where a pattern can say less, it is
// the wider one, and that is noted.
func (r *openAPIReader) pattern(where string, line int, path string) (string, bool) {
	path, query, hasQuery := strings.Cut(path, "?")
	path, _, hasFragment := strings.Cut(path, "#")
	if hasQuery || hasFragment {
		r.do(where, line, "is told apart by what stands behind the path (%s), which a pattern does not see: it was left out", clip(query))
	}
	if !strings.HasPrefix(path, "/") {
		r.do(where, line, "does not begin with a slash: the path was left out")
		return "", false
	}
	segments := strings.Split(path[1:], "/")
	names := map[string]bool{}
	for i, s := range segments {
		last := i == len(segments)-1
		if s == "" && last {
			segments[i] = "{$}" // the path with its slash, and nothing below
			continue
		}
		if !strings.ContainsAny(s, "{}") {
			continue
		}
		segments[i] = "{" + r.wildcard(where, line, s, names) + "}"
		if last && strings.HasPrefix(s, "{") && strings.HasSuffix(strings.TrimSuffix(s, "}"), "*") {
			segments[i] = strings.TrimSuffix(segments[i], "}") + "...}"
		}
	}
	return "/" + strings.Join(segments, "/"), true
}

// wildcard names the wildcard of a segment: one that is only partly a parameter
// becomes a whole one.
func (r *openAPIReader) wildcard(where string, line int, segment string, names map[string]bool) string {
	text := segment
	if from, to := strings.IndexByte(text, '{'), strings.IndexByte(text, '}'); from >= 0 && to > from {
		if from > 0 || to < len(text)-1 {
			r.do(where, line, "has %q: a wildcard is a whole segment, so the pattern matches more than the path does", clip(segment))
		}
		text = text[from+1 : to]
	}
	name := strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' {
			return c
		}
		return '_'
	}, strings.Trim(text, "+*"))
	if name == "" || unicode.IsDigit([]rune(name)[0]) {
		name = "p" + name
	}
	for base, i := name, 2; names[name]; i++ {
		name = base + strconv.Itoa(i)
	}
	names[name] = true
	return name
}

// routeIndex reads the number of a route from a problem's path; -1 when it has none.
func routeIndex(path string) int {
	rest, ok := strings.CutPrefix(path, "routes[")
	number, _, found := strings.Cut(rest, "]")
	n, err := strconv.Atoi(number)
	if !ok || !found || err != nil {
		return -1
	}
	return n
}
