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

// refuses lets the engine refuse everything by the plan's limit.
func refuses(w *webtest.World) {
	w.Probe.Answers(1, func(console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Version: 1, Status: 429, Code: "quota-exceeded", Reason: "limit", Deciding: 0, RetryAfter: 18 * time.Second, Limits: []console.ProbeLimit{
			{ID: "plan.requests", Kind: "rate", Limit: 6000, Window: time.Minute, Burst: 500, Violated: true, Wait: 18 * time.Second, Cost: 1, Source: "plan pro"}}}
	})
}

func TestExplain_TheSupportCallFromTheSearchToTheBoost(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	refuses(w)
	c := w.As(t, console.RoleSupport)
	wants(t, c.Post("/find/list", url.Values{"q": {"acm"}}), http.StatusOK, "Acme", `href="/explain?tenant=`+tenant.ID+`"`)
	page := c.Get("/explain?tenant=" + tenant.ID)
	wants(t, page, http.StatusOK, "Acme is refused", "clear in 18 s", "theirs", "500 of its burst of 500 used", "plan.requests", "Boost ×2 for 1 h", `name="back" value="explain"`, "Answer for the customer", "refuses")
	boost := c.Post("/tenants/"+tenant.ID+"/boost", url.Values{"limit": {"plan.requests"}, "factor": {"2000"}, "for": {"1h"}, "reason": {"call 4711"}, "back": {"explain"}})
	wants(t, boost, http.StatusSeeOther)
	if to := boost.Header.Get("Location"); !strings.HasPrefix(to, "/explain?tenant="+tenant.ID) {
		t.Errorf("it leads to %s", to)
	}
	wants(t, c.Get(boost.Header.Get("Location")), http.StatusOK, "Boosted", "call 4711", "12000/minute")
}

func TestExplain_WithoutScriptsAFormLeadsToItsOwnAddress(t *testing.T) {
	t.Parallel()
	w, tenant, kid, _ := withKey(t)
	c := w.As(t, console.RoleViewer)
	wants(t, c.Get("/explain"), http.StatusOK, `action="/explain"`, `name="q"`)
	for typed, place := range map[string]string{
		"Acme": "tenant=Acme", tenant.ID: "tenant=" + tenant.ID, kid: "key=" + kid, "hg_live_" + kid + "_…": "key=" + kid, "203.0.113.9": "ip=203.0.113.9",
		"ada@example.com": "account=ada%40example.com", "hgr1_abc": "receipt=hgr1_abc",
	} {
		a := c.Post("/explain", url.Values{"q": {typed}, "path": {"POST /v1/search"}})
		wants(t, a, http.StatusSeeOther)
		if to := a.Header.Get("Location"); !strings.Contains(to, place) || !strings.Contains(to, "path=POST+%2Fv1%2Fsearch") {
			t.Errorf("%q leads to %s", typed, to)
		}
		if page := c.Get(a.Header.Get("Location")); page.StatusCode != http.StatusOK || page.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%q: %d, %s", typed, page.StatusCode, page.Header.Get("Cache-Control"))
		}
	}
	a := c.Post("/explain", url.Values{"q": {"ada"}, "as": {"account"}})
	if to := a.Header.Get("Location"); to != "/explain?account=ada" {
		t.Errorf("an account that is named so leads to %s", to)
	}
	wants(t, c.Post("/explain", url.Values{"q": {" "}}), http.StatusUnprocessableEntity, `id="f-q-error"`)
	wants(t, c.Get("/explain?tenant=nobody"), http.StatusNotFound, `id="f-q-error"`, `value="nobody"`)
	wants(t, c.Get("/explain?tenant=Acme&ip=300.1.1.1"), http.StatusUnprocessableEntity, `id="f-ip-error"`)
	wants(t, c.Get("/explain?tenant=Acme&at=soon"), http.StatusUnprocessableEntity, `id="f-at-error"`)
	wants(t, c.Get("/explain?tenant=Acme&at=00:00"), http.StatusOK, "In the minute of 00:00 UTC")
}

func TestExplain_NothingOfAPastedKeyRemains(t *testing.T) {
	t.Parallel()
	w, _, kid, secret := withKey(t)
	refuses(w)
	for _, role := range []console.Role{console.RoleViewer, console.RoleSupport, console.RoleOwner} {
		c := w.As(t, role)
		a := c.Post("/explain", url.Values{"q": {" " + secret + " "}})
		wants(t, a, http.StatusOK, "Acme is refused", "hg_live_"+kid+"_…", "is accepted")
		if strings.Contains(a.Text, secret[21:]) || a.Header.Get("Location") != "" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the key comes back, or can be reloaded: %q", role, a.Header)
		}
		wrong := secret[:len(secret)-3] + "AAA"
		if a := c.Post("/explain", url.Values{"q": {wrong}}); strings.Contains(a.Text, wrong[21:]) || !strings.Contains(a.Text, "not copied whole") {
			t.Errorf("%s: a key that was copied badly comes back", role)
		}
		if a := c.Post("/find/list", url.Values{"q": {secret}}); strings.Contains(a.Text, secret[21:]) || strings.Contains(a.Text, "<li>") {
			t.Errorf("%s: the search suggests something for a key: %s", role, a.Text)
		}
		wants(t, c.Get("/explain?key="+secret), http.StatusUnprocessableEntity, "does not belong into an address")
	}
	if log := w.Log.String(); strings.Contains(log, secret[21:53]) {
		t.Error("the log has the secret")
	}
	for _, path := range []string{"/audit", "/keys/" + kid, "/explain"} {
		if page := w.As(t, console.RoleOwner).Get(path); strings.Contains(page.Text, secret[21:53]) {
			t.Errorf("%s has the secret", path)
		}
	}
	keyed := 0
	for _, q := range w.Probe.Asked() {
		if q.Key == secret {
			keyed++
		}
	}
	if keyed == 0 {
		t.Error("the engine was never shown the key itself")
	}
}

func TestExplain_ActsAreOfferedToWhoMay(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	refuses(w)
	viewer := w.As(t, console.RoleViewer).Get("/explain?tenant=" + tenant.ID)
	wants(t, viewer, http.StatusOK, "Acme is refused")
	if strings.Contains(viewer.Text, "Boost ×2") || strings.Contains(viewer.Text, "Reset the counter") {
		t.Error("a viewer is offered acts")
	}
	wants(t, w.As(t, console.RoleSupport).Get("/explain?tenant="+tenant.ID), http.StatusOK, "Boost ×2 for 1 h", "Reset the counter</a>")
	if a := w.Anonymous(t).Get("/explain?tenant=" + tenant.ID); a.StatusCode != http.StatusSeeOther {
		t.Errorf("a stranger gets %d", a.StatusCode)
	}
	if a := w.Anonymous(t).Post("/find/list", url.Values{"q": {"acme"}}); strings.Contains(a.Text, "Acme") {
		t.Error("a stranger is told of tenants")
	}
}

func TestFind_SuggestsAndLeadsToWhatWasTyped(t *testing.T) {
	t.Parallel()
	w, tenant, kid, _ := withKey(t)
	c := w.As(t, console.RoleOwner)
	for typed, texts := range map[string][]string{
		"explain acme": {"Explain<span", tenant.ID}, "why acme": {"Explain<span", tenant.ID}, "Why is ac": {tenant.ID}, "rotate ac": {tenant.ID}, kid: {"/keys/" + kid, "/explain?key=" + kid}, "203.0.113.9": {"/explain?ip=203.0.113.9"},
		"v1": {"/policy/versions/1"}, "hgr1_x": {"/explain?receipt=hgr1_x"}, "report": {"route"}, "publ": {"/policy/drafts"}, "ada@example.com": {"/explain?account=ada%40example.com"},
		"gatew": {"/gateways"},
	} {
		wants(t, c.Post("/find/list", url.Values{"q": {typed}}), http.StatusOK, append(texts, `id="found"`)...)
	}
	for _, nothing := range []string{"", "   ", "zzzz nothing", strings.Repeat("x", 400)} {
		if a := c.Post("/find/list", url.Values{"q": {nothing}}); a.StatusCode != http.StatusOK || strings.Contains(a.Text, "<li>") {
			t.Errorf("%q: %d %s", nothing, a.StatusCode, a.Text)
		}
	}
	for typed, place := range map[string]string{
		"hgr1_abc": "/explain?receipt=hgr1_abc", "2001:db8::1": "/explain?ip=2001%3Adb8%3A%3A1", "ada@example.com": "/explain?account=ada%40example.com",
		"explain acme": "/explain?tenant=acme", "why acme": "/explain?tenant=acme", "why is acme": "/explain?tenant=acme", "rotate acme": "/tenants/" + tenant.ID + "/keys", "publish": "/policy/drafts",
	} {
		if a := c.Post("/find", url.Values{"q": {typed}}); a.Header.Get("Location") != place {
			t.Errorf("%q leads to %s, want %s", typed, a.Header.Get("Location"), place)
		}
	}
}
