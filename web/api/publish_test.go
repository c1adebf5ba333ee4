package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

// body is a request as JSON.
func body(t *testing.T, v map[string]any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// free is the document with another rate and burst of its one limit.
func free(rate string) string {
	return strings.Replace(document, "rate: 60/minute, burst: 60}]", "rate: "+rate+"}]", 1)
}

const passing = `tests:
  - name: the burst is what was bought
    given: {plan: free}
    steps:
      - {send: 60, request: GET /things, expect: admitted}
      - {send: 1, request: GET /things, expect: {refused_by: plan.requests, at: 1, retry_in: 1s}}
`

func TestAPI_R098_ACutByHalfIsConfirmedOrRefused(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	request := map[string]any{"document": free("10/minute, burst: 10"), "base_version": 1, "confirm": map[string]string{}}
	p := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), 422)
	asked := p["confirmations"].([]any)
	if p["code"] != "confirmation-required" || len(asked) != 1 || at(asked[0], "code") != "cut-half" || !strings.Contains(p["detail"].(string), "confirm.cut-half") {
		t.Errorf("problem = %v", p)
	}
	request["confirm"] = map[string]string{"cut-half": "yes"}
	if v := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), 200); v["version"] != 2.0 {
		t.Errorf("publish = %v", v)
	}
	v := obj(t, owner.Get("/api/v1/policy/versions/2"), 200)
	confirmed, _ := v["confirmed"].([]any)
	changes := v["changes"].([]any)
	if len(confirmed) != 1 || at(confirmed[0], "code") != "cut-half" || at(changes[0], "risk") != "high" || at(changes[0], "impact", "tenants") != 1.0 {
		t.Errorf("version = %v", v)
	}
}

// Programs that know of no confirmations publish on: they are told, and what has
// to be typed they are asked for all the same.
func TestAPI_R098_CallsWithoutConfirmAreWarnedAndAskedForTypedOnesAlone(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	v := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, map[string]any{"document": free("10/minute, burst: 10"), "base_version": 1})), 200)
	warned, _ := v["warnings"].([]any)
	if v["version"] != 2.0 || len(warned) != 1 || at(warned[0], "code") != "cut-half" || at(warned[0], "text") == "" {
		t.Errorf("publish = %v", v)
	}
	unlimited := strings.Replace(free("10/minute, burst: 10"), "limits: [{name: requests, per: tenant, counts: requests, rate: 10/minute, burst: 10}]", "{}", 1)
	if unlimited == free("10/minute, burst: 10") {
		t.Fatalf("the document has no such limit: %s", unlimited)
	}
	p := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, map[string]any{"document": unlimited, "base_version": 2})), 422)
	asked, _ := p["confirmations"].([]any)
	if p["code"] != "confirmation-required" || len(asked) != 1 || at(asked[0], "code") != "no-limits" {
		t.Errorf("problem = %v", p)
	}
}

func TestAPI_TestsArePublishedWithTheDocumentAndHoldItUp(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	failing := map[string]any{"document": free("50/minute, burst: 50"), "tests": passing, "base_version": 1}
	p := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, failing)), 422)
	results, _ := p["test_results"].([]any)
	if p["code"] != "tests-failed" || len(results) != 1 || at(results[0], "passed") != false || !strings.Contains(at(results[0], "detail").(string), "request 51") {
		t.Errorf("problem = %v", p)
	}
	unread := map[string]any{"document": document, "tests": "tests: [{name: x}]", "base_version": 1}
	if p := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, unread)), 422); p["code"] != "invalid-tests" || len(p["problems"].([]any)) == 0 {
		t.Errorf("problem = %v", p)
	}
	good := map[string]any{"document": strings.Replace(document, "motive: fairness", "description: tested\n    motive: fairness", 1), "tests": passing, "base_version": 1}
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, good)), 200)
	head := obj(t, owner.Get("/api/v1/policy"), 200)
	if head["tests"] != passing || len(head["test_results"].([]any)) != 1 {
		t.Errorf("head = %v", head)
	}
	// Left out, they stay; as an object they are the same as YAML; "" is none.
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, map[string]any{"document": free("50/minute, burst: 50"), "base_version": 2})), 422)
	object := map[string]any{"document": document, "base_version": 2, "tests": map[string]any{"tests": []any{map[string]any{
		"name": "none", "steps": []any{map[string]any{"send": 1, "request": "GET /", "expect": map[string]any{"refused_by": "missing-credential"}}},
	}}}}
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, object)), 200)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, map[string]any{"document": free("50/minute, burst: 50"), "base_version": 3, "tests": ""})), 200)
	if head := obj(t, owner.Get("/api/v1/policy"), 200); head["tests"] != nil {
		t.Errorf("head = %v", head)
	}
}

func TestAPI_TestsRunWithoutPublishing(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	run := func(c *webtest.Client, v map[string]any, status int) map[string]any {
		t.Helper()
		return obj(t, c.JSON("POST", "/api/v1/policy/test", body(t, v)), status)
	}
	v := run(owner, map[string]any{"tests": strings.Replace(passing, "plan: free", "tenant: "+tenant, 1)}, 200)
	if v["passed"] != true || len(v["results"].([]any)) != 1 {
		t.Errorf("on the policy in force, as a tenant: %v", v)
	}
	v = run(owner, map[string]any{"document": free("50/minute, burst: 50"), "tests": passing}, 200)
	if v["passed"] != false || at(v["results"].([]any)[0], "steps") == nil {
		t.Errorf("tighter: %v", v)
	}
	v = run(owner, map[string]any{"document": fiveMistakes, "tests": passing}, 200)
	if v["passed"] != false || len(v["problems"].([]any)) < 5 || len(v["results"].([]any)) != 0 {
		t.Errorf("mistakes: %v", v)
	}
	v = run(owner, map[string]any{"tests": strings.Replace(passing, "plan.requests", "plan.request", 1)}, 200)
	if found := v["test_problems"].([]any); len(found) != 1 || at(found[0], "path") != "tests[0].steps[1].expect.refused_by" {
		t.Errorf("unknown limit: %v", v)
	}
	run(w.API(t, console.RoleViewer), map[string]any{}, 403)
	obj(t, webtest.New(t).API(t, console.RoleEditor).JSON("POST", "/api/v1/policy/test", `{}`), 404)
}

func TestAPI_ApprovalsAreAskedForAndBoundToTheContent(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	rules := `{"rules":[{"when":"looser","approvals":1}]}`
	obj(t, w.API(t, console.RolePublisher).JSON("PUT", "/api/v1/policy/approval-rules", rules), 403)
	obj(t, owner.JSON("PUT", "/api/v1/policy/approval-rules", `{"rules":[{"when":"full moon","approvals":7}]}`), 422)
	if v := obj(t, owner.JSON("PUT", "/api/v1/policy/approval-rules", rules), 200); len(v["rules"].([]any)) != 1 {
		t.Errorf("rules = %v", v)
	}
	looser := map[string]any{"document": free("90/minute, burst: 90"), "base_version": 1}
	p := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, looser)), 403)
	if p["code"] != "approval-required" || at(p["needed"].([]any)[0], "rule", "when") != "looser" || at(p["needed"].([]any)[0], "have") != 0.0 {
		t.Errorf("problem = %v", p)
	}
	// A draft of the same content, approved by somebody else, lets it through.
	editor, publisher := w.API(t, console.RoleEditor), w.API(t, console.RolePublisher)
	d := editor.JSON("POST", "/api/v1/policy/drafts", publishBodyNamed("more", free("90/minute, burst: 90")))
	path := "/api/v1/policy/drafts/" + obj(t, d, 201)["id"].(string)
	obj(t, editor.JSON("POST", path+"/approve", `{"digest":"x"}`), 403)
	obj(t, publisher.JSON("POST", path+"/approve", `{"digest":"sha256:other"}`), 409)
	ready := publisher.Get(path + "/readiness")
	r := obj(t, ready, 200)
	if r["blocked"] != "Approvals are missing." || len(r["needed"].([]any)) != 1 || ready.Header.Get("ETag") != d.Header.Get("ETag") {
		t.Errorf("readiness = %v", r)
	}
	approve := body(t, map[string]any{"digest": r["digest"], "note": "fine"})
	obj(t, publisher.JSON("POST", path+"/approve", approve), 200)
	if a := publisher.JSON("POST", path+"/withdraw", `{}`); a.StatusCode != 204 {
		t.Errorf("withdraw: %d %s", a.StatusCode, a.Text)
	}
	obj(t, publisher.JSON("POST", path+"/withdraw", `{}`), 404)
	obj(t, publisher.JSON("POST", path+"/approve", approve), 200)
	obj(t, editor.JSON("POST", path+"/comments", `{"text":"thanks"}`), 201)
	r = obj(t, owner.Get(path+"/readiness"), 200)
	if r["blocked"] != "" || len(r["approvals"].([]any)) != 1 || len(r["comments"].([]any)) != 1 || len(r["needed"].([]any)) != 0 {
		t.Errorf("readiness = %v", r)
	}
	owner.Header.Set("If-Match", ready.Header.Get("ETag"))
	obj(t, owner.JSON("POST", path+"/publish?wait=converged", `{"note":"approved"}`), 200)
	v := obj(t, owner.Get("/api/v1/policy"), 200)
	if len(v["approvals"].([]any)) != 1 || at(v["approvals"].([]any)[0], "actor") != "publisher" || len(obj(t, owner.Get(path+"/comments"), 200)["items"].([]any)) != 1 {
		t.Errorf("version = %v", v)
	}
}

func TestAPI_BreakGlassIsReviewedBySomebodyElse(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	if err := w.Web.Operators.SetPassword(t.Context(), console.SystemActor(), w.Operators[console.RoleOwner].ID, webtest.Password); err != nil {
		t.Fatal(err)
	}
	obj(t, owner.JSON("PUT", "/api/v1/policy/approval-rules", `{"rules":[{"when":"any","approvals":2}]}`), 200)
	request := map[string]any{"document": free("90/minute, burst: 90"), "base_version": 1, "break_glass": map[string]any{"reason": "", "password": "wrong"}}
	namesField(t, "no reason", owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), "break_glass.reason")
	request["break_glass"] = map[string]any{"reason": "customers are locked out", "password": "wrong"}
	namesField(t, "wrong password", owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), "break_glass.password")
	request["break_glass"] = map[string]any{"reason": "customers are locked out", "password": webtest.Password}
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), 200)
	v := obj(t, owner.Get("/api/v1/policy"), 200)
	if v["break_glass"] != "customers are locked out" || len(v["missing"].([]any)) != 1 {
		t.Errorf("version = %v", v)
	}
	list := obj(t, owner.Get("/api/v1/policy/reviews?open=true"), 200)["items"].([]any)
	if len(list) != 1 || at(list[0], "version") != 2.0 || at(list[0], "open") != true {
		t.Errorf("reviews = %v", list)
	}
	obj(t, owner.JSON("POST", "/api/v1/policy/reviews/2/close", `{"note":"mine"}`), 403)
	publisher := w.API(t, console.RolePublisher)
	if a := publisher.JSON("POST", "/api/v1/policy/reviews/2/close", `{"note":"it was right"}`); a.StatusCode != 204 {
		t.Errorf("close: %d %s", a.StatusCode, a.Text)
	}
	obj(t, publisher.JSON("POST", "/api/v1/policy/reviews/2/close", `{"note":"again"}`), 409)
	all := obj(t, owner.Get("/api/v1/policy/reviews"), 200)["items"].([]any)
	if len(all) != 1 || at(all[0], "closed_by") != "publisher" || len(obj(t, owner.Get("/api/v1/policy/reviews?open=true"), 200)["items"].([]any)) != 0 {
		t.Errorf("reviews = %v", all)
	}
	if strings.Contains(w.Log.String(), webtest.Password) {
		t.Error("the password is in the log")
	}
}

func TestAPI_CanaryIsToldPromotedAndStopped(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	obj(t, owner.Get("/api/v1/policy/rollout"), 404)
	request := map[string]any{"document": free("50/minute, burst: 50"), "base_version": 1, "canary": map[string]any{"count": 1, "hold": "a day"}}
	namesField(t, "hold", owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), "canary.hold")
	request["canary"] = map[string]any{"count": 9, "hold": "10s"}
	namesField(t, "count", owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), "canary.count")
	request["canary"] = map[string]any{"count": 1, "hold": "10s"}
	if v := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), 200); v["canary"] != true || v["version"] != 2.0 {
		t.Errorf("publish = %v", v)
	}
	r := obj(t, owner.Get("/api/v1/policy/rollout"), 200)
	if r["version"] != 2.0 || r["base"] != 1.0 || r["state"] != "running" || len(r["gateways"].([]any)) != 1 || at(r, "canary", "hold") != "10s" {
		t.Errorf("rollout = %v", r)
	}
	p := obj(t, owner.Get("/api/v1/policy/versions/2/publication"), 200)
	if p["canary"] != true || p["of"] != 1.0 || len(p["gateways"].([]any)) != 3 || p["head"] != 1.0 {
		t.Errorf("publication = %v", p)
	}
	wait(t, func() bool { return w.Web.Fleet.Health(t.Context()).Rollout != nil })
	if h := obj(t, owner.Get("/api/v1/health"), 200); h["canary"] != 2.0 || h["behind"] != nil || h["stale"] == nil {
		t.Errorf("health = %v", h)
	}
	other := map[string]any{"document": free("51/minute, burst: 51"), "base_version": 1}
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, other)), 409)
	obj(t, owner.JSON("POST", "/api/v1/policy/rollout/promote", `{"version":2}`), 409) // before the hold is over
	namesField(t, "stop", owner.JSON("POST", "/api/v1/policy/rollout/stop", `{"version":2,"reason":" "}`), "reason")
	obj(t, owner.JSON("POST", "/api/v1/policy/rollout/stop", `{"version":1,"reason":"x"}`), 404)
	if v := obj(t, owner.JSON("POST", "/api/v1/policy/rollout/stop?wait=converged", `{"version":2,"reason":"odd"}`), 200); v["version"] != 3.0 || v["converged_on"] != 3.0 {
		t.Errorf("stop = %v", v)
	}
	request["base_version"] = 3
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", body(t, request)), 200)
	w.Advance(11e9)
	if v := obj(t, owner.JSON("POST", "/api/v1/policy/rollout/promote", `{"version":4}`), 200); v["version"] != 4.0 {
		t.Errorf("promote = %v", v)
	}
	list := obj(t, owner.Get("/api/v1/policy/rollouts"), 200)["items"].([]any)
	states := []any{at(list[0], "state"), at(list[1], "state")}
	if !slices.Equal(states, []any{"promoted", "stopped"}) || at(list[1], "successor") != 3.0 {
		t.Errorf("rollouts = %v", list)
	}
}

func TestAPI_P03_AdoptIsRefusedWhenTheDatabaseIsNotBehind(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	namesField(t, "adopt", owner.JSON("POST", "/api/v1/policy/adopt", `{"reason":""}`), "reason")
	if a := owner.JSON("POST", "/api/v1/policy/adopt", `{"reason":"restored"}`); a.StatusCode != 409 && a.StatusCode != 503 {
		t.Errorf("adopt: %d %s", a.StatusCode, a.Text)
	}
}
