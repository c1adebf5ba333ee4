package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func TestAPI_RepeatedCreationWithoutSecretsGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	tighter := publishBody(strings.Replace(document, "60/minute, burst: 60}]", "40/minute, burst: 40}]", 1), 1)
	for _, c := range []struct {
		path, body string
		status     int
		id         string
	}{
		{"/api/v1/tenants", `{"name":"Twice","plan":"free","external_id":"twice"}`, 201, "id"},
		{"/api/v1/policy/drafts", `{"name":"twice"}`, 201, "id"},
		{"/api/v1/policy/publish", tighter, 200, "version"},
		{"/api/v1/policy/versions/1/rollback", `{"note":"twice"}`, 200, "version"},
	} {
		owner.Header.Set("Idempotency-Key", "once-"+c.path)
		first := obj(t, owner.JSON("POST", c.path, c.body), c.status)
		again := obj(t, owner.JSON("POST", c.path, c.body), c.status)
		if first[c.id] == nil || first[c.id] != again[c.id] {
			t.Errorf("%s: %v, then %v", c.path, first, again)
		}
	}
	owner.Header.Del("Idempotency-Key")
	if v := obj(t, owner.Get("/api/v1/policy"), 200); v["version"] != 3.0 {
		t.Errorf("repeats published too: v%v", v["version"])
	}
	if v := obj(t, owner.Get("/api/v1/policy/drafts"), 200); len(v["items"].([]any)) != 1 {
		t.Errorf("drafts = %v", v)
	}
}

func TestAPI_FailedRequestGivesItsIdempotencyKeyBack(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	owner.Header.Set("Idempotency-Key", "retry")
	obj(t, owner.JSON("POST", "/api/v1/tenants", `{"name":"x","plan":"none"}`), 422)
	obj(t, owner.JSON("POST", "/api/v1/tenants", `{"name":"x","plan":"free"}`), 201)
	obj(t, owner.JSON("POST", "/api/v1/tenants", `{"name":"y","plan":"free"}`), 422)
}

func TestAPI_IdempotencyKeysOfOperatorsDoNotMeet(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	admin := w.API(t, console.RoleKeyAdmin)
	var ids []any
	for _, c := range []*webtest.Client{owner, admin} {
		c.Header.Set("Idempotency-Key", "shared")
		ids = append(ids, obj(t, c.JSON("POST", "/api/v1/tenants", `{"name":"x","plan":"free"}`), 201)["id"])
	}
	if ids[0] == ids[1] {
		t.Error("one operator was given the other's answer")
	}
}

func TestAPI_DraftIsRebasedAndDeleted(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	a := owner.JSON("POST", "/api/v1/policy/drafts", publishBodyNamed("mine", strings.Replace(document, "60/minute, burst: 60}]", "31/minute, burst: 31}]", 1)))
	path := "/api/v1/policy/drafts/" + obj(t, a, 201)["id"].(string)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", publishBody(strings.Replace(document, "60/minute, burst: 60}]", "45/minute, burst: 45}]", 1), 1)), 200)
	owner.Header.Set("If-Match", a.Header.Get("ETag"))
	stale := obj(t, owner.JSON("POST", path+"/publish", `{"note":"x"}`), 409)
	if stale["code"] != "stale-base" || stale["head_version"] != 2.0 {
		t.Errorf("stale = %v", stale)
	}
	re := owner.Do("POST", path+"/rebase", "", http.NoBody)
	if v := obj(t, re, 200); v["base_version"] != 2.0 || !strings.Contains(v["document"].(string), "31/minute") {
		t.Errorf("rebase = %v", v)
	}
	if a := owner.Do("DELETE", path, "", http.NoBody); a.StatusCode != 412 {
		t.Errorf("delete with the old ETag: %d", a.StatusCode)
	}
	owner.Header.Set("If-Match", re.Header.Get("ETag"))
	if a := owner.Do("DELETE", path, "", http.NoBody); a.StatusCode != 204 || a.Text != "" {
		t.Errorf("delete: %d %s", a.StatusCode, a.Text)
	}
	obj(t, owner.Get(path), 404)
}

func publishBodyNamed(name, doc string) string {
	return `{"name":"` + name + `",` + strings.TrimPrefix(publishBodyOnly(doc), "{")
}

func TestAPI_ListsOfKeysVersionsRotationsAndAudit(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	var credential string
	for _, env := range []string{"live", "test"} {
		v := obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"k","environment":"`+env+`","scopes":["read"]}`), 201)
		credential = at(v, "credential", "id").(string)
	}
	obj(t, owner.JSON("POST", "/api/v1/credentials/"+credential+"/rotations", `{"overlap":"1h","reason":"x"}`), 201)
	for path, want := range map[string]int{
		"/api/v1/key-versions?tenant=" + tenant: 3, "/api/v1/key-versions?environment=live": 1, "/api/v1/key-versions?state=retiring": 1,
		"/api/v1/rotations?open=true": 1, "/api/v1/policy/versions": 1, "/api/v1/audit?tenant=" + tenant: 4, "/api/v1/audit?action=rotation.start": 1,
		"/api/v1/tenants/" + tenant + "/credentials": 2,
	} {
		if items := obj(t, owner.Get(path), 200)["items"].([]any); len(items) != want {
			t.Errorf("%s: %d items, want %d: %v", path, len(items), want, items)
		}
	}
	c := obj(t, owner.Get("/api/v1/credentials/"+credential), 200)
	if len(c["key_versions"].([]any)) != 2 || at(c, "tenant_id") != tenant {
		t.Errorf("credential = %v", c)
	}
	for _, path := range []string{"/api/v1/credentials/crd_x", "/api/v1/key-versions/x", "/api/v1/rotations/rot_x", "/api/v1/policy/versions/9", "/api/v1/policy/drafts/drf_x",
		"/api/v1/tenants/ten_x/credentials"} {
		obj(t, owner.Get(path), 404)
	}
	obj(t, owner.Get("/api/v1/policy/versions/0"), 422)
}

func TestAPI_NothingPublishedIsSaidAndNotEmpty(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner := w.API(t, console.RoleOwner)
	obj(t, owner.Get("/api/v1/policy"), 404)
	if v := obj(t, owner.Get("/api/v1/gateways"), 200); v["items"] == nil {
		t.Error("an empty list is null")
	}
	v := obj(t, owner.JSON("POST", "/api/v1/policy/publish?wait=converged&timeout=1s", publishBody(document, 0)), 200)
	if v["version"] != 1.0 || v["of"] != 0.0 {
		t.Errorf("first publication without gateways = %v", v)
	}
	obj(t, owner.JSON("POST", "/api/v1/policy/publish", publishBody(document, 0)), 409)
	obj(t, owner.JSON("POST", "/api/v1/policy/publish?wait=sometimes", publishBody(document, 1)), 422)
}

func TestAPI_IfMatchIsReadAsHTTPSays(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	a := owner.JSON("POST", "/api/v1/policy/drafts", `{"name":"d"}`)
	path, etag := "/api/v1/policy/drafts/"+obj(t, a, 201)["id"].(string), a.Header.Get("ETag")
	rename := func(match string, want int) string {
		t.Helper()
		owner.Header.Set("If-Match", match)
		a := owner.JSON("PATCH", path, `{"name":"e"}`)
		obj(t, a, want)
		return a.Header.Get("ETag")
	}
	rename(`"stale"`, 412)
	rename(`"stale", "other"`, 412)
	rename("W/"+etag, 412)
	rename(`"stale", `+etag, 200)
	etag = rename("*", 200)
	rename(etag, 200)
	owner.Header.Set("If-Match", "*")
	obj(t, owner.JSON("PATCH", "/api/v1/policy/drafts/drf_aaaaaaaaaaaaaaaa", `{"name":"e"}`), 404)
	obj(t, owner.JSON("PUT", path, publishBodyOnly(strings.Replace(document, "burst: 60", "burst: 61", 1))), 200)
	p := obj(t, owner.JSON("POST", path+"/publish", `{"note":"n"}`), 200)
	if got := obj(t, owner.Get(path), 410); !strings.Contains(got["detail"].(string), fmt.Sprintf("v%v", p["version"])) {
		t.Errorf("a draft that was published: %v", got)
	}
	obj(t, owner.Get("/api/v1/policy/drafts/drf_aaaaaaaaaaaaaaaa"), 404)
}
