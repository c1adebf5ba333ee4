package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/api"
	"github.com/headgate/headgate/web/webtest"
)

func TestAPI_B8_BadBodiesNameTheField(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		names                    string
	}{
		{"unknown field", "POST", "/api/v1/tenants", `{"name":"x","plan":"free","role":"admin"}`, 422, "role"},
		{"unknown query", "GET", "/api/v1/tenants?tenant_id=x", ``, 422, "tenant_id"},
		{"missing field", "POST", "/api/v1/tenants", `{"plan":"free"}`, 422, "name"},
		{"wrong type", "POST", "/api/v1/tenants", `{"name":7,"plan":"free"}`, 422, "name"},
		{"duplicate", "POST", "/api/v1/tenants", `{"name":"x","plan":"free","plan":"pro"}`, 400, "plan"},
		{"other letters", "POST", "/api/v1/tenants", `{"Name":"x","plan":"free"}`, 400, "Name"},
		{"not UTF-8", "POST", "/api/v1/tenants", "{\"name\":\"\xff\",\"plan\":\"free\"}", 400, "UTF-8"},
		{"duplicate query", "GET", "/api/v1/tenants?plan=free&plan=pro", ``, 400, "plan"},
		{"unknown plan", "POST", "/api/v1/tenants", `{"name":"x","plan":"gold"}`, 422, "plan"},
		{"not JSON", "POST", "/api/v1/tenants", `{"name":`, 400, "JSON"},
		{"two values", "POST", "/api/v1/tenants", `{"name":"x","plan":"free"} {}`, 400, "after"},
		{"deep", "POST", "/api/v1/tenants", strings.Repeat("[", 5000), 400, "deep"},
		{"bad environment", "POST", "/api/v1/tenants/" + tenant + "/credentials", `{"name":"x","environment":"prod"}`, 422, "environment"},
		{"no reason", "POST", "/api/v1/tenants/" + tenant + "/suspend", `{}`, 422, "reason"},
		{"limit", "GET", "/api/v1/tenants?limit=1000", ``, 422, "limit"},
	} {
		a := owner.JSON(c.method, c.path, c.body)
		if v := obj(t, a, c.status); !strings.Contains(v["detail"].(string), c.names) {
			t.Errorf("%s: %q does not name %s", c.name, v["detail"], c.names)
		}
	}
	a := owner.Do("POST", "/api/v1/tenants", "text/plain", strings.NewReader(`{"name":"x","plan":"free"}`))
	obj(t, a, 415)
	a = owner.JSON("POST", "/api/v1/policy/validate", `{"document":"`+strings.Repeat("a", 9<<20)+`"}`)
	obj(t, a, 413)
}

func TestAPI_RolesAndTokens(t *testing.T) {
	t.Parallel()
	w, _, tenant := published(t)
	may := map[string][]console.Role{
		"POST /api/v1/tenants":                            {console.RoleKeyAdmin, console.RoleOwner},
		"POST /api/v1/tenants/" + tenant + "/credentials": {console.RoleKeyAdmin, console.RoleOwner},
		"POST /api/v1/policy/publish":                     {console.RolePublisher, console.RoleOwner},
		"POST /api/v1/policy/drafts":                      {console.RoleEditor, console.RolePublisher, console.RoleOwner},
		"GET /api/v1/gateways":                            console.Roles(),
	}
	for call, roles := range may {
		method, path, _ := strings.Cut(call, " ")
		for _, role := range console.Roles() {
			a := w.API(t, role).JSON(method, path, `{}`)
			allowed := a.StatusCode != 403
			if want := strings.Contains(fmt.Sprint(roles), string(role)); allowed != want {
				t.Errorf("%s as %s: %d", call, role, a.StatusCode)
			}
		}
		for name, token := range map[string]string{"none": "", "nonsense": "hg_ops_x", "a key's": "hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp"} {
			c := w.Anonymous(t)
			c.Token = token
			a := c.JSON(method, path, `{}`)
			obj(t, a, 401)
			if a.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with token %s: no WWW-Authenticate", call, name)
			}
		}
	}
	if a := w.As(t, console.RoleOwner).Get("/api/v1/tenants"); a.StatusCode != 401 {
		t.Errorf("a browser's session opens the API: %d", a.StatusCode)
	}
	if !strings.Contains(w.Log.String(), "authz_denied") {
		t.Error("refusals by role are not logged")
	}
}

func TestAPI_DisabledOperatorsTokenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.API(t, console.RoleViewer)
	obj(t, c.Get("/api/v1/tenants"), 200)
	if err := w.Web.Operators.Disable(t.Context(), w.Actor(console.RoleOwner), w.Operators[console.RoleViewer].ID); err != nil {
		t.Fatal(err)
	}
	obj(t, c.Get("/api/v1/tenants"), 401)
}

func TestAPI_EveryOperationRefusesRolesWithoutItsPermission(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	var doc struct {
		Paths map[string]map[string]struct{ Description string } `json:"paths"`
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{tenant}", "ten_aaaaaaaaaaaaaaaa", "{draft}", "drf_aaaaaaaaaaaaaaaa", "{version}", "77", "{rotation}", "rot_aaaaaaaaaaaaaaaa",
		"{credential}", "crd_aaaaaaaaaaaaaaaa", "{kid}", "0123456789AB", "{override}", "ovr_aaaaaaaaaaaaaaaa", "{limit}", "plan.requests")
	cells := 0
	for pattern, methods := range doc.Paths {
		for method, operation := range methods {
			_, rest, _ := strings.Cut(operation.Description, "Needs the permission ")
			permission, _, _ := strings.Cut(rest, ".")
			if permission == "" {
				t.Errorf("%s %s names no permission", method, pattern)
			}
			for _, role := range console.Roles() {
				cells++
				a := w.API(t, role).JSON(strings.ToUpper(method), fill.Replace(pattern), `{}`)
				if allowed := role.Can(console.Permission(permission)); allowed == (a.StatusCode == 403) || a.StatusCode == 401 || a.StatusCode >= 500 && a.StatusCode != 503 {
					t.Errorf("%s %s as %s: %d %s", method, pattern, role, a.StatusCode, a.Text)
				}
			}
		}
	}
	if cells < 100 {
		t.Errorf("only %d cells", cells)
	}
}

func TestAPI_PolicyBombsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner := w.API(t, console.RoleOwner)
	text := func(s string) string { b, _ := json.Marshal(map[string]string{"document": s}); return string(b) }
	bombs := map[string]string{
		"aliases":       text("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"),
		"depth in YAML": text(strings.Repeat("[", 4000)),
		"depth in JSON": `{"document":` + strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000) + "}",
		"many keys":     text("apiVersion: headgate/v1\n" + strings.Repeat("a: 1\n", 100000)),
		"huge number":   text("apiVersion: headgate/v1\nplans: {free: {limits: [{name: a, per: tenant, rate: 1/minute, burst: 1e309}]}}\n"),
		"nan":           text("apiVersion: headgate/v1\nplans: {free: {limits: [{name: a, per: tenant, rate: 1/minute, burst: .nan}]}}\n"),
		"documents":     text("a: 1\n---\nb: 2\n"),
		"merge key":     text("a: &a {x: 1}\nb: {<<: *a}\n"),
		"NUL":           text("a: \"\x00\"\n"),
	}
	for name, body := range bombs {
		begun := time.Now()
		a := owner.JSON("POST", "/api/v1/policy/validate", body)
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if a.StatusCode == 200 && strings.Contains(a.Text, `"problems":[]`) || a.StatusCode >= 500 {
			t.Errorf("%s: %d %.200s", name, a.StatusCode, a.Text)
		}
	}
}
