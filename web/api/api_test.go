package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/web/webtest"
)

const document = `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
routes:
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 60/minute, burst: 60}}
`

// obj reads an answer that must have the status.
func obj(t *testing.T, a webtest.Answer, status int) map[string]any {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", a.StatusCode, status, a.Text)
	}
	kind := a.Header.Get("Content-Type")
	if status >= 400 && kind != "application/problem+json" || status < 300 && a.Text != "" && !strings.Contains(kind, "json") {
		t.Errorf("content type %q with status %d", kind, status)
	}
	var v map[string]any
	if a.Text != "" {
		if err := json.Unmarshal([]byte(a.Text), &v); err != nil {
			t.Fatalf("%v in %s", err, a.Text)
		}
	}
	if status >= 400 {
		for _, member := range []string{"type", "title", "status", "detail", "code", "request_id"} {
			if v[member] == nil || v[member] == "" {
				t.Errorf("problem without %s: %s", member, a.Text)
			}
		}
	}
	return v
}

// at walks into an answer: at(v, "rotation", "id").
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func publishBody(doc string, base int) string {
	b, _ := json.Marshal(map[string]any{"document": doc, "base_version": base, "note": "test"})
	return string(b)
}

// published is a world with three gateways, version 1 and one tenant.
func published(t *testing.T) (w *webtest.World, owner *webtest.Client, tenant string) {
	t.Helper()
	w = webtest.New(t)
	w.Feed.Gateways(3)
	owner = w.API(t, console.RoleOwner)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish?wait=converged", publishBody(document, 0)), 200)
	v := obj(t, owner.JSON("POST", "/api/v1/tenants", `{"name":"Acme","plan":"free"}`), 201)
	return w, owner, v["id"].(string)
}

func TestAPI_TenantLifeCycle(t *testing.T) {
	t.Parallel()
	_, owner, id := published(t)
	v := obj(t, owner.Get("/api/v1/tenants/"+id), 200)
	if v["name"] != "Acme" || v["plan"] != "free" || v["status"] != "active" || v["time_zone"] != "UTC" {
		t.Errorf("tenant = %v", v)
	}
	v = obj(t, owner.JSON("PATCH", "/api/v1/tenants/"+id, `{"name":"Acme Ltd","external_id":"a-1"}`), 200)
	if v["name"] != "Acme Ltd" || v["plan"] != "free" {
		t.Errorf("a field that was left out changed: %v", v)
	}
	v = obj(t, owner.JSON("POST", "/api/v1/tenants/"+id+"/suspend?wait=converged", `{"reason":"unpaid"}`), 200)
	if at(v, "tenant", "status") != "suspended" || v["refused_on"] != 3.0 || v["of"] != 3.0 || v["after_ms"] == nil {
		t.Errorf("suspend = %v", v)
	}
	v = obj(t, owner.JSON("POST", "/api/v1/tenants/"+id+"/resume", `{"reason":"paid"}`), 200)
	if at(v, "tenant", "status") != "active" || v["of"] != nil {
		t.Errorf("resume = %v, nobody waited", v)
	}
	list := obj(t, owner.Get("/api/v1/tenants?q=acme&plan=free&status=active&limit=1"), 200)
	if items := list["items"].([]any); len(items) != 1 || list["next_cursor"] != "" {
		t.Errorf("list = %v", list)
	}
	obj(t, owner.Do("DELETE", "/api/v1/tenants/"+id+"?reason=gone", "", http.NoBody), 200)
	obj(t, owner.Get("/api/v1/tenants/ten_aaaaaaaaaaaaaaaa"), 404)
}

func TestAPI_CursorsWalkEachTenantOnce(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	for i := range 5 {
		obj(t, owner.JSON("POST", "/api/v1/tenants", fmt.Sprintf(`{"name":"Same","plan":"free","external_id":"x%d"}`, i)), 201)
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		v := obj(t, owner.Get("/api/v1/tenants?limit=2&cursor="+cursor), 200)
		for _, item := range v["items"].([]any) {
			id := at(item, "id").(string)
			if seen[id] {
				t.Errorf("%s came twice", id)
			}
			seen[id] = true
		}
		if cursor = v["next_cursor"].(string); cursor == "" {
			break
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d tenants, want 6", len(seen))
	}
	obj(t, owner.Get("/api/v1/tenants?cursor=nonsense"), 422)
}

func TestAPI_CredentialShowsItsSecretOnceAndInOnePlace(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	owner.Header.Set("Idempotency-Key", "first-key")
	body := `{"name":"backend","environment":"live"}`
	a := owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", body)
	v := obj(t, a, 201)
	key, _ := v["key"].(string)
	if parsed, err := apikey.Parse(key); err != nil || parsed.KID != at(v, "key_version", "kid") || parsed.Environment != "live" {
		t.Fatalf("key %q: %v", key, err)
	}
	if !strings.HasPrefix(at(v, "credential", "id").(string), "crd_") || v["accepted_on"] != 3.0 || v["of"] != 3.0 {
		t.Errorf("credential = %v", v)
	}
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Error("the answer with a secret may be stored")
	}
	repeat := owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", body)
	p := obj(t, repeat, 409)
	if strings.Contains(repeat.Text, key) || at(p, "earlier", "kid") != at(v, "key_version", "kid") {
		t.Errorf("repeat = %s", repeat.Text)
	}
	obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"other","environment":"live"}`), 422)
	owner.Header.Del("Idempotency-Key")
	list := owner.Get("/api/v1/tenants/" + tenant + "/credentials")
	if items := obj(t, list, 200)["items"].([]any); len(items) != 1 {
		t.Errorf("%d credentials were made", len(items))
	}
	for where, text := range map[string]string{"list": list.Text, "audit": owner.Get("/api/v1/audit").Text, "log": w.Log.String()} {
		if strings.Contains(text, key) || strings.Contains(text, apikey.Digest(key)) {
			t.Errorf("the secret or its digest is in the %s", where)
		}
	}
}

func TestAPI_ParallelPostsWithOneIdempotencyKeyMakeOneSecret(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	owner.Header.Set("Idempotency-Key", "same")
	var mu sync.Mutex
	var made int
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			a := owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"backend","environment":"live"}`)
			mu.Lock()
			defer mu.Unlock()
			if a.StatusCode == 201 {
				made++
			} else if a.StatusCode != 409 {
				t.Errorf("status %d: %s", a.StatusCode, a.Text)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d answers held a secret", made)
	}
}

func TestAPI_RotationSharesUntilItEnds(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	c := obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"backend","environment":"test"}`), 201)
	path := "/api/v1/credentials/" + at(c, "credential", "id").(string) + "/rotations"
	v := obj(t, owner.JSON("POST", path, `{"overlap":"24h","reason":"yearly"}`), 201)
	if v["key"] == c["key"] || v["accepted_on"] != 3.0 || v["of"] != 3.0 || at(v, "rotation", "state") != "overlap" {
		t.Errorf("rotation = %v", v)
	}
	obj(t, owner.JSON("POST", path, `{"overlap":"24h","reason":"again"}`), 409)
	obj(t, owner.JSON("POST", path, `{"overlap":"a day","reason":"x"}`), 422)
	id := at(v, "rotation", "id").(string)
	got := obj(t, owner.Get("/api/v1/rotations/"+id), 200)
	if got["old_kid"] != at(c, "key_version", "kid") || got["new_kid"] != at(v, "key_version", "kid") {
		t.Errorf("rotation = %v", got)
	}
	more := obj(t, owner.JSON("POST", "/api/v1/rotations/"+id+"/extend", `{"by":"24h","reason":"slow"}`), 200)
	if at(more, "rotation", "extensions") != 1.0 {
		t.Errorf("extend = %v", more)
	}
	end := obj(t, owner.JSON("POST", "/api/v1/rotations/"+id+"/end?wait=converged&timeout=5s", `{"reason":"done"}`), 200)
	if end["refused_on"] != 3.0 || end["of"] != 3.0 || at(end, "rotation", "state") != "forced" {
		t.Errorf("end = %v", end)
	}
	old := obj(t, owner.Get("/api/v1/key-versions/"+at(c, "key_version", "kid").(string)), 200)
	if old["state"] == "active" || old["state"] == "retiring" {
		t.Errorf("the old key is still %v", old["state"])
	}
	obj(t, owner.JSON("POST", "/api/v1/rotations/"+id+"/cancel", `{"reason":"late"}`), 409)
}

func TestAPI_KeyVersionIsSuspendedResumedAndRevoked(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	c := obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"backend","environment":"live"}`), 201)
	kid := at(c, "key_version", "kid").(string)
	v := obj(t, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/suspend", `{"reason":"odd traffic"}`), 200)
	if at(v, "key_version", "state") != "suspended" {
		t.Errorf("suspend = %v", v)
	}
	v = obj(t, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/resume?wait=converged", `{"reason":"explained"}`), 200)
	if at(v, "key_version", "state") != "active" || v["accepted_on"] != 3.0 {
		t.Errorf("resume = %v", v)
	}
	v = obj(t, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/revoke?wait=converged", `{"reason":"leak"}`), 200)
	if at(v, "key_version", "state") != "revoked" || v["refused_on"] != 3.0 || v["of"] != 3.0 || v["after_ms"] == nil {
		t.Errorf("revoke = %v", v)
	}
	obj(t, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/resume", `{"reason":"mistake"}`), 409)
	obj(t, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/revoke?wait=converged&timeout=2h", `{"reason":"leak"}`), 422)
}

func TestAPI_PublishTellsHowFarItGot(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	second := strings.Replace(document, "60/minute, burst: 60}]", "40/minute, burst: 40}]", 1)
	v := obj(t, owner.JSON("POST", "/api/v1/policy/publish?wait=converged&timeout=5s", publishBody(second, 1)), 200)
	if v["version"] != 2.0 || v["converged_on"] != 3.0 || v["of"] != 3.0 || v["after_ms"] == nil {
		t.Errorf("publish = %v", v)
	}
	stale := obj(t, owner.JSON("POST", "/api/v1/policy/publish", publishBody(document, 1)), 409)
	if stale["base_version"] != 1.0 || stale["head_version"] != 2.0 || len(stale["changes"].([]any)) == 0 {
		t.Errorf("stale = %v", stale)
	}
	diff := obj(t, owner.Get("/api/v1/policy/versions/2/diff?against=1"), 200)
	if len(diff["changes"].([]any)) == 0 {
		t.Errorf("diff = %v", diff)
	}
	w.Feed.Freeze(&policy.NACK{Version: 3, Code: policy.NACKBadDigest, Detail: "does not hash to it", Since: time.Now()})
	back := obj(t, owner.JSON("POST", "/api/v1/policy/versions/1/rollback?wait=converged&timeout=3s", `{"note":"too tight"}`), 202)
	if back["version"] != 3.0 || back["converged_on"] != 0.0 || len(back["nacks"].([]any)) != 3 {
		t.Errorf("rollback = %v", back)
	}
	head := obj(t, owner.Get("/api/v1/policy"), 200)
	if head["version"] != 3.0 || head["rollback_of"] != 1.0 || at(head, "document", "apiVersion") != "headgate/v1" {
		t.Errorf("head = %v", head)
	}
}

const fiveMistakes = `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: planet, counts: requests, rate: 60/fortnight, burst: 60}]
routes:
  - name: Everything
    match: ["/"]
    identity: api_key
    motive: boredom
    on_store_failure: {mode: ajar}
`

func TestAPI_FiveMistakesAreFiveProblemsWithTheirPaths(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	v := obj(t, owner.JSON("POST", "/api/v1/policy/publish", publishBody(fiveMistakes, 1)), 422)
	paths := map[string]bool{}
	for _, p := range v["problems"].([]any) {
		paths[at(p, "path").(string)] = true
	}
	for _, want := range []string{"plans.free.limits[0].per", "plans.free.limits[0].rate", "routes[0].name", "routes[0].motive", "routes[0].on_store_failure.mode"} {
		if !paths[want] {
			t.Errorf("no problem at %s: %v", want, v["problems"])
		}
	}
	checked := obj(t, owner.JSON("POST", "/api/v1/policy/validate", publishBodyOnly(fiveMistakes)), 200)
	if len(checked["problems"].([]any)) != len(v["problems"].([]any)) {
		t.Errorf("validate found %v", checked["problems"])
	}
	if head := obj(t, owner.Get("/api/v1/policy"), 200); head["version"] != 1.0 {
		t.Error("the live policy did not go on")
	}
}

func publishBodyOnly(doc string) string {
	b, _ := json.Marshal(map[string]any{"document": doc})
	return string(b)
}

func TestAPI_DocumentIsAnObjectOrYAML(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	head := obj(t, owner.Get("/api/v1/policy"), 200)
	b, err := json.Marshal(map[string]any{"document": head["document"]})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{string(b), publishBodyOnly(document)} {
		if v := obj(t, owner.JSON("POST", "/api/v1/policy/validate", body), 200); len(v["problems"].([]any)) != 0 {
			t.Errorf("problems: %v", v["problems"])
		}
	}
	obj(t, owner.JSON("POST", "/api/v1/policy/validate", `{"document": 7}`), 422)
	obj(t, owner.JSON("POST", "/api/v1/policy/validate", `{}`), 422)
}

func TestAPI_DraftsKeepLostUpdatesOut(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	a := owner.JSON("POST", "/api/v1/policy/drafts", `{"name":"tighter"}`)
	v := obj(t, a, 201)
	path, etag := "/api/v1/policy/drafts/"+v["id"].(string), a.Header.Get("ETag")
	if v["base_version"] != 1.0 || etag == "" || !strings.Contains(v["document"].(string), "apiVersion") {
		t.Fatalf("draft = %v, etag %q", v, etag)
	}
	changed := publishBodyOnly(strings.Replace(document, "60/minute, burst: 60}]", "40/minute, burst: 40}]", 1))
	obj(t, owner.JSON("PUT", path, changed), 428)
	owner.Header.Set("If-Match", etag)
	saved := owner.JSON("PUT", path, changed)
	obj(t, saved, 200)
	obj(t, owner.JSON("PUT", path, changed), 412)
	obj(t, owner.JSON("POST", path+"/publish", `{"note":"x"}`), 412)
	owner.Header.Set("If-Match", saved.Header.Get("ETag"))
	p := obj(t, owner.JSON("POST", path+"/publish?wait=converged", `{"note":"tighter"}`), 200)
	if p["version"] != 2.0 || p["converged_on"] != 3.0 {
		t.Errorf("publish = %v", p)
	}
}

func TestAPI_StateIsToldAndUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	wait(t, func() bool { return w.Web.Fleet.Health(t.Context()).InSync == 3 })
	v := obj(t, owner.Get("/api/v1/gateways"), 200)
	if items := v["items"].([]any); len(items) != 3 || at(items[0], "status") != "in-sync" || at(items[0], "version") != 1.0 {
		t.Errorf("gateways = %v", v)
	}
	h := obj(t, owner.Get("/api/v1/health"), 200)
	if h["status"] != "ok" || h["in_sync"] != 3.0 || h["of"] != 3.0 || len(h["hazards"].([]any)) != 0 {
		t.Errorf("health = %v", h)
	}
	w.Feed.Down(true)
	wait(t, func() bool { return !w.Web.Fleet.Health(t.Context()).RedisUp })
	h = obj(t, owner.Get("/api/v1/health"), 200)
	if h["status"] != "degraded" || h["redis"] != "down" || h["in_sync"] != nil || h["of"] != nil {
		t.Errorf("health without Redis = %v", h)
	}
	obj(t, owner.Get("/api/v1/gateways"), 503)
	p := obj(t, owner.JSON("POST", "/api/v1/policy/publish?wait=converged&timeout=1s", publishBody(strings.Replace(document, "burst: 60}]", "burst: 61}]", 1), 1)), 202)
	if p["version"] != 2.0 || p["converged_on"] != nil || p["of"] != nil {
		t.Errorf("publish without Redis = %v", p)
	}
	v = obj(t, owner.Get("/api/v1/audit?object=tenant"), 200)
	if len(v["items"].([]any)) != 1 {
		t.Errorf("audit = %v", v)
	}
	if a := owner.Get("/api/v1/openapi.json"); a.StatusCode != 200 || !strings.Contains(a.Text, `"openapi": "3.1.0"`) {
		t.Errorf("openapi: %d", a.StatusCode)
	}
	obj(t, owner.Get("/api/v1/nothing"), 404)
	obj(t, owner.JSON("PUT", "/api/v1/tenants", `{}`), 405)
}

func wait(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come about within 5 s")
		}
	}
}

func TestAPI_TwentyPublishesFromOneBaseHaveOneWinner(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			doc := strings.Replace(document, "60/minute, burst: 60}]", fmt.Sprintf("%d/minute, burst: 40}]", 40+i), 1)
			a := owner.JSON("POST", "/api/v1/policy/publish", publishBody(doc, 1))
			mu.Lock()
			defer mu.Unlock()
			codes[a.StatusCode]++
		})
	}
	all.Wait()
	if codes[200] != 1 || codes[409] != 19 {
		t.Errorf("codes = %v", codes)
	}
	if v := obj(t, owner.Get("/api/v1/policy"), 200); v["version"] != 2.0 {
		t.Errorf("head is %v", v["version"])
	}
}
