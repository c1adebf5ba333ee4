package web_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/webtest"
)

// browser is a Chromium that an owner is signed in with, on a console of its
// own origin. complaints are what the browser's console and its security log
// said: refused scripts and styles, exceptions.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string
	srv  *httptest.Server

	mu         sync.Mutex
	complaints []string
}

func openBrowser(t *testing.T, w *webtest.World) *browser {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, base: "http://" + l.Addr().String()}
	d := w.Web
	d.PublicURL, d.SecureCookies = b.base, false
	h, err := web.New(d)
	if err != nil {
		t.Fatal(err)
	}
	b.srv = &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Second}}
	b.srv.Start()
	t.Cleanup(b.srv.Close)
	b.ctx = testkit.Browser(t)
	if err := chromedp.Listen(b.ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	id, _, err := w.Web.Sessions.Create(t.Context(), w.Operators[console.RoleOwner], "127.0.0.1", "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{Name: "headgate", Value: id, URL: b.base}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Source != "network" { // answers of 4xx are told there too
			b.complaints = append(b.complaints, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	}
}

func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the browser complains: %q", b.complaints)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(b.base+path)); err != nil {
		b.t.Fatalf("open %s: %v", path, err)
	}
}

func (b *browser) eval(script string) string {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script))
	if err != nil {
		b.t.Fatalf("evaluate %s: %v", script, err)
	}
	return v
}

// becomes waits until the page's own script says so, over any change of page.
func (b *browser) becomes(condition string) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		if yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](condition)); err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("%s did not come about; the page says %.2000s", condition, b.text())
		}
	}
}

func (b *browser) text() string { return b.eval(`document.body.innerText`) }

func TestBrowser_OpenPageTurnsRedAndBackWithRedis(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	b := openBrowser(t, w)
	b.open("/tenants")
	b.becomes(`document.querySelector('#facts').dataset.health === 'ok'`)
	ok := b.eval(`getComputedStyle(document.querySelector('.strip')).backgroundColor`)
	w.Feed.Down(true)
	b.becomes(`document.querySelector('#facts').dataset.health === 'bad' && document.querySelector('#alarm').innerText.includes('Redis is unreachable')`)
	if bad := b.eval(`getComputedStyle(document.querySelector('.strip')).backgroundColor`); bad == ok {
		t.Errorf("the strip keeps its colour %s", ok)
	}
	w.Feed.Down(false)
	b.becomes(`document.querySelector('#facts').dataset.health === 'ok' && document.querySelector('#alarm').innerText === ''`)
	b.quiet()
}

func TestBrowser_OpenPageSaysWhenTheConsoleDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	b := openBrowser(t, w)
	b.open("/keys")
	b.becomes(`document.querySelector('#facts').dataset.health === 'ok'`)
	if err := b.srv.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	b.srv.CloseClientConnections()
	b.becomes(`document.querySelector('#offline')?.innerText.includes('has not answered since') && document.querySelector('.strip').hasAttribute('data-offline')`)
}

func TestBrowser_OpenPageKeepsWhatItShowsWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	b := openBrowser(t, w)
	b.open("/overview")
	b.becomes(`document.querySelector('#facts b') !== null`)
	shutDatabase(t, w.DSN)
	b.becomes(`document.body.innerText.includes('PostgreSQL, has not answered since')`)
	b.becomes(`document.querySelector('#facts b') !== null && document.querySelector('.fault') === null`)
	b.quiet()
}

func TestBrowser_KeyIsShownOnceAlsoOnReloadAndBack(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	b := openBrowser(t, w)
	b.open("/tenants/" + tenant.ID + "/keys/new")
	if err := chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#f-name"), "backend")); err != nil {
		t.Fatal(err)
	}
	b.eval(`(() => { const f = document.querySelector('form.form'); f.requestSubmit(); f.requestSubmit(); return ''; })()`)
	b.becomes(`!!document.querySelector('#secret')`)
	secret := b.eval(`document.querySelector('#secret').textContent`)
	if !secretOnPage.MatchString(secret) || !strings.Contains(b.text(), "accepted on 3 of 3 gateways") {
		t.Fatalf("the page says %s", b.text())
	}
	b.open("/keys")
	if err := chromedp.Do(b.ctx, chromedp.NavigateBack()); err == nil { // Chromium may refuse to send the form again
		if strings.Contains(b.text(), secret) {
			t.Error("going back shows the secret again")
		}
	}
	list, err := w.Web.Keys.ListCredentials(t.Context(), tenant.ID)
	if err != nil || len(list) != 1 {
		t.Errorf("%d credentials from a double submission, %v", len(list), err)
	}
	b.quiet()
}

func TestBrowser_OverviewMovesAndHostileNamesDoNothing(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	bad, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: hostile, ExternalID: hostile, Plan: "pro", TimeZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t, w)
	b.open("/overview")
	b.becomes(`document.querySelector('#live').innerText.includes('who is refused is unknown')`)
	used(w, bad.ID, 1, 2)
	b.becomes(`document.querySelector('#live').innerText.includes('onerror=window.__xss=1') && document.querySelector('#live').innerText.includes('route:report.reports')`)
	b.open("/tenants/" + bad.ID)
	b.eval(`(() => { document.querySelector('#usage details').open = true; document.querySelector('#usage').mark = 1; return ''; })()`)
	was := b.eval(`document.querySelector('#usage .src').innerText`)
	b.becomes(`document.querySelector('#usage .src').innerText !== ` + "`" + was + "`")
	if kept := b.eval(`String(document.querySelector('#usage details').open)`); kept != "true" {
		t.Error("what was unfolded is folded by the next poll")
	}
	for _, path := range []string{"/tenants", "/tenants/" + bad.ID, "/tenants/" + bad.ID + "/audit", "/tenants/" + bad.ID + "/view-as", "/audit"} {
		b.open(path)
		if !strings.Contains(b.text(), "onerror=window.__xss=1") {
			t.Errorf("%s does not show the name", path)
		}
		if ran := b.eval(`String(window.__xss)`); ran != "undefined" {
			t.Errorf("%s ran the name", path)
		}
	}
	b.quiet()
}

func TestBrowser_NarrowPagesDoNotScrollSideways(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	b := openBrowser(t, w)
	used(w, tenant.ID, 3, 1)
	for _, path := range []string{"/overview", "/tenants", "/tenants/" + tenant.ID, "/tenants/new", "/keys", "/gateways", "/rotations", "/tenants/" + tenant.ID + "/view-as", "/policy", "/policy/versions", "/policy/versions/1", "/routes?request=GET+/v1/reports/7&tenant=pro", "/plans", "/policy/reviews", "/settings/rules", "/policy/adopt", "/audit"} {
		b.narrow()
		b.open(path)
		if wide := b.eval(`document.documentElement.scrollWidth > 390 ? String(document.documentElement.scrollWidth) : ''`); wide != "" {
			t.Errorf("%s is %s wide at 390", path, wide)
		}
	}
	b.quiet()
}

// draftOf makes a draft from the version in force and returns its address.
func draftOf(t *testing.T, w *webtest.World) string {
	t.Helper()
	d, err := w.Web.Policies.CreateDraft(t.Context(), w.Actor(console.RoleOwner), "change", nil)
	if err != nil {
		t.Fatal(err)
	}
	return "/policy/drafts/" + d.ID
}

func TestBrowser_PagesOfADraftAreQuietAndNarrow(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	b := openBrowser(t, w)
	path := draftOf(t, w)
	b.narrow()
	for _, page := range []string{"", "?show=changed", "/parts/general", "/parts/plan/pro", "/parts/route/report", "/source", "/tests", "/simulate", "/review", "/import"} {
		b.open(path + page)
		b.becomes(`document.documentElement !== null && document.readyState === 'complete'`)
		if wide := b.eval(`document.documentElement.scrollWidth > 390 ? String(document.documentElement.scrollWidth) : ''`); wide != "" {
			t.Errorf("%s is %s wide at 390", page, wide)
		}
	}
	b.quiet()
}

// typed puts a value into a field as keys do.
func (b *browser) typed(field, value string) {
	b.t.Helper()
	b.eval(`(() => { const f = document.querySelector('[name="` + field + `"]'); f.value = '` + value + `'; f.dispatchEvent(new Event('input', { bubbles: true })); return ''; })()`)
}

func TestBrowser_PartIsSavedWhileOneTypesAndSaysWhatItCannotSave(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	b := openBrowser(t, w)
	path := draftOf(t, w)
	rate := func() string {
		d, err := w.Web.Policies.GetDraft(t.Context(), strings.TrimPrefix(path, "/policy/drafts/"))
		if err != nil {
			t.Fatal(err)
		}
		return d.Source
	}
	b.open(path + "/parts/plan/pro")
	b.typed("l0-count", "4321")
	b.becomes(`document.querySelector('#autosave').textContent.startsWith('saved ')`)
	if !strings.Contains(rate(), "4321/minute") {
		t.Fatalf("the page says saved, stored is\n%s", rate())
	}
	b.typed("l0-count", "1,000")
	b.becomes(`document.querySelector('#f-l0-count-error')?.textContent.includes('1000') && document.querySelector('#f-l0-count').getAttribute('aria-invalid') === 'true'`)
	b.becomes(`document.querySelector('#autosave').textContent.startsWith('not saved')`)
	if !strings.Contains(rate(), "4321/minute") || b.eval(`document.querySelector('#f-l0-count').value`) != "1,000" {
		t.Error("what cannot be read was stored, or is gone from the form")
	}
	b.typed("l0-count", "1000")
	b.becomes(`document.querySelector('#autosave').textContent.startsWith('saved ') && !document.querySelector('#f-l0-count-error')`)
	// Somebody else saves: both values are shown, and no further key sends anything.
	id := strings.TrimPrefix(path, "/policy/drafts/")
	d, err := w.Web.Policies.GetDraft(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Web.Policies.SaveDraft(t.Context(), w.Actor(console.RoleEditor), id, d.ETag, []byte(strings.Replace(d.Source, "1000/minute", "2222/minute", 1))); err != nil {
		t.Fatal(err)
	}
	b.typed("l0-count", "3333")
	b.becomes(`document.querySelector('#conflict').innerText.includes('2222') && document.querySelector('#conflict').innerText.includes('3333')`)
	b.typed("l0-count", "3334")
	if b.eval(`document.querySelector('#autosave').textContent`) == "not saved yet" {
		t.Error("after a lost race the script goes on saving")
	}
	if !strings.Contains(rate(), "2222/minute") {
		t.Error("the other's value is lost")
	}
	b.quiet()
}

func (b *browser) narrow() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1, Mobile: true}); err != nil {
		b.t.Fatalf("narrow the screen: %v", err)
	}
}
