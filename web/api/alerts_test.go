package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func TestAPI_AlertsFromRuleToDelivery(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	channel := obj(t, owner.JSON("POST", "/api/v1/alert-channels", `{"name":"Ops","kind":"webhook","target":"https://hooks.example/a","enabled":true}`), 201)
	id, secret := at(channel, "channel", "id").(string), at(channel, "secret").(string)
	if !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("secret %q", secret)
	}
	rule := obj(t, owner.JSON("POST", "/api/v1/alert-rules", `{"name":"Silent","kind":"replica-stalled","threshold":15,"channels":["`+id+`"],"enabled":true}`), 201)
	ruleID := at(rule, "id").(string)
	changed := obj(t, owner.JSON("PUT", "/api/v1/alert-rules/"+ruleID, `{"name":"Silent","threshold":20,"for_seconds":5,"channels":[],"enabled":false}`), 200)
	if at(changed, "threshold").(float64) != 20 || at(changed, "for_seconds").(float64) != 5 {
		t.Errorf("%v", changed)
	}
	delivery := obj(t, owner.JSON("POST", "/api/v1/alert-channels/"+id+"/test", ""), 200)
	if _, err := w.Web.Alerts.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent := w.Notes.Sent(); len(sent) != 1 || sent[0].ID != at(delivery, "id") || sent[0].Secrets[0] != secret {
		t.Errorf("%+v", sent)
	}
	rotated := obj(t, owner.JSON("POST", "/api/v1/alert-channels/"+id+"/rotate", ""), 200)
	if at(rotated, "secret") == secret || at(rotated, "channel", "old_until") == nil {
		t.Errorf("%v", rotated)
	}
	obj(t, owner.JSON("PUT", "/api/v1/alert-channels/"+id, `{"name":"Ops 2","target":"https://hooks.example/b","enabled":true}`), 200)
	silence := obj(t, owner.JSON("POST", "/api/v1/alert-silences", `{"rule_id":"`+ruleID+`","for_seconds":3600,"reason":"deploy"}`), 201)
	for _, path := range []string{"/api/v1/alerts", "/api/v1/alert-rules", "/api/v1/alert-channels", "/api/v1/alert-silences?live=true", "/api/v1/alert-deliveries?state=sent"} {
		a := owner.Get(path)
		if a.StatusCode != 200 || strings.Contains(a.Text, "whsec_") || path != "/api/v1/alerts" && !strings.Contains(a.Text, `"id"`) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Text)
		}
	}
	for path, want := range map[string]int{
		"/api/v1/alert-silences/" + at(silence, "id").(string) + "/end": 204, "/api/v1/alert-silences/sil_aaaaaaaaaaaaaaaa/end": 404, "/api/v1/alert-deliveries/" + at(delivery, "id").(string) + "/retry": 404,
	} {
		if a := owner.JSON("POST", path, ""); a.StatusCode != want {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Text)
		}
	}
	for _, path := range []string{"/api/v1/alert-rules/" + ruleID, "/api/v1/alert-channels/" + id} {
		if a := owner.Do("DELETE", path, "", http.NoBody); a.StatusCode != 204 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Text)
		}
		if a := owner.Do("DELETE", path, "", http.NoBody); a.StatusCode != 404 {
			t.Errorf("%s again: %d", path, a.StatusCode)
		}
	}
}

func TestAPI_AlertsNameTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner := w.API(t, console.RoleOwner)
	for body, field := range map[string]string{
		`{"name":"a","kind":"quota-used","threshold":5000,"channels":[],"enabled":true}`:        "threshold",
		`{"name":"a","kind":"nonsense","channels":[],"enabled":true}`:                           "kind",
		`{"name":"a","kind":"replica-nack","channels":["chn_aaaaaaaaaaaaaaaa"],"enabled":true}`: "channels",
		`{"name":"a","kind":"replica-nack","channels":[],"enabled":true,"for_seconds":-1}`:      "for_seconds",
		`{"name":"a","kind":"replica-nack","channels":[],"enabled":true,"surprise":1}`:          "surprise",
	} {
		if a := owner.JSON("POST", "/api/v1/alert-rules", body); a.StatusCode != 422 || !strings.Contains(a.Text, field) {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.Text)
		}
	}
	if a := owner.JSON("POST", "/api/v1/alert-channels", `{"name":"a","kind":"webhook","target":"http://127.0.0.1","enabled":true}`); a.StatusCode != 422 || !strings.Contains(a.Text, "target") {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	if a := w.API(t, console.RoleEditor).JSON("POST", "/api/v1/alert-silences", `{"for_seconds":60,"reason":"x"}`); a.StatusCode != 403 {
		t.Errorf("an editor silences: %d", a.StatusCode)
	}
}
