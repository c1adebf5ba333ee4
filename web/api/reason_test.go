package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/web/webtest"
)

// namesField fails unless an answer is 422 and names the field.
func namesField(t *testing.T, what string, a webtest.Answer, field string) {
	t.Helper()
	v := obj(t, a, 422)
	all, _ := v["errors"].([]any)
	if !slices.ContainsFunc(all, func(e any) bool { return at(e, "field") == field }) {
		t.Errorf("%s: the answer does not name %s: %s", what, field, a.Text)
	}
}

func TestAPI_WhatTakesAccessAwayNeedsAReasonAndDoesNothingWithout(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	c := obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"k","environment":"live"}`), 201)
	kid, rotations := at(c, "key_version", "kid").(string), "/api/v1/credentials/"+at(c, "credential", "id").(string)+"/rotations"
	for _, body := range []string{`{}`, `{"reason":""}`, `{"reason":" \t"}`} {
		namesField(t, "start "+body, owner.JSON("POST", rotations, body), "reason")
		namesField(t, "revoke "+body, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/revoke", body), "reason")
		namesField(t, "suspend "+body, owner.JSON("POST", "/api/v1/key-versions/"+kid+"/suspend", body), "reason")
	}
	for _, query := range []string{"", "?reason=", "?reason=%20"} {
		namesField(t, "delete "+query, owner.Do("DELETE", "/api/v1/tenants/"+tenant+query, "", http.NoBody), "reason")
	}
	if v := obj(t, owner.Get("/api/v1/key-versions/"+kid), 200); v["state"] != "active" {
		t.Fatalf("a refused act had an effect: %v", v)
	}
	r := obj(t, owner.JSON("POST", rotations, `{"overlap":"24h","reason":"yearly"}`), 201)
	path := "/api/v1/rotations/" + at(r, "rotation", "id").(string)
	for _, reason := range []string{`""`, `"  "`} {
		namesField(t, "extend", owner.JSON("POST", path+"/extend", `{"by":"1h","reason":`+reason+`}`), "reason")
		namesField(t, "end", owner.JSON("POST", path+"/end", `{"reason":`+reason+`}`), "reason")
		namesField(t, "cancel", owner.JSON("POST", path+"/cancel", `{"reason":`+reason+`}`), "reason")
	}
	if v := obj(t, owner.Get(path), 200); v["state"] != "overlap" || v["extensions"] != 0.0 {
		t.Errorf("a refused act had an effect: %v", v)
	}
}

func TestAPI_PublicationAndRollBackNeedNoNote(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	body := `{"base_version":1,` + strings.TrimPrefix(publishBodyOnly(strings.Replace(document, "60/minute, burst: 60}]", "40/minute, burst: 40}]", 1)), "{")
	v := obj(t, owner.JSON("POST", "/api/v1/policy/publish", body), 200)
	if v["version"] != 2.0 {
		t.Errorf("publication = %v", v)
	}
	if v := obj(t, owner.JSON("POST", "/api/v1/policy/versions/1/rollback", `{}`), 200); v["version"] != 3.0 {
		t.Errorf("roll back = %v", v)
	}
}
