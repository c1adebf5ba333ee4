package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// NewOperator makes a further operator and returns how to sign in as them.
func (d *Demo) NewOperator(name, role string) map[string]string {
	d.t.Helper()
	const password = "a password of this test alone"
	email := strings.ToLower(name) + "@demo.example"
	cmd := exec.Command(binary, "user", "create", "--database-url="+d.Postgres, "--email="+email, "--name="+name, "--role="+role, "--password-file=-")
	cmd.Env, cmd.Stdin = []string{}, strings.NewReader(password)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("make the operator %s: %v: %s", name, err, out)
	}
	return map[string]string{"email": email, "password": password}
}

// SignInAs signs in as an operator that NewOperator made.
func (p *Page) SignInAs(who map[string]string) {
	p.t.Helper()
	p.Go("/")
	p.Fill(map[string]string{"email": who["email"], "password": who["password"]})
	p.Submit("main form button.primary")
	if got := p.Path(); got != "/overview" {
		p.t.Fatalf("signing in led to %s", got)
	}
}

// NewDraft begins a draft by its form and returns the path of its page.
func (p *Page) NewDraft(name string) string {
	p.t.Helper()
	p.Go("/policy/drafts")
	p.Fill(map[string]string{"name": name})
	p.Submit("main form button.primary")
	path := p.Path()
	if !strings.HasPrefix(path, "/policy/drafts/drf_") {
		p.t.Fatalf("beginning a draft led to %s", path)
	}
	return path
}

// SavePart opens a part of a draft, fills in fields and presses Save.
func (p *Page) SavePart(draft, part string, fields map[string]string) {
	p.t.Helper()
	p.Go(draft + "/parts/" + part)
	p.Fill(fields)
	p.Submit("#part button.primary")
}

// Type types into a field as a person does, over what stands in it. Unlike Fill
// it makes the events that the page's script listens to.
func (p *Page) Type(name, value string) {
	p.t.Helper()
	field := fmt.Sprintf(`main [name=%q]`, name)
	p.Becomes(fmt.Sprintf(`(() => { const f = document.querySelector('main [name=%q]'); f.focus(); f.select(); return true; })()`, name))
	p.must(chromedp.Do(p.ctx, chromedp.SendKeys(chromedp.CSS(field), value)), "type into "+name)
}

// Tick ticks a box that is not ticked.
func (p *Page) Tick(name string) {
	p.t.Helper()
	box := fmt.Sprintf(`main input[type=checkbox][name=%q]`, name)
	p.must(chromedp.Do(p.ctx, chromedp.SetAttributeValue(chromedp.CSS(box), "checked", "checked")), "tick "+name)
}

// Lacks fails the test when the page says something.
func (p *Page) Lacks(text string) {
	p.t.Helper()
	if said := p.said("body"); strings.Contains(said, text) {
		p.t.Errorf("the page %s says %q:\n%s", p.Path(), text, said)
	}
}

// Reloads waits until the page says a text, and loads it again until it does: for
// what changes without anybody's doing, where scripts are off or nothing is live.
func (p *Page) Reloads(path, text string) {
	p.t.Helper()
	eventually(p.t, startWithin, "the page says "+text, func() error {
		p.Go(path)
		if said := p.said("body"); !strings.Contains(said, text) {
			return fmt.Errorf("it says: %s", said)
		}
		return nil
	})
}

// Beside is the message beside a field, "" when there is none.
func (p *Page) Beside(name string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](
		fmt.Sprintf(`document.querySelector('main .field:has([name=%q]) .error')?.innerText ?? ''`, name)))
	p.must(err, "read what stands beside "+name)
	return s
}

// Post sends a form from the page that is open, with the reader's own session,
// and returns the status: what somebody could send whom the page gives no button.
func (p *Page) Post(path string, fields map[string]string) int {
	p.t.Helper()
	body, err := json.Marshal(fields)
	p.must(err, "write the fields")
	n, err := chromedp.Run(p.ctx, chromedp.Evaluate[int](
		fmt.Sprintf(`fetch(%q, {method: 'POST', redirect: 'manual', body: new URLSearchParams(%s)}).then(r => r.status)`, path, body), chromedp.EvalAwaitPromise))
	p.must(err, "post "+path)
	return n
}

// Shots keeps pictures of a page, wide and narrow, where HEADGATE_E2E_SHOTS names
// a folder.
func (p *Page) Shots(name string) {
	p.t.Helper()
	dir := os.Getenv("HEADGATE_E2E_SHOTS")
	if dir == "" {
		return
	}
	for _, width := range []int64{1280, 390} {
		_, err := chromedp.Call(p.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1})
		p.must(err, "set the width")
		b, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
		p.must(err, "take a picture")
		p.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, width)), b, 0o600), "keep a picture")
	}
	_, err := chromedp.Call(p.ctx, emulation.ClearDeviceMetricsOverride, cdp.Empty{})
	p.must(err, "set the width back")
}

// said is what an element says, in one line. Parts that are loaded anew meanwhile
// do not disturb it.
func (p *Page) said(selector string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ''`, selector)))
	p.must(err, "read "+selector)
	return oneLine(s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// digestOf is the digest of a version's document.
func (d *Demo) digestOf(version int) string {
	d.t.Helper()
	digest := str(d.MustAPI(http.StatusOK, http.MethodGet, fmt.Sprintf("/api/v1/policy/versions/%d", version), nil), "digest")
	if digest == "" {
		d.t.Fatalf("v%d has no digest", version)
	}
	return digest
}

// asks sends a number of requests with a key to one gateway after the other and
// returns how many were admitted.
func (d *Demo) asks(t *testing.T, n int, key, path string) (admitted int) {
	t.Helper()
	for i := range n {
		switch a := d.Hit(i%len(d.Gateways), key, path); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("gateway %d: status %d: %s", i%len(d.Gateways)+1, a.Status, a.Body)
		}
	}
	return admitted
}

// value is what stands in a field.
func (p *Page) value(name string) (string, error) {
	return chromedp.Run(p.ctx, chromedp.Value(chromedp.CSS(fmt.Sprintf(`main [name=%q]`, name))))
}

// confirmAll ticks all that a publication asks to be confirmed.
func (p *Page) confirmAll() {
	p.t.Helper()
	p.Becomes(`document.querySelector('main input[name^="confirm."]')`)
	for {
		n, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.querySelector('main input[type=checkbox][name^="confirm."]:not([checked])')?.name ?? ''`))
		p.must(err, "look for what is to be confirmed")
		if n == "" {
			return
		}
		p.Tick(n)
	}
}
