package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestAPI_OverridesAreSetExplainedAndEnded(t *testing.T) {
	t.Parallel()
	_, owner, id := published(t)
	base := "/api/v1/tenants/" + id
	v := obj(t, owner.JSON("PUT", base+"/overrides/plan.requests?wait=converged", `{"rate":"120/minute","burst":200,"reason":"contract"}`), 200)
	if at(v, "override", "kind") != "override" || at(v, "override", "burst") != 200.0 || at(v, "in_force", "text") != "120/minute, burst 200" ||
		at(v, "in_force", "source") != "override" || v["accepted_on"] != 3.0 || v["of"] != 3.0 {
		t.Errorf("set = %v", v)
	}
	v = obj(t, owner.JSON("POST", base+"/boosts", `{"limit":"plan.requests","factor":1.5,"for":"1h","reason":"sale"}`), 201)
	boost, _ := at(v, "override", "id").(string)
	if at(v, "override", "factor") != 1.5 || at(v, "in_force", "value", "rate") != "180/minute" || at(v, "in_force", "value", "burst") != 300.0 || v["of"] != nil {
		t.Errorf("boost = %v", v)
	}
	v = obj(t, owner.Get(base+"/limits"), 200)
	limits := v["limits"].([]any)
	steps := at(limits[0], "steps").([]any)
	if len(limits) != 1 || len(steps) != 3 || at(steps[0], "source") != "plan free" || at(steps[0], "text") != "60/minute, burst 60" || at(steps[1], "reason") != "contract" ||
		at(steps[2], "override_id") != boost || at(limits[0], "expires_at") == nil || v["version"] != 1.0 {
		t.Errorf("limits = %v", v)
	}
	until := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	v = obj(t, owner.JSON("POST", "/api/v1/overrides/"+boost+"/extend", `{"until":"`+until+`","reason":"longer"}`), 200)
	if at(v, "override", "expires_at") != until {
		t.Errorf("extend = %v", v)
	}
	v = obj(t, owner.Get(base+"/overrides?kind=boost&ends_within=4h"), 200)
	if items := v["items"].([]any); len(items) != 1 || at(items[0], "id") != boost || at(items[0], "tenant") != "Acme" || at(items[0], "in_force", "source") != "boost" {
		t.Errorf("list = %v", v)
	}
	obj(t, owner.Do("DELETE", base+"/boosts/plan.requests?reason=over", "", http.NoBody), 200)
	v = obj(t, owner.Do("DELETE", base+"/overrides/plan.requests?reason=over", "", http.NoBody), 200)
	if at(v, "in_force", "source") != "plan free" || v["override"] == nil && v["in_force"] == nil {
		t.Errorf("clear = %v", v)
	}
	v = obj(t, owner.Get("/api/v1/overrides?state=all&tenant="+id), 200)
	if items := v["items"].([]any); len(items) != 2 || at(items[0], "end_reason") != "over" {
		t.Errorf("history = %v", v)
	}
}

func TestAPI_OverridesBadInputNamesTheField(t *testing.T) {
	t.Parallel()
	_, owner, id := published(t)
	base := "/api/v1/tenants/" + id
	for _, c := range []struct {
		method, path, body string
		status             int
		field, word        string
	}{
		{"PUT", base + "/overrides/plan.request", `{"rate":"70/minute","reason":"r"}`, 422, "limit", "plan.requests"},
		{"PUT", base + "/overrides/plan.requests", `{"rate":"70/minute"}`, 422, "reason", "is required"},
		{"PUT", base + "/overrides/plan.requests", `{"rate":"lots","reason":"r"}`, 422, "rate", "60/minute"},
		{"PUT", base + "/overrides/plan.requests", `{"rate":"50/minute","reason":"r"}`, 422, "confirm.lower", "goes down from 60/minute, burst 60 (plan free) to 50/minute"},
		{"PUT", base + "/overrides/plan.requests?timeout=2h&wait=converged", `{"rate":"70/minute","reason":"r"}`, 422, "timeout", "60s"},
		{"POST", base + "/boosts", `{"limit":"plan.requests","factor":2,"for":"soon","reason":"r"}`, 422, "for", "24h"},
		{"POST", base + "/boosts", `{"limit":"plan.requests","factor":2.00001,"for":"1h","reason":"r"}`, 422, "factor", "three decimals"},
		{"POST", base + "/boosts", `{"limit":"plan.requests","factor":11,"for":"1h","reason":"r"}`, 422, "factor", "at most 10"},
		{"POST", base + "/boosts", `{"limit":"plan.requests","factor":0.5,"for":"1h","reason":"r"}`, 422, "factor", "More than 1"},
		{"DELETE", base + "/overrides/plan.requests", ``, 422, "reason", "required"},
		{"DELETE", base + "/overrides/plan.requests?reason=r", ``, 404, "", "no such override"},
		{"GET", "/api/v1/overrides?ends_within=-1h", ``, 422, "ends_within", "72h"},
		{"GET", "/api/v1/overrides?ends_within=1h&state=ended", ``, 422, "ends_within", "leave state out"},
		{"GET", "/api/v1/overrides?kind=value", ``, 422, "kind", "boost"},
		{"GET", "/api/v1/tenants/ten_aaaaaaaaaaaaaaaa/overrides", ``, 404, "", "no such tenant"},
		{"GET", "/api/v1/tenants/ten_aaaaaaaaaaaaaaaa/limits", ``, 404, "", "no such tenant"},
		{"GET", base + "/plan-change?plan=gold", ``, 422, "plan", "it has free"},
		{"PUT", "/api/v1/tenants/ten_aaaaaaaaaaaaaaaa/overrides/plan.requests", `{"rate":"70/minute","reason":"r"}`, 404, "", "no such tenant"},
		{"POST", "/api/v1/overrides/ovr_aaaaaaaaaaaaaaaa/extend", `{"reason":"r"}`, 404, "", "no such override"},
	} {
		v := obj(t, owner.JSON(c.method, c.path, c.body), c.status)
		errs, _ := v["errors"].([]any)
		if c.field == "" && strings.Contains(v["detail"].(string), c.word) {
			continue
		}
		if len(errs) == 0 || at(errs[0], "field") != c.field || !strings.Contains(at(errs[0], "message").(string), c.word) {
			t.Errorf("%s %s %s: %v", c.method, c.path, c.body, v)
		}
	}
	v := obj(t, owner.JSON("PUT", base+"/overrides/plan.requests", `{"rate":"50/minute","reason":"r"}`), 422)
	asked, _ := v["confirmations"].([]any)
	if v["code"] != "confirmation-required" || len(asked) != 1 || at(asked[0], "code") != "lower" {
		t.Errorf("asked = %v", v)
	}
	obj(t, owner.JSON("PUT", base+"/overrides/plan.requests", `{"rate":"50/minute","reason":"r","confirm":{"lower":"yes"}}`), 200)
}

func TestAPI_BoostsOfSupportAreSmall(t *testing.T) {
	t.Parallel()
	w, _, id := published(t)
	support := w.API(t, console.RoleSupport)
	path := "/api/v1/tenants/" + id + "/boosts"
	v := obj(t, support.JSON("POST", path, `{"limit":"plan.requests","factor":3,"for":"1h","reason":"r"}`), 403)
	if errs := v["errors"].([]any); at(errs[0], "field") != "factor" || !strings.Contains(at(errs[0], "message").(string), "×2 at most, for 24 h") {
		t.Errorf("refused = %v", v)
	}
	obj(t, support.JSON("POST", path, `{"limit":"plan.requests","factor":2,"for":"24h","reason":"r"}`), 201)
	obj(t, support.JSON("PUT", "/api/v1/tenants/"+id+"/overrides/plan.requests", `{"rate":"70/minute","reason":"r"}`), 403)
	obj(t, support.Do("DELETE", path+"/plan.requests?reason=r", "", http.NoBody), 200)
}

func TestAPI_BoostIsMadeOnceForAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	_, owner, id := published(t)
	path, body := "/api/v1/tenants/"+id+"/boosts", `{"limit":"plan.requests","factor":2,"for":"1h","reason":"r"}`
	owner.Header.Set("Idempotency-Key", "one")
	first := obj(t, owner.JSON("POST", path, body), 201)
	again := obj(t, owner.JSON("POST", path, body), 201)
	if at(first, "override", "id") != at(again, "override", "id") {
		t.Errorf("two boosts: %v and %v", first, again)
	}
	obj(t, owner.JSON("POST", path, strings.Replace(body, "1h", "2h", 1)), 422)
	owner.Header.Del("Idempotency-Key")
	v := obj(t, owner.Get("/api/v1/overrides?state=all"), 200)
	if items := v["items"].([]any); len(items) != 1 {
		t.Errorf("%d boosts were made", len(items))
	}
}

func TestAPI_TenantIsChangedAsItWasRead(t *testing.T) {
	t.Parallel()
	_, owner, id := published(t)
	path := "/api/v1/tenants/" + id
	tag := owner.Get(path).Header.Get("ETag")
	owner.Header.Set("If-Match", tag)
	a := owner.JSON("PATCH", path, `{"contacts":["Ann Lee <ann@example.com>","bob@example.com"],"quota_anchor":"2026-01-31","reason":"moved"}`)
	v := obj(t, a, 200)
	if c := v["contacts"].([]any); len(c) != 2 || c[0] != "Ann Lee <ann@example.com>" || v["quota_anchor"] != "2026-01-31" || a.Header.Get("ETag") == tag {
		t.Errorf("patched = %v", v)
	}
	v = obj(t, owner.JSON("PATCH", path, `{"name":"Other"}`), 412)
	if v["code"] != "stale-tenant" || at(v, "tenant", "quota_anchor") != "2026-01-31" {
		t.Errorf("stale = %v", v)
	}
	owner.Header.Set("If-Match", `"x"`)
	obj(t, owner.JSON("PATCH", path, `{"name":"Other"}`), 412)
	owner.Header.Set("If-Match", a.Header.Get("ETag"))
	v = obj(t, owner.JSON("PATCH", path, `{"contacts":[],"quota_anchor":""}`), 200)
	if v["contacts"] != nil || v["quota_anchor"] != nil {
		t.Errorf("emptied = %v", v)
	}
	owner.Header.Del("If-Match")
	for field, body := range map[string]string{"contacts": `{"contacts":["nobody"]}`, "quota_anchor": `{"quota_anchor":"31.1.2026"}`} {
		v = obj(t, owner.JSON("PATCH", path, body), 422)
		if errs := v["errors"].([]any); at(errs[0], "field") != field {
			t.Errorf("%s: %v", body, v)
		}
	}
	obj(t, owner.JSON("PUT", path+"/overrides/plan.requests", `{"rate":"70/minute","reason":"r"}`), 200)
	v = obj(t, owner.Get("/api/v1/tenants?with_overrides=true&sort=name"), 200)
	if items := v["items"].([]any); len(items) != 1 || at(items[0], "id") != id {
		t.Errorf("with overrides = %v", v)
	}
}
