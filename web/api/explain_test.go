package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestAPI_ExplainSaysTheSentenceAndTheLadder(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	w.Probe.Answers(1, func(q console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Version: 1, Status: 429, Code: "quota-exceeded", Reason: "limit", Deciding: 0, RetryAfter: 18*time.Second + 1, Limits: []console.ProbeLimit{
			{ID: "plan.requests", Kind: "rate", Limit: 60, Window: time.Minute, Burst: 60, Violated: true, Wait: 18 * time.Second, Cost: 1, Source: "plan free"},
			{ID: "route:everything.all", Kind: "rate", Burst: 9, Left: 9, Unlimited: true, Source: "override"}}}
	})
	v := obj(t, owner.Get("/api/v1/explain?tenant="+id), 200)
	ladder := v["ladder"].([]any)
	if v["outcome"] != "refused" || v["whose"] != "theirs" || v["status"] != 429.0 || v["retry_after_ms"] != 18001.0 || !strings.Contains(v["sentence"].(string), "Acme is refused") || v["tenant_id"] != id {
		t.Errorf("%v", v)
	}
	if len(ladder) != 2 || at(ladder[0], "limit") != "plan.requests" || at(ladder[0], "used") != 60.0 || at(ladder[0], "of") != 60.0 || at(ladder[0], "left") != 0.0 || at(ladder[0], "deciding") != true ||
		at(ladder[0], "wait_ms") != 18000.0 || at(ladder[1], "unlimited") != true || at(ladder[1], "used") != nil {
		t.Errorf("ladder = %v", ladder)
	}
	if steps := at(ladder[0], "steps").([]any); len(steps) != 1 || at(steps[0], "text") != "60/minute, burst 60" {
		t.Errorf("steps = %v", steps)
	}
	if actions := v["actions"].([]any); len(actions) != 2 || at(actions[0], "act") != "boost" || at(actions[0], "limit") != "plan.requests" {
		t.Errorf("actions = %v", actions)
	}
	if v["receipt"] != nil || v["key"] != nil || at(v, "gateways", "redis") != "up" || at(v, "version", "answered") != 1.0 {
		t.Errorf("%v", v)
	}
	r := obj(t, owner.Get("/api/v1/explain?receipt=hgr1_nothing"), 200)
	if at(r, "receipt", "valid") != false || at(r, "receipt", "problem") == nil || r["outcome"] != "unknown" {
		t.Errorf("receipt = %v", r)
	}
}

func TestAPI_ExplainTakesAWholeKeyInABodyAlone(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	issued := obj(t, owner.JSON("POST", "/api/v1/tenants/"+id+"/credentials", `{"name":"main","environment":"live"}`), 201)
	key, kid := issued["key"].(string), at(issued, "key_version", "kid").(string)
	v := obj(t, owner.JSON("POST", "/api/v1/explain", `{"key":"`+key+`"}`), 200)
	if at(v, "key", "accepted") != true || at(v, "key", "kid") != kid || at(v, "key", "masked") != "hg_live_"+kid+"_…" || v["outcome"] != "admitted" || v["tenant_id"] != id {
		t.Errorf("%v", v)
	}
	a := owner.JSON("POST", "/api/v1/explain", `{"key":"`+key+`"}`)
	refused := owner.Get("/api/v1/explain?key=" + url.QueryEscape(key))
	if refused.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(refused.Text, "POST /api/v1/explain") {
		t.Errorf("%d %s", refused.StatusCode, refused.Text)
	}
	for name, text := range map[string]string{"the answer": a.Text, "the refusal": refused.Text, "the log": w.Log.String()} {
		if strings.Contains(text, key[21:53]) {
			t.Errorf("%s has the key", name)
		}
	}
	if v := obj(t, owner.Get("/api/v1/explain?key="+kid), 200); at(v, "key", "accepted") != true {
		t.Errorf("by kid: %v", v)
	}
}

func TestAPI_ExplainBadInputNamesTheField(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	for query, word := range map[string]string{"": "q", "ip=300.1.1.1": "ip", "tenant=" + id + "&path=v1": "path", "tenant=" + id + "&at=2999-01-01T00:00:00Z": "at", "tenants=" + id: "tenants"} {
		if a := owner.Get("/api/v1/explain?" + query); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, word) {
			t.Errorf("%q: %d %s", query, a.StatusCode, a.Text)
		}
	}
	if a := owner.Get("/api/v1/explain?tenant=nobody"); a.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown tenant: %d", a.StatusCode)
	}
	if a := w.Anonymous(t).Get("/api/v1/explain?tenant=" + id); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger: %d", a.StatusCode)
	}
	if a := w.API(t, console.RoleViewer).Get("/api/v1/explain?tenant=" + id); a.StatusCode != http.StatusOK {
		t.Errorf("a viewer: %d", a.StatusCode)
	}
}
