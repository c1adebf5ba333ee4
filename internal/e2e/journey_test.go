package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestJourney_OperatorDoesTheMainJobInABrowser is the product in one go: sign
// in, make a tenant, issue a key, set a route's limit and fail mode, publish; the
// gateways keep to it together; rotate the key and change the limit; nothing is
// restarted.
func TestJourney_OperatorDoesTheMainJobInABrowser(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	p := OpenBrowser(t, d)
	p.SignIn(d)
	tenant := makeTenant(p, "Journey Ltd")
	oldKey := issueKey(t, p, tenant)
	publishRouteLimit(p)
	enforcedTogether(t, d, oldKey, 60, "/v1/anything")

	newKey := rotateKey(t, p, tenant)
	for i := range d.Gateways { // both work and share the empty bucket
		for _, key := range []string{oldKey, newKey} {
			if a := d.Hit(i, key, "/v1/anything"); a.Status == http.StatusUnauthorized {
				t.Errorf("gateway %d refuses a key during the overlap", i+1)
			}
		}
	}
	endRotation(t, p, d, oldKey)
	publishPlanLimit(t, p, d, newKey)

	p.Go(tenant + "/audit")
	for _, did := range []string{"Tenant made", "Key issued", "Rotation started", "Rotation ended"} {
		p.Says(did)
	}
	p.Shot("8-audit")
}

// TestJourney_NeedsNoJavaScript does the same job with scripts turned off.
func TestJourney_NeedsNoJavaScript(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	p := OpenBrowser(t, d)
	p.WithoutJavaScript()
	p.SignIn(d)
	tenant := makeTenant(p, "Plain Ltd")
	key := issueKey(t, p, tenant)
	publishRouteLimit(p)
	enforcedTogether(t, d, key, 60, "/v1/anything")
	rotateKey(t, p, tenant)
	endRotation(t, p, d, key)
}

// makeTenant makes a tenant on the plan free and returns the path of its page.
func makeTenant(p *Page, name string) string {
	p.t.Helper()
	p.Go("/tenants/new")
	p.Fill(map[string]string{"name": name, "plan": "free"})
	p.Submit("main form button.primary")
	p.Shot("1-tenant")
	path := p.Path()
	if !strings.HasPrefix(path, "/tenants/ten_") {
		p.t.Fatalf("making a tenant led to %s", path)
	}
	return path
}

// shownOnce reads the key that the page shows, and holds that it is shown once.
func shownOnce(t *testing.T, p *Page) string {
	t.Helper()
	key := strings.TrimSpace(p.Text("main code"))
	if !strings.HasPrefix(key, "hg_live_") {
		t.Fatalf("the page shows no key but %q", key)
	}
	return key
}

func issueKey(t *testing.T, p *Page, tenant string) string {
	t.Helper()
	p.Go(tenant + "/keys/new")
	p.Fill(map[string]string{"name": "server"})
	p.Submit("main form button.primary")
	key := shownOnce(t, p)
	p.Says("accepted on 3 of 3 gateways")
	p.Shot("2-key")
	p.Go(tenant + "/keys")
	if strings.Contains(p.Text("main"), key) {
		t.Error("the key is shown a second time")
	}
	return key
}

// publishRouteLimit gives the route "everything-else" a limit of its own, higher
// than the plan's, and lets it fail closed, by the forms of a draft.
func publishRouteLimit(p *Page) {
	p.t.Helper()
	draft := p.NewDraft("journey")
	p.Go(draft + "/parts/route/everything-else")
	p.Submit(`#part button[value="add-limit"]`)
	p.Fill(map[string]string{
		"l0-name": "items", "l0-count": "120", "l0-unit": "minute", "l0-burst": "120", "mode": "closed",
	})
	p.Shot("3-draft")
	p.Submit("#part button.primary")
	p.Go(draft + "/review")
	p.Says("route everything-else, while the store is away: open → closed")
	p.PublishDraft(draft, "fail closed", 2)
	p.Shot("4-published")
}

// enforces waits until the page says that all gateways enforce a version; a
// browser without scripts loads it again meanwhile.
func enforces(p *Page, version int) {
	p.t.Helper()
	eventually(p.t, 20*time.Second, "the page says who enforces", func() error {
		p.Go(fmt.Sprintf("/policy/versions/%d", version))
		if want := fmt.Sprintf("3 of 3 enforce v%d", version); !strings.Contains(p.Text("main"), want) {
			return fmt.Errorf("the page does not say %q", want)
		}
		return nil
	})
}

// enforcedTogether empties a fresh bucket over all gateways and holds that it
// had just its burst.
func enforcedTogether(t *testing.T, d *Demo, key string, burst int, path string) {
	t.Helper()
	from := time.Now()
	admitted := 0
	for n, refused := 0, 0; refused < 6; n++ {
		switch a := d.Hit(n%len(d.Gateways), key, path); a.Status {
		case http.StatusOK:
			admitted, refused = admitted+1, 0
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("status %d: %s", a.Status, a.Body)
		}
	}
	if most := burst + int(time.Since(from).Seconds()); admitted < burst || admitted > most {
		t.Errorf("three gateways together admitted %d, want %d to %d", admitted, burst, most)
	}
}

func rotateKey(t *testing.T, p *Page, tenant string) string {
	t.Helper()
	p.Go(tenant + "/keys")
	p.Submit(`main a[href$="/rotate"]`)
	p.Fill(map[string]string{"reason": "yearly", "overlap": "24h"})
	p.Submit("main form button.primary")
	key := shownOnce(t, p)
	p.Says("accepted on 3 of 3 gateways")
	p.Shot("5-rotated")
	p.Submit("main a.primary")
	if got := p.Path(); !strings.HasPrefix(got, "/rotations/rot_") {
		t.Fatalf("after the secret comes %s", got)
	}
	return key
}

// endRotation ends the rotation whose page is open and holds that the old key is
// refused everywhere.
func endRotation(t *testing.T, p *Page, d *Demo, oldKey string) {
	t.Helper()
	form := `form[action$="/end"] `
	p.Press(`details:has(form[action$="/end"]) > summary`)
	p.setIn(form, "reason", "all have switched")
	p.Submit(form + "button")
	p.Says("refused on 3 of 3 gateways")
	p.Shot("6-ended")
	for i := range d.Gateways {
		if a := d.Hit(i, oldKey, "/v1/anything"); a.Status != http.StatusUnauthorized {
			t.Errorf("gateway %d answers %d to the ended key", i+1, a.Status)
		}
	}
}

// publishPlanLimit changes the plan's 60 a minute to 10 by its form.
func publishPlanLimit(t *testing.T, p *Page, d *Demo, key string) {
	t.Helper()
	draft := p.NewDraft("less")
	p.SavePart(draft, "plan/free", map[string]string{"l0-count": "10", "l0-burst": "10"})
	p.Go(draft + "/review")
	p.setIn("#publish ", "note", "ten is enough")
	p.confirmAll()
	drain(t, d, key) // whatever came since: empty before the publish
	drained := time.Now()
	p.Submit(`#publish button[value="publish"]`)
	enforces(p, 3)
	p.Shot("7-less")
	late := 0
	for n := range 2 * len(d.Gateways) {
		a := d.Hit(n%len(d.Gateways), key, "/v1/anything")
		if a.Status == http.StatusOK {
			late++
		}
		if v := a.Header.Get("X-Headgate-Policy"); v != "v3" {
			t.Errorf("gateway %d answers by %q", n%len(d.Gateways)+1, v)
		}
	}
	// One a second until the publish, one every six seconds since.
	if most := 1 + int(time.Since(drained).Seconds()); late > most {
		t.Errorf("an empty bucket admitted %d after the change from 60 to 10, want at most %d", late, most)
	}
}
