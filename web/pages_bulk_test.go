package web_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

// upload sends the form of an import as a browser does.
func upload(t *testing.T, c *webtest.Client, fields [][2]string, name, content string) webtest.Answer {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, f := range fields {
		if err := m.WriteField(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	part, err := m.CreateFormFile("input", name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	c.Header.Set("Sec-Fetch-Site", "same-origin")
	c.Header.Set("Origin", webtest.Origin)
	return c.Do(http.MethodPost, "/bulk", m.FormDataContentType(), &b)
}

// worked waits until a job's page says a text: jobs are worked on beside the pages.
func worked(t *testing.T, c *webtest.Client, page, text string) {
	t.Helper()
	waitFor(t, func() bool { return strings.Contains(c.Get(page).Text, text) })
}

func TestBulk_ImportIsCheckedThenStarted(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	wants(t, c.Get("/bulk"), http.StatusOK, "No job yet.")
	wants(t, c.Get("/bulk/new"), http.StatusOK, "/bulk/new?kind=import-tenants", "Import keys")
	form := c.Get("/bulk/new?kind=import-tenants")
	wants(t, form, http.StatusOK, `enctype="multipart/form-data"`, "name, plan")
	fields := [][2]string{{"token", tokenOf(t, form)}, {"kind", "import-tenants"}, {"reason", "moving in"}, {"format", "csv"}}
	a := upload(t, c, fields, "customers.csv", "name,plan\nGlobex,free\nInitech,pro\nHooli,gold\n")
	wants(t, a, http.StatusSeeOther)
	page := a.Header.Get("Location")
	again := upload(t, c, fields, "customers.csv", "name,plan\nGlobex,free\nInitech,pro\nHooli,gold\n")
	if again.StatusCode == http.StatusSeeOther && again.Header.Get("Location") != page {
		t.Errorf("a second sending made another job: %s", again.Header.Get("Location"))
	}
	worked(t, c, page, "Nothing is done yet")
	wants(t, c.Get(page), http.StatusOK, "2 of 3 rows would change something", "1 has a problem and is left out", "Nothing is done yet", "customers.csv", "moving in", page+"/start")
	wants(t, c.Get(page+"?outcome=bad"), http.StatusOK, "left out", "Hooli")
	live := c.Get("/live" + page)
	wants(t, live, http.StatusOK, "ready")
	if live.Header.Get("HX-Refresh") != "true" {
		t.Error("a job that came to rest leaves its rows as they were before")
	}
	if n, err := w.Web.Tenants.Count(t.Context()); err != nil || n != 1 {
		t.Fatalf("checking made tenants: %d, %v", n, err)
	}
	wants(t, c.Post(page+"/start", nil), http.StatusSeeOther)
	worked(t, c, page, "2 of 2 rows done")
	wants(t, c.Get(page), http.StatusOK, "2 of 2 rows done", "delete those that should not be")
	wants(t, c.Get("/tenants"), http.StatusOK, "Globex", "Initech")
	wants(t, c.Get("/bulk?state=done"), http.StatusOK, page)
	wants(t, c.Post(page+"/cancel", nil), http.StatusConflict)
}

func TestBulk_PlanChangeOfTheChosenShowsWhatItDoes(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	wants(t, c.Get("/tenants"), http.StatusOK, `name="tenants[]" value="`+tenant.ID+`"`, `value="change-plan"`)
	form := c.Get("/bulk/new?kind=change-plan&tenants[]=" + tenant.ID)
	wants(t, form, http.StatusOK, "1 tenant chosen", `name="tenants[]" value="`+tenant.ID+`"`)
	fields := url.Values{"token": {tokenOf(t, form)}, "kind": {"change-plan"}, "tenants[]": {tenant.ID}, "to_plan": {""}, "reason": {"downgrade"}}
	wants(t, c.Post("/bulk", fields), http.StatusUnprocessableEntity, `id="f-to_plan-error"`, `value="downgrade"`, "1 tenant chosen")
	fields.Set("to_plan", "free")
	a := c.Post("/bulk", fields)
	wants(t, a, http.StatusSeeOther)
	worked(t, c, a.Header.Get("Location"), "Nothing is done yet")
	wants(t, c.Get(a.Header.Get("Location")), http.StatusOK, "1 tenant from pro to free", "6000/minute", "60/minute")
	wants(t, c.Post(a.Header.Get("Location")+"/cancel", nil), http.StatusSeeOther)
	wants(t, c.Get(a.Header.Get("Location")), http.StatusOK, "cancelled", "What was done stays done.")
}

func TestBulk_BrokenFormsAreRefusedWithWhatWasTyped(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	token := tokenOf(t, c.Get("/bulk/new?kind=revoke-unused"))
	wants(t, c.Post("/bulk", url.Values{"token": {token}, "kind": {"revoke-unused"}, "unused_days": {"many"}, "reason": {"spring"}}), http.StatusUnprocessableEntity, `id="f-unused_days-error"`, `value="spring"`)
	wants(t, c.Post("/bulk", url.Values{"token": {token}, "kind": {"set-expiry"}, "expires_at": {"x"}, "reason": {"spring"}}), http.StatusUnprocessableEntity, `id="f-expires_at-error"`)
	wants(t, c.Post("/bulk", url.Values{"kind": {"set-expiry"}}), http.StatusUnprocessableEntity, "Open it again")
	wants(t, upload(t, c, [][2]string{{"token", token}, {"kind", "import-keys"}, {"format", "csv"}, {"reason", "r"}}, "", ""), http.StatusUnprocessableEntity, "Choose a file.")
	wants(t, upload(t, c, [][2]string{{"kind", strings.Repeat("x", 5000)}}, "a.csv", "x"), http.StatusUnprocessableEntity)
	wants(t, upload(t, c, [][2]string{{"token", token}, {"kind", "import-keys"}, {"format", "csv"}, {"reason", "r"}}, "a.csv", "kid,nonsense\n1,2\n"), http.StatusUnprocessableEntity, "nonsense")
	wants(t, w.As(t, console.RoleViewer).Get("/bulk/blk_aaaaaaaaaaaaaaaa"), http.StatusNotFound)
}

func TestExports_AreFilesForThoseWhoMay(t *testing.T) {
	t.Parallel()
	w, _, kid, secret := withKey(t)
	c := w.As(t, console.RoleAuditor)
	wants(t, c.Get("/tenants?plan=pro"), http.StatusOK, `href="/tenants.csv?plan=pro"`)
	a := c.Get("/tenants.csv?plan=pro")
	wants(t, a, http.StatusOK, "Acme", "name,external_id,plan")
	if got := a.Header.Get("Content-Disposition"); !strings.Contains(got, "attachment") {
		t.Errorf("Content-Disposition %q", got)
	}
	keys := c.Get("/keys.csv")
	wants(t, keys, http.StatusOK, kid)
	if strings.Contains(keys.Text, secret[21:]) || strings.Contains(keys.Text, "sha256:") {
		t.Error("the file has a secret or a digest")
	}
	wants(t, c.Get("/keys.csv?show=unused"), http.StatusUnprocessableEntity)
	if text := w.As(t, console.RoleViewer).Get("/tenants").Text; strings.Contains(text, "tenants.csv") {
		t.Error("a viewer is offered the file")
	}
}
