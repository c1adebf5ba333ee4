package portal_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

const document = `
apiVersion: headgate/v1
global:
  limits: [{name: all, per: global, rate: 50000/second, burst: 50000}]
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]}
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 500}]
    quota: {amount: 100000, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 20
    limits: [{name: reports, per: tenant, rate: 100/minute, burst: 20}]
    on_store_failure: {mode: open, fallback: {rate: 200/minute, burst: 200}}
  - name: graphql
    match: ["POST /graphql"]
    identity: api_key
    motive: fairness
    cost: {graphql: {max: 1000, default_list_size: 25, list_arguments: [first]}}
    limits: [{name: points, per: tenant, rate: 5000/minute, burst: 1000}]
    on_store_failure: {mode: open, fallback: {rate: 200/minute, burst: 200}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 20/minute, burst: 20}]
    on_store_failure: {mode: closed}
  - name: everything-else
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

const password = "a long enough password"

// world is a console with gateways, a policy and two tenants.
func world(t *testing.T) (w *webtest.World, a, b console.Tenant) {
	t.Helper()
	w = webtest.New(t)
	w.Feed.Gateways(3)
	owner := w.Actor(console.RoleOwner)
	if _, err := w.Web.Policies.Publish(t.Context(), owner, []byte(document), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	for _, in := range []struct {
		name string
		to   *console.Tenant
	}{{"Acme taint-a", &a}, {"Bravo taint-b", &b}} {
		ten, err := w.Web.Tenants.Create(t.Context(), owner, console.NewTenant{Name: in.name, Plan: "pro", TimeZone: "Europe/Berlin"})
		if err != nil {
			t.Fatal(err)
		}
		*in.to = ten
	}
	return w, a, b
}

// join invites somebody and lets them accept, by the pages.
func join(t *testing.T, w *webtest.World, ten console.Tenant, email string, role console.Role) *webtest.Client {
	t.Helper()
	invited, err := w.Web.Members.Invite(t.Context(), w.Actor(console.RoleOwner), ten.ID, console.NewInvitation{Email: email, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	c := w.Anonymous(t)
	wants(t, c.Get("/t/invite/"+invited.Secret), http.StatusOK, email, `autocomplete="new-password"`)
	a := c.Post("/t/invite/"+invited.Secret, url.Values{"name": {"Kim " + email}, "password": {password}})
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/t" {
		t.Fatalf("join: %d %s", a.StatusCode, a.Text)
	}
	return c
}

func wants(t *testing.T, a webtest.Answer, status int, texts ...string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%d, want %d: %s", a.StatusCode, status, a.Text)
	}
	for _, text := range texts {
		if !strings.Contains(a.Text, text) {
			t.Errorf("the answer lacks %q:\n%s", text, a.Text)
		}
	}
}

var (
	tokenField   = regexp.MustCompile(`name="token" value="([A-Za-z0-9]+)"`)
	secretOnPage = regexp.MustCompile(`hg_(?:live|test)_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}`)
	rotationPath = regexp.MustCompile(`/t/rotations/(rot_[a-z2-7]{16})`)
)

// token is that of the form on a page.
func token(t *testing.T, a webtest.Answer) string {
	t.Helper()
	m := tokenField.FindStringSubmatch(a.Text)
	if m == nil {
		t.Fatalf("no form token on the page: %s", a.Text)
	}
	return m[1]
}

// create makes a key by the pages and returns its secret.
func create(t *testing.T, c *webtest.Client, name string) string {
	t.Helper()
	a := c.Post("/t/keys", url.Values{"name": {name}, "environment": {"live"}, "token": {token(t, c.Get("/t/keys/new"))}})
	wants(t, a, http.StatusCreated)
	secret := secretOnPage.FindString(a.Text)
	if secret == "" {
		t.Fatalf("no secret: %s", a.Text)
	}
	return secret
}

func kidOf(secret string) string { return strings.Split(secret, "_")[2] }
