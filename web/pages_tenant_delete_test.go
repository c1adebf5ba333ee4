package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func TestTenants_DeletionNeedsTheNameAndAReasonAndEndsEveryKey(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	page := "/tenants/" + tenant.ID
	wants(t, c.Get(page), http.StatusOK, "Delete tenant", "It has no working key.")
	issue(t, c, tenant.ID, "backend")
	issue(t, c, tenant.ID, "worker")
	wants(t, c.Get(page), http.StatusOK, "2 keys will be refused with 401", "This cannot be undone.")

	for _, bad := range []url.Values{{"reason": {"left"}}, {"name": {"acme"}, "reason": {"left"}}, {"name": {hostile}, "reason": {hostile}}} {
		a := c.Post(page+"/delete", bad)
		wants(t, a, http.StatusUnprocessableEntity, `id="f-name-error"`, `id="delete" open`)
		if strings.Contains(a.Text, "<img") {
			t.Error("input is written as markup")
		}
	}
	wants(t, c.Post(page+"/delete", url.Values{"name": {"Acme"}, "reason": {" "}}), http.StatusUnprocessableEntity, `id="delete-reason-error"`, `value="Acme"`)
	if got, err := w.Web.Tenants.Get(t.Context(), tenant.ID); err != nil || got.State != policy.TenantActive {
		t.Fatalf("a refused deletion had an effect: %+v, %v", got, err)
	}

	wants(t, c.Post(page+"/delete", url.Values{"name": {"Acme"}, "reason": {"contract ended"}}), http.StatusSeeOther)
	a := c.Get(page)
	wants(t, a, http.StatusOK, "Deleted: refused on 3 of 3 gateways after", "Its keys are refused for good. contract ended")
	if strings.Contains(a.Text, "/delete") || strings.Contains(a.Text, "/suspend") {
		t.Error("a deleted tenant can be acted on")
	}
	if n, err := w.Web.Keys.Count(t.Context()); err != nil || n != 0 {
		t.Errorf("%d keys work, %v", n, err)
	}
	wants(t, c.Post(page+"/delete", url.Values{"name": {"Acme"}, "reason": {"again"}}), http.StatusConflict, "Its keys are refused for good.")
}

func TestTenants_DeletionIsNotOfferedToThoseWhoMayNot(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	for _, role := range []console.Role{console.RoleViewer, console.RoleEditor, console.RolePublisher} {
		c := w.As(t, role)
		if strings.Contains(c.Get("/tenants/"+tenant.ID).Text, "Delete tenant") {
			t.Errorf("%s is offered a deletion", role)
		}
		wants(t, c.Post("/tenants/"+tenant.ID+"/delete", url.Values{"name": {"Acme"}, "reason": {"x"}}), http.StatusForbidden)
	}
	c := w.As(t, console.RoleOwner)
	wants(t, c.Post("/tenants/ten_aaaaaaaaaaaaaaaa/delete", url.Values{"name": {""}, "reason": {"x"}}), http.StatusNotFound)
}
