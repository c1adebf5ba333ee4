package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
)

func TestLeaks_A16_PastedKeyIsFoundContainedAndNeverRepeated(t *testing.T) {
	t.Parallel()
	w, tenant, kid, secret := withKey(t)
	usedKey(w, kid)
	c := w.As(t, console.RoleKeyAdmin)
	text := "config:\n  API_KEY=" + secret + "\n"
	a := c.Post("/leaks/find", url.Values{"text": {text}})
	wants(t, a, http.StatusOK, "Acme", "backend", "hg_live_"+kid+"_…", "192.0.2.0/24", "It sent 1204 requests", `href="/explain?key=`+kid+`"`, `value="replace" selected`)
	if strings.Contains(a.Text, secret[21:]) {
		t.Error("the page repeats the secret")
	}
	form := url.Values{"kid": {kid}, "how": {"replace"}, "url": {"https://example.com/x"}, "note": {""}}
	wants(t, c.Post("/leaks/contain", form), http.StatusUnprocessableEntity, "note-"+kid+"-error", `value="https://example.com/x"`)
	form.Set("note", "in a public repository")
	done := c.Post("/leaks/contain", form)
	wants(t, done, http.StatusCreated, "This is the only time the key is shown", "accepted on 3 of 3 gateways")
	fresh := secretOnPage.FindString(done.Text)
	if fresh == "" || fresh == secret {
		t.Fatalf("no new key on the page")
	}
	wants(t, c.Get("/keys/"+kid), http.StatusOK, "revoked", "leak")
	wants(t, c.Get("/leaks"), http.StatusOK, kid, "contained", "https://example.com/x", "in a public repository")
	wants(t, c.Get("/leaks?state=open"), http.StatusOK, "No case.")
	wants(t, c.Get("/keys?show=compromised"), http.StatusOK, kid)
	for _, path := range []string{"/leaks", "/keys", "/keys/" + kid, "/tenants/" + tenant.ID + "/audit", "/audit"} {
		if page := c.Get(path).Text; strings.Contains(page, secret[21:53]) || strings.Contains(page, fresh[21:53]) {
			t.Errorf("%s shows a secret", path)
		}
	}
	if log := w.Log.String(); strings.Contains(log, secret[21:53]) || strings.Contains(log, fresh[21:53]) {
		t.Error("the log has a secret")
	}
	wants(t, c.Post("/leaks/find", url.Values{"text": {secret}}), http.StatusOK, "It is refused already: revoked.")
}

func TestLeaks_RevokedAloneAndWhatIsNoKey(t *testing.T) {
	t.Parallel()
	w, _, kid, secret := withKey(t)
	c := w.As(t, console.RoleKeyAdmin)
	wants(t, c.Post("/leaks/find", url.Values{"text": {" "}}), http.StatusUnprocessableEntity, `id="f-text-error"`)
	wants(t, c.Post("/leaks/find", url.Values{"text": {"nothing to see"}}), http.StatusOK, "There is no key in this text")
	stranger := "hg_test_000000000000_000000000000000000000000000000002zIGxN"
	wants(t, c.Post("/leaks/find", url.Values{"text": {stranger}}), http.StatusOK, "not a key of this installation")
	wants(t, c.Post("/leaks/contain", url.Values{"kid": {kid}, "how": {"dance"}, "note": {"x"}}), http.StatusUnprocessableEntity, "how-"+kid+"-error")
	a := c.Post("/leaks/contain", url.Values{"kid": {kid}, "how": {"revoke"}, "note": {"in a chat"}})
	wants(t, a, http.StatusSeeOther)
	wants(t, c.Get(a.Header.Get("Location")), http.StatusOK, "Contained: refused on 3 of 3 gateways after", "revoked")
	wants(t, c.Post("/leaks/contain", url.Values{"kid": {"zzzzzzzzzzzz"}, "how": {"revoke"}, "note": {"x"}}), http.StatusNotFound)
	viewer := w.As(t, console.RoleViewer)
	if text := viewer.Post("/leaks/find", url.Values{"text": {secret}}).Text; strings.Contains(text, `action="/leaks/contain"`) {
		t.Error("a viewer is offered to contain")
	}
}

func TestLeaks_AnOperatorsTokenIsNamedAndRevoked(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	token := w.Tokens[console.RoleEditor]
	c := w.As(t, console.RoleOwner)
	a := c.Post("/leaks/find", url.Values{"text": {token}})
	wants(t, a, http.StatusOK, "API token of <b>editor</b>", `action="/leaks/token"`)
	if strings.Contains(a.Text, token[20:]) {
		t.Error("the page repeats the token")
	}
	wants(t, c.Post("/leaks/token", url.Values{"kid": {token[7:19]}}), http.StatusSeeOther)
	wants(t, c.Post("/leaks/find", url.Values{"text": {token}}), http.StatusOK, "It is refused already.")
}

func TestFind_LeadsToWhatWasTypedAndKeepsSecretsOutOfAddresses(t *testing.T) {
	t.Parallel()
	w, tenant, kid, secret := withKey(t)
	c := w.As(t, console.RoleViewer)
	for q, to := range map[string]string{"acme": "/tenants?q=acme", tenant.ID: "/tenants/" + tenant.ID, kid: "/keys/" + kid, "hg_live_" + kid + "_…": "/keys/" + kid,
		"v1": "/policy/versions/1", "": "/tenants", "rot_x": "/rotations/rot_x", "ABCDEFGHIJKL": "/tenants?q=ABCDEFGHIJKL",
		"Leaked keys": "/leaks", " overrides ": "/overrides", "new  tenant": "/tenants/new", "Boost acme": "/tenants/" + tenant.ID + "/boost", "keys of " + tenant.ID: "/tenants/" + tenant.ID + "/keys",
		"members of nobody": "/tenants?q=nobody", "boost": "/tenants?q=boost"} {
		a := c.Post("/find", url.Values{"q": {q}})
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != to {
			t.Errorf("%q leads to %d %q, want %q", q, a.StatusCode, a.Header.Get("Location"), to)
		}
	}
	a := c.Post("/find", url.Values{"q": {" " + secret}})
	wants(t, a, http.StatusOK, "Acme", "hg_live_"+kid+"_…")
	if strings.Contains(a.Text, secret[21:]) || strings.Contains(w.Log.String(), secret[21:]) || a.Header.Get("Location") != "" {
		t.Error("page, log or address repeats the secret")
	}
}
