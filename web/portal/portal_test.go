package portal_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// pages are all pages that a member can open without naming a thing.
func pages() []string {
	return []string{"/t", "/t/now", "/t/usage", "/t/usage.csv", "/t/keys", "/t/limits", "/t/members", "/t/asks", "/t/alerts", "/t/try"}
}

func TestPages_MemberSeesEachAndAStrangerIsAskedToSignIn(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	admin := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	stranger := w.Anonymous(t)
	for _, path := range append(pages(), "/t/keys/new", "/t/") {
		got := admin.Get(path)
		wants(t, got, http.StatusOK)
		if cc := got.Header.Get("Cache-Control"); cc != "no-store" {
			t.Errorf("%s: Cache-Control is %q", path, cc)
		}
		if csp := got.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
			t.Errorf("%s: CSP is %q", path, csp)
		}
		if got := stranger.Get(path); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/t/signin" {
			t.Errorf("%s for a stranger: %d %q", path, got.StatusCode, got.Header.Get("Location"))
		}
		// An operator's session opens no member's page.
		if got := w.As(t, console.RoleOwner).Get(path); got.StatusCode != http.StatusSeeOther {
			t.Errorf("%s for an operator: %d", path, got.StatusCode)
		}
	}
	wants(t, admin.Get("/t/limits"), http.StatusOK, "plan.requests", "route:report.reports", "GET /v1/reports/{id}", "RateLimit-Policy")
	if text := admin.Get("/t/limits").Text; strings.Contains(text, "global.all") || strings.Contains(text, "per-ip") {
		t.Error("limits that are not the tenant's are shown")
	}
	wants(t, admin.Get("/t"), http.StatusOK, "Starts anew", "Europe/Berlin")
}

// A member's session opens no page of the console.
func TestPages_A05_MemberSessionOpensNothingOfTheConsole(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	admin := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	for _, path := range []string{"/overview", "/tenants", "/tenants/" + a.ID, "/tenants/" + a.ID + "/view-as", "/keys", "/audit"} {
		if got := admin.Get(path); got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/signin") {
			t.Errorf("%s: %d %q", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	// The cookie's id under the console's name opens nothing either.
	var id string
	for _, c := range admin.Cookies {
		if c.Name == "__Host-hgt" {
			id = c.Value
			if !c.Secure || !c.HttpOnly || c.Path != "/" || c.SameSite != http.SameSiteLaxMode {
				t.Errorf("the cookie is %+v", c)
			}
		}
	}
	thief := w.Anonymous(t)
	thief.Cookies = []*http.Cookie{{Name: "__Host-headgate", Value: id}}
	if got := thief.Get("/overview"); id == "" || got.StatusCode != http.StatusSeeOther {
		t.Errorf("a member's id as an operator's: %d", got.StatusCode)
	}
}

func TestKeys_A18_SecretIsShownOnceAndWorksOfTheTenantOnly(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	form := url.Values{"name": {"backend"}, "environment": {"live"}, "token": {token(t, c.Get("/t/keys/new"))}}
	first := c.Post("/t/keys", form)
	wants(t, first, http.StatusCreated, "only time")
	secret := secretOnPage.FindString(first.Text)
	if secret == "" || first.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("no secret, or stored: %v", first.Header)
	}
	again := c.Post("/t/keys", form)
	if again.StatusCode != http.StatusConflict || secretOnPage.MatchString(again.Text) {
		t.Errorf("the repeat: %d", again.StatusCode)
	}
	kid := kidOf(secret)
	v, err := w.Web.Keys.Get(t.Context(), kid)
	if err != nil || v.TenantID != a.ID {
		t.Fatalf("%+v %v", v, err)
	}
	for _, path := range append(pages(), "/t/keys/"+kid) {
		if got := c.Get(path); strings.Contains(got.Text, secret) || got.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, or the secret is there", path, got.StatusCode)
		}
	}
	if strings.Contains(w.Log.String(), secret) {
		t.Error("the secret is in the log")
	}
	wants(t, c.Get("/t/keys"), http.StatusOK, kid, "backend")
}

func TestKeys_A18_TwoHundredSubmissionsOfOneFormGiveOneSecret(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	form := url.Values{"name": {"backend"}, "environment": {"live"}, "token": {token(t, c.Get("/t/keys/new"))}}
	c.Header.Set("Sec-Fetch-Site", "same-origin")
	var secrets atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		each := *c
		each.Cookies = append([]*http.Cookie{}, c.Cookies...)
		all.Go(func() {
			if got := each.Post("/t/keys", form); secretOnPage.MatchString(got.Text) {
				secrets.Add(1)
			}
		})
	}
	all.Wait()
	list, err := w.Web.Keys.ListCredentials(t.Context(), a.ID)
	if err != nil || secrets.Load() != 1 || len(list) != 1 {
		t.Errorf("%d secrets, %d credentials (%v), want one", secrets.Load(), len(list), err)
	}
}

func TestKeys_RotateWatchAndEnd(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	old := kidOf(create(t, c, "backend"))
	list, err := w.Web.Keys.ListCredentials(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	rotate := "/t/credentials/" + list[0].ID + "/rotate"
	wants(t, c.Get("/t/keys"), http.StatusOK, rotate)
	page := c.Get(rotate)
	wants(t, page, http.StatusOK, old, `value="720h"`)
	wants(t, c.Post(rotate, url.Values{"overlap": {"24h"}, "reason": {""}, "token": {token(t, page)}}), http.StatusUnprocessableEntity, "Say why")
	made := c.Post(rotate, url.Values{"overlap": {"24h"}, "reason": {"yearly"}, "token": {token(t, page)}})
	wants(t, made, http.StatusCreated, "only time", "works until")
	if !secretOnPage.MatchString(made.Text) {
		t.Fatal("no secret")
	}
	path := rotationPath.FindString(made.Text)
	wants(t, c.Get(path), http.StatusOK, "Not ready", old)
	wants(t, c.Post(path+"/extend", url.Values{"by": {"24h"}, "reason": {"slow"}}), http.StatusSeeOther)
	wants(t, c.Post(path+"/extend", url.Values{"by": {"24h"}, "reason": {"slower"}}), http.StatusConflict)
	wants(t, c.Post(path+"/end", url.Values{"reason": {"switched"}}), http.StatusSeeOther)
	wants(t, c.Get(path), http.StatusOK, "refused")
	v, err := w.Web.Keys.Get(t.Context(), old)
	if err != nil || v.Live() {
		t.Errorf("the old key is %s (%v)", v.State, err)
	}
}

func TestKeys_RevokeNeedsTheTypedName(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	kid := kidOf(create(t, c, "backend"))
	wants(t, c.Post("/t/keys/"+kid+"/revoke", url.Values{"reason": {"leak"}, "name": {"back"}}), http.StatusUnprocessableEntity, "Type the key")
	wants(t, c.Post("/t/keys/"+kid+"/revoke", url.Values{"reason": {"leak"}, "name": {"backend"}}), http.StatusSeeOther)
	wants(t, c.Get("/t/keys/"+kid), http.StatusOK, "revoked")
}

func TestKeys_RulesBoundWhatATenantDoesByItself(t *testing.T) {
	t.Parallel()
	w, a, b := world(t)
	owner := w.Actor(console.RoleOwner)
	rules := console.DefaultPortalRules()
	rules.Credentials, rules.MaxOverlap, rules.MayRevoke = 1, time.Hour, false
	if err := w.Web.Members.SetRules(t.Context(), owner, a.ID, &rules); err != nil {
		t.Fatal(err)
	}
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	form := token(t, c.Get("/t/keys/new"))
	kid := kidOf(create(t, c, "first"))
	wants(t, c.Post("/t/keys", url.Values{"name": {"second"}, "environment": {"live"}, "token": {form}}), http.StatusConflict, "1 of 1")
	list, err := w.Web.Keys.ListCredentials(t.Context(), a.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	rotate := "/t/credentials/" + list[0].ID + "/rotate"
	wants(t, c.Post(rotate, url.Values{"overlap": {"24h"}, "reason": {"x"}, "token": {token(t, c.Get(rotate))}}), http.StatusUnprocessableEntity, "At most 1h")
	wants(t, c.Post("/t/keys/"+kid+"/revoke", url.Values{"reason": {"leak"}, "name": {"first"}}), http.StatusForbidden)
	// Another tenant has the general rules still.
	other := join(t, w, b, "admin@b.example", console.RoleTenantAdmin)
	create(t, other, "first")
	create(t, other, "second")
}

func TestViewer_SeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	admin := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	viewer := join(t, w, a, "viewer@a.example", console.RoleTenantViewer)
	kid := kidOf(create(t, admin, "backend"))
	for _, path := range append(pages(), "/t/keys/"+kid) {
		got := viewer.Get(path)
		wants(t, got, http.StatusOK)
		if strings.Contains(got.Text, `method="post"`) && strings.Count(got.Text, `method="post"`) > 1 { // signing out
			t.Errorf("%s shows a viewer a form", path)
		}
	}
	for path, form := range map[string]url.Values{
		"/t/keys": {"name": {"x"}}, "/t/keys/" + kid + "/revoke": {"reason": {"leak"}, "name": {"backend"}}, "/t/members": {"email": {"x@a.example"}, "role": {"tenant-admin"}},
		"/t/asks": {"limit": {"plan.requests"}}, "/t/alerts": {"kind": {"refused-share"}, "value": {"5"}},
	} {
		wants(t, viewer.Post(path, form), http.StatusForbidden)
	}
}

func TestPost_FromAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	c.Header.Set("Sec-Fetch-Site", "cross-site")
	c.Header.Set("Origin", "https://evil.example")
	wants(t, c.Post("/t/alerts", url.Values{"kind": {"refused-share"}, "value": {"5"}}), http.StatusForbidden)
}

func TestTry_TellsRouteCostAndLimits(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	for query, want := range map[string]string{
		"method=GET&path=/v1/reports/7":    "takes route report",
		"method=POST&path=/login":          "goes by no key",
		"method=GET&path=/v1/nothing":      "takes route everything-else",
		"method=POST&path=/graphql&query=": "by query",
		"method=POST&path=/graphql&query=" + url.QueryEscape("{ users(first: 10) { name } }"): "This query costs ",
	} {
		wants(t, c.Get("/t/try?"+query), http.StatusOK, want)
	}
	wants(t, c.Get("/t/try?method=GET&path=/v1/reports/7"), http.StatusOK, "route:report.reports", "plan.requests", "It costs 20.")
	for query, want := range map[string]string{
		"method=GET&path=/a//b": "not a path", "method=BREW&path=/": "Choose one of the methods",
		"method=POST&path=/graphql&query=" + url.QueryEscape("{ nonsense"): "This query is refused",
	} {
		wants(t, c.Get("/t/try?"+query), http.StatusUnprocessableEntity, want)
	}
}

func TestViewAs_OperatorSeesTheSamePagesReadOnlyAndRecorded(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	admin := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	kid := kidOf(create(t, admin, "backend"))
	viewer := w.As(t, console.RoleViewer)
	base := "/tenants/" + a.ID + "/view-as"
	for _, path := range []string{"", "/now", "/usage", "/usage.csv", "/keys", "/keys/" + kid, "/limits", "/members", "/asks", "/alerts", "/try?method=GET&path=/v1/reports/7"} {
		got := viewer.Get(base + path)
		wants(t, got, http.StatusOK)
		if strings.Contains(got.Text, `method="post"`) {
			t.Errorf("%s shows an operator a form that changes something", path)
		}
		if path == "" || path == "/keys" {
			wants(t, got, http.StatusOK, "read-only", `href="`+base+`/limits"`, `href="/tenants/`+a.ID+`"`)
		}
	}
	for _, path := range []string{"/keys", "/members", "/signout"} {
		if got := w.As(t, console.RoleOwner).Post(base+path, url.Values{}); got.StatusCode < 400 {
			t.Errorf("POST %s: %d", path, got.StatusCode)
		}
	}
	wants(t, viewer.Get(base+"/keys/zzzzzzzzzzzz"), http.StatusNotFound)
	wants(t, viewer.Get("/tenants/ten_zzzzzzzzzzzzzzzz/view-as"), http.StatusNotFound)
	events, _, err := w.Web.Audit.List(t.Context(), console.AuditQuery{Action: "tenant.view-as", TenantID: a.ID})
	if err != nil || len(events) < 10 {
		t.Errorf("%d views are recorded (%v)", len(events), err)
	}
}
