package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/console"
)

func TestKeys_SecretIsShownOnceAndNowhereElse(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	page, secret, form := issue(t, c, tenant.ID, "backend")
	wants(t, page, http.StatusCreated, "accepted on 3 of 3 gateways after", "This is the only time the key is shown", "Authorization: Bearer "+secret)
	if got := page.Header.Get("Cache-Control"); !strings.Contains(got, "no-store") {
		t.Errorf("Cache-Control %q", got)
	}
	again := c.Post("/tenants/"+tenant.ID+"/keys", form)
	wants(t, again, http.StatusConflict, "nothing was done twice")
	kid := secret[8:20]
	for _, path := range []string{"/keys", "/keys/" + kid, "/tenants/" + tenant.ID + "/keys", "/tenants/" + tenant.ID + "/audit", "/overview", "/audit", "/tenants/" + tenant.ID + "/view-as"} {
		a := c.Get(path)
		wants(t, a, http.StatusOK)
		if strings.Contains(a.Text, secret) || strings.Contains(a.Text, secret[21:53]) {
			t.Errorf("%s shows the secret", path)
		}
	}
	if strings.Contains(again.Text, secret) || strings.Contains(w.Log.String(), secret) {
		t.Error("the secret is in the answer to a repeat or in the log")
	}
	list, err := w.Web.Keys.ListCredentials(t.Context(), tenant.ID)
	if err != nil || len(list) != 1 {
		t.Errorf("%d credentials, %v", len(list), err)
	}
}

func TestKeys_ParallelSubmissionsMakeOneKey(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	token := tokenOf(t, w.As(t, console.RoleKeyAdmin).Get("/tenants/"+tenant.ID+"/keys/new"))
	form := url.Values{"token": {token}, "name": {"backend"}, "environment": {"live"}}
	var mu sync.Mutex
	status := map[int]int{}
	var all sync.WaitGroup
	for range 20 {
		c := w.As(t, console.RoleKeyAdmin)
		all.Go(func() {
			a := c.Post("/tenants/"+tenant.ID+"/keys", form)
			mu.Lock()
			status[a.StatusCode]++
			mu.Unlock()
		})
	}
	all.Wait()
	if status[http.StatusCreated] != 1 || status[http.StatusConflict] != 19 {
		t.Errorf("answers by status: %v", status)
	}
}

func TestKeys_FailedFormKeepsInput(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	form := url.Values{"token": {tokenOf(t, c.Get("/tenants/"+tenant.ID+"/keys/new"))}, "name": {""}, "environment": {"live"}, "scopes": {"read write"}, "expires_at": {"tomorrow"}}
	wants(t, c.Post("/tenants/"+tenant.ID+"/keys", form), http.StatusUnprocessableEntity, `id="f-expires_at-error"`, `value="read write"`)
	form.Set("expires_at", "2020-01-01")
	wants(t, c.Post("/tenants/"+tenant.ID+"/keys", form), http.StatusUnprocessableEntity, `id="f-expires_at-error"`, `id="f-name-error"`)
}

func TestKeys_RevokeSuspendResumeSayWhereTheyHold(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	_, secret, _ := issue(t, c, tenant.ID, "backend")
	page := "/keys/" + secret[8:20]
	wants(t, c.Post(page+"/suspend", url.Values{"reason": {" "}}), http.StatusUnprocessableEntity, `id="suspend-reason-error"`)
	for _, step := range []struct{ act, reason, want string }{
		{"suspend", "looking into it", "Suspended: refused on 3 of 3 gateways after"},
		{"resume", "all is well", "Resumed: accepted on 3 of 3 gateways after"},
		{"revoke", "leak", "Revoked: refused on 3 of 3 gateways after"},
	} {
		if a := c.Post(page+"/"+step.act, url.Values{"reason": {step.reason}}); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: %d: %s", step.act, a.StatusCode, a.Text)
		}
		wants(t, c.Get(page), http.StatusOK, step.want)
	}
	a := c.Get(page)
	wants(t, a, http.StatusOK, "revoked")
	if strings.Contains(a.Text, page+"/resume") || strings.Contains(a.Text, page+"/revoke") {
		t.Error("a revoked key offers acts that it would refuse")
	}
	if a := c.Post(page+"/revoke", url.Values{"reason": {"whim"}}); a.StatusCode < 400 {
		t.Errorf("revoking a revoked key for no listed reason: %d", a.StatusCode)
	}
}

func TestRotations_BothKeysThenEndNow(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	_, old, _ := issue(t, c, tenant.ID, "backend")
	list, err := w.Web.Keys.ListCredentials(t.Context(), tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	rotate := "/credentials/" + list[0].ID + "/rotate"
	form := url.Values{"token": {tokenOf(t, c.Get(rotate))}, "overlap": {"24h"}, "reason": {""}}
	wants(t, c.Post(rotate, form), http.StatusUnprocessableEntity, `id="f-reason-error"`)
	form.Set("reason", "yearly")
	a := c.Post(rotate, form)
	wants(t, a, http.StatusCreated, "accepted on 3 of 3 gateways", "Both share the tenant&#39;s limits")
	fresh := secretOnPage.FindString(a.Text)
	if fresh == "" || fresh == old {
		t.Fatalf("no new secret on %s", a.Text)
	}
	wants(t, c.Post(rotate, form), http.StatusConflict, "nothing was done twice")
	form.Set("token", "ABCDEFGHIJKLMNOPQRSTUVWX")
	wants(t, c.Post(rotate, form), http.StatusConflict)

	rotations, err := w.Web.Rotations.List(t.Context(), true)
	if err != nil || len(rotations) != 1 {
		t.Fatalf("%d rotations, %v", len(rotations), err)
	}
	page := "/rotations/" + rotations[0].ID
	wants(t, c.Get("/rotations"), http.StatusOK, page)
	wants(t, c.Get(page), http.StatusOK, old[8:20], fresh[8:20], "overlap", "left")
	if a := c.Post(page+"/extend", url.Values{"by": {"24h"}, "reason": {"slow customer"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("extend: %d: %s", a.StatusCode, a.Text)
	}
	wants(t, c.Get(page), http.StatusOK, "Extended by 24 h", "extended 1 ×")
	wants(t, c.Post(page+"/end", url.Values{"reason": {""}}), http.StatusUnprocessableEntity, `id="end-reason-error"`)
	if a := c.Post(page+"/end", url.Values{"reason": {"all switched"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("end: %d: %s", a.StatusCode, a.Text)
	}
	wants(t, c.Get(page), http.StatusOK, "refused on 3 of 3 gateways after", "ended early")
	wants(t, c.Get("/live"+page), http.StatusOK, "ended early")
	if a := c.Post(page+"/cancel", url.Values{"reason": {"too late"}}); a.StatusCode != http.StatusConflict {
		t.Errorf("cancelling an ended rotation: %d", a.StatusCode)
	}
}

func TestKeys_PastedKeyIsLookedUpByItsPublicPart(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	_, secret, _ := issue(t, c, tenant.ID, "backend")
	a := c.Get("/keys?q=" + secret)
	if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != "/keys?q="+secret[8:20] {
		t.Fatalf("%d to %q", a.StatusCode, to)
	}
	if a = c.Get(a.Header.Get("Location")); strings.Contains(a.Text, secret[21:]) || strings.Contains(w.Log.String(), secret[21:]) {
		t.Error("page or log repeats the secret that was pasted")
	}
	wants(t, a, http.StatusOK, "/keys/"+secret[8:20])
}

func TestViewAs_ShowsThatTenantAloneAndIsRecorded(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	other, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: "Globex " + hostile, Plan: "free", TimeZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	c := w.As(t, console.RoleOwner)
	_, secret, _ := issue(t, c, other.ID, "globex-backend")
	used(w, tenant.ID, 2, 1)
	viewer := w.As(t, console.RoleViewer)
	wants(t, viewer.Get("/tenants/"+tenant.ID), http.StatusOK, `href="/tenants/`+tenant.ID+`/view-as"`)
	a := viewer.Get("/tenants/" + tenant.ID + "/view-as")
	wants(t, a, http.StatusOK, "Viewing as Acme, read-only", "were refused", "plan.requests", "Retry-After")
	wants(t, viewer.Get("/tenants/"+tenant.ID+"/view-as/limits"), http.StatusOK, "6000/minute", "GET /v1/reports/{id}")
	for _, foreign := range []string{"Globex", other.ID, secret[8:20], "global.all"} {
		if strings.Contains(a.Text, foreign) {
			t.Errorf("the page shows %q", foreign)
		}
	}
	if strings.Contains(a.Text, "<form") {
		t.Error("a read-only page has a form")
	}
	events, _, err := w.Web.Audit.List(t.Context(), console.AuditQuery{TenantID: tenant.ID})
	if err != nil || len(events) == 0 || events[0].Actor != "viewer" {
		t.Errorf("the view is not recorded: %+v, %v", events, err)
	}
	if strings.Contains(viewer.Get("/tenants/"+other.ID+"/view-as").Text, "<img") {
		t.Error("a tenant's name is written as markup")
	}
}

func TestPages_RoleDecides(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	key := w.As(t, console.RoleKeyAdmin)
	_, secret, _ := issue(t, key, tenant.ID, "backend")
	kid := secret[8:20]
	viewer, anonymous := w.As(t, console.RoleViewer), w.Anonymous(t)
	for _, path := range []string{"/tenants", "/tenants/" + tenant.ID + "/edit", "/tenants/" + tenant.ID + "/suspend", "/tenants/" + tenant.ID + "/resume", "/tenants/" + tenant.ID + "/keys",
		"/keys/" + kid + "/revoke", "/keys/" + kid + "/suspend", "/keys/" + kid + "/resume", "/credentials/crd_x/rotate", "/rotations/rot_x/end", "/rotations/rot_x/extend", "/rotations/rot_x/cancel"} {
		if a := viewer.Post(path, url.Values{"reason": {"x"}}); a.StatusCode != http.StatusForbidden {
			t.Errorf("viewer POST %s: %d", path, a.StatusCode)
		}
		if a := anonymous.Post(path, url.Values{"reason": {"x"}}); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("anonymous POST %s: %d", path, a.StatusCode)
		}
	}
	for _, path := range []string{"/overview", "/tenants", "/tenants/" + tenant.ID, "/keys", "/keys/" + kid, "/rotations", "/gateways"} {
		a := viewer.Get(path)
		wants(t, a, http.StatusOK)
		for _, act := range []string{"/suspend\"", "/revoke\"", "/edit\"", "/keys/new\"", "/tenants/new\"", "/rotate\""} {
			if strings.Contains(a.Text, act) {
				t.Errorf("%s offers a viewer %s", path, act)
			}
		}
		if a := anonymous.Get(path); a.StatusCode != http.StatusSeeOther {
			t.Errorf("anonymous GET %s: %d", path, a.StatusCode)
		}
	}
}
