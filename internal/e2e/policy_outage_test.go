package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPolicy_C05_EmergencyPublishByThePageWithoutRedis changes a fail mode while
// Redis is dead, by the pages. The gateways fetch it from the console over HTTP,
// the page claims nothing before they enforce it and says how it knows, and when
// Redis comes back empty nothing goes back.
func TestPolicy_C05_EmergencyPublishByThePageWithoutRedis(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	p := OpenBrowser(t, d)
	p.SignIn(d)
	d.Publish(document(60, 60))
	known := quiet(t, d, "free")
	for i := range d.Gateways {
		acceptedAt(t, d, i, known.Key)
	}
	d.Kill(d.Processes.Redis)
	for i := range d.Gateways {
		answersWith(t, d, i, known.Key, http.StatusServiceUnavailable, "v2")
	}
	p.Go("/overview")
	p.Says("Redis is unreachable")
	opensTheClosedRoute(t, p)
	from := time.Now()
	p.Submit(`#publish button[value="publish"]`)
	if got := p.Path(); got != "/policy/versions/3" {
		t.Fatalf("publishing led to %s: %s", got, p.said("main"))
	}
	p.Shots("outage-published")
	claimsNothingInVain(t, d, p, known.Key)
	took(t, "the page tells that an emergency publish is on 3 of 3", time.Since(from), 5*time.Second)
	if rows := p.said("#publication"); strings.Count(rows, "via the console") != 3 {
		t.Errorf("the page does not say how it knows: %s", rows)
	}
	p.Shots("outage-enforced")
	redisComesBack(t, d, p, known.Key)
}

// opensTheClosedRoute makes the draft and fills in the form that publishes it.
func opensTheClosedRoute(t *testing.T, p *Page) {
	t.Helper()
	draft := p.NewDraft("open while Redis is away")
	p.SavePart(draft, "route/closed", map[string]string{"mode": "open", "fb-count": "100", "fb-unit": "minute", "fb-burst": "100"})
	p.Go(draft + "/review")
	p.Says("while the store is away: closed → open")
	p.setIn("#publish ", "note", "better open than shut")
	p.confirmAll()
	p.Shots("outage-review")
}

// claimsNothingInVain waits until the page says that all enforce v3; at that very
// moment they do.
func claimsNothingInVain(t *testing.T, d *Demo, p *Page, key string) {
	t.Helper()
	p.Says("3 of 3 enforce v3") // the page is not loaded again
	for i := range d.Gateways {
		a := d.Hit(i, key, "/closed/x")
		if v := a.Header.Get("X-Headgate-Policy"); v != "v3" || a.Status != http.StatusOK {
			t.Errorf("the page says that all enforce v3, and gateway %d answers %d by %s", i+1, a.Status, v)
		}
	}
	p.Says("Redis is unreachable")
}

// redisComesBack with nothing in it: it is given what is in force, and no gateway
// goes back.
func redisComesBack(t *testing.T, d *Demo, p *Page, key string) {
	t.Helper()
	d.Restart(d.Processes.Redis)
	d.WaitPort(d.Redis)
	c := d.RedisClient()
	eventually(t, startWithin, "Redis has the version that it never had", func() error {
		if v, err := c.HGet(t.Context(), "hg:{policy}:head", "version").Result(); err != nil || v != "3" {
			return fmt.Errorf("version %q, %w", v, err)
		}
		return nil
	})
	for i := range d.Gateways {
		eventually(t, startWithin, "decided by Redis again", func() error {
			a := d.Hit(i, key, "/closed/x")
			if got := a.Header.Get("X-Headgate-Policy"); got != "v3" {
				t.Fatalf("gateway %d went to %s", i+1, got)
			}
			if a.Status != http.StatusOK || a.Header.Get("RateLimit") == "" {
				return fmt.Errorf("gateway %d: status %d, %v", i+1, a.Status, a.Header)
			}
			return nil
		})
	}
	p.Becomes(`!document.body.innerText.includes('via the console') && !document.querySelector('[data-health=bad]')`)
	p.Says("3 of 3 enforce v3")
	p.Shots("outage-over")
}
