package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/internal/testkit"
)

// Page is a tab of a real browser on the console.
type Page struct {
	t    testing.TB
	ctx  context.Context
	base string

	mu       sync.Mutex
	messages []string // what the browser complained about
	expected []int    // statuses that are no fault
}

// OpenBrowser starts a browser on the demo's console. At the end of the test
// there must be no complaint of the browser (a script that failed, something
// that the content security policy barred).
func OpenBrowser(t testing.TB, d *Demo) *Page {
	t.Helper()
	p := &Page{t: t, ctx: testkit.Browser(t), base: d.Console, expected: []int{422}} // a refused form is no fault
	if err := chromedp.Listen(p.ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, m := range p.messages {
			t.Errorf("the browser complains: %s", m)
		}
	})
	return p
}

func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		of := func(status int) bool { return strings.Contains(e.Entry.Text, strconv.Itoa(status)) }
		if e.Entry.Level == log.EntryLevelError && !slices.ContainsFunc(p.expected, of) {
			p.messages = append(p.messages, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		p.messages = append(p.messages, e.ExceptionDetails.Text)
	}
}

// Expect makes a status no fault, where something has to be refused.
func (p *Page) Expect(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, status)
}

// WithoutJavaScript turns scripts off for the pages that follow.
func (p *Page) WithoutJavaScript() {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.must(err, "turn scripts off")
}

func (p *Page) must(err error, what string) {
	p.t.Helper()
	if err == nil {
		return
	}
	if dir := os.Getenv("HEADGATE_E2E_SHOTS"); dir != "" {
		if b, shotErr := chromedp.Run(p.ctx, chromedp.FullScreenshot(100)); shotErr == nil {
			_ = os.WriteFile(filepath.Join(dir, "failed.png"), b, 0o600)
		}
	}
	text, _ := chromedp.Run(p.ctx, chromedp.Text(chromedp.CSS("body")))
	p.t.Fatalf("%s: %v; the page says:\n%s", what, err, text)
}

// Go opens a path of the console.
func (p *Page) Go(path string) {
	p.t.Helper()
	p.must(chromedp.Do(p.ctx, chromedp.Navigate(p.base+path)), "open "+path)
}

// Fill sets form fields by name, as typing and choosing would.
func (p *Page) Fill(fields map[string]string) {
	p.t.Helper()
	for name, value := range fields {
		selector := fmt.Sprintf(`main [name=%q]`, name)
		p.must(p.set(selector, value), "fill in "+name)
	}
}

// Press presses something that leads to no other page.
func (p *Page) Press(selector string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	p.must(chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector))), "press "+selector)
}

// Submit presses a button and waits for the page that follows.
func (p *Page) Submit(selector string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	// What the page before still loads can pass for the page that follows: so that
	// one is known by what it lacks.
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`window.pageBefore = true`))
	p.must(err, "mark the page before")
	res, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
	p.must(err, "press "+selector)
	p.Becomes(`!window.pageBefore && document.readyState === 'complete'`)
	if res != nil && res.Status >= 400 && !slices.Contains(p.expected, int(res.Status)) { // none when the page came from the cache
		p.must(fmt.Errorf("status %d", res.Status), "press "+selector)
	}
}

// Text is what an element says.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Text(chromedp.CSS(selector)))
	p.must(err, "read "+selector)
	return s
}

// Path is the path of the page.
func (p *Page) Path() string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Location())
	p.must(err, "ask where the browser is")
	return strings.TrimPrefix(strings.SplitN(strings.TrimPrefix(s, p.base), "?", 2)[0], "")
}

// Says waits until the page's main part, or its strip, holds a text. The page is
// not loaded again: with scripts on it has to move by itself.
func (p *Page) Says(text string) {
	p.t.Helper()
	quoted, err := json.Marshal(text)
	p.must(err, "quote")
	p.Becomes(fmt.Sprintf(`document.body.innerText.replace(/\s+/g,' ').includes(%s)`, quoted))
}

// Becomes waits until a JavaScript expression is true of the page.
func (p *Page) Becomes(expression string) {
	p.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(time.Until(deadline))))
		// A page that is being replaced takes the script's context with it.
		replaced := err != nil && (strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated"))
		if replaced && p.ctx.Err() == nil && time.Now().Before(deadline) {
			continue
		}
		p.must(err, "wait for "+expression)
		return
	}
}

// Shot keeps a picture of the page where HEADGATE_E2E_SHOTS names a folder.
func (p *Page) Shot(name string) {
	p.t.Helper()
	dir := os.Getenv("HEADGATE_E2E_SHOTS")
	if dir == "" {
		return
	}
	b, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	p.must(err, "take a picture")
	p.must(os.WriteFile(filepath.Join(dir, name+".png"), b, 0o600), "keep a picture")
}

// SignIn signs in as the demo's operator.
func (p *Page) SignIn(d *Demo) {
	p.t.Helper()
	p.Go("/")
	p.Fill(map[string]string{"email": d.Operator["email"], "password": d.Operator["password"]})
	p.Submit("main form button.primary")
	if got := p.Path(); got != "/overview" {
		p.t.Fatalf("signing in led to %s", got)
	}
}

// setIn sets a field of one form of the page, where several have that name.
func (p *Page) setIn(form, name, value string) {
	p.t.Helper()
	p.must(p.set(form+fmt.Sprintf(`[name=%q]`, name), value), "fill in "+name)
}

func (p *Page) set(selector, value string) error {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	return chromedp.Do(ctx, chromedp.WaitReady(chromedp.CSS(selector)), chromedp.SetValue(chromedp.CSS(selector), value))
}
