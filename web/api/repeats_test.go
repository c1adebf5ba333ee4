package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// Every operation that takes an idempotency key: a repeat has no second effect,
// another request under the same key none at all, and a secret is told once.
func TestAPI_A18_RepeatUnderOneKeyHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	credential := func(name string) (id, kid string) {
		v := obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"`+name+`","environment":"live"}`), 201)
		return at(v, "credential", "id").(string), at(v, "key_version", "kid").(string)
	}
	rotated, _ := credential("rotated")
	_, leaked := credential("leaked")
	of := "/api/v1/tenants/" + tenant
	tighter := publishBody(strings.Replace(document, "burst: 60}]", "burst: 50}]\n    quota: {amount: 100, period: month, over: block}", 1), 1)
	looser := publishBody(strings.Replace(document, "burst: 60}]", "burst: 70}]", 1), 1)
	capacity := func(knee string) string {
		return `{"route":"everything","target":"http://upstream.example","method":"GET","knee_milli":` + knee + `,"ended":"max-rps"}`
	}
	table := map[string]struct {
		path, body, other string
		status            int
		secret            []string // where it is in the answer
		list              string   // that shows what was made
	}{
		"create-tenant":        {"/api/v1/tenants", `{"name":"A","plan":"free"}`, `{"name":"B","plan":"free"}`, 201, nil, "/api/v1/tenants"},
		"create-credential":    {of + "/credentials", `{"name":"a","environment":"live"}`, `{"name":"b","environment":"live"}`, 201, []string{"key"}, of + "/credentials"},
		"start-rotation":       {"/api/v1/credentials/" + rotated + "/rotations", `{"overlap":"24h","reason":"r"}`, `{"overlap":"25h","reason":"r"}`, 201, []string{"key"}, "/api/v1/rotations"},
		"contain-key-version":  {"/api/v1/key-versions/" + leaked + "/contain", `{"replace":true,"note":"n"}`, `{"replace":true,"note":"m"}`, 200, []string{"key"}, "/api/v1/leaks"},
		"boost-limit":          {of + "/boosts", `{"limit":"plan.requests","factor":2,"for":"1h","reason":"r"}`, `{"limit":"plan.requests","factor":3,"for":"1h","reason":"r"}`, 201, nil, "/api/v1/overrides?state=all"},
		"invite-member":        {of + "/members", `{"email":"a@a.example","role":"tenant-admin"}`, `{"email":"b@a.example","role":"tenant-admin"}`, 201, []string{"url"}, of + "/members"},
		"create-sign-in-link":  {of + "/sign-in-links", `{"external_user":"u","role":"tenant-viewer"}`, `{"external_user":"v","role":"tenant-viewer"}`, 201, []string{"url"}, of + "/members"},
		"create-draft":         {"/api/v1/policy/drafts", `{"name":"a"}`, `{"name":"b"}`, 201, nil, "/api/v1/policy/drafts"},
		"create-alert-channel": {"/api/v1/alert-channels", `{"name":"a","kind":"webhook","target":"https://hooks.example/a","enabled":true}`, `{"name":"b","kind":"webhook","target":"https://hooks.example/a","enabled":true}`, 201, []string{"secret"}, "/api/v1/alert-channels"},
		"correct-usage":        {"/api/v1/usage/corrections", `{"tenant":"` + tenant + `","at":"` + time.Now().UTC().Format(time.RFC3339) + `","cost":5,"reason":"r"}`, `{"tenant":"` + tenant + `","at":"` + time.Now().UTC().Format(time.RFC3339) + `","cost":6,"reason":"r"}`, 201, nil, "/api/v1/usage/events?format=json"},
		"publish-policy":       {"/api/v1/policy/publish", tighter, looser, 200, nil, "/api/v1/policy/versions"},
		"grant-quota":          {of + "/quota/grants", `{"units":5,"reason":"r"}`, `{"units":6,"reason":"r"}`, 201, nil, "/api/v1/audit"},
		"store-capacity":       {"/api/v1/capacities", capacity("100000"), capacity("110000"), 201, nil, "/api/v1/capacities"},
		"rollback-policy":      {"/api/v1/policy/versions/1/rollback", `{"note":"a"}`, `{"note":"b"}`, 200, nil, "/api/v1/policy/versions"},
	}
	order := []string{"create-tenant", "create-credential", "start-rotation", "contain-key-version", "boost-limit", "invite-member", "create-sign-in-link", "create-draft", "create-alert-channel", "correct-usage", "store-capacity", "publish-policy", "grant-quota", "rollback-policy"}
	all, _ := operations(t)
	for id, o := range all {
		takes := false
		for _, p := range o.Parameters {
			takes = takes || p.In == "header" && p.Name == "Idempotency-Key"
		}
		if takes != slices.Contains(order, id) && id != "create-bulk-job" { // which takes files, too
			t.Errorf("%s takes an idempotency key: %v, and the table says otherwise", id, takes)
		}
	}
	for _, id := range order {
		c := table[id]
		owner.Header.Set("Idempotency-Key", "once-"+id)
		first := obj(t, owner.JSON("POST", c.path, c.body), c.status)
		owner.Header.Del("Idempotency-Key")
		made := owner.Get(c.list).Text
		owner.Header.Set("Idempotency-Key", "once-"+id)
		if secret, _ := at(first, c.secret...).(string); c.secret == nil {
			again := obj(t, owner.JSON("POST", c.path, c.body), c.status)
			for _, member := range []string{"id", "version"} {
				if first[member] != again[member] {
					t.Errorf("%s: %v, then %v", id, first, again)
				}
			}
		} else {
			again := owner.JSON("POST", c.path, c.body)
			obj(t, again, http.StatusConflict)
			if secret == "" || strings.Contains(again.Text, secret) {
				t.Errorf("%s: the secret %q and then %s", id, secret, again.Text)
			}
			if c.secret[0] == "key" && strings.Contains(made, secret) {
				t.Errorf("%s: the secret is in the list", id)
			}
		}
		obj(t, owner.JSON("POST", c.path, c.other), http.StatusUnprocessableEntity)
		owner.Header.Del("Idempotency-Key")
		if now := owner.Get(c.list).Text; now != made {
			t.Errorf("%s: repeats changed %s to %s", id, made, now)
		}
	}
}

// A key of another operator opens nothing of the first one's.
func TestAPI_A18_KeysOfOthersTellNothing(t *testing.T) {
	t.Parallel()
	w, owner, tenant := published(t)
	path, body := "/api/v1/tenants/"+tenant+"/members", `{"email":"kim@a.example","role":"tenant-viewer"}`
	owner.Header.Set("Idempotency-Key", "k")
	first := owner.JSON("POST", path, body)
	obj(t, first, 201)
	admin := w.API(t, console.RoleKeyAdmin)
	admin.Header.Set("Idempotency-Key", "k")
	second := admin.JSON("POST", path, body)
	if strings.Contains(second.Text, cut(first.Text, "/t/invite/", `"`)) {
		t.Errorf("the first one's link came again: %s", second.Text)
	}
	viewer := w.API(t, console.RoleViewer)
	viewer.Header.Set("Idempotency-Key", "k")
	obj(t, viewer.JSON("POST", path, body), 403)
}
