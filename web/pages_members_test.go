package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func TestMembersPage_InviteIsShownOnceAndTakenBack(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	admin := w.As(t, console.RoleKeyAdmin)
	path := "/tenants/" + tenant.ID + "/members"
	wants(t, admin.Get(path), http.StatusOK, "Nobody of this tenant can sign in yet")
	wants(t, admin.Post(path, url.Values{"email": {"x"}, "role": {"tenant-admin"}}), http.StatusUnprocessableEntity, "not an e-mail address", `value="x"`)
	wants(t, admin.Post(path, url.Values{"email": {hostile + "@x"}, "role": {"tenant-admin"}}), http.StatusUnprocessableEntity)
	made := admin.Post(path, url.Values{"email": {"kim@acme.example"}, "role": {"tenant-admin"}})
	wants(t, made, http.StatusCreated, webtest.Origin+"/t/invite/", "kim@acme.example")
	page := admin.Get(path)
	if strings.Contains(page.Text, "/t/invite/") {
		t.Error("the link is shown again")
	}
	_, rest, _ := strings.Cut(page.Text, path+"/inv_")
	id, _, _ := strings.Cut(rest, "/")
	wants(t, admin.Post(path+"/inv_"+id+"/uninvite", nil), http.StatusSeeOther)
	wants(t, admin.Post(path+"/inv_"+id+"/uninvite", nil), http.StatusNotFound)
	wants(t, admin.Post(path+"/mem_zzzzzzzzzzzzzzzz/remove", nil), http.StatusNotFound)
	viewer := w.As(t, console.RoleViewer)
	if got := viewer.Get(path); strings.Contains(got.Text, "Invite somebody") {
		t.Error("a viewer is offered to invite")
	}
	wants(t, viewer.Post(path, url.Values{"email": {"y@acme.example"}, "role": {"tenant-admin"}}), http.StatusForbidden)
	wants(t, w.Anonymous(t).Get(path), http.StatusSeeOther)
	wants(t, admin.Get("/tenants/ten_zzzzzzzzzzzzzzzz/members"), http.StatusNotFound)
}

func TestPortalRulesPage_SetsTakesAwayAndSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	admin := w.As(t, console.RoleKeyAdmin)
	form := func(scope, ten, credentials string) url.Values {
		return url.Values{"scope": {scope}, "tenant": {ten}, "credentials": {credentials}, "members": {"3"}, "overlap_days": {"7"}, "may": {"rotate"},
			"ask_factor": {"0"}, "ask_days": {"0"}, "ask_monthly": {"0"}}
	}
	wants(t, admin.Get("/settings/portal"), http.StatusOK, "everybody else", "tenants on plan pro")
	wants(t, admin.Post("/settings/portal", form("", "", "x")), http.StatusUnprocessableEntity, "A whole number")
	wants(t, admin.Post("/settings/portal", form("", "", "5000")), http.StatusUnprocessableEntity, "Between 0 and 1000")
	wants(t, admin.Post("/settings/portal", form("", "ten_zzzzzzzzzzzzzzzz", "5")), http.StatusUnprocessableEntity, "no such tenant")
	wants(t, admin.Post("/settings/portal", form("", tenant.ID, "5")), http.StatusSeeOther)
	wants(t, admin.Post("/settings/portal", form("plan:pro", "", "9")), http.StatusSeeOther)
	wants(t, admin.Get("/settings/portal"), http.StatusOK, tenant.ID, "plan pro", "may rotate keys, 5 at most")
	wants(t, admin.Get("/tenants/"+tenant.ID+"/members"), http.StatusOK, "may rotate keys, 5 at most")
	wants(t, admin.Post("/settings/portal", url.Values{"scope": {tenant.ID}, "remove": {"1"}}), http.StatusSeeOther)
	wants(t, admin.Get("/tenants/"+tenant.ID+"/members"), http.StatusOK, "9 at most")
	wants(t, w.As(t, console.RoleViewer).Post("/settings/portal", form("", "", "5")), http.StatusForbidden)
}
