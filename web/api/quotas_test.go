package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/web/webtest"
)

// lifetimePolicy has a plan whose quota never renews.
const lifetimePolicy = `{"document":"apiVersion: headgate/v1\nplans:\n  free: {limits: [], quota: {amount: 5, counts: requests, period: lifetime, over: block}}\n  pro: {limits: [], quota: {amount: 100, period: month, over: block}}\n` +
	`routes:\n  - {name: all, match: [\"/\"], identity: api_key, motive: quota, on_store_failure: {mode: closed}}\n","base_version":1,"note":"quotas"}`

// compared puts a standing as a comparison leaves it.
func compared(t *testing.T, w *webtest.World, tenant string, redis, ledger int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO quota_standings (tenant_id, plan, period, period_start, time_zone, counts, over, amount, most, granted, redis_units, ledger_units, compared_at, complete)
		VALUES ($1, 'free', 'lifetime', 'epoch', 'UTC', 'requests', 'block', 5, 0, 0, $2, $3, now(), true)`, tenant, redis, ledger)
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPI_QuotasAreShownGrantedAndReset(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", lifetimePolicy), 200)
	base := "/api/v1/tenants/" + id + "/quota"
	obj(t, owner.Get(base), 404) // not compared yet
	compared(t, w, id, 4, 3)
	v := obj(t, owner.Get(base), 200)
	if v["amount"] != 5.0 || v["used"] != 4.0 || v["left"] != 1.0 || v["drift"] != -1.0 || v["redis"] != 4.0 || v["ledger"] != 3.0 || v["end"] != nil {
		t.Errorf("quota = %v", v)
	}
	if at(v, "forecast", "known") != false || at(v, "forecast", "why") == nil {
		t.Errorf("forecast = %v", v["forecast"])
	}
	v = obj(t, owner.Get("/api/v1/quotas"), 200)
	if v["tenants"] != 1.0 || v["apart"] != 1.0 || v["drift"] != 1.0 || len(v["items"].([]any)) != 1 || len(v["losses"].([]any)) != 0 {
		t.Errorf("quotas = %v", v)
	}
	v = obj(t, owner.JSON("POST", base+"/grants", `{"units":3,"reason":"incident"}`), 201)
	if v["units"] != 3.0 || v["reason"] != "incident" || v["start"] != "1970-01-01T00:00:00Z" || v["end"] != nil {
		t.Errorf("grant = %v", v)
	}
	if v = obj(t, owner.Get(base), 200); len(v["grants"].([]any)) != 1 {
		t.Errorf("grants = %v", v["grants"])
	}
	obj(t, owner.JSON("POST", base+"/reset", `{"reason":"trial"}`), 409) // the ledger has nothing
	v = obj(t, owner.Get("/api/v1/audit"), 200)
	if e := v["items"].([]any)[0]; at(e, "action") != "quota.grant" || at(e, "reason") != "incident" {
		t.Errorf("event = %v", e)
	}
}

func TestAPI_QuotasBadInputNamesTheField(t *testing.T) {
	t.Parallel()
	_, owner, id := published(t)
	base := "/api/v1/tenants/" + id + "/quota"
	obj(t, owner.JSON("POST", base+"/grants", `{"units":3,"reason":"incident"}`), 404) // a plan without a quota
	obj(t, owner.JSON("POST", base+"/reset", `{"reason":"r"}`), 404)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", lifetimePolicy), 200)
	for body, field := range map[string]string{
		`{"units":0,"reason":"r"}`: "units", `{"units":-5,"reason":"r"}`: "units", `{"units":9007199254740991,"reason":"r"}`: "units",
		`{"units":5,"reason":" "}`: "reason", `{"units":5}`: "reason", `{"units":1.5,"reason":"r"}`: "units",
	} {
		v := obj(t, owner.JSON("POST", base+"/grants", body), 422)
		if errs, _ := v["errors"].([]any); len(errs) == 0 || !strings.Contains(at(errs[0], "field").(string), field) {
			t.Errorf("%s: %v does not name %s", body, v, field)
		}
	}
	obj(t, owner.JSON("POST", "/api/v1/tenants/ten_aaaaaaaaaaaaaaaa/quota/grants", `{"units":5,"reason":"r"}`), 404)
}
