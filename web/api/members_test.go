package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func TestMembers_InvitedListedAndRemoved(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	ten, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: "A", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	c := w.API(t, console.RoleKeyAdmin)
	path := "/api/v1/tenants/" + ten.ID + "/members"
	made := c.JSON(http.MethodPost, path, `{"email":"kim@a.example","role":"tenant-admin"}`)
	status(t, made, http.StatusCreated)
	if !strings.Contains(made.Text, webtest.Origin+"/t/invite/") {
		t.Errorf("no link: %s", made.Text)
	}
	list := c.Get(path)
	status(t, list, http.StatusOK)
	if !strings.Contains(list.Text, "kim@a.example") || strings.Contains(list.Text, "/t/invite/") {
		t.Errorf("the list is %s", list.Text)
	}
	for body, want := range map[string]int{
		`{"email":"x","role":"tenant-admin"}`: 422, `{"email":"x@a.example","role":"owner"}`: 422, `{"role":"tenant-admin"}`: 422, `{"email":"x@a.example","role":"tenant-admin","more":1}`: 422,
	} {
		status(t, c.JSON(http.MethodPost, path, body), want)
	}
	id := "inv_" + cut(list.Text, `"inv_`, `"`)
	status(t, c.JSON(http.MethodDelete, path+"/"+id, ""), http.StatusNoContent)
	status(t, c.JSON(http.MethodDelete, path+"/"+id, ""), http.StatusNotFound)
	status(t, c.JSON(http.MethodDelete, path+"/mem_zzzzzzzzzzzzzzzz", ""), http.StatusNotFound)
	status(t, c.Get("/api/v1/tenants/ten_zzzzzzzzzzzzzzzz/members"), http.StatusNotFound)
	status(t, w.API(t, console.RoleViewer).JSON(http.MethodPost, path, `{"email":"y@a.example","role":"tenant-admin"}`), http.StatusForbidden)
	status(t, w.Anonymous(t).Get(path), http.StatusUnauthorized)
}

// A repeat under one idempotency key makes no second link and shows none.
func TestSignInLinks_A18_RepeatShowsNoLink(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	ten, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: "A", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	c := w.API(t, console.RoleKeyAdmin)
	c.Header.Set("Idempotency-Key", "once")
	path, body := "/api/v1/tenants/"+ten.ID+"/sign-in-links", `{"external_user":"u","role":"tenant-viewer"}`
	first, again := c.JSON(http.MethodPost, path, body), c.JSON(http.MethodPost, path, body)
	status(t, first, http.StatusCreated)
	status(t, again, http.StatusConflict)
	if !strings.Contains(first.Text, "/t/link/") || strings.Contains(again.Text, "/t/link/") {
		t.Errorf("%s, then %s", first.Text, again.Text)
	}
	if strings.Contains(w.Log.String(), cut(first.Text, "/t/link/", `"`)) {
		t.Error("the link is in the log")
	}
}

func TestAsks_ListNeedsNothingAndDecisionsWhoMay(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	got := w.API(t, console.RoleViewer).Get("/api/v1/asks?state=all")
	status(t, got, http.StatusOK)
	if !strings.Contains(got.Text, `"items":[]`) {
		t.Errorf("%s", got.Text)
	}
	status(t, w.API(t, console.RoleViewer).JSON(http.MethodPost, "/api/v1/asks/ask_zzzzzzzzzzzzzzzz/grant", `{}`), http.StatusForbidden)
	c := w.API(t, console.RoleKeyAdmin)
	status(t, c.JSON(http.MethodPost, "/api/v1/asks/ask_zzzzzzzzzzzzzzzz/grant", `{}`), http.StatusNotFound)
	status(t, c.JSON(http.MethodPost, "/api/v1/asks/ask_zzzzzzzzzzzzzzzz/refuse", `{}`), http.StatusUnprocessableEntity)
}

func status(t *testing.T, a webtest.Answer, want int) {
	t.Helper()
	if a.StatusCode != want {
		t.Errorf("%s %d, want %d: %s", a.Status, a.StatusCode, want, a.Text)
	}
}

func cut(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}
