package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
)

// logged puts n admitted requests of a tenant, one each 100 ms and just ended,
// into the decision log.
func (e edited) logged(tenant string, n int) {
	from := e.Now().Add(-time.Duration(n) * 100 * time.Millisecond).UnixMicro()
	b := &decisionlog.Batch{Replica: "gw_a", Boot: "b", Seq: 1, Sample: decisionlog.Whole}
	for i := range n {
		b.Entries = append(b.Entries, decisionlog.Entry{Kind: decisionlog.KindDecision, At: from + int64(i)*100_000, Seq: int64(i + 1), Tenant: tenant,
			IP: "203.0.113.7", Method: "GET", Path: "/x", Route: "everything", Policy: 1, Cost: 1, Hits: 1, Allowed: true})
	}
	b.From, b.To = b.Entries[0].At, b.Entries[n-1].At
	e.Decisions.Add(b)
}

func TestSimulate_TellsWhoWouldBeRefusedByWhat(t *testing.T) {
	t.Parallel()
	e := edit(t)
	ten, err := e.Web.Tenants.Create(t.Context(), e.Actor(console.RoleOwner), console.NewTenant{Name: "Tern <b>& Sons", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	e.logged(ten.ID, 50)
	f := e.form(t, e.editor, "plan/free")
	f.Set("l0-count", "10")
	f.Set("l0-burst", "10")
	e.editor.Post(e.at("plan/free"), f)
	a := e.editor.Post(e.path+"/simulate", url.Values{"range": {"1h"}})
	if a.StatusCode != http.StatusSeeOther {
		t.Fatalf("start: %d %.600s", a.StatusCode, a.Text)
	}
	page := a.Header.Get("Location")
	waitFor(t, func() bool { return strings.Contains(e.editor.Get(page).Text, "What the draft would have done") })
	text := e.editor.Get(page).Text
	for _, want := range []string{"Newly refused", "Tern &lt;b&gt;&amp; Sons", "/tenants/" + ten.ID, "plan.requests", "everything", "Most in a minute"} {
		if !strings.Contains(text, want) {
			t.Errorf("the result lacks %q:\n%s", want, text[strings.Index(text, `id="trial"`):])
		}
	}
	if review := e.owner.Get(e.path + "/review").Text; !strings.Contains(review, "newly refused in 1 h") {
		t.Error("the review does not tell the simulation")
	}
	f = e.form(t, e.editor, "plan/pro")
	f.Set("l0-burst", "600")
	e.editor.Post(e.at("plan/pro"), f)
	if text := e.editor.Get(page).Text; !strings.Contains(text, "the draft has changed since") {
		t.Error("a result of an earlier text is not marked")
	}
}

func TestSimulate_ProgressIsPolledAndAnEmptyLogIsSaid(t *testing.T) {
	t.Parallel()
	e := edit(t)
	e.logged("", 20)
	release := e.Decisions.Hold()
	defer release()
	a := e.editor.Post(e.path+"/simulate", url.Values{"range": {"6h"}})
	page := e.editor.Get(a.Header.Get("Location")).Text
	if !strings.Contains(page, "Simulating: ") || !strings.Contains(page, `hx-trigger="every 1s"`) || !strings.Contains(page, `http-equiv="refresh"`) {
		t.Fatalf("a running simulation:\n%s", page)
	}
	_, poll, _ := strings.Cut(page[strings.Index(page, `id="trial"`):], `hx-get="`)
	poll, _, _ = strings.Cut(poll, `"`)
	if part := e.editor.Get(unescape(poll)); part.StatusCode != http.StatusOK || strings.Contains(part.Text, "<html") || !strings.Contains(part.Text, "Simulating: ") {
		t.Errorf("the polled part: %d", part.StatusCode)
	}
	release()
	waitFor(t, func() bool { return strings.Contains(e.editor.Get(unescape(poll)).Text, "Nobody would have noticed") })
	if a := e.editor.Get(strings.Replace(unescape(poll), e.draft, "drf_aaaaaaaaaaaaaaaa", 1)); a.StatusCode != http.StatusNotFound {
		t.Errorf("another draft's: %d", a.StatusCode)
	}
}

func TestSimulate_RangesThatAreNoneAreToldAtTheirFields(t *testing.T) {
	t.Parallel()
	e := edit(t)
	for _, c := range []struct{ span, from, to, field string }{
		{"", "", "", "range"}, {"-5h", "", "", "range"}, {"custom", "", "", "from"}, {"custom", "2026-11-30T14:00", "x", "to"},
		{"custom", "2026-11-30T14:00", "2026-11-30T13:00", "to"},
	} {
		a := e.editor.Post(e.path+"/simulate", url.Values{"range": {c.span}, "from": {c.from}, "to": {c.to}})
		if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-`+c.field+`-error"`) {
			t.Errorf("%+v: %d", c, a.StatusCode)
		}
	}
	viewer := e.As(t, console.RoleViewer)
	if a := viewer.Post(e.path+"/simulate", url.Values{"range": {"1h"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer simulates: %d", a.StatusCode)
	}
	if a := viewer.Get(e.path + "/simulate"); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "No simulation yet") {
		t.Errorf("a viewer looks: %d", a.StatusCode)
	}
}
