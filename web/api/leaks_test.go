package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/webtest"
)

// issued is a tenant's key as the API gave it out.
func issued(t *testing.T, c *webtest.Client, tenant string) (credential, kid, key string) {
	t.Helper()
	v := obj(t, c.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"backend","environment":"live","contact":"ops@acme.example"}`), 201)
	if at(v, "credential", "contact") != "ops@acme.example" {
		t.Errorf("credential %v", v["credential"])
	}
	return at(v, "credential", "id").(string), at(v, "key_version", "kid").(string), v["key"].(string)
}

func TestAPI_RotationTellsWhoHasNotSwitchedAndWhy(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	credential, kid, _ := issued(t, owner, tenant)
	started := obj(t, owner.JSON("POST", "/api/v1/credentials/"+credential+"/rotations", `{"overlap":"24h","reason":"yearly"}`), 201)
	id := at(started, "rotation", "id").(string)
	fresh := at(started, "key_version", "kid").(string)
	now := w.Now().UTC()
	seen := func(kid, network string) (console.KeyUse, console.KeySource) {
		return console.KeyUse{KID: kid, LastUsedAt: &now}, console.KeySource{KID: kid, Network: network, Agent: "sdk/2", FirstSeen: now, LastSeen: now, Requests: 3}
	}
	use, source := seen(kid, "198.51.100.0/24")
	w.KeyUse.Set(use, source)
	use, source = seen(fresh, "203.0.113.0/24")
	w.KeyUse.Set(use, source)
	v := obj(t, owner.Get("/api/v1/rotations/"+id), 200)
	sources, _ := v["sources"].([]any)
	if len(sources) != 2 || at(sources[0], "stand") != "old" || at(sources[0], "network") != "198.51.100.0/24" || at(sources[1], "stand") != "new" ||
		at(v, "readiness", "ready") != false || at(v, "readiness", "needed_seconds") != 21600.0 || at(v, "readiness", "use", "behind") != false ||
		!strings.Contains(v["why_not_ready"].(string), "one source has not switched") || v["shown"] != "overlap" || v["old_last_seen"] == nil {
		t.Errorf("rotation = %v", v)
	}
	list := obj(t, owner.Get("/api/v1/rotations?state=overlap&tenant="+tenant+"&limit=1"), 200)
	if items := list["items"].([]any); len(items) != 1 || at(items[0], "shown") != "overlap" || at(items[0], "why_not_ready") == nil {
		t.Errorf("list = %v", list)
	}
	obj(t, owner.Get("/api/v1/rotations?state=odd"), 422)
	who := obj(t, owner.Get("/api/v1/key-versions/"+kid+"/sources"), 200)
	if items := who["items"].([]any); len(items) != 1 || at(items[0], "agent") != "sdk/2" || at(who, "use", "through") == nil {
		t.Errorf("sources = %v", who)
	}
	obj(t, owner.Get("/api/v1/key-versions/0123456789AB/sources"), 404)
}

func TestAPI_BrownoutStartsStopsAndIsShown(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	credential, kid, _ := issued(t, owner, tenant)
	started := obj(t, owner.JSON("POST", "/api/v1/credentials/"+credential+"/rotations", `{"overlap":"24h","reason":"yearly"}`), 201)
	path := "/api/v1/rotations/" + at(started, "rotation", "id").(string)
	v := obj(t, owner.JSON("POST", path+"/brownouts?wait=converged", `{"network":"198.51.100.9","for":"45s","reason":"who?"}`), 201)
	if at(v, "brownout", "network") != "198.51.100.0/24" || v["refused_on"] != 3.0 || v["of"] != 3.0 {
		t.Errorf("brown-out = %v", v)
	}
	if k := obj(t, owner.Get("/api/v1/key-versions/"+kid), 200); at(k, "brownout", "network") != "198.51.100.0/24" || k["state"] != "retiring" {
		t.Errorf("key = %v", k)
	}
	obj(t, owner.JSON("POST", path+"/brownouts", `{"reason":"again"}`), 409)
	for _, bad := range []string{`{"for":"2m","reason":"x"}`, `{"for":"-1s","reason":"x"}`, `{"for":"soon","reason":"x"}`, `{"network":"10.0.0.0/8","reason":"x"}`, `{}`} {
		obj(t, owner.JSON("POST", path+"/brownouts", bad), 422)
	}
	obj(t, w.API(t, console.RolePublisher).JSON("POST", path+"/brownouts", `{"reason":"x"}`), 403)
	obj(t, owner.JSON("POST", path+"/brownouts/stop", `{}`), 200)
	obj(t, owner.JSON("POST", path+"/brownouts/stop", `{}`), 409)
	got := obj(t, owner.Get(path), 200)
	if list := got["brownouts"].([]any); len(list) != 1 || at(list[0], "stopped_at") == nil || at(list[0], "reason") != "who?" {
		t.Errorf("rotation = %v", got)
	}
}

func TestAPI_KeysAreShownByWhatNeedsALook(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	_, kid, _ := issued(t, owner, tenant)
	if items := obj(t, owner.Get("/api/v1/key-versions?show=never"), 200)["items"].([]any); len(items) != 1 || at(items[0], "kid") != kid {
		t.Errorf("never used = %v", items)
	}
	for _, show := range []string{"unused", "expiring", "retiring-used", "compromised"} {
		if items := obj(t, owner.Get("/api/v1/key-versions?show="+show), 200)["items"].([]any); len(items) != 0 {
			t.Errorf("%s = %v", show, items)
		}
	}
	obj(t, owner.Get("/api/v1/key-versions?show=odd"), 422)
}

func TestAPI_LeakIsFoundContainedAndListed(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	_, kid, key := issued(t, owner, tenant)
	text, _ := json.Marshal(map[string]string{"text": "see " + key + " here"})
	found := obj(t, w.API(t, console.RoleViewer).JSON("POST", "/api/v1/leaks/find", string(text)), 200)
	items := found["items"].([]any)
	if len(items) != 1 || at(items[0], "ours") != true || at(items[0], "key_version", "kid") != kid || at(items[0], "tenant") != "Acme" {
		t.Fatalf("found = %v", found)
	}
	path := "/api/v1/key-versions/" + kid + "/contain"
	obj(t, owner.JSON("POST", path, `{}`), 422)
	obj(t, w.API(t, console.RolePublisher).JSON("POST", path, `{"note":"x"}`), 403)
	done := obj(t, owner.JSON("POST", path, `{"replace":true,"note":"in a public repository","url":"https://example.com/x"}`), 200)
	if done["key"] == "" || at(done, "case", "state") != "contained" || done["working"] != at(done, "key_version", "kid") || done["refused_on"] != 3.0 {
		t.Fatalf("contained = %v", done)
	}
	if k := obj(t, owner.Get("/api/v1/key-versions/"+kid), 200); k["state"] != "revoked" || k["revoke_reason"] != "leak" || k["compromised"] != true {
		t.Errorf("key = %v", k)
	}
	list := obj(t, owner.Get("/api/v1/leaks?state=contained&kid="+kid), 200)
	if items := list["items"].([]any); len(items) != 1 || at(items[0], "url") != "https://example.com/x" || at(items[0], "done") != "revoked and replaced" {
		t.Errorf("list = %v", list)
	}
	obj(t, owner.JSON("POST", "/api/v1/key-versions/0123456789AB/contain", `{"note":"x"}`), 404)
}

// intake is the same console with a token for scanners.
func intake(t *testing.T, w *webtest.World, token string) *webtest.Client {
	t.Helper()
	d := w.Web
	d.LeakToken = token
	h, err := web.New(d)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	c := w.Anonymous(t)
	c.Token = token
	return c
}

func TestAPI_LeaksAreReportedByAScannersTokenAndNothingElse(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	_, kid, key := issued(t, owner, tenant)
	scanner := intake(t, w, strings.Repeat("s", 32))
	body, _ := json.Marshal(map[string]any{"source": "trufflehog", "reports": []map[string]string{{"token": key, "type": "headgate", "url": "https://example.com"}, {"token": "x"}}})
	v := obj(t, scanner.JSON("POST", "/api/v1/leaks", string(body)), 200)
	items := v["items"].([]any)
	if len(items) != 2 || at(items[0], "ours") != true || at(items[0], "done") != "opened" || at(items[1], "ours") != false || at(items[1], "done") != "nothing" {
		t.Fatalf("verdicts = %v", v)
	}
	obj(t, scanner.Get("/api/v1/leaks"), 401)
	obj(t, scanner.JSON("POST", "/api/v1/leaks/find", `{"text":"x"}`), 401)
	wrong := w.Anonymous(t)
	for _, token := range []string{"", strings.Repeat("t", 32), strings.Repeat("s", 31)} {
		wrong.Token = token
		obj(t, wrong.JSON("POST", "/api/v1/leaks", string(body)), 401)
	}
	obj(t, w.API(t, console.RoleViewer).JSON("POST", "/api/v1/leaks", string(body)), 403)
	again := obj(t, w.API(t, console.RoleKeyAdmin).JSON("POST", "/api/v1/leaks", string(body)), 200)
	if items := again["items"].([]any); at(items[0], "done") != "open already" {
		t.Errorf("again = %v", again)
	}
	list := obj(t, owner.Get("/api/v1/leaks?state=open"), 200)
	open := list["items"].([]any)
	if len(open) != 1 || at(open[0], "kid") != kid || at(open[0], "source") != "trufflehog" || at(open[0], "reports") != 2.0 {
		t.Fatalf("list = %v", list)
	}
	id := at(open[0], "id").(string)
	obj(t, owner.JSON("POST", "/api/v1/leaks/"+id+"/dismiss", `{}`), 422)
	obj(t, owner.JSON("POST", "/api/v1/leaks/"+id+"/dismiss", `{"reason":"a test key"}`), 204)
	obj(t, owner.JSON("POST", "/api/v1/leaks/"+id+"/dismiss", `{"reason":"a test key"}`), 409)
	if strings.Contains(w.Log.String(), key[len(key)-20:]) {
		t.Error("the log has a part of the secret")
	}
}

func TestAPI_WithoutATokenOfItsOwnTheIntakeTakesNoEmptyOne(t *testing.T) {
	t.Parallel()
	w, _, _ := published(t)
	c := w.Anonymous(t)
	c.Header.Set("Authorization", "Bearer ")
	obj(t, c.JSON("POST", "/api/v1/leaks", `{"reports":[{"token":"x"}]}`), 401)
}

// TestAPI_A18_OfTwoHundredRequestsWithOneKeyOneHasTheSecret: for each request
// that makes a secret.
func TestAPI_A18_OfTwoHundredRequestsWithOneKeyOneHasTheSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, body string }{
		"credential": {"/api/v1/tenants/{tenant}/credentials", `{"name":"n","environment":"live"}`},
		"rotation":   {"/api/v1/credentials/{credential}/rotations", `{"overlap":"1h","reason":"r"}`},
		"leak":       {"/api/v1/key-versions/{kid}/contain", `{"replace":true,"note":"n"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, owner, tenant := published(t)
			credential, kid, _ := issued(t, owner, tenant)
			path := strings.NewReplacer("{tenant}", tenant, "{credential}", credential, "{kid}", kid).Replace(c.path)
			before := made(t, w, tenant)
			secrets := map[string]bool{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					api := w.API(t, console.RoleOwner)
					api.Header = http.Header{"Idempotency-Key": {"only-once"}}
					a := api.JSON("POST", path, c.body)
					var v map[string]any
					_ = json.Unmarshal([]byte(a.Text), &v)
					mu.Lock()
					defer mu.Unlock()
					switch key, _ := v["key"].(string); {
					case a.StatusCode < 300:
						secrets[key] = true
					case a.StatusCode != 409 && a.StatusCode != 503 || strings.Contains(a.Text, "hg_live_"):
						t.Errorf("%d %s", a.StatusCode, a.Text)
					}
				})
			}
			wg.Wait()
			if n := made(t, w, tenant) - before; len(secrets) != 1 || n != 1 {
				t.Fatalf("%d secrets were shown, %d versions made", len(secrets), n)
			}
			for secret := range secrets {
				if _, err := apikey.Parse(secret); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func made(t *testing.T, w *webtest.World, tenant string) (n int) {
	t.Helper()
	list, err := w.Web.Keys.ListCredentials(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		n += len(c.Versions)
	}
	return n
}

func TestAPI_ReadyIsShownWhenTheOldKeyIsSilent(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	credential, _, _ := issued(t, owner, tenant)
	started := obj(t, owner.JSON("POST", "/api/v1/credentials/"+credential+"/rotations", `{"overlap":"1h","reason":"r"}`), 201)
	w.Advance(16 * time.Minute)
	path := "/api/v1/rotations/" + at(started, "rotation", "id").(string)
	if v := obj(t, owner.Get(path), 200); v["shown"] != "ready" || at(v, "readiness", "ready") != true || v["why_not_ready"] != nil {
		t.Fatalf("rotation = %v", v)
	}
	if v := obj(t, owner.JSON("POST", path+"/end", `{"reason":"all have switched"}`), 200); at(v, "rotation", "state") != "completed" {
		t.Errorf("end = %v", v)
	}
}
