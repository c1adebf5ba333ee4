package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

// withKey is a world with a key of Acme's, its kid and its secret.
func withKey(t *testing.T) (w *webtest.World, tenant console.Tenant, kid, secret string) {
	t.Helper()
	w, tenant = world(t)
	out, err := w.Web.Keys.IssueCredential(t.Context(), w.Actor(console.RoleKeyAdmin), tenant.ID, console.NewCredential{Name: "backend", Environment: "live", Scopes: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	return w, tenant, out.KeyVersion.KID, out.Secret.Reveal()
}

// usedKey tells of 1 204 uses of a key, the last one three minutes ago.
func usedKey(w *webtest.World, kid string) {
	first, last := w.Now().Add(-48*time.Hour), w.Now().Add(-3*time.Minute)
	w.KeyUse.Set(console.KeyUse{KID: kid, FirstUsedAt: &first, LastUsedAt: &last, LastNetwork: "192.0.2.0/24", LastAgent: "curl/8", Requests24h: 1204, Refused24h: 7},
		console.KeySource{KID: kid, Network: "192.0.2.0/24", Agent: "curl/8", FirstSeen: first, LastSeen: last, Requests: 1204, Refused: 7})
}

func TestKeys_UseIsToldWithItsSourceAndAge(t *testing.T) {
	t.Parallel()
	w, tenant, kid, _ := withKey(t)
	c := w.As(t, console.RoleViewer)
	wants(t, c.Get("/keys"), http.StatusOK, "never", "use known up to 3 s ago", "read")
	usedKey(w, kid)
	for _, path := range []string{"/keys", "/keys/" + kid, "/tenants/" + tenant.ID + "/keys"} {
		wants(t, c.Get(path), http.StatusOK, "3 min ago", "192.0.2.0/24 · curl/8", "1\u202f204")
	}
	wants(t, c.Get("/keys/"+kid), http.StatusOK, "Sources of the last 90 days", "2 d ago", "What was done to this key")
	admin := w.As(t, console.RoleKeyAdmin).Get("/keys/" + kid)
	wants(t, admin, http.StatusOK, "It sent 1204 requests in the last 24 hours, the last one 3 min ago from 192.0.2.0/24 · curl/8.")
}

func TestKeys_UseThatIsBehindIsUnknownAndNeverNever(t *testing.T) {
	t.Parallel()
	w, _, kid, _ := withKey(t)
	c := w.As(t, console.RoleKeyAdmin)
	w.KeyUse.SetAge(console.UseAge{Through: w.Now().Add(-5 * time.Minute), Behind: true, Silent: []string{"gw_2"}, Since: w.Now().Add(-time.Hour)})
	for _, path := range []string{"/keys", "/keys/" + kid, "/tenants"} {
		a := c.Get(path)
		wants(t, a, http.StatusOK, "unknown", "use is known only up to 5 min ago", "nothing is heard from gw_2")
		if strings.Contains(a.Text, ">never<") && path == "/tenants" || strings.Contains(a.Text, `<span class="muted">never</span>`) {
			t.Errorf("%s says never while nobody knows", path)
		}
	}
	wants(t, c.Get("/keys/"+kid), http.StatusOK, "How much it is used is unknown now.")
	w.KeyUse.SetAge(console.UseAge{Through: w.Now(), Since: w.Now().Add(time.Hour), Missing: &console.UseGap{Replica: "gw_3", From: w.Now().Add(-time.Hour), To: w.Now()}})
	wants(t, c.Get("/keys/"+kid), http.StatusOK, "not since 20", "what gw_3 saw from")
}

func TestKeys_RevokedAndPresentedIsMarked(t *testing.T) {
	t.Parallel()
	w, _, kid, _ := withKey(t)
	at := w.Now().Add(-time.Minute)
	w.KeyUse.Set(console.KeyUse{KID: kid, RefusedAt: &at})
	wants(t, w.As(t, console.RoleViewer).Get("/keys"), http.StatusOK, "refused", "1 min ago")
}

func TestKeys_ShowsFilterAndKeepTheirChoice(t *testing.T) {
	t.Parallel()
	w, _, kid, _ := withKey(t)
	c := w.As(t, console.RoleViewer)
	for show, found := range map[string]bool{"unused": false, "never": true, "expiring": false, "retiring-used": false, "compromised": false} {
		a := c.Get("/keys?show=" + show)
		wants(t, a, http.StatusOK, `value="`+show+`" selected`)
		if got := strings.Contains(a.Text, "/keys/"+kid); got != found {
			t.Errorf("show=%s lists the new key: %v", show, got)
		}
	}
	if a := c.Get("/keys?show=everything"); a.StatusCode >= 500 {
		t.Errorf("an unknown choice: %d", a.StatusCode)
	}
}

func TestActs_R053_PendingIsToldUntilEveryGatewayHasIt(t *testing.T) {
	t.Parallel()
	w, _, kid, _ := withKey(t)
	waitFor(t, func() bool { return w.Web.Fleet.Health(t.Context()).InSync == 3 })
	w.Feed.Freeze(nil)
	c := w.As(t, console.RoleKeyAdmin)
	a := c.Post("/keys/"+kid+"/revoke", url.Values{"reason": {"leak"}})
	wants(t, a, http.StatusSeeOther)
	page := a.Header.Get("Location")
	for range 2 { // a reload says so again
		wants(t, c.Get(page), http.StatusOK, "revoking", "Revoked: refused on 0 of 3 gateways so far", `hx-get="/live/changes/`)
	}
	u, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	live := "/live/changes/" + u.Query().Get("change") + "/revoke"
	wants(t, c.Get(live), http.StatusOK, "refused on 0 of 3 gateways so far")
	w.Feed.Thaw()
	waitFor(t, func() bool { return strings.Contains(c.Get(live).Text, "Revoked: refused on 3 of 3 gateways.") })
	wants(t, c.Get(live), http.StatusOK, `id="state-now" hx-swap-oob`)
	wants(t, c.Get("/live/changes/77/dance"), http.StatusNotFound)
	if a := c.Get("/keys/" + kid + "?change=x&act=revoke"); a.StatusCode != http.StatusOK || strings.Contains(a.Text, `id="pending"`) {
		t.Errorf("a change that is none: %d", a.StatusCode)
	}
}
