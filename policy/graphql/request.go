package graphql

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Operation is one GraphQL request: what an upstream is asked to run.
type Operation struct {
	Query         string
	OperationName string
	Variables     map[string]any // as JSON says, numbers as json.Number
}

// ParseRequest reads the operations of an HTTP request: POST with a JSON object or
// an array of them (application/json), POST with a query (application/graphql), or
// GET with ?query=. body is all of it, uncompressed; contentType is "" when the
// request does not have exactly one.
//
// It is strict, because an upstream must not read another query than the one that
// is priced: members given twice or that are not known, parameters in the URL
// beside a body, and persisted queries are refused.
func ParseRequest(method, contentType string, body []byte, rawQuery string) ([]Operation, error) {
	if len(body) > MaxBodyBytes || len(rawQuery) > MaxBodyBytes {
		return nil, refuse(ErrTooComplex, "the request has more than %d bytes, the most allowed", MaxBodyBytes)
	}
	parameters, err := urlParameters(rawQuery)
	if err != nil {
		return nil, err
	}
	switch method {
	case "GET", "HEAD":
		if len(body) > 0 {
			return nil, refuse(ErrSyntax, "a %s request has a body", method)
		}
		return fromURL(parameters)
	case "POST":
		for _, name := range slices.Sorted(maps.Keys(parameters)) {
			return nil, refuse(ErrSyntax, "%q stands in the URL of a POST request; put it into the body", name)
		}
		return fromBody(contentType, body)
	}
	return nil, refuse(ErrSyntax, "method %q; GET or POST would be right", shown(method))
}

// meant is the parameter of GraphQL over HTTP that an upstream may take a name
// for, be it careless about letter case or about what follows; "" for none.
func meant(name string) string {
	if i := strings.IndexAny(name, "[.\x00"); i >= 0 {
		name = name[:i]
	}
	for _, known := range []string{"query", "operationName", "variables", "extensions"} {
		if strings.EqualFold(strings.TrimSpace(name), known) {
			return known
		}
	}
	return ""
}

// urlParameters are the parameters of GraphQL in a URL, each at most once. A name
// that some upstreams would take for one of them is refused; other names are let be.
func urlParameters(rawQuery string) (map[string]string, error) {
	all, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, refuse(ErrSyntax, "the URL's query string cannot be read")
	}
	found := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch known := meant(name); {
		case known == "":
		case known != name:
			return nil, refuse(ErrSyntax, "%q stands in the URL; %q would be right", shown(name), known)
		case len(all[name]) > 1:
			return nil, refuse(ErrSyntax, "%q stands in the URL twice", name)
		default:
			found[name] = all[name][0]
		}
	}
	return found, nil
}

func fromURL(parameters map[string]string) ([]Operation, error) {
	members := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		text := parameters[name]
		if !utf8.ValidString(text) {
			return nil, refuse(ErrSyntax, "%q is not valid UTF-8", name)
		}
		switch name {
		case "query", "operationName":
			members[name] = text
		default:
			if text == "" {
				continue
			}
			value, err := readJSON([]byte(text))
			if err != nil {
				return nil, err
			}
			members[name] = value
		}
	}
	op, err := operationOf(members)
	if err != nil {
		return nil, err
	}
	return []Operation{op}, nil
}

func fromBody(contentType string, body []byte) ([]Operation, error) {
	media, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, refuse(ErrSyntax, "the Content-Type is missing or cannot be read; application/json would be right")
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, refuse(ErrSyntax, "charset %q; utf-8 would be right", shown(charset))
	}
	if !utf8.Valid(body) {
		return nil, refuse(ErrSyntax, "the body is not valid UTF-8")
	}
	switch media {
	case "application/graphql":
		return []Operation{{Query: string(body)}}, nil
	case "application/json":
		return fromJSON(body)
	}
	return nil, refuse(ErrSyntax, "Content-Type %q; application/json would be right", shown(media))
}

func fromJSON(body []byte) ([]Operation, error) {
	value, err := readJSON(body)
	if err != nil {
		return nil, err
	}
	list, batched := value.([]any)
	if !batched {
		list = []any{value}
	}
	if len(list) > MaxBatch {
		return nil, refuse(ErrTooComplex, "the request has more than %d operations, the most allowed", MaxBatch)
	}
	if len(list) == 0 {
		return nil, refuse(ErrSyntax, "the request has no operation")
	}
	out := make([]Operation, 0, len(list))
	for _, one := range list {
		members, ok := one.(map[string]any)
		if !ok {
			return nil, refuse(ErrSyntax, "the body is no JSON object; {\"query\": …} would be right")
		}
		op, err := operationOf(members)
		if err != nil {
			return nil, err
		}
		out = append(out, op)
	}
	return out, nil
}

// operationOf checks the members of a request.
func operationOf(members map[string]any) (Operation, error) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name == "" || meant(name) != name {
			return Operation{}, refuse(ErrSyntax, "%q is not known; query, operationName, variables and extensions are", shown(name))
		}
	}
	query, _ := members["query"].(string)
	if query == "" {
		return Operation{}, refuse(ErrSyntax, "\"query\" is missing or no text; a query that the upstream has stored cannot be priced")
	}
	op := Operation{Query: query}
	var ok bool
	if name := members["operationName"]; name != nil {
		if op.OperationName, ok = name.(string); !ok {
			return Operation{}, refuse(ErrSyntax, "\"operationName\" is no text")
		}
	}
	if variables := members["variables"]; variables != nil {
		if op.Variables, ok = variables.(map[string]any); !ok {
			return Operation{}, refuse(ErrSyntax, "\"variables\" is no object")
		}
	}
	return op, checkExtensions(members["extensions"], query)
}

// checkExtensions refuses a hash that stands for another query than the one given.
func checkExtensions(extensions any, query string) error {
	if extensions == nil {
		return nil
	}
	members, ok := extensions.(map[string]any)
	if !ok {
		return refuse(ErrSyntax, "\"extensions\" is no object")
	}
	persisted, ok := members["persistedQuery"]
	if !ok || persisted == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(query))
	about, _ := persisted.(map[string]any)
	if hash, _ := about["sha256Hash"].(string); !strings.EqualFold(hash, hex.EncodeToString(sum[:])) {
		return refuse(ErrSyntax, "\"extensions.persistedQuery.sha256Hash\" is not the SHA-256 of \"query\"")
	}
	return nil
}
