package portal_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/webtest"
)

// browser is a Chromium on a console of its own origin, and what its console said.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string

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
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Second}}
	srv.Start()
	t.Cleanup(srv.Close)
	b.ctx = testkit.Browser(t)
	if err := chromedp.Listen(b.ctx, func(event any) {
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
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// as signs the browser in with a session, by its cookie's name.
func (b *browser) as(name, id string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: id, URL: b.base}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Navigate(b.base+path)); err != nil {
		b.t.Fatalf("open %s: %v", path, err)
	}
}

func (b *browser) eval(js string) string {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return out
}

// screen sets width and colours.
func (b *browser) screen(width int64, scheme string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 844, DeviceScaleFactor: 1, Mobile: width < 600}); err != nil {
		b.t.Fatalf("set the screen: %v", err)
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		b.t.Fatalf("set the colours: %v", err)
	}
}

// lived is a tenant's world after some use: traffic, refusals, keys that are
// used and one that is rotated, members, asks and marks.
func lived(t *testing.T) (w *webtest.World, a console.Tenant, admin *webtest.Client, kid, rotation, credential string) {
	t.Helper()
	w, a, _ = world(t)
	admin = join(t, w, a, "kim@acme.example", console.RoleTenantAdmin)
	join(t, w, a, "lee@acme.example", console.RoleTenantViewer)
	wants(t, admin.Post("/t/members", url.Values{"email": {"new@acme.example"}, "role": {"tenant-viewer"}}), http.StatusCreated)
	kid = kidOf(create(t, admin, "backend"))
	list, err := w.Web.Keys.ListCredentials(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	credential = list[0].ID
	rotate := "/t/credentials/" + credential + "/rotate"
	made := admin.Post(rotate, url.Values{"overlap": {"24h"}, "reason": {"yearly"}, "token": {token(t, admin.Get(rotate))}})
	rotation = strings.TrimPrefix(rotationPath.FindString(made.Text), "/t/rotations/")
	create(t, admin, "mobile app")
	for _, form := range []url.Values{
		{"limit": {"plan.requests"}, "factor": {"1500"}, "for": {"168h"}, "why": {"the autumn sale"}},
		{"limit": {"route:report.reports"}, "factor": {"3000"}, "for": {"720h"}, "why": {"month-end reports"}},
	} {
		wants(t, admin.Post("/t/asks", form), http.StatusSeeOther)
	}
	wants(t, admin.Post("/t/alerts", url.Values{"kind": {"refused-share"}, "value": {"5"}}), http.StatusSeeOther)
	now := w.Now()
	batch := usage.Batch{Replica: "gw_1", Boot: "b", Seq: 1, Through: now.Unix()}
	for s := now.Unix() - 1800; s < now.Unix(); s++ {
		batch.Rows = append(batch.Rows, usage.Row{Second: s, Tenant: a.ID, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 3 + s%3, Cost: 60},
			usage.Row{Second: s, Tenant: a.ID, Route: "report", Outcome: usage.OutcomeLimited, Limit: "route:report.reports", Requests: s % 2})
	}
	w.Web.Activity.Live().Apply(batch)
	conn, err := pgx.Connect(t.Context(), w.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		"INSERT INTO key_use (kid, tenant_id, first_used_at, last_used_at, last_network, last_agent) VALUES ($1, $2, now() - interval '3 days', now() - interval '20 seconds', '192.0.2.0/24', 'okhttp/4.12')",
		"INSERT INTO key_sources (kid, tenant_id, network, agent, first_seen, last_seen, requests, limited, refused) VALUES ($1, $2, '192.0.2.0/24', 'okhttp/4.12', now() - interval '3 days', now(), 48213, 120, 0), ($1, $2, '2001:db8:7::/48', 'python-requests/2.32', now() - interval '2 days', now() - interval '3 hours', 912, 0, 0)",
	} {
		if _, err := conn.Exec(t.Context(), sql, kid, a.ID); err != nil {
			t.Fatal(err)
		}
	}
	last := now.Add(-20 * time.Second)
	w.KeyUse.Set(console.KeyUse{KID: kid, LastUsedAt: &last}, console.KeySource{KID: kid, Network: "192.0.2.0/24", Agent: "okhttp/4.12", FirstSeen: last, LastSeen: last, UsedAt: &last, Requests: 482})
	return w, a, admin, kid, rotation, credential
}

// HEADGATE_SHOTS names a folder that pictures of all pages are written to.
func TestPagesInABrowser_FitEachScreenAndComplainOfNothing(t *testing.T) {
	t.Parallel()
	w, a, admin, kid, rotation, credential := lived(t)
	invited, err := w.Web.Members.Invite(t.Context(), w.Actor(console.RoleOwner), a.ID, console.NewInvitation{Email: "pat@acme.example", Role: console.RoleTenantAdmin})
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := w.Web.Sessions.Create(t.Context(), w.Operators[console.RoleOwner], "127.0.0.1", "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t, w)
	query := url.QueryEscape("{ users(first: 10) { name } }")
	shown := map[string]string{
		"now": "/t", "usage": "/t/usage", "keys": "/t/keys", "key": "/t/keys/" + kid, "key-new": "/t/keys/new", "rotate": "/t/credentials/" + credential + "/rotate",
		"rotation": "/t/rotations/" + rotation, "limits": "/t/limits", "members": "/t/members", "asks": "/t/asks", "alerts": "/t/alerts",
		"try": "/t/try?method=POST&path=/graphql&query=" + query, "absent": "/t/keys/zzzzzzzzzzzz", "view-as": "/tenants/" + a.ID + "/view-as",
		"op-members": "/tenants/" + a.ID + "/members", "op-asks": "/asks", "op-portal": "/settings/portal",
	}
	doors := map[string]string{"signin": "/t/signin", "invite": "/t/invite/" + invited.Secret, "link": "/t/link/" + strings.Repeat("A", 26)}
	look := func(pages map[string]string) {
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.screen(width, scheme)
				for name, path := range pages {
					b.open(path)
					if wide := b.eval("document.documentElement.scrollWidth > innerWidth ? String(document.documentElement.scrollWidth) : ''"); wide != "" {
						t.Errorf("%s is %s wide at %d", path, wide, width)
					}
					b.shoot(name, width, scheme)
				}
			}
		}
	}
	look(doors)
	b.as("hgt", cookie(admin))
	b.as("headgate", id)
	look(shown)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
}

func (b *browser) shoot(name string, width int64, scheme string) {
	b.t.Helper()
	dir := os.Getenv("HEADGATE_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+"-"+scheme+"-"+map[int64]string{1280: "1280", 390: "390"}[width]+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Errorf("picture of %s: %v", name, err)
	}
}
