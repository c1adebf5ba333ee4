package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
)

// ramp are flags of a short one.
func ramp(url, route string, more ...string) []string {
	return append([]string{"knee", "--url", url, "--route", route, "--max-rps=40", "--start-rps=20", "--step=2", "--for=250ms", "--abort-p99=30s"}, more...)
}

func TestKnee_MeasuresAndStoresWhatARouteTakes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	const route = "everything"
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Accept") != "text/plain" || r.Header.Get("Authorization") != "Bearer s3cret" || r.URL.RawQuery != "q=1" {
			http.Error(w, "another request", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	key := filepath.Join(t.TempDir(), "key")
	put(t, key, "s3cret\n")
	status, out, errs := d.shells(ramp(server.URL+"/v1?q=1", route, "--header", "Accept: text/plain", "--key-file", key, "--note", "quiet")...)
	// A busy machine may find a knee of its own; what is promised is that it is stored.
	if status != 0 || !strings.Contains(out, "Stored for route "+route) || !strings.Contains(errs, "20.0/s") || asked.Load() < 5 {
		t.Fatalf("%d after %d requests:\n%s%s", status, asked.Load(), out, errs)
	}
	list, _, err := d.w.Web.Capacities.List(t.Context(), route, console.Page{})
	if err != nil || len(list) != 1 || list[0].Target != "GET "+server.URL+"/v1" || list[0].Note != "quiet" || list[0].Author != "owner" {
		t.Fatalf("%+v, %v", list, err)
	}
	if !strings.Contains(d.good("advisor", "capacities", "--route", route), server.URL) {
		t.Error("the list lacks it")
	}
	if !strings.Contains(d.good("advisor", "promises"), route) {
		t.Error("the promises lack the route")
	}
}

func TestKnee_LeavesABrokenServerAloneAndSaysSo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusBadGateway) }))
	defer server.Close()
	d.bad(1, "left alone", ramp(server.URL, "everything", "--for=10s")...)
	limited := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow", http.StatusTooManyRequests) }))
	defer limited.Close()
	d.bad(1, "nothing was measured", ramp(limited.URL, "everything", "--for=10s")...)
	if list, _, err := d.w.Web.Capacities.List(t.Context(), "", console.Page{}); err != nil || len(list) != 1 || list[0].Ended != "errors" || list[0].KneeMilli != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestKnee_AsksNobodyWhenItsResultCouldNotBeKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	d.bad(2, "no route", ramp(server.URL, "nothing")...)
	d.bad(1, "max RPS", append(ramp(server.URL, "x"), "--max-rps=0")...)
	d.bad(1, "--url", ramp("/v1", "x")...)
	d.bad(1, "--key-file", ramp(server.URL, "x", "--header", "Authorization: Bearer x")...)
	d.bad(1, "NAME: VALUE", ramp(server.URL, "x", "--header", "nothing")...)
	d.bad(1, "--body-file", ramp(server.URL, "x", "--body-file", filepath.Join(t.TempDir(), "none"))...)
	if asked.Load() != 0 {
		t.Errorf("a server was asked %d times for nothing", asked.Load())
	}
}

func TestKnee_WithoutStoringNeedsNoConsole(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var out, errs strings.Builder
	if status := run(ramp(server.URL, "x", "--no-store"), nil, &out, &errs); status != 0 || !strings.Contains(errs.String(), "requests a second") {
		t.Errorf("%d: %s%s", status, out.String(), errs.String())
	}
}

func TestAdvisor_FromAShell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	const route = "everything"
	at := d.w.Now().Add(-time.Hour)
	b := &decisionlog.Batch{Replica: "gw", Boot: "b", Seq: 1, From: at.UnixMicro(), To: at.UnixMicro(), Sample: decisionlog.Whole}
	tenant := strings.TrimSpace(d.good("tenant", "create", "Acme", "--plan", "free"))
	for i := range 7 {
		b.Entries = append(b.Entries, decisionlog.Entry{Kind: decisionlog.KindDecision, At: at.UnixMicro(), Order: int32(i), Seq: int64(i + 1), Tenant: tenant, Route: route, Cost: 1, Hits: 1, Allowed: true})
	}
	d.w.Decisions.Add(b)
	if err := d.w.Web.Advisor.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := d.good("advisor", "limits"); !strings.Contains(out, "plan.") {
		t.Errorf("limits:\n%s", out)
	}
	if out := d.good("advisor", "limits", "-o", "json"); !strings.Contains(out, `"rungs"`) {
		t.Errorf("limits as JSON:\n%s", out)
	}
	d.bad(2, "limit", "advisor", "try", "nothing", "--rate", "1/second")
}
