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
	"github.com/headgate/headgate/web/api"
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
	second := strings.Replace(document, "60/minute, burst: 60}]", "10/minute, burst: 10}]", 1)
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
	changed := publishBodyOnly(strings.Replace(document, "60/minute, burst: 60}]", "10/minute, burst: 10}]", 1))
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

func TestAPI_BadBodiesNameTheField(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		names                    string
	}{
		{"unknown field", "POST", "/api/v1/tenants", `{"name":"x","plan":"free","role":"admin"}`, 422, "role"},
		{"unknown query", "GET", "/api/v1/tenants?tenant_id=x", ``, 422, "tenant_id"},
		{"missing field", "POST", "/api/v1/tenants", `{"plan":"free"}`, 422, "name"},
		{"wrong type", "POST", "/api/v1/tenants", `{"name":7,"plan":"free"}`, 422, "name"},
		{"duplicate", "POST", "/api/v1/tenants", `{"name":"x","plan":"free","plan":"pro"}`, 400, "plan"},
		{"unknown plan", "POST", "/api/v1/tenants", `{"name":"x","plan":"gold"}`, 422, "plan"},
		{"not JSON", "POST", "/api/v1/tenants", `{"name":`, 400, "JSON"},
		{"two values", "POST", "/api/v1/tenants", `{"name":"x","plan":"free"} {}`, 400, "after"},
		{"deep", "POST", "/api/v1/tenants", strings.Repeat("[", 5000), 400, "deep"},
		{"bad environment", "POST", "/api/v1/tenants/" + tenant + "/credentials", `{"name":"x","environment":"prod"}`, 422, "environment"},
		{"no reason", "POST", "/api/v1/tenants/" + tenant + "/suspend", `{}`, 422, "reason"},
		{"limit", "GET", "/api/v1/tenants?limit=1000", ``, 422, "limit"},
	} {
		a := owner.JSON(c.method, c.path, c.body)
		if v := obj(t, a, c.status); !strings.Contains(v["detail"].(string), c.names) {
			t.Errorf("%s: %q does not name %s", c.name, v["detail"], c.names)
		}
	}
	a := owner.Do("POST", "/api/v1/tenants", "text/plain", strings.NewReader(`{"name":"x","plan":"free"}`))
	obj(t, a, 415)
	a = owner.JSON("POST", "/api/v1/policy/validate", `{"document":"`+strings.Repeat("a", 9<<20)+`"}`)
	obj(t, a, 413)
}

func TestAPI_RolesAndTokens(t *testing.T) {
	t.Parallel()
	w, _, tenant := published(t)
	may := map[string][]console.Role{
		"POST /api/v1/tenants":                            {console.RoleKeyAdmin, console.RoleOwner},
		"POST /api/v1/tenants/" + tenant + "/credentials": {console.RoleKeyAdmin, console.RoleOwner},
		"POST /api/v1/policy/publish":                     {console.RolePublisher, console.RoleOwner},
		"POST /api/v1/policy/drafts":                      {console.RoleEditor, console.RolePublisher, console.RoleOwner},
		"GET /api/v1/gateways":                            console.Roles(),
	}
	for call, roles := range may {
		method, path, _ := strings.Cut(call, " ")
		for _, role := range console.Roles() {
			a := w.API(t, role).JSON(method, path, `{}`)
			allowed := a.StatusCode != 403
			if want := strings.Contains(fmt.Sprint(roles), string(role)); allowed != want {
				t.Errorf("%s as %s: %d", call, role, a.StatusCode)
			}
		}
		for name, token := range map[string]string{"none": "", "nonsense": "hg_ops_x", "a key's": "hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp"} {
			c := w.Anonymous(t)
			c.Token = token
			a := c.JSON(method, path, `{}`)
			obj(t, a, 401)
			if a.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with token %s: no WWW-Authenticate", call, name)
			}
		}
	}
	if a := w.As(t, console.RoleOwner).Get("/api/v1/tenants"); a.StatusCode != 401 {
		t.Errorf("a browser's session opens the API: %d", a.StatusCode)
	}
	if !strings.Contains(w.Log.String(), "authz_denied") {
		t.Error("refusals by role are not logged")
	}
}

func TestAPI_DisabledOperatorsTokenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.API(t, console.RoleViewer)
	obj(t, c.Get("/api/v1/tenants"), 200)
	if err := w.Web.Operators.Disable(t.Context(), w.Actor(console.RoleOwner), w.Operators[console.RoleViewer].ID); err != nil {
		t.Fatal(err)
	}
	obj(t, c.Get("/api/v1/tenants"), 401)
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
	if h["status"] != "ok" || h["in_sync"] != 3.0 || h["of"] != 3.0 {
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
	for deadline := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about within 5 s")
		}
		time.Sleep(5 * time.Millisecond)
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
			doc := strings.Replace(document, "60/minute, burst: 60}]", fmt.Sprintf("%d/minute, burst: 10}]", 10+i), 1)
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

func TestAPI_EveryOperationRefusesRolesWithoutItsPermission(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	var doc struct {
		Paths map[string]map[string]struct{ Description string } `json:"paths"`
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{tenant}", "ten_aaaaaaaaaaaaaaaa", "{draft}", "drf_aaaaaaaaaaaaaaaa", "{version}", "77", "{rotation}", "rot_aaaaaaaaaaaaaaaa",
		"{credential}", "crd_aaaaaaaaaaaaaaaa", "{kid}", "0123456789AB")
	cells := 0
	for pattern, methods := range doc.Paths {
		for method, operation := range methods {
			_, rest, _ := strings.Cut(operation.Description, "Needs the permission ")
			permission, _, _ := strings.Cut(rest, ".")
			if permission == "" {
				t.Errorf("%s %s names no permission", method, pattern)
			}
			for _, role := range console.Roles() {
				cells++
				a := w.API(t, role).JSON(strings.ToUpper(method), fill.Replace(pattern), `{}`)
				if allowed := role.Can(console.Permission(permission)); allowed == (a.StatusCode == 403) || a.StatusCode == 401 || a.StatusCode >= 500 && a.StatusCode != 503 {
					t.Errorf("%s %s as %s: %d %s", method, pattern, role, a.StatusCode, a.Text)
				}
			}
		}
	}
	if cells < 100 {
		t.Errorf("only %d cells", cells)
	}
}

func TestAPI_PolicyBombsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner := w.API(t, console.RoleOwner)
	text := func(s string) string { b, _ := json.Marshal(map[string]string{"document": s}); return string(b) }
	bombs := map[string]string{
		"aliases":       text("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"),
		"depth in YAML": text(strings.Repeat("[", 4000)),
		"depth in JSON": `{"document":` + strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000) + "}",
		"many keys":     text("apiVersion: headgate/v1\n" + strings.Repeat("a: 1\n", 100000)),
		"huge number":   text("apiVersion: headgate/v1\nplans: {free: {limits: [{name: a, per: tenant, rate: 1/minute, burst: 1e309}]}}\n"),
		"nan":           text("apiVersion: headgate/v1\nplans: {free: {limits: [{name: a, per: tenant, rate: 1/minute, burst: .nan}]}}\n"),
		"documents":     text("a: 1\n---\nb: 2\n"),
		"merge key":     text("a: &a {x: 1}\nb: {<<: *a}\n"),
		"NUL":           text("a: \"\x00\"\n"),
	}
	for name, body := range bombs {
		begun := time.Now()
		a := owner.JSON("POST", "/api/v1/policy/validate", body)
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if a.StatusCode == 200 && strings.Contains(a.Text, `"problems":[]`) || a.StatusCode >= 500 {
			t.Errorf("%s: %d %.200s", name, a.StatusCode, a.Text)
		}
	}
}
