package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/webtest"
)

func TestVersion_RollBackIsANewVersionWithTheOldContent(t *testing.T) {
	t.Parallel()
	e := edit(t)
	if _, err := e.Web.Policies.Publish(t.Context(), e.Actor(console.RoleOwner), []byte(strings.Replace(document, "6000/minute", "4000/minute", 1)), nil, 1, console.PublishOptions{Note: "tight"}); err != nil {
		t.Fatal(err)
	}
	page := e.owner.Get("/policy/versions/2").Text
	f := formOn(t, page, "/policy/versions/1/rollback")
	if a := e.owner.Post("/policy/versions/1/rollback", f); a.StatusCode != 422 {
		t.Errorf("without a note: %d", a.StatusCode)
	}
	f.Set("note", "too tight")
	if a := e.editor.Post("/policy/versions/1/rollback", f); a.StatusCode != 403 {
		t.Errorf("an editor rolls back: %d", a.StatusCode)
	}
	a := e.owner.Post("/policy/versions/1/rollback", f)
	if a.StatusCode != 303 || a.Header.Get("Location") != "/policy/versions/3" {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	if page := e.owner.Get("/policy/versions/3").Text; !strings.Contains(page, "rolls back to v1") || !strings.Contains(page, "3 of 3 enforce v3") {
		t.Errorf("page:\n%s", page)
	}
	list := e.owner.Get("/policy/versions").Text
	for _, want := range []string{"/policy/versions/1", "/policy/versions/2", "/policy/versions/3", "roll back to v1", "too tight"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	if a := e.owner.Get("/policy/versions/2/diff?against=1"); a.StatusCode != 200 || !strings.Contains(a.Text, "4000/minute") {
		t.Errorf("diff: %d", a.StatusCode)
	}
	for _, path := range []string{"/policy/versions/99", "/policy/versions/x", "/policy/versions/0", "/policy/versions/99/diff", "/policy/drafts/drf_aaaaaaaaaaaaaaaa"} {
		if a := e.owner.Get(path); a.StatusCode != 404 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func TestVersion_StatusTellsNACKsAndIsUnknownWithoutRedis(t *testing.T) {
	t.Parallel()
	e := edit(t)
	waitFor(t, func() bool {
		return strings.Contains(e.owner.Get("/policy/versions/1/status").Text, "3 of 3 enforce v1")
	})
	e.Feed.Freeze(&policy.NACK{Version: 2, Code: policy.NACKBadSignature, Detail: "no key made it <script>", Since: time.Now()})
	if _, err := e.Web.Policies.Publish(t.Context(), e.Actor(console.RoleOwner), []byte(strings.Replace(document, "6000/minute", "4000/minute", 1)), nil, 1, console.PublishOptions{Note: "x"}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		s := e.owner.Get("/policy/versions/2/status").Text
		return strings.Contains(s, "0 of 3 enforce v2") && strings.Contains(s, "bad-signature: no key made it &lt;script&gt;")
	})
	e.Feed.Down(true)
	waitFor(t, func() bool {
		begun := time.Now()
		a := e.owner.Get("/policy/versions/2")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the page waited %v for a dead Redis", took)
		}
		return a.StatusCode == 200 && strings.Contains(a.Text, "Redis cannot be asked") && !strings.Contains(a.Text, "0 of 0 enforce")
	})
	if a := e.owner.Get("/policy"); a.StatusCode != 200 {
		t.Errorf("reading the policy needs Redis: %d", a.StatusCode)
	}
}

func TestPolicyLive_ViewsAndExport(t *testing.T) {
	t.Parallel()
	e := edit(t)
	for _, path := range []string{"/policy?view=yaml", "/policy?view=json", "/policy/export?format=yaml", "/policy/export?format=json", "/policy/export?version=1"} {
		a := e.owner.Get(path)
		if a.StatusCode != 200 || !strings.Contains(a.Text, "everything") {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	a := e.owner.Get("/policy/export?format=yaml")
	if doc, report := policy.Parse([]byte(a.Text)); doc == nil || !strings.Contains(a.Header.Get("Content-Disposition"), `filename="policy-v1.yaml"`) {
		t.Errorf("export: %v", report)
	}
	live := e.owner.Get("/policy").Text
	for _, want := range []string{"closed, refuses with 503", "open, 200/minute per gateway", "300/minute, burst 60", "GET /v1/reports/{id}"} {
		if !strings.Contains(live, want) {
			t.Errorf("the live view lacks %q", want)
		}
	}
}

func TestPolicyLive_NothingPublishedGivesTheNextStep(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner := w.As(t, console.RoleOwner)
	a := owner.Get("/policy")
	if a.StatusCode != 200 || !strings.Contains(a.Text, "New draft") {
		t.Fatalf("%d", a.StatusCode)
	}
	for _, path := range []string{"/policy/versions", "/policy/drafts", "/audit"} {
		if a := owner.Get(path); a.StatusCode != 200 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	if a := owner.Get("/policy/export"); a.StatusCode != 404 {
		t.Errorf("export: %d", a.StatusCode)
	}
	a = owner.Post("/policy/drafts", formOn(t, a.Text, "/policy/drafts"))
	review := owner.Get(a.Header.Get("Location") + "/review")
	f := formOn(t, review.Text, a.Header.Get("Location")+"/publish")
	f.Set("note", "first")
	if a := owner.Post(a.Header.Get("Location")+"/publish", f); a.StatusCode != 303 || a.Header.Get("Location") != "/policy/versions/1" {
		t.Errorf("first publication: %d %s", a.StatusCode, a.Text)
	}
}

func TestAudit_ShowsBeforeAndAfterAndFilters(t *testing.T) {
	t.Parallel()
	e := edit(t)
	ten, err := e.Web.Tenants.Create(t.Context(), e.Actor(console.RoleOwner), console.NewTenant{Name: "<img src=x onerror=alert(1)>", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	pro := "pro"
	if _, err := e.Web.Tenants.Update(t.Context(), e.Actor(console.RoleOwner), ten.ID, console.TenantPatch{Plan: &pro}); err != nil {
		t.Fatal(err)
	}
	a := e.owner.Get("/audit?object=tenant")
	if a.StatusCode != 200 || !strings.Contains(a.Text, "<del>free</del>") || !strings.Contains(a.Text, "<ins>pro</ins>") || strings.Contains(a.Text, "<img src=x") {
		t.Errorf("%d\n%s", a.StatusCode, a.Text)
	}
	if strings.Contains(a.Text, "<code>policy.publish</code>") {
		t.Error("the filter lets other objects through")
	}
	if a := e.owner.Get("/audit?object=nothing"); !strings.Contains(a.Text, "No event fits") {
		t.Error("an empty filtered list does not say why")
	}
	seen := map[string]bool{}
	for next := "/audit?limit=50"; next != ""; {
		text := e.owner.Get(next).Text
		for _, m := range regexp.MustCompile(`<td class="num">(\d+)</td>`).FindAllStringSubmatch(text, -1) {
			seen[m[1]] = true
		}
		m := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(text)
		if next = ""; m != nil {
			next = unescape(m[1])
		}
	}
	if !seen["1"] {
		t.Errorf("paging never came to the first event: %v", seen)
	}
	if a := e.owner.Get("/audit?after=nonsense"); a.StatusCode != 422 {
		t.Errorf("a made-up cursor: %d", a.StatusCode)
	}
}

// hostileTexts are texts that run as script wherever they are not written as text.
func hostileTexts() []string {
	return []string{`"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `</textarea><script>alert(1)</script>`, `{{7*7}}${7*7}`, "\u202Etxt.exe", `" autofocus onfocus="alert(1)`}
}

func TestPages_HostileTextIsText(t *testing.T) {
	t.Parallel()
	e := edit(t)
	for i, bad := range hostileTexts() {
		a := e.editor.Post("/policy/drafts", url.Values{"name": {bad}})
		if a.StatusCode != 303 {
			continue // refused at the door is fine too
		}
		path := a.Header.Get("Location")
		src := strings.Replace(document, "apiVersion: headgate/v1", fmt.Sprintf("apiVersion: headgate/v1\ndescription: %q", bad), 1)
		f := formOn(t, e.editor.Get(path+"/source").Text, path+"/source")
		f.Set("source", src)
		e.editor.Post(path+"/source", f)
		p := formOn(t, e.owner.Get(path+"/review").Text, path+"/publish")
		p.Set("note", bad)
		e.owner.Post(path+"/publish", p)
		for _, page := range []string{"/policy", "/policy?view=yaml", "/policy/drafts", "/policy/versions", fmt.Sprintf("/policy/versions/%d", i+2), "/audit", path, path + "/review",
			"/audit?actor=" + url.QueryEscape(bad), "/signin?next=" + url.QueryEscape(bad)} {
			text := e.owner.Get(page).Text
			for _, raw := range []string{"<script>alert", "<img src=x", `" autofocus onfocus="alert`, `href="javascript:`} {
				if strings.Contains(text, raw) {
					t.Errorf("%s holds %q as markup", page, raw)
				}
			}
		}
	}
}
