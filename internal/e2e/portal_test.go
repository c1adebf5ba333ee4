package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// enter lets the page's reader into a tenant's own pages by a one-time link, as
// the customer's own system makes one.
func (p *Page) enter(d *Demo, tenant, user, role string) {
	p.t.Helper()
	made := d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/tenants/"+tenant+"/sign-in-links", map[string]any{"external_user": user, "role": role})
	u, err := url.Parse(str(made, "url"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.Go(u.Path)
	p.Submit("main form button.primary")
	if got := p.Path(); got != "/t" {
		p.t.Fatalf("the link led to %s: %s", got, p.Text("body"))
	}
	p.Go(u.Path)
	p.Expect(http.StatusNotFound)
	p.Submit("main form button.primary")
	p.Says("was used already")
	p.Go("/t")
}

// A tenant's admin rotates the tenant's own key: the new one works at once on
// every gateway, both work meanwhile, and the old one is refused when it is ended.
// Another tenant's key and rotation are as absent as what never was.
func TestPortal_A05_TenantRotatesItsOwnKeyInABrowser(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	own, _ := d.NewTenant("Own Ltd", "free")
	other, credential := d.NewTenant("Other Ltd", "free")
	theirs := d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/credentials/"+credential+"/rotations", map[string]any{"overlap": "24h", "reason": "theirs"})
	p := OpenBrowser(t, d)
	p.enter(d, own.ID, "kim", "tenant-admin")
	p.Says("Own Ltd")
	p.Go("/t/keys")
	p.Submit(".credential .src a.btn")
	p.Fill(map[string]string{"reason": "yearly", "overlap": "24h"})
	p.Submit("main form button.primary")
	p.Says("only time the key is shown")
	p.Says("accepted everywhere")
	fresh := strings.TrimSpace(p.Text("#secret"))
	for i := range d.Gateways {
		for name, key := range map[string]string{"new": fresh, "old": own.Key} {
			if a := d.Hit(i, key, "/v1/anything"); a.Status == http.StatusUnauthorized {
				t.Errorf("gateway %d refuses the %s key during the overlap", i+1, name)
			}
		}
	}
	p.Submit("main .secret a.primary")
	p.Says("Both keys work until")
	p.Says("Not ready")
	p.Press("#end > summary")
	p.Becomes(`(document.querySelector('#end input[name=reason]').value = 'switched') !== ''`)
	p.Submit("#end form button")
	p.Says("refused everywhere")
	for i := range d.Gateways {
		if a := d.Hit(i, own.Key, "/v1/anything"); a.Status != http.StatusUnauthorized {
			t.Errorf("gateway %d answers the old key %d", i+1, a.Status)
		}
		if a := d.Hit(i, fresh, "/v1/anything"); a.Status == http.StatusUnauthorized {
			t.Errorf("gateway %d refuses the new key", i+1)
		}
	}
	for foreign, never := range map[string]string{
		"/t/keys/" + strings.Split(other.Key, "_")[2]:       "/t/keys/zzzzzzzzzzzz",
		"/t/rotations/" + str(theirs, "rotation", "id"):     "/t/rotations/rot_zzzzzzzzzzzzzzzz",
		"/t/credentials/" + credential + "/rotate":          "/t/credentials/crd_zzzzzzzzzzzzzzzz/rotate",
		"/t/keys/" + str(theirs, "key_version", "kid"):      "/t/keys/yyyyyyyyyyyy",
		"/t/members/mem_zzzzzzzzzzzzzzzz/anything":          "/t/nothing",
		"/t/keys/" + strings.Split(other.Key, "_")[2] + "/": "/t/keys/zzzzzzzzzzzz/",
	} {
		p.Go(foreign)
		p.Says("There is nothing here.")
		got := p.Text("body")
		p.Go(never)
		if want := p.Text("body"); got != want {
			t.Errorf("%s says %q, and %s %q", foreign, got, never, want)
		}
	}
	p.Go("/t/keys")
	p.Lacks("Other Ltd")
	p.Shot("portal-keys")
}
