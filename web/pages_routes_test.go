package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func inForce(t *testing.T) (*webtest.World, *webtest.Client) {
	t.Helper()
	w := webtest.New(t)
	if _, err := w.Web.Policies.Publish(t.Context(), w.Actor(console.RoleOwner), []byte(everyPart), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	return w, w.As(t, console.RoleViewer)
}

func TestRoutes_AreSearchedAndFiltered(t *testing.T) {
	t.Parallel()
	_, viewer := inForce(t)
	all := viewer.Get("/routes").Text
	for _, want := range []string{"GET /v1/reports/{id}", "no limit of its own", "closed, refuses with 503", "unknown"} {
		if !strings.Contains(all, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	if text := viewer.Get("/routes?q=username").Text; !strings.Contains(text, "POST /login") || strings.Contains(text, "POST /chat") {
		t.Error("the search for a limit's dimension does not find its route")
	}
	if text := viewer.Get("/routes?show=no-limit").Text; strings.Contains(text, "POST /login") || !strings.Contains(text, "POST /chat") {
		t.Error("the filter for routes without limits")
	}
	if text := viewer.Get("/routes?show=fail-open").Text; strings.Contains(text, "<code>POST /login") || !strings.Contains(text, "open, unlimited") {
		t.Error("the filter for routes that fail open")
	}
	if text := viewer.Get("/routes?q=nothing-like-it").Text; !strings.Contains(text, "No route fits.") || !strings.Contains(text, "Show all 6") {
		t.Error("an empty list gives no next step")
	}
	if a := webtest.New(t).As(t, console.RoleViewer).Get("/routes"); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Nothing is published") {
		t.Errorf("before the first publication: %d", a.StatusCode)
	}
}

func TestRoutes_TraceSaysWhichRouteAndLimitsARequestMeets(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	ten, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: "Acme", ExternalID: "acme-1", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(request, tenant, ip string) string {
		return viewer.Get("/routes?" + url.Values{"request": {request}, "tenant": {tenant}, "ip": {ip}}.Encode()).Text
	}
	for _, tenant := range []string{ten.ID, "acme-1", "acme", "free"} {
		text := ask("GET /v1/reports/7?x=1", tenant, "203.0.113.7")
		for _, want := range []string{"GET /v1/reports/7 meets route report as", "global.all", "plan.requests", "shared:search", "route:report.reports", "route:report.concurrency", "plan.quota"} {
			if !strings.Contains(text, want) {
				t.Errorf("as %s the trace lacks %q", tenant, want)
			}
		}
	}
	for _, c := range []struct{ request, tenant, ip, want string }{
		{"GET /v1/reports/7", "", "", "The route wants an API key."},
		{"POST /login", "free", "", "the plan&#39;s limits are not met here"},
		{"https://api.example.com/mine?q", "", "", "meets route mine"},
		{"GET /a/../b", "", "", "Refused with 400"},
		{"nonsense", "", "", "Must be a method and a path"},
		{"GET /x", "nobody", "", "No tenant and no plan has this name or id."},
		{"GET /x", "", "here", "Is no IP address."},
	} {
		if text := ask(c.request, c.tenant, c.ip); !strings.Contains(text, c.want) {
			t.Errorf("%+v is not said", c)
		}
	}
}

func TestPlans_TellLimitsQuotaAndWhoIsOnThem(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	if _, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: "Acme", Plan: "pro"}); err != nil {
		t.Fatal(err)
	}
	text := viewer.Get("/plans").Text
	const move = "/bulk/new?kind=change-plan&amp;plan="
	if owner := w.As(t, console.RoleOwner).Get("/plans").Text; strings.Contains(text, move) || !strings.Contains(owner, move) {
		t.Error("moving a plan's tenants is offered to those who may not, or not to those who may")
	}
	for _, want := range []string{`<a href="/tenants?plan=pro">1</a>`, `<a href="/tenants?plan=staff">0</a>`, "6000/minute", "a month, then refused", "none of its own"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if a := webtest.New(t).As(t, console.RoleViewer).Get("/plans"); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "no plans") {
		t.Errorf("before the first publication: %d", a.StatusCode)
	}
}

func TestRules_AreTheOwnersAddedCheckedAndSaved(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	owner := w.As(t, console.RoleOwner)
	if a := viewer.Get("/settings/rules"); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer: %d", a.StatusCode)
	}
	if a := w.As(t, console.RolePublisher).Post("/settings/rules", url.Values{"rows": {"0"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a publisher: %d", a.StatusCode)
	}
	page := owner.Get("/settings/rules").Text
	if !strings.Contains(page, "No rule: everybody who may publish publishes alone.") {
		t.Error("an empty list does not say what that means")
	}
	f := formOn(t, page, "/settings/rules")
	f.Set("act", "add")
	a := owner.Post("/settings/rules", f)
	if a.StatusCode != http.StatusOK {
		t.Fatalf("add: %d", a.StatusCode)
	}
	f = formOn(t, a.Text, "/settings/rules")
	f.Set("when-0", "fail-mode")
	f.Set("only-0", "login, report")
	f.Set("approvals-0", "2")
	if a := owner.Post("/settings/rules", f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("save: %d %.600s", a.StatusCode, a.Text)
	}
	rules, err := w.Web.Policies.ApprovalRules(t.Context())
	if err != nil || len(rules) != 1 || rules[0].When != console.WhenFailMode || rules[0].Approvals != 2 || len(rules[0].Only) != 2 {
		t.Fatalf("rules %+v, %v", rules, err)
	}
	f.Set("when-0", "moon")
	f.Set("approvals-0", "99")
	if a := owner.Post("/settings/rules", f); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, "data-invalid") {
		t.Errorf("an unknown rule: %d", a.StatusCode)
	}
	f.Set("when-0", "")
	f.Set("approvals-0", "1")
	if a := owner.Post("/settings/rules", f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("remove: %d", a.StatusCode)
	}
	if rules, _ := w.Web.Policies.ApprovalRules(t.Context()); len(rules) != 0 {
		t.Errorf("a rule that was taken out is still there: %+v", rules)
	}
}

func TestAdopt_SaysThatThereIsNothingAndRefusesIt(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	if a := viewer.Get("/policy/adopt"); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Nothing to adopt") {
		t.Errorf("%d", a.StatusCode)
	}
	if a := viewer.Post("/policy/adopt", url.Values{"reason": {"x"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer adopts: %d", a.StatusCode)
	}
	if a := w.As(t, console.RoleOwner).Post("/policy/adopt", url.Values{"reason": {"x"}}); a.StatusCode < 400 || a.StatusCode > 503 {
		t.Errorf("there is nothing to adopt: %d", a.StatusCode)
	}
}

const petStore = `openapi: 3.0.3
info: {title: pets, version: "1"}
paths:
  /pets:
    get: {operationId: listPets, responses: {"200": {description: ok}}}
    post: {operationId: addPet, responses: {"200": {description: ok}}}
  /pets/{id}:
    get: {operationId: getPet, responses: {"200": {description: ok}}}
`

func TestImport_OpenAPIPathsBecomeRoutesAfterAPreview(t *testing.T) {
	t.Parallel()
	e := edit(t)
	path := e.path + "/import"
	f := formOn(t, e.editor.Get(path).Text, path)
	f.Set("source", petStore)
	f.Set("mode", "open")
	a := e.editor.Post(path, f)
	if a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "3 routes would be added") || !strings.Contains(a.Text, "GET /pets/{id}") {
		t.Fatalf("preview: %d %.1500s", a.StatusCode, a.Text)
	}
	if d := e.stored(t); len(d.Routes) != 2 {
		t.Error("a preview saves")
	}
	f.Set("act", "add")
	if a := e.editor.Post(path, f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("add: %d %.900s", a.StatusCode, a.Text)
	}
	d := e.stored(t)
	if len(d.Routes) != 5 || d.Routes[4].OnStoreFailure.Fallback == nil {
		t.Errorf("routes %+v", d.Routes)
	}
	f = formOn(t, e.editor.Get(path).Text, path)
	f.Set("source", petStore)
	f.Set("mode", "open")
	if a := e.editor.Post(path, f); !strings.Contains(a.Text, "3 routes have a name that the draft has already") {
		t.Error("routes that are there already are not told")
	}
	f.Set("source", "nonsense: [")
	if a := e.editor.Post(path, f); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-source-error"`) || !strings.Contains(a.Text, "nonsense: [") {
		t.Errorf("nonsense: %d", a.StatusCode)
	}
	f.Set("source", petStore)
	f.Set("mode", "")
	if a := e.editor.Post(path, f); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("no fail mode: %d", a.StatusCode)
	}
	if a := e.As(t, console.RoleViewer).Get(path); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer: %d", a.StatusCode)
	}
}
