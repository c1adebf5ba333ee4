package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/api"
	"github.com/headgate/headgate/web/webtest"
)

// schema is what these tests read of a JSON schema.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"` // a name, or several
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
}

// operation is one operation as openapi.json describes it.
type operation struct {
	ID          string `json:"operationId"`
	Description string `json:"description"`
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   schema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema schema }
	} `json:"requestBody"`

	method, pattern string
}

// operations are all that openapi.json describes, by id.
func operations(t *testing.T) (map[string]operation, map[string]schema) {
	t.Helper()
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]operation{}
	for pattern, methods := range doc.Paths {
		for method, o := range methods {
			o.method, o.pattern = strings.ToUpper(method), pattern
			all[o.ID] = o
		}
	}
	if len(all) < 90 {
		t.Fatalf("only %d operations", len(all))
	}
	return all, doc.Components.Schemas
}

// rightValues are values of fields whose schema says less than the field takes.
func rightValues() map[string]any {
	return map[string]any{
		"overlap": "24h", "by": "24h", "for": "30s", "network": "198.51.100.0/24", "email": "kim@a.example", "environment": "live",
		"document": document, "limit": "plan.requests", "plan": "free", "factor": 1.5, "until": "2199-01-01T00:00:00Z", "at": "2199-01-01T00:00:00Z",
		"rate": "70/minute", "base_version": 1,
	}
}

// exactValues are those of fields that mean something else in one operation.
func exactValues() map[string]any {
	return map[string]any{"boost-limit for": "1h"}
}

// value is one that a schema admits: every required member and no other.
func (o operation) value(name string, s schema, all map[string]schema) any {
	if v, ok := exactValues()[o.ID+" "+name]; ok {
		return v
	}
	if v, ok := rightValues()[name]; ok {
		return v
	}
	if s.Ref != "" {
		s = all[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	kind, _ := s.Type.(string)
	if several, ok := s.Type.([]any); ok && len(several) > 0 {
		kind, _ = several[0].(string)
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case kind == "object":
		v := map[string]any{}
		for _, name := range s.Required {
			v[name] = o.value(name, s.Properties[name], all)
		}
		return v
	case kind == "array":
		return []any{o.value("", *s.Items, all)}
	case kind == "integer", kind == "number":
		return 1
	case kind == "boolean":
		return true
	}
	return "x"
}

// body is a right body of the operation, nil when it takes none.
func (o operation) body(all map[string]schema) map[string]any {
	if o.RequestBody == nil {
		return nil
	}
	v, _ := o.value("", o.RequestBody.Content["application/json"].Schema, all).(map[string]any)
	maps.Copy(v, map[string]map[string]any{ // what the schema alone does not ask for
		"create-sign-in-link": {"external_user": "u"}, "refuse-ask": {"answer": "no"}, "simulate-draft": {"last": "1h"}, "simulate-policy": {"last": "1h"},
	}[o.ID])
	return v
}

// path is the operation's address with ids that nothing has.
func (o operation) path() string {
	p := strings.NewReplacer("{tenant}", "ten_zzzzzzzzzzzzzzzz", "{draft}", "drf_zzzzzzzzzzzzzzzz", "{version}", "77", "{rotation}", "rot_zzzzzzzzzzzzzzzz",
		"{credential}", "crd_zzzzzzzzzzzzzzzz", "{kid}", "ZZZZZZZZZZZZ", "{override}", "ovr_zzzzzzzzzzzzzzzz", "{limit}", "plan.requests",
		"{case}", "lek_zzzzzzzzzzzzzzzz", "{job}", "blk_zzzzzzzzzzzzzzzz", "{ask}", "ask_zzzzzzzzzzzzzzzz", "{member}", "mem_zzzzzzzzzzzzzzzz",
		"{trial}", "trl_zzzzzzzzzzzzzzzz").Replace(o.pattern)
	query := url.Values{}
	for _, param := range o.Parameters {
		if param.In == "query" && (param.Required || param.Name == "reason") {
			query.Set(param.Name, map[string]string{"plan": "free", "against": "1"}[param.Name])
			if query.Get(param.Name) == "" {
				query.Set(param.Name, "x")
			}
		}
	}
	if len(query) > 0 {
		p += "?" + query.Encode()
	}
	return p
}

func (o operation) call(c *webtest.Client, body map[string]any) webtest.Answer {
	if o.RequestBody == nil {
		return c.Do(o.method, o.path(), "", http.NoBody)
	}
	b, _ := json.Marshal(body)
	return c.JSON(o.method, o.path(), string(b))
}

// withJSON are those whose body is JSON.
func (o operation) withJSON() bool {
	if o.RequestBody == nil {
		return false
	}
	_, ok := o.RequestBody.Content["application/json"]
	return ok && len(o.RequestBody.Content) == 1
}

func TestAPI_A02_EveryOperationNeedsAToken(t *testing.T) {
	t.Parallel()
	w, _, _ := published(t)
	all, schemas := operations(t)
	browser := w.As(t, console.RoleOwner)
	other := w.Anonymous(t)
	other.Header.Set("Authorization", "Basic "+w.Tokens[console.RoleOwner])
	for id, o := range all {
		for who, c := range map[string]*webtest.Client{"nobody": w.Anonymous(t), "a browser's session": browser, "another scheme": other} {
			a := o.call(c, o.body(schemas))
			if v := obj(t, a, http.StatusUnauthorized); v["code"] != "unauthenticated" || a.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s, %s: %v", id, who, v)
			}
		}
	}
}

// What is not there is not there, whatever is asked of it.
func TestAPI_A05_EveryOperationOnWhatIsAbsentIs404(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	owner.Header.Set("If-Match", "*")
	all, schemas := operations(t)
	cells := 0
	for id, o := range all {
		if !strings.Contains(o.pattern, "{") {
			continue
		}
		cells++
		a := o.call(owner, o.body(schemas))
		if a.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s %s: %d %s", id, o.method, o.path(), a.StatusCode, a.Text)
			continue
		}
		if v := obj(t, a, http.StatusNotFound); v["code"] != "not-found" {
			t.Errorf("%s: %v", id, v)
		}
	}
	if cells < 50 {
		t.Errorf("only %d cells", cells)
	}
}

// A field that no operation knows, one that is left out, and a query parameter
// that means nothing are each refused by name.
func TestAPI_B8_EveryOperationNamesWhatItDoesNotTake(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	all, schemas := operations(t)
	refused := func(what string, a webtest.Answer, field string) {
		t.Helper()
		if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, field) {
			t.Errorf("%s: %d %s, want 422 that names %s", what, a.StatusCode, a.Text, field)
		}
	}
	for id, o := range all {
		sign := "?"
		if strings.Contains(o.path(), "?") {
			sign = "&"
		}
		b, _ := json.Marshal(o.body(schemas))
		if o.RequestBody == nil {
			refused(id+" with a parameter", owner.Do(o.method, o.path()+sign+"surplus=1", "", http.NoBody), "surplus")
			continue
		}
		if !o.withJSON() {
			continue
		}
		refused(id+" with a parameter", owner.JSON(o.method, o.path()+sign+"surplus=1", string(b)), "surplus")
		right := o.body(schemas)
		more := maps.Clone(right)
		more["surplus"] = true
		refused(id+" with a field", o.call(owner, more), "surplus")
		for _, field := range slices.Sorted(maps.Keys(right)) {
			less := maps.Clone(right)
			delete(less, field)
			refused(id+" without "+field, o.call(owner, less), field)
			wrong := maps.Clone(right)
			wrong[field] = map[string]any{"a": []int{1}}
			if field != "document" && field != "tests" { // which may be objects
				refused(id+" with an object as "+field, o.call(owner, wrong), field)
			}
		}
		for _, text := range []string{`[]`, `"x"`, `7`, `null`, ``} {
			if a := owner.JSON(o.method, o.path(), text); a.StatusCode < 400 || a.StatusCode >= 500 {
				t.Errorf("%s with the body %q: %d %s", id, text, a.StatusCode, a.Text)
			}
		}
	}
}

// Lists of a new installation are empty lists, and never null.
func TestAPI_EveryListOfANewInstallationIsAList(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	viewer := w.API(t, console.RoleViewer)
	all, _ := operations(t)
	lists := 0
	for id, o := range all {
		if o.method != http.MethodGet || strings.Contains(o.pattern, "{") || !strings.HasPrefix(id, "list-") {
			continue
		}
		lists++
		v := obj(t, viewer.Get(o.path()), http.StatusOK)
		if _, ok := v["items"].([]any); !ok {
			t.Errorf("%s: items is %v", id, v["items"])
		}
	}
	if lists < 10 {
		t.Errorf("only %d lists", lists)
	}
}
