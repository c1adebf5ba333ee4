package web_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/webtest"
)

// update is a flag, as the go command passes them to tests.
var update = flag.Bool("update", false, "write testdata/access.txt anew")

// access is the golden matrix: route, permission, and the roles that have it.
func access(t *testing.T, w *webtest.World) map[string]string {
	t.Helper()
	routes, err := web.Access(w.Web)
	if err != nil {
		t.Fatal(err)
	}
	for route := range routes {
		if strings.Contains(route, "/api/*") { // each operation of the API has its own permission and test
			delete(routes, route)
		}
	}
	return routes
}

func rolesWith(permission string) string {
	if permission == "open" {
		return "anybody"
	}
	var roles []string
	for _, role := range console.Roles() {
		if role.Can(console.Permission(permission)) {
			roles = append(roles, string(role))
		}
	}
	return strings.Join(roles, " ")
}

func TestAccess_MatrixIsTheOneThatWasAgreed(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	var rows []string
	for route, permission := range access(t, w) {
		rows = append(rows, fmt.Sprintf("%-70s %-18s %s\n", route, permission, rolesWith(permission)))
	}
	slices.Sort(rows)
	got := strings.Join(rows, "")
	const file = "testdata/access.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%v: access has changed; look it over, then go test ./web -run Access -update:\n%s", err, got)
	}
}

func TestAccess_EveryCellOfTheMatrix(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	w.Feed.Gateways(1)
	if _, err := w.Web.Policies.Publish(t.Context(), w.Actor(console.RoleOwner), []byte(document), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{tenant}", "ten_aaaaaaaaaaaaaaaa", "{draft}", "drf_aaaaaaaaaaaaaaaa", "{version}", "77", "{rotation}", "rot_aaaaaaaaaaaaaaaa",
		"{credential}", "crd_aaaaaaaaaaaaaaaa", "{kid}", "0123456789AB", "{override}", "ovr_aaaaaaaaaaaaaaaa", "{case}", "lek_aaaaaaaaaaaaaaaa", "{job}", "blk_aaaaaaaaaaaaaaaa", "{rule}", "alr_aaaaaaaaaaaaaaaa", "{channel}", "chn_aaaaaaaaaaaaaaaa", "{silence}", "sil_aaaaaaaaaaaaaaaa", "{delivery}", "dlv_aaaaaaaaaaaaaaaa",
		"{change}", "77", "{held}", "77", "{period}", "per_aaaaaaaaaaaaaaaa", "{act}", "revoke", "*", "x")
	for route, permission := range access(t, w) {
		method, pattern, _ := strings.Cut(route, " ")
		path := fill.Replace(pattern)
		call := func(c *webtest.Client) webtest.Answer {
			if method == http.MethodPost {
				return c.Post(path, url.Values{})
			}
			return c.Do(method, path, "", http.NoBody)
		}
		if a := call(w.Anonymous(t)); permission != "open" && a.StatusCode != 401 && (a.StatusCode != 303 || !strings.HasPrefix(a.Header.Get("Location"), "/signin")) {
			t.Errorf("%s for nobody: %d", route, a.StatusCode)
		}
		for _, role := range console.Roles() {
			allowed := permission == "open" || role.Can(console.Permission(permission))
			before := auditHead(t, w)
			a := call(w.As(t, role))
			if refused := a.StatusCode == 403; refused == allowed {
				t.Errorf("%s as %s: %d, allowed %v", route, role, a.StatusCode, allowed)
			}
			if allowed && a.StatusCode >= 500 {
				t.Errorf("%s as %s: %d\n%s", route, role, a.StatusCode, a.Text)
			}
			if !allowed && auditHead(t, w) != before {
				t.Errorf("%s as %s was refused and left a trace in the audit trail", route, role)
			}
		}
	}
	if got := strings.Count(w.Log.String(), `"msg":"authz_denied"`); got == 0 {
		t.Error("refusals by role are not logged")
	}
}

func auditHead(t *testing.T, w *webtest.World) int64 {
	t.Helper()
	items, _, err := w.Web.Audit.List(t.Context(), console.AuditQuery{Page: console.Page{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(items) == 0 {
		return 0
	}
	return items[0].Seq
}

func TestRoutes_OneWithoutPermissionKeepsTheConsoleFromStarting(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	r.Get("/forgotten", func(http.ResponseWriter, *http.Request) {})
	if err := web.CheckRoutes(r); err == nil || !strings.Contains(err.Error(), "/forgotten") {
		t.Errorf("CheckRoutes = %v", err)
	}
}

func FuzzSafeNext(f *testing.F) {
	for _, s := range []string{"/", "/policy?view=yaml", "//evil", "/%2f%2fevil", "/%5cevil", "/..//evil", "/a/../..//evil", "javascript:alert(1)", "/\\evil"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		next := web.SafeNext(s)
		u, err := url.Parse(next)
		if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t ") {
			t.Errorf("SafeNext(%q) = %q", s, next)
		}
		if strings.HasPrefix(u.Path, "//") || strings.HasPrefix(u.Path, "/\\") {
			t.Errorf("SafeNext(%q) = %q, whose path is %q", s, next, u.Path)
		}
	})
}
