package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// incidentsOf asks the admin door.
func incidentsOf(t *testing.T, g *Gateway) []incident {
	t.Helper()
	res := serve(g.AdminHandler(), "GET", "/incidents")
	var body struct{ Incidents []incident }
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil || res.StatusCode != 200 {
		t.Fatalf("incidents: %d, %v", res.StatusCode, err)
	}
	return body.Incidents
}

// nobody has to find out by chance that the limits were not asked.
func TestIncidents_R040_AnOutageIsToldWhileItLastsAndKept(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	dir := t.TempDir()
	f := newFixture(t, testPolicy, nil, func(c *Config) {
		c.StateDir = dir
		c.Log = slog.New(slog.NewJSONHandler(&log, nil))
		c.StoreCause = func(error) string { return "down" }
	})
	key := f.key("ten_a", "free")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.g.keepState(ctx) }()
	if got := incidentsOf(t, f.g); len(got) != 0 || f.g.heartbeat(ratesOf(totals{}, totals{}, time.Second)).Cause != "" {
		t.Errorf("before: %+v", got)
	}
	f.store.fail(true)
	for range 5 {
		f.do("GET", "/v1/reports/1", bearer(key)...)
		f.do("POST", "/login")
	}
	got := incidentsOf(t, f.g)
	if len(got) != 1 || got[0].Cause != "down" || got[0].End != nil || got[0].Routes["login"].Refused != 5 || got[0].Admitted != 2 || got[0].Routes["report"].Admitted != 2 {
		t.Fatalf("during: %+v", got)
	}
	if b := f.g.heartbeat(ratesOf(totals{}, totals{}, time.Second)); b.Cause != "down" || b.Mode != "degraded" {
		t.Errorf("heartbeat %+v", b)
	}
	f.g.beat(t.Context(), policy.Heartbeat{})
	if r := f.g.readiness(); !r.Ready || r.Cause != "down" {
		t.Errorf("readiness %+v", r)
	}
	if n := counter(t, f.g, "headgate_degraded_total", "login", "closed", "down"); n != 5 {
		t.Errorf("%v degraded decisions of the closed route are counted", n)
	}
	f.g.onIncident(limiter.Incident{Start: got[0].Start, End: got[0].Start.Add(time.Minute), Cause: "down", Routes: map[string]limiter.IncidentCount{"login": {Refused: 5}}})
	stop()
	if err := <-ended; err == nil {
		t.Error("ended without its context")
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if n := strings.Count(log.String(), `"incident began`) + strings.Count(log.String(), `"incident ended`); n != 2 {
		t.Errorf("%d of %d lines are of the incident", n, len(lines))
	}
	kept, err := readIncidents(dir)
	if err != nil || len(kept) != 1 || kept[0].End == nil || kept[0].Refused != 5 {
		t.Fatalf("kept: %+v, %v", kept, err)
	}
	again := newFixture(t, testPolicy, nil, func(c *Config) { c.StateDir = dir })
	if got := incidentsOf(t, again.g); len(got) != 1 || got[0].Boot != f.g.cfg.Identity.Boot {
		t.Errorf("after a start: %+v", got)
	}
}

func TestIncidents_TheRecordIsBoundedAndSurvivesDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var list []incident
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 * keptIncidents {
		list = withIncident(list, incident{Start: start.Add(time.Duration(i) * time.Hour), Cause: fmt.Sprint(i), Boot: "b"})
	}
	if len(list) != keptIncidents || list[0].Cause != fmt.Sprint(3*keptIncidents-1) {
		t.Errorf("%d are kept, the newest %s", len(list), list[0].Cause)
	}
	if err := writeIncidents(dir, list); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, incidentsFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw = append([]byte("not JSON\n{}\n"), raw...)
	if err := os.WriteFile(file, append(raw, `{"start": "cut`...), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readIncidents(dir)
	if err != nil || len(got) != keptIncidents || got[0].Cause != list[0].Cause || got[keptIncidents-1].Cause != list[keptIncidents-1].Cause {
		t.Errorf("%d are read, %v", len(got), err)
	}
	if got, err := readIncidents(t.TempDir()); got != nil || err != nil {
		t.Errorf("an empty folder: %v, %v", got, err)
	}
	if err := writeIncidents(filepath.Join(dir, "nothing"), list); err == nil {
		t.Error("a folder that is not there takes a record")
	}
	if err := os.WriteFile(filepath.Join(dir, liveFile), []byte(`{"live": -3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := readLive(dir); n != 1 {
		t.Errorf("%d live replicas", n)
	}
}

func FuzzIncidents(f *testing.F) {
	f.Add([]byte(`{"start":"2026-01-01T00:00:00Z","end":null,"cause":"down","boot":"b"}` + "\n"))
	f.Add([]byte("{}\n\nnull\n[]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, incidentsFile), content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readIncidents(dir)
		if err != nil || len(got) > keptIncidents {
			t.Fatalf("%d incidents, %v", len(got), err)
		}
		for _, i := range got {
			if i.Start.IsZero() {
				t.Fatalf("one without a beginning: %+v", i)
			}
		}
	})
}
