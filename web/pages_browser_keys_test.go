package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/console"
)

// press sends the form of a fold as a person does: unfold, type the reason, press.
func (b *browser) press(fold, reason string) {
	b.t.Helper()
	b.eval(`(() => { const d = document.getElementById('` + fold + `'); d.open = true; d.querySelector('[name=reason]').value = '` + reason + `'; d.querySelector('form').requestSubmit(); return ''; })()`)
}

func TestBrowser_RotationWizardToItsEnd(t *testing.T) {
	t.Parallel()
	w, tenant, kid, old := withKey(t)
	usedKey(w, kid)
	b := openBrowser(t, w)
	b.open("/tenants/" + tenant.ID + "/keys")
	b.eval(`document.querySelector('a[href$="/rotate"]').click(), ''`)
	b.becomes(`document.querySelector('.wizard [aria-current]')?.textContent === 'Reason and overlap' && document.body.innerText.includes('192.0.2.0/24')`)
	if err := chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#f-reason"), "yearly")); err != nil {
		t.Fatal(err)
	}
	b.eval(`document.querySelector('form.form').requestSubmit(), ''`)
	b.becomes(`!!document.querySelector('#secret') && document.body.innerText.includes('accepted on 3 of 3 gateways')`)
	fresh := b.eval(`document.querySelector('#secret').textContent`)
	if !secretOnPage.MatchString(fresh) || fresh == old || !strings.Contains(b.eval(`document.querySelector('#secret-env').textContent`), fresh) || !strings.Contains(b.eval(`document.querySelector('#secret-curl').textContent`), fresh) {
		t.Fatalf("the page shows %s", b.text())
	}
	b.eval(`document.querySelector('a.btn.primary').click(), ''`)
	b.becomes(`document.querySelector('.wizard [aria-current]')?.textContent === 'Watch who switches' && document.body.innerText.includes('not ready')`)
	if strings.Contains(b.text(), fresh) {
		t.Error("the secret is shown again")
	}
	last := w.Now()
	w.KeyUse.Set(console.KeyUse{KID: fresh[8:20], FirstUsedAt: &last, LastUsedAt: &last},
		console.KeySource{KID: fresh[8:20], Network: "192.0.2.0/24", Agent: "curl/8", FirstSeen: last, LastSeen: last, Requests: 3})
	b.press("end", "all have switched")
	b.becomes(`document.body.innerText.includes('The old key is ended: refused on 3 of 3 gateways after')`)
	if k, err := w.Web.Keys.Get(t.Context(), kid); err != nil || k.State != "expired" {
		t.Errorf("the old key is %s, %v", k.State, err)
	}
	b.quiet()
}

func TestBrowser_LeakedKeyFromTheSearchBoxToItsReplacement(t *testing.T) {
	t.Parallel()
	w, _, kid, secret := withKey(t)
	usedKey(w, kid)
	b := openBrowser(t, w)
	b.open("/keys")
	// A whole key that is pasted into the filter goes by POST, too.
	b.eval(`(() => { const q = document.querySelector('form.asks input[type=search]'); q.value = '` + secret + `'; q.form.requestSubmit(); return ''; })()`)
	b.becomes(`!!document.querySelector('form.contain')`)
	if at := b.eval(`location.href`); strings.Contains(at, secret[21:]) || strings.Contains(b.text(), secret[21:]) {
		t.Errorf("address or page has the secret: %s", at)
	}
	if page := b.text(); !strings.Contains(page, "Acme") || !strings.Contains(page, "192.0.2.0/24") || !strings.Contains(page, "1204 requests") {
		t.Fatalf("the page says %s", page)
	}
	b.eval(`(() => { const f = document.querySelector('form.contain'); f.querySelector('[name=note]').value = 'in a public repository'; f.requestSubmit(); return ''; })()`)
	b.becomes(`!!document.querySelector('#secret')`)
	if fresh := b.eval(`document.querySelector('#secret').textContent`); !secretOnPage.MatchString(fresh) || fresh == secret {
		t.Errorf("the new key is %q", fresh)
	}
	b.open("/leaks")
	if page := b.text(); !strings.Contains(page, kid) || !strings.Contains(page, "contained") {
		t.Errorf("the cases are %s", page)
	}
	b.quiet()
}

func TestBrowser_PagesOfKeysAndTenantsAreQuietAndNarrow(t *testing.T) {
	t.Parallel()
	w, tenant, kid, _ := withKey(t)
	usedKey(w, kid)
	actor := w.Actor(console.RoleOwner)
	if _, err := w.Web.Overrides.Boost(t.Context(), actor, tenant.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour, Reason: "launch"}); err != nil {
		t.Fatal(err)
	}
	k, err := w.Web.Keys.Get(t.Context(), kid)
	if err != nil {
		t.Fatal(err)
	}
	started, err := w.Web.Rotations.Start(t.Context(), actor, k.CredentialID, console.NewRotation{Overlap: 24 * time.Hour, Reason: "yearly"})
	if err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t, w)
	b.narrow()
	own := "/tenants/" + tenant.ID
	for _, path := range []string{"/tenants", own, own + "/keys", own + "/overrides", own + "/boost", own + "/override", own + "/override?limit=plan.requests", "/keys", "/keys/" + kid,
		"/rotations", "/rotations/" + started.Rotation.ID, "/leaks", "/overrides", "/bulk", "/bulk/new", "/bulk/new?kind=import-keys", "/bulk/new?kind=set-expiry&kids[]=" + kid} {
		b.open(path)
		if wide := b.eval(`document.documentElement.scrollWidth > 390 ? String(document.documentElement.scrollWidth) : ''`); wide != "" {
			t.Errorf("%s is %s wide at 390", path, wide)
		}
	}
	b.quiet()
}
