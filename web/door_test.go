package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/webtest"
)

func signInAs(t *testing.T, w *webtest.World, c *webtest.Client, next string) webtest.Answer {
	t.Helper()
	const email = "person@example.com"
	_, err := w.Web.Operators.Create(t.Context(), console.SystemActor(), console.NewOperator{Email: email, Name: "Person", Role: console.RoleViewer, Password: webtest.Password})
	if err != nil && console.CodeOf(err) != console.CodeConflict && console.CodeOf(err) != console.CodeInvalid {
		t.Fatal(err)
	}
	return c.Post("/signin", url.Values{"email": {email}, "password": {webtest.Password}, "next": {next}})
}

func TestSignIn_NewSessionAndAnOldIdIsNeverAdopted(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.Anonymous(t)
	planted := strings.Repeat("A", 26)
	c.Cookies = []*http.Cookie{{Name: "__Host-headgate", Value: planted}}
	a := signInAs(t, w, c, "/policy")
	if a.StatusCode != 303 || a.Header.Get("Location") != "/policy" {
		t.Fatalf("sign-in: %d %s", a.StatusCode, a.Header.Get("Location"))
	}
	var cookie *http.Cookie
	for _, k := range a.Cookies() {
		cookie = k
	}
	if cookie == nil || cookie.Name != "__Host-headgate" || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Fatalf("cookie = %+v", cookie)
	}
	if cookie.Value == planted || len(cookie.Value) < 26 {
		t.Errorf("the session has the planted id %q", cookie.Value)
	}
	old := w.Anonymous(t)
	old.Cookies = []*http.Cookie{{Name: "__Host-headgate", Value: planted}}
	if a := old.Get("/policy"); a.StatusCode != 303 || !strings.HasPrefix(a.Header.Get("Location"), "/signin") {
		t.Errorf("the planted id is signed in: %d", a.StatusCode)
	}
	// Signing in again gives another id and ends the one before.
	first := cookie.Value
	if a = signInAs(t, w, c, "/"); a.StatusCode != 303 {
		t.Fatalf("second sign-in: %d", a.StatusCode)
	}
	old.Cookies[0].Value = first
	if a := old.Get("/policy"); a.StatusCode != 303 {
		t.Errorf("the session before still works: %d", a.StatusCode)
	}
}

func TestSignOut_EndsTheSessionForGood(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.As(t, console.RoleViewer)
	copied := *c.Cookies[0]
	if a := c.Get("/policy"); a.StatusCode != 200 {
		t.Fatalf("signed in: %d", a.StatusCode)
	}
	a := c.Post("/signout", nil)
	if a.StatusCode != 303 || a.Header.Get("Clear-Site-Data") == "" {
		t.Errorf("sign-out: %d, Clear-Site-Data %q", a.StatusCode, a.Header.Get("Clear-Site-Data"))
	}
	replay := w.Anonymous(t)
	replay.Cookies = []*http.Cookie{&copied}
	if a := replay.Get("/policy"); a.StatusCode != 303 || a.Text != "" && strings.Contains(a.Text, "Draft") {
		t.Errorf("a signed-out cookie works: %d", a.StatusCode)
	}
	if a := replay.Post("/policy/drafts", url.Values{"name": {"x"}}); a.StatusCode != 401 {
		t.Errorf("a form of the signed-out: %d", a.StatusCode)
	}
}

func TestSession_EndsByIdlenessAndByAgeAndPollsDoNotProlongIt(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	idle, busy := w.As(t, console.RoleViewer), w.As(t, console.RoleViewer)
	for range 31 {
		w.Advance(time.Minute)
		idle.Header.Set("HX-Request", "true")
		idle.Get("/strip")
		busy.Get("/policy")
	}
	if a := idle.Get("/strip"); a.StatusCode != 401 || a.Header.Get("HX-Redirect") != "/signin" {
		t.Errorf("a session that only polls lives on: %d %v", a.StatusCode, a.Header)
	}
	if a := busy.Get("/policy"); a.StatusCode != 200 {
		t.Errorf("a session in use has ended: %d", a.StatusCode)
	}
	for range 12 * 4 {
		w.Advance(15 * time.Minute)
		busy.Get("/policy")
	}
	if a := busy.Get("/policy"); a.StatusCode != 303 {
		t.Errorf("a session is older than 12 hours: %d", a.StatusCode)
	}
}

func TestSession_RoleIsTheOneOnTheRowNow(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.As(t, console.RoleEditor)
	if a := c.Post("/policy/drafts", url.Values{"name": {"mine"}}); a.StatusCode != 303 {
		t.Fatalf("editor: %d", a.StatusCode)
	}
	op := w.Operators[console.RoleEditor]
	owner := w.Actor(console.RoleOwner)
	if err := w.Web.Operators.SetRole(t.Context(), owner, op.ID, console.RoleViewer); err != nil {
		t.Fatal(err)
	}
	// A change of role may end the session or narrow it; it never lets it be.
	if a := c.Post("/policy/drafts", url.Values{"name": {"mine 2"}}); a.StatusCode != 403 && a.StatusCode != 401 {
		t.Errorf("demoted: %d", a.StatusCode)
	}
	c = w.As(t, console.RoleEditor)
	if err := w.Web.Operators.Disable(t.Context(), owner, op.ID); err != nil {
		t.Fatal(err)
	}
	if a := c.Get("/policy"); a.StatusCode != 303 {
		t.Errorf("disabled: %d", a.StatusCode)
	}
}

func TestSessions_OthersAreListedAndEnded(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	here, there := w.As(t, console.RoleViewer), w.As(t, console.RoleViewer)
	if a := here.Get("/settings/sessions"); a.StatusCode != 200 || strings.Count(a.Text, "192.0.2.1") != 2 {
		t.Errorf("list: %d\n%s", a.StatusCode, a.Text)
	}
	if a := here.Post("/settings/sessions/end-others", nil); a.StatusCode != 303 {
		t.Fatalf("end others: %d", a.StatusCode)
	}
	if a := there.Get("/policy"); a.StatusCode != 303 {
		t.Errorf("the other browser is still in: %d", a.StatusCode)
	}
	if a := here.Get("/settings/sessions"); !strings.Contains(a.Text, "1 other session ended") {
		t.Error("the flash is not shown")
	}
	if a := here.Get("/settings/sessions"); strings.Contains(a.Text, "ended.") {
		t.Error("the flash is shown twice")
	}
}

func TestSignIn_WrongPasswordSaysNothingAboutTheAccount(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	signInAs(t, w, w.Anonymous(t), "/")
	var texts []string
	for _, email := range []string{"person@example.com", "nobody@example.com"} {
		a := w.Anonymous(t).Post("/signin", url.Values{"email": {email}, "password": {"wrong password"}, "next": {"/"}})
		if a.StatusCode != 422 || strings.Contains(a.Text, "wrong password") {
			t.Errorf("%s: %d", email, a.StatusCode)
		}
		texts = append(texts, strings.ReplaceAll(a.Text, email, "EMAIL"))
	}
	if texts[0] != texts[1] {
		t.Error("known and unknown accounts are answered differently")
	}
}

func TestSignIn_GuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	for range 12 {
		a := w.Anonymous(t).Post("/signin", url.Values{"email": {"person@example.com"}, "password": {"wrong password"}})
		if a.StatusCode == 429 {
			if a.Header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			return
		}
	}
	t.Error("12 guesses at one account were all evaluated")
}

func TestNext_OnlyPathsOfOurs(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	for _, next := range []string{
		"//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/%2f%2fevil.example/..", "/a\r\nSet-Cookie: x=1",
		"/@evil.example", "///evil.example", "/%5cevil.example", "\\\\evil.example", "evil.example", "http:evil.example", "/\tevil.example",
		"/%0d%0aX: y", "//user@evil.example", "/.//evil.example", "/x#//evil", "/пример", "", "/%09/evil.example", "/%2F/evil.example",
	} {
		a := w.As(t, console.RoleViewer).Get("/signin?next=" + url.QueryEscape(next))
		loc := a.Header.Get("Location")
		if a.StatusCode != 303 || !strings.HasPrefix(loc, "/") || strings.HasPrefix(loc, "//") || strings.Contains(loc, "evil") && strings.Contains(loc, "%2f%2f") {
			t.Errorf("next=%q leads to %d %q", next, a.StatusCode, loc)
		}
		if u, err := url.Parse(loc); err != nil || u.Host != "" || strings.HasPrefix(u.Path, "//") || strings.HasPrefix(u.Path, "/\\") {
			t.Errorf("next=%q leads to %q", next, loc)
		}
	}
	a := w.As(t, console.RoleViewer).Get("/signin?next=" + url.QueryEscape("/tenants?q=a&plan=free"))
	if a.Header.Get("Location") != "/tenants?q=a&plan=free" {
		t.Errorf("a good path is lost: %q", a.Header.Get("Location"))
	}
}

func TestHost_AnotherNameIs421AndNeverEchoed(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.Anonymous(t)
	c.Header.Set("X-Forwarded-Host", "evil.example")
	if a := c.Get("/signin"); a.StatusCode != 200 || strings.Contains(a.Text+fmt.Sprint(a.Header), "evil.example") {
		t.Errorf("X-Forwarded-Host: %d", a.StatusCode)
	}
	for _, host := range []string{"evil.example", "console.example:444", "console.example.evil.example", "127.0.0.1", ""} {
		c := w.Anonymous(t)
		c.Header["Host"] = []string{host}
		a := c.Get("/signin?next=/policy")
		if a.StatusCode != 421 || strings.Contains(a.Text+fmt.Sprint(a.Header), "evil") {
			t.Errorf("Host %q: %d", host, a.StatusCode)
		}
	}
	for _, host := range []string{"console.example:443", "CONSOLE.example"} {
		c := w.Anonymous(t)
		c.Header["Host"] = []string{host}
		if a := c.Get("/signin"); a.StatusCode != 200 {
			t.Errorf("Host %q: %d", host, a.StatusCode)
		}
	}
}

func TestHost_LoopbackNamesAreOneConsole(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	d := w.Web
	d.PublicURL, d.SecureCookies = "http://127.0.0.1:8480", false
	h, err := web.New(d)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	for host, want := range map[string]int{"localhost:8480": 200, "127.0.0.1:8480": 200, "[::1]:8480": 200, "localhost:9999": 421, "evil.example:8480": 421} {
		c := w.Anonymous(t)
		c.Header["Host"] = []string{host}
		if a := c.Get("/signin"); a.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, a.StatusCode, want)
		} else if a.Header.Get("Strict-Transport-Security") != "" {
			t.Error("HSTS over plain HTTP")
		}
	}
}

func TestCrossSite_OnlyOurOwnPagesChangeAnything(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	origins := map[string]string{"same": webtest.Origin, "evil": "https://evil.example", "null": "null", "http twin": "http://console.example", "other port": "https://console.example:8443", "absent": ""}
	sites := []string{"same-origin", "same-site", "cross-site", "none", ""}
	targets := []string{"/policy/drafts", "/policy/drafts/drf_x/publish", "/settings/sessions/end-others", "/signin", "/signout", "/tenants"}
	for name, origin := range origins {
		for _, site := range sites {
			for _, target := range targets {
				c := w.As(t, console.RoleOwner)
				if origin != "" {
					c.Header.Set("Origin", origin)
				}
				if site != "" {
					c.Header.Set("Sec-Fetch-Site", site)
				}
				a := c.Do("POST", target, "application/x-www-form-urlencoded", strings.NewReader("name="))
				passes := (site == "same-origin" || site == "") && (name == "same" || name == "absent") || site == "same-origin" && name == "null"
				if refused := a.StatusCode == 403 && strings.Contains(a.Text, "another site"); refused == passes {
					t.Errorf("POST %s with Origin %s, Sec-Fetch-Site %q: %d", target, name, site, a.StatusCode)
				}
			}
		}
	}
	if drafts, err := w.Web.Policies.ListDrafts(context.Background()); err != nil || len(drafts) != 0 {
		t.Errorf("%d drafts, %v", len(drafts), err)
	}
}

func TestHeaders_EveryAnswerCarriesThem(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner, viewer, nobody := w.As(t, console.RoleOwner), w.As(t, console.RoleViewer), w.Anonymous(t)
	foreign := w.Anonymous(t)
	foreign.Header["Host"] = []string{"evil.example"}
	big := strings.NewReader("source=" + strings.Repeat("a", 9<<20))
	for want, a := range map[int]webtest.Answer{
		200: owner.Get("/policy"), 303: nobody.Get("/policy"), 400: owner.Post("/policy/drafts", url.Values{"name": {"a", "b"}}),
		401: nobody.Post("/policy/drafts", nil), 403: viewer.Post("/policy/drafts", url.Values{"name": {"x"}}), 404: owner.Get("/no/such/page"),
		405: owner.Do("TRACE", "/policy", "", http.NoBody), 413: owner.Do("POST", "/policy/drafts", "application/x-www-form-urlencoded", big),
		421: foreign.Get("/"), 422: owner.Post("/policy/drafts", url.Values{"name": {""}}),
	} {
		if a.StatusCode != want {
			t.Errorf("status %d, want %d", a.StatusCode, want)
		}
		h := a.Header
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
			if h.Get(name) != value {
				t.Errorf("%d: %s is %q", want, name, h.Get(name))
			}
		}
		csp := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "require-trusted-types-for 'script'") {
			t.Errorf("%d: CSP %q", want, csp)
		}
		if !strings.Contains(h.Get("Strict-Transport-Security"), "max-age=63072000") || h.Get("Permissions-Policy") == "" || len(h.Get("X-Request-Id")) != 26 {
			t.Errorf("%d: headers %v", want, h)
		}
		if h.Get("Server") != "" || h.Get("X-Powered-By") != "" {
			t.Errorf("%d: a banner", want)
		}
	}
}

func TestHeaders_PlainHTTPForOthersKeepsFormsUsable(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	for public, want := range map[string]string{"http://10.0.0.7:8480": "same-origin", "http://localhost:8480": "no-referrer", "https://10.0.0.7": "no-referrer"} {
		d := w.Web
		d.PublicURL = public
		h, err := web.New(d)
		if err != nil {
			t.Fatal(err)
		}
		w.Handler = h
		c := w.Anonymous(t)
		_, host, _ := strings.Cut(public, "://")
		c.Header["Host"] = []string{host}
		if got := c.Get("/signin").Header.Get("Referrer-Policy"); got != want {
			t.Errorf("%s: %q, want %q", public, got, want)
		}
	}
}

func TestRequestID_InboundOneIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.Anonymous(t)
	c.Header.Set("X-Request-Id", "abcdefgh12345678")
	if got := c.Get("/signin").Header.Get("X-Request-Id"); got == "abcdefgh12345678" || got == "" {
		t.Errorf("request id %q", got)
	}
}

func TestStatic_IsCachedAndNeedsNoSession(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	page := w.Anonymous(t).Get("/signin").Text
	i := strings.Index(page, "/static/app.")
	if i < 0 {
		t.Fatal("no style sheet on the page")
	}
	path := page[i : i+strings.Index(page[i:], `"`)]
	a := w.Anonymous(t).Get(path)
	if a.StatusCode != 200 || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("%s: %d %v", path, a.StatusCode, a.Header)
	}
	if a := w.Anonymous(t).Get("/static/../server.go"); a.StatusCode != 404 {
		t.Errorf("outside of static: %d", a.StatusCode)
	}
}

func TestNew_SaysEverythingThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := web.New(web.Deps{})
	for _, want := range []string{"Tenants", "Policies", "Sessions", "Log", "Now"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	w := webtest.New(t)
	d := w.Web
	for _, bad := range []string{"", "console.example", "ftp://x", "https://x/path"} {
		d.PublicURL = bad
		if _, err := web.New(d); err == nil {
			t.Errorf("public URL %q was taken", bad)
		}
	}
}

func TestHead_IsGetWithoutABody(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	if a := w.As(t, console.RoleViewer).Do("HEAD", "/policy", "", http.NoBody); a.StatusCode != 200 {
		t.Errorf("HEAD /policy: %d", a.StatusCode)
	}
}

func TestForms_CompressedAndUnreadableBodiesAreRefused(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.As(t, console.RoleOwner)
	c.Header.Set("Sec-Fetch-Site", "same-origin")
	if a := c.Do("POST", "/policy/drafts", "application/x-www-form-urlencoded", strings.NewReader("name=%zz")); a.StatusCode != 400 {
		t.Errorf("broken escape: %d", a.StatusCode)
	}
	c.Header.Set("Content-Encoding", "gzip")
	if a := c.Do("POST", "/policy/drafts", "application/x-www-form-urlencoded", strings.NewReader("name=x")); a.StatusCode != 415 {
		t.Errorf("compressed: %d", a.StatusCode)
	}
}

func TestHealthz_AnswersByAnyName(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.Anonymous(t)
	c.Header["Host"] = []string{"10.0.0.7:8480"}
	if a := c.Get("/healthz"); a.StatusCode != 200 || a.Text != "ok\n" {
		t.Errorf("%d %q", a.StatusCode, a.Text)
	}
}
