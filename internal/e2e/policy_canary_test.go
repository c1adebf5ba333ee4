package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPolicy_R18_CanaryNamesItsReplicaStopsByItselfAndIsPromoted goes through the
// pages: one of three gateways gets a version first and is named; when it refuses
// much more than the others it is stopped and everybody goes on to a higher
// version with the old content; a harmless one is given to all.
func TestPolicy_R18_CanaryNamesItsReplicaStopsByItselfAndIsPromoted(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	p := OpenBrowser(t, d)
	p.SignIn(d)
	p.Expect(http.StatusConflict)
	ids := d.replicaIDs()

	began := beginsOnOne(t, d, p, ids)
	holdsOthersUp(t, p)
	stopsByItself(t, d, p, began)
	promoted(t, d, p)
}

// beginsOnOne publishes by the page to one gateway first and returns its place.
func beginsOnOne(t *testing.T, d *Demo, p *Page, ids []string) int {
	t.Helper()
	// A limit of its own, so that nothing but the canary draws from its buckets:
	// lower numbers for a limit that all have would be felt by the others too.
	draft := p.NewDraft("hardly anything")
	p.Go(draft + "/parts/route/everything-else")
	p.Submit(`#part button[value="add-limit"]`)
	p.Fill(map[string]string{"l0-name": "strict", "l0-count": "1", "l0-unit": "hour", "l0-burst": "1"})
	p.Submit("#part button.primary")
	p.Go(draft + "/review")
	p.Says("tighter")
	p.Press(`#publish details:has([name="count"]) > summary`)
	p.setIn("#publish ", "note", "on trial")
	p.Fill(map[string]string{"strategy": "count", "count": "1", "hold": "1m", "promote": "no", "rise": "10"})
	p.Shots("canary-form")
	p.Submit(`#publish button[value="publish"]`)
	if got := p.Path(); got != "/policy/versions/2" {
		t.Fatalf("publishing led to %s: %s", got, p.said("main"))
	}
	p.Says("1 of 1 canary gateway enforces v2")
	at := -1
	eventually(t, startWithin, "one gateway enforces v2", func() error {
		at = -1
		for i := range d.Gateways {
			switch v := d.version(i); {
			case v == "v2" && at >= 0:
				t.Fatal("two gateways have the canary")
			case v == "v2":
				at = i
			case v != "v1":
				return fmt.Errorf("gateway %d answers by %q", i+1, v)
			}
		}
		if at < 0 {
			return fmt.Errorf("none does")
		}
		return nil
	})
	named := p.said("#canary")
	for i, id := range ids {
		if strings.Contains(named, id) != (i == at) {
			t.Errorf("gateway %d has the canary, and of %s (%d) the page says: %s", at+1, id, i+1, named)
		}
	}
	p.Says("all others enforce v1")
	p.Shots("canary-running")
	if v := num(d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil), "version"); v != 1 {
		t.Errorf("while v2 is on trial v%d is in force", v)
	}
	return at
}

// holdsOthersUp: while a canary runs nothing else is published.
func holdsOthersUp(t *testing.T, p *Page) {
	t.Helper()
	draft := p.NewDraft("meanwhile")
	p.SavePart(draft, "route/login", map[string]string{"l0-burst": "25"})
	p.Go(draft + "/review")
	p.Says("v2 runs and must end first")
	etag, err := p.value("etag")
	p.must(err, "read the etag")
	if status := p.Post(draft+"/publish", map[string]string{"etag": etag, "note": "meanwhile", "act": "publish", "strategy": "all"}); status != http.StatusConflict {
		t.Errorf("publishing during a canary is answered %d", status)
	}
}

// stopsByItself sends traffic that the canary refuses and the others admit, until
// the guard has seen enough of it.
func stopsByItself(t *testing.T, d *Demo, p *Page, at int) {
	t.Helper()
	tenants := make([]Tenant, 10)
	for i := range tenants {
		tenants[i], _ = d.NewTenant(fmt.Sprintf("Guard %d Ltd", i), "pro")
	}
	p.Go("/policy/versions/2")
	refused := make([]int, len(d.Gateways))
	sent := make([]int, len(d.Gateways))
	eventually(t, startWithin, "the guard stops the canary", func() error {
		for n := range 60 {
			i := n % len(d.Gateways)
			a := d.Hit(i, tenants[n%len(tenants)].Key, "/v1/anything")
			if sent[i]++; a.Status == http.StatusTooManyRequests {
				refused[i]++
			}
		}
		var v map[string]any
		if v = d.API(http.MethodGet, "/api/v1/policy/rollout", nil).JSON(t); str(v, "state") == "running" {
			return fmt.Errorf("it runs; refused %v of %v", refused, sent)
		}
		return nil
	})
	for i := range d.Gateways {
		if i != at && refused[i] > 0 {
			t.Errorf("gateway %d, which is no canary, refused %d of %d", i+1, refused[i], sent[i])
		}
	}
	t.Logf("refused %v of %v; the canary is gateway %d", refused, sent, at+1)
	p.Reloads("/policy/versions/2", "Canary, stopped")
	p.Says("Stopped by")
	p.Says("elsewhere")
	p.Shots("canary-stopped")
	enforces(p, 3)
	p.Shots("canary-successor")
	for i := range d.Gateways {
		if v := d.version(i); v != "v3" {
			t.Errorf("gateway %d answers by %s", i+1, v)
		}
	}
	if d.digestOf(3) != d.digestOf(1) {
		t.Error("v3 has not the content of v1")
	}
}

// promoted gives a harmless canary to all by its page, not before its time.
func promoted(t *testing.T, d *Demo, p *Page) {
	t.Helper()
	head := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)
	doc, ok := head["document"].(map[string]any)
	if !ok {
		t.Fatalf("the policy has no document: %v", head)
	}
	doc["description"] = "a harmless change"
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/policy/publish", map[string]any{"document": doc, "base_version": head["version"], "note": "harmless",
		"canary": map[string]any{"count": 1, "hold": "10s"}})
	p.Go("/policy/versions/4")
	p.Says("1 of 1 canary gateway enforces v4")
	promote := `form[action$="/promote"] button`
	p.Submit(promote)
	p.Says("may be promoted from")
	p.Shots("canary-too-early")
	eventually(t, startWithin, "its trial is over", func() error {
		p.Go("/policy/versions/4")
		p.Submit(promote)
		if said := p.said("main"); strings.Contains(said, "may be promoted from") {
			return fmt.Errorf("it says: %s", said)
		}
		return nil
	})
	enforces(p, 4)
	p.Says("Began as a canary")
	p.Shots("canary-promoted")
}

// version is what policy a gateway answers by.
func (d *Demo) version(i int) string {
	d.t.Helper()
	return d.Do(http.MethodGet, d.Gateways[i]+"/v1/anything", "", nil).Header.Get("X-Headgate-Policy")
}

var replicaPattern = regexp.MustCompile(`"msg":"gateway runs","replica":"(gw_[a-z0-9]+)"`)

// replicaIDs are the gateways' ids in the order of their addresses.
func (d *Demo) replicaIDs() []string {
	d.t.Helper()
	var ids []string
	for _, p := range d.Processes.Gateways {
		log, err := os.ReadFile(p.Log)
		if err != nil {
			d.t.Fatal(err)
		}
		m := replicaPattern.FindSubmatch(log)
		if m == nil {
			d.t.Fatalf("%s does not say its id", p.Log)
		}
		ids = append(ids, string(m[1]))
	}
	return ids
}
