package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

var (
	webhookSecret = regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{20,}`)
	idOnPage      = regexp.MustCompile(`(alr|chn|sil|dlv)_[a-z2-7]{16}`)
)

// hook makes a webhook through the pages and returns its id and secret.
func hook(t *testing.T, c *webtest.Client) (id, secret string) {
	t.Helper()
	page := c.Post("/alerts/channels", url.Values{"name": {"Ops"}, "kind": {"webhook"}, "target": {"https://hooks.example/a"}})
	wants(t, page, http.StatusCreated, "shown once")
	if page.Header.Get("Cache-Control") != "no-store" {
		t.Error("the page with the secret may be kept")
	}
	return idOnPage.FindString(page.Text), webhookSecret.FindString(page.Text)
}

func TestAlertPages_ARuleIsMadeTestedSilencedAndTold(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleOwner)
	wants(t, c.Get("/alerts"), http.StatusOK, "There are no rules yet")
	channel, secret := hook(t, c)
	if secret == "" || strings.Contains(c.Get("/alerts/channels/"+channel).Text, secret) {
		t.Fatal("the secret is shown never, or twice")
	}
	made := c.Post("/alerts/rules", url.Values{"name": {"Refusals"}, "kind": {"refused-change"}, "threshold": {""}, "for": {"0"}, "channels": {channel}, "enabled": {"yes"}})
	wants(t, made, http.StatusSeeOther)
	list := c.Get("/alerts/rules")
	wants(t, list, http.StatusOK, "Refusals", "percentage points above the last hour&#39;s share: 10", "Ops")
	rule := idOnPage.FindString(list.Text)
	used(w, tenant.ID, 1, 1) // it does not rise: the hour was the same
	if err := w.Web.Alerts.Evaluate(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants(t, c.Get("/alerts"), http.StatusOK, "Nothing that the rules look for is so.")

	wants(t, c.Post("/alerts/channels/"+channel+"/test", nil), http.StatusSeeOther)
	if _, err := w.Web.Alerts.Deliver(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if sent := w.Notes.Sent(); len(sent) != 1 || sent[0].Secrets[0] != secret {
		t.Fatalf("%+v", sent)
	}
	wants(t, c.Get("/alerts/deliveries"), http.StatusOK, "Test:", "sent", w.Notes.Sent()[0].ID)

	wants(t, c.Post("/alerts/silences", url.Values{"rule": {rule}, "for": {"1h"}, "reason": {"deploy"}}), http.StatusSeeOther)
	silences := c.Get("/alerts/silences")
	wants(t, silences, http.StatusOK, "deploy", "holds")
	wants(t, c.Post("/alerts/silences/"+silenceID(silences.Text)+"/end", nil), http.StatusSeeOther)
	wants(t, c.Get("/alerts/silences"), http.StatusOK, "ended by")

	rotated := c.Post("/alerts/channels/"+channel+"/rotate", nil)
	wants(t, rotated, http.StatusOK, "shown once", "signs, too, until")
	if webhookSecret.FindString(rotated.Text) == secret {
		t.Error("the secret is the same")
	}
	wants(t, c.Get("/alerts/rules/"+rule), http.StatusOK, "Refused share has risen")
	wants(t, c.Post("/alerts/rules/"+rule, url.Values{"name": {"Others"}, "threshold": {"20"}, "for": {"60"}}), http.StatusSeeOther)
	wants(t, c.Get("/alerts/rules"), http.StatusOK, "Others", "nobody", "for 1m0s")
	wants(t, c.Post("/alerts/rules/"+rule+"/remove", nil), http.StatusSeeOther)
	wants(t, c.Post("/alerts/channels/"+channel+"/remove", nil), http.StatusSeeOther)
	wants(t, c.Get("/alerts/channels"), http.StatusOK, "There are no channels yet")
}

func silenceID(page string) string {
	return regexp.MustCompile(`sil_[a-z2-7]{16}`).FindString(page)
}

func TestAlertPages_FailedFormsKeepWhatWasTyped(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleOwner)
	channel, _ := hook(t, c)
	for path, in := range map[string]struct {
		form url.Values
		want []string
	}{
		"/alerts/rules":                {url.Values{"name": {"Mine"}, "kind": {"quota-used"}, "threshold": {"5000"}}, []string{"Mine", "5000", "Between 1 and 1000"}},
		"/alerts/channels":             {url.Values{"name": {"Mine"}, "kind": {"webhook"}, "target": {"http://127.0.0.1/"}}, []string{"Mine", "http://127.0.0.1/", "not an address such as"}},
		"/alerts/channels/" + channel:  {url.Values{"name": {""}, "target": {"https://hooks.example/b"}}, []string{"https://hooks.example/b", "must not be empty"}},
		"/alerts/silences":             {url.Values{"for": {"1h"}, "object": {"ten_a"}}, []string{"ten_a", "Say why."}},
		"/alerts/silences?second=form": {url.Values{"for": {"soon"}, "reason": {"because"}}, []string{"because", "Choose for how long."}},
	} {
		wants(t, c.Post(path, in.form), http.StatusUnprocessableEntity, in.want...)
	}
	for _, bad := range []url.Values{{"name": {"a"}, "kind": {"quota-used"}, "threshold": {"many"}}, {"name": {"a"}, "kind": {"replica-nack"}, "for": {"long"}}} {
		wants(t, c.Post("/alerts/rules", bad), http.StatusUnprocessableEntity)
	}
}

func TestAlertPages_HostileNamesStayText(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleOwner)
	wants(t, c.Post("/alerts/rules", url.Values{"name": {hostile}, "kind": {"replica-nack"}, "enabled": {"yes"}}), http.StatusSeeOther)
	wants(t, c.Post("/alerts/channels", url.Values{"name": {hostile}, "kind": {"mail"}, "target": {"ann@example.com"}}), http.StatusSeeOther)
	wants(t, c.Post("/alerts/silences", url.Values{"object": {hostile[:60]}, "for": {"1h"}, "reason": {hostile}}), http.StatusSeeOther)
	for _, path := range []string{"/alerts", "/alerts?show=all", "/alerts/rules", "/alerts/channels", "/alerts/silences", "/alerts/deliveries"} {
		if a := c.Get(path); a.StatusCode != http.StatusOK || strings.Contains(a.Text, "<img src=x") || strings.Contains(a.Text, "<script>window.__xss") {
			t.Errorf("%s: %d, hostile text is markup", path, a.StatusCode)
		}
	}
}

func TestAlertPages_AMessageThatWasGivenUpIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleOwner)
	channel, _ := hook(t, c)
	w.Notes.Fail(errors.New("nobody is there"))
	wants(t, c.Post("/alerts/channels/"+channel+"/test", nil), http.StatusSeeOther)
	for range 10 {
		if _, err := w.Web.Alerts.Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Advance(80 * 60e9)
	}
	c = w.As(t, console.RoleOwner) // hours have passed
	page := c.Get("/alerts/deliveries?state=dead")
	wants(t, page, http.StatusOK, "given up", "nobody is there", "Try again")
	w.Notes.Fail(nil)
	id := regexp.MustCompile(`dlv_[a-z2-7]{16}`).FindString(page.Text)
	wants(t, c.Post("/alerts/deliveries/"+id+"/again", nil), http.StatusSeeOther)
	if _, err := w.Web.Alerts.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent := w.Notes.Sent(); len(sent) != 1 || sent[0].ID != id {
		t.Errorf("%+v", sent)
	}
	wants(t, c.Post("/alerts/deliveries/"+id+"/again", nil), http.StatusNotFound)
}

func TestAlertPages_ViewersSeeAndChangeNothing(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	channel, _ := hook(t, w.As(t, console.RoleOwner))
	c := w.As(t, console.RoleViewer)
	for _, path := range []string{"/alerts/rules", "/alerts/channels", "/alerts/silences", "/alerts/deliveries"} {
		if a := c.Get(path); a.StatusCode != http.StatusOK || strings.Contains(a.Text, `method="post" action="/alerts`) {
			t.Errorf("%s offers a viewer a form: %d", path, a.StatusCode)
		}
	}
	wants(t, c.Post("/alerts/channels/"+channel+"/rotate", nil), http.StatusForbidden)
	support := w.As(t, console.RoleSupport)
	wants(t, support.Post("/alerts/silences", url.Values{"for": {"1h"}, "reason": {"known"}}), http.StatusSeeOther)
	wants(t, support.Post("/alerts/rules", url.Values{"name": {"a"}, "kind": {"replica-nack"}}), http.StatusForbidden)
}
