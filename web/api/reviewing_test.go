package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/web/webtest"
)

// drafted starts a draft and returns its path; the client has its ETag.
func drafted(t *testing.T, c *webtest.Client, doc string) string {
	t.Helper()
	a := c.JSON("POST", "/api/v1/policy/drafts", publishBodyNamed("mine", doc))
	path := "/api/v1/policy/drafts/" + obj(t, a, 201)["id"].(string)
	c.Header.Set("If-Match", a.Header.Get("ETag"))
	return path
}

func TestAPI_C06_DraftsTestsAndNameKeepLostUpdatesOut(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	path := drafted(t, owner, free("50/minute, burst: 50"))
	a := owner.JSON("PUT", path+"/tests", body(t, map[string]any{"tests": passing}))
	if v := obj(t, a, 200); v["tests"] != passing {
		t.Errorf("draft = %v", v)
	}
	lost := obj(t, owner.JSON("PUT", path+"/tests", `{"tests":""}`), 412)
	if lost["code"] != "stale-draft" || at(lost["draft"], "tests") != passing || `"`+lost["draft_etag"].(string)+`"` != a.Header.Get("ETag") {
		t.Errorf("problem = %v", lost)
	}
	obj(t, owner.JSON("PATCH", path, `{"name":"x"}`), 412)
	owner.Header.Set("If-Match", a.Header.Get("ETag"))
	if v := obj(t, owner.JSON("PATCH", path, `{"name":"renamed"}`), 200); v["name"] != "renamed" {
		t.Errorf("draft = %v", v)
	}
	got := owner.Get(path + "/tests")
	if v := obj(t, got, 200); v["tests"] != passing || got.Header.Get("ETag") == a.Header.Get("ETag") {
		t.Errorf("tests = %v", v)
	}
	owner.Header.Del("If-Match")
	obj(t, owner.JSON("PUT", path+"/tests", `{"tests":""}`), 428)
	list := obj(t, owner.Get("/api/v1/policy/drafts"), 200)["items"].([]any)
	if at(list[0], "tests") != nil || at(list[0], "document") != nil {
		t.Errorf("list = %v", list)
	}
	r := obj(t, owner.Get(path+"/readiness"), 200)
	results := r["test_results"].([]any)
	if r["blocked"] != "Tests fail." || len(results) != 1 || at(results[0], "passed") != false || len(r["changes"].([]any)) == 0 {
		t.Errorf("readiness = %v", r)
	}
	score := obj(t, owner.JSON("POST", path+"/score", `{}`), 200)
	if score["mutants"] == nil || score["total"] == nil {
		t.Errorf("score = %v", score)
	}
	obj(t, w.API(t, console.RoleViewer).JSON("POST", path+"/score", `{}`), 403)
}

func TestAPI_StaleDraftIsMergedInOneCall(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	path := drafted(t, owner, free("50/minute, burst: 50"))
	theirs := strings.Replace(document, "fallback: {rate: 60/minute, burst: 60}", "fallback: {rate: 90/minute, burst: 90}", 1)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", publishBody(theirs, 1)), 200)
	r := obj(t, owner.Get(path+"/readiness"), 200)
	if r["stale"] != true || len(r["theirs"].([]any)) == 0 || len(r["mine"].([]any)) == 0 || r["head_version"] != 2.0 {
		t.Errorf("readiness = %v", r)
	}
	a := owner.Do("POST", path+"/merge", "", http.NoBody)
	v := obj(t, a, 200)
	text := v["document"].(string)
	if v["base_version"] != 2.0 || len(v["clashes"].([]any)) != 0 || !strings.Contains(text, "50/minute") || !strings.Contains(text, "90/minute") {
		t.Errorf("merged = %v", v)
	}
	obj(t, owner.Do("POST", path+"/merge", "", http.NoBody), 412)
	owner.Header.Set("If-Match", a.Header.Get("ETag"))
	obj(t, owner.JSON("POST", path+"/publish", `{}`), 200)
}

func TestAPI_ScheduleIsKeptListedAndTakenBack(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	path := drafted(t, owner, free("10/minute, burst: 10"))
	when := w.Now().Add(time.Hour).UTC().Truncate(time.Second)
	request := map[string]any{"at": when, "note": "tonight", "canary": map[string]any{"count": 1, "hold": "1m0s"}}
	if p := obj(t, owner.JSON("PUT", path+"/schedule", body(t, request)), 422); p["code"] != "confirmation-required" {
		t.Errorf("problem = %v", p)
	}
	request["confirm"] = map[string]string{"cut-half": "yes"}
	v := obj(t, owner.JSON("PUT", path+"/schedule", body(t, request)), 200)
	if v["at"] != when.Format(time.RFC3339) || v["suspended"] != nil || at(v, "canary", "hold") != "1m0s" {
		t.Errorf("schedule = %v", v)
	}
	request["at"] = when.Add(-2 * time.Hour)
	namesField(t, "over", owner.JSON("PUT", path+"/schedule", body(t, request)), "at")
	obj(t, owner.JSON("PUT", path, publishBodyOnly(free("20/minute, burst: 20"))), 200)
	list := obj(t, owner.Get("/api/v1/policy/schedules"), 200)["items"].([]any)
	if len(list) != 1 || !strings.Contains(at(list[0], "suspended").(string), "changed") {
		t.Errorf("schedules = %v", list)
	}
	if r := obj(t, owner.Get(path+"/readiness"), 200); at(r["schedule"], "note") != "tonight" {
		t.Errorf("readiness = %v", r)
	}
	if a := owner.Do("DELETE", path+"/schedule", "", http.NoBody); a.StatusCode != 204 {
		t.Errorf("unschedule: %d %s", a.StatusCode, a.Text)
	}
	obj(t, owner.Do("DELETE", path+"/schedule", "", http.NoBody), 404)
}

// requestsOf is a log of n requests at once by one tenant, all admitted.
func requestsOf(tenant string, n int, when time.Time) *decisionlog.Batch {
	b := &decisionlog.Batch{Replica: "gw_a", Boot: "b", Seq: 1, From: when.UnixMicro(), To: when.UnixMicro(), Sample: decisionlog.Whole}
	for i := range n {
		b.Entries = append(b.Entries, decisionlog.Entry{
			Kind: decisionlog.KindDecision, At: when.UnixMicro(), Order: int32(i), Seq: int64(i + 1), Tenant: tenant, IP: "203.0.113.7",
			Method: "GET", Host: "api.example", Path: "/", Route: "everything", Policy: 1, Cost: 1, Hits: 1, Allowed: true,
		})
	}
	return b
}

func TestAPI_SimulationTellsWhoWouldBeRefused(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	w.Decisions.Add(requestsOf(tenant, 60, w.Now().Add(-time.Minute)))
	tried := map[string]any{"document": free("50/minute, burst: 50"), "last": "1h"}
	v := obj(t, owner.JSON("POST", "/api/v1/policy/simulate?wait=done&timeout=30s", body(t, tried)), 200)
	rows := at(v["result"], "rows").([]any)
	if v["state"] != "done" || at(v["result"], "newly_refused", "requests") != 10.0 || at(v["result"], "share") != 1.0 || len(rows) != 1 ||
		at(rows[0], "limit") != "plan.requests" || at(rows[0], "outcome") != "newly-refused" || at(rows[0], "tenant") != tenant {
		t.Errorf("trial = %v", v)
	}
	if got := obj(t, owner.Get("/api/v1/policy/trials/"+v["id"].(string)), 200); at(got["result"], "entries") != 60.0 {
		t.Errorf("trial = %v", got)
	}
	path := drafted(t, owner, free("50/minute, burst: 50"))
	release := w.Decisions.Hold()
	began := owner.JSON("POST", path+"/simulate", `{"last":"1h"}`)
	running := obj(t, began, 202)
	if running["state"] != "running" || running["result"] != nil {
		t.Errorf("trial = %v", running)
	}
	obj(t, owner.Get("/api/v1/policy/trials/"+running["id"].(string)+"?wait=done&timeout=1ms"), 202)
	release()
	done := obj(t, owner.Get("/api/v1/policy/trials/"+running["id"].(string)+"?wait=done&timeout=30s"), 200)
	if at(done["result"], "newly_refused", "tenants") != 1.0 {
		t.Errorf("trial = %v", done)
	}
	if list := obj(t, owner.Get(path+"/trials"), 200)["items"].([]any); len(list) != 1 || at(list[0], "result") != nil {
		t.Errorf("trials = %v", list)
	}
	if r := obj(t, owner.Get(path+"/readiness"), 200); at(r["trial"], "id") != running["id"] {
		t.Errorf("readiness = %v", r)
	}
}

func TestAPI_SimulationRefusesWhatIsUnclear(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	for name, c := range map[string]struct {
		body  map[string]any
		field string
	}{
		"no range":  {map[string]any{}, "from"},
		"nonsense":  {map[string]any{"last": "a day"}, "last"},
		"both":      {map[string]any{"last": "1h", "from": w.Now()}, "last"},
		"backwards": {map[string]any{"from": w.Now(), "to": w.Now().Add(-time.Hour)}, "to"},
		"long":      {map[string]any{"last": "200h"}, "from"},
	} {
		c.body["document"] = document
		namesField(t, name, owner.JSON("POST", "/api/v1/policy/simulate", body(t, c.body)), c.field)
	}
	if p := obj(t, owner.JSON("POST", "/api/v1/policy/simulate", body(t, map[string]any{"document": fiveMistakes, "last": "1h"})), 422); p["code"] != "invalid-policy" {
		t.Errorf("problem = %v", p)
	}
	namesField(t, "timeout", owner.JSON("POST", "/api/v1/policy/simulate?wait=done&timeout=2h", body(t, map[string]any{"document": document, "last": "1h"})), "timeout")
	obj(t, owner.Get("/api/v1/policy/trials/sim_x"), 404)
	obj(t, w.API(t, console.RoleViewer).JSON("POST", "/api/v1/policy/simulate", body(t, map[string]any{"document": document, "last": "1h"})), 403)
}
