package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/web/webtest"
)

func TestReconciliation_SaysWhyItIsEmptyAndWhatWouldFillIt(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	wants(t, w.As(t, console.RoleViewer).Get("/usage/reconciliation"), http.StatusOK, "No tenant with a quota has been compared yet.", "Redis has not lost a counter")
}

func TestTenants_TellTheLastDayByTheLedger(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	text := plain(w.As(t, console.RoleViewer).Get("/tenants"))
	// 5000 and 3 admitted, 210000 refused, 7 interrupted
	if !strings.Contains(text, "215010") || !strings.Contains(text, "98 %") {
		t.Errorf("the last day of %s is not told:\n%s", tenant.ID, text)
	}
	w.Use(t, ledger.Event{Second: w.Now().Unix() - 60, Tenant: tenant.ID, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 90, Cost: 1})
	if text := plain(w.As(t, console.RoleViewer).Get("/tenants")); !strings.Contains(text, "215100") {
		t.Errorf("what came since is not told:\n%s", text)
	}
}

func TestTenant_WithoutAQuotaHasNoGauge(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	if text := plain(w.As(t, console.RoleViewer).Get("/tenants/" + tenant.ID)); strings.Contains(text, "Forecast") {
		t.Errorf("a gauge without a quota:\n%s", text)
	}
}

const quotaPolicy = `
apiVersion: headgate/v1
credentials: {headers: [{name: X-API-Key}], invalid: {per: ip, rate: 30/minute, burst: 30}}
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
    quota: {amount: 1000, counts: cost, period: month, alignment: calendar, time_zone: Asia/Shanghai, over: block}
routes:
  - name: everything-else
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

func TestTenant_QuotaThatWasNotComparedIsUnknownAndTakesGrants(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	w.Feed.Gateways(1)
	owner := w.Actor(console.RoleOwner)
	if _, err := w.Web.Policies.Publish(t.Context(), owner, []byte(quotaPolicy), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	tenant, err := w.Web.Tenants.Create(t.Context(), owner, console.NewTenant{Name: "Acme", Plan: "free", TimeZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, w.As(t, console.RoleViewer).Get("/tenants/"+tenant.ID), http.StatusOK, "not compared with the ledger yet", "unknown")
	grant := "/tenants/" + tenant.ID + "/grant"
	for role, may := range map[console.Role]bool{console.RoleViewer: false, console.RoleSupport: false, console.RoleKeyAdmin: true} {
		if a := w.As(t, role).Get("/tenants/" + tenant.ID); strings.Contains(a.Text, grant) != may {
			t.Errorf("%s is offered a grant: %t", role, !may)
		}
	}
	wants(t, w.As(t, console.RoleSupport).Post(grant, url.Values{"units": {"5"}, "reason": {"x"}}), http.StatusForbidden)
	c := w.As(t, console.RoleKeyAdmin)
	wants(t, c.Get(grant), http.StatusOK, "Grant units to Acme", "cannot be taken back")
	for _, units := range []string{"", "many", "0", "-1", "9223372036854775807"} {
		wants(t, c.Post(grant, url.Values{"units": {units}, "reason": {"bad days"}}), http.StatusUnprocessableEntity, "f-units-error", `value="bad days"`)
	}
	wants(t, c.Post(grant, url.Values{"units": {"5"}, "reason": {""}}), http.StatusUnprocessableEntity, "f-reason-error")
	if a := c.Post(grant, url.Values{"units": {"250"}, "reason": {"bad days"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("a grant answers %d", a.StatusCode)
	}
	given, err := w.Web.Quotas.Grants(t.Context(), owner, tenant.ID)
	if err != nil || len(given) != 1 || given[0].Units != 250 || given[0].Reason != "bad days" {
		t.Errorf("given: %+v, %v", given, err)
	}
}
