package portal_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
)

func TestAlerts_A05_ATenantIsToldOnItsOwnChannelsAndNobodyElseActsOnThem(t *testing.T) {
	t.Parallel()
	w, a, b := world(t)
	admin, other := join(t, w, a, "admin@a.example", console.RoleTenantAdmin), join(t, w, b, "admin@b.example", console.RoleTenantAdmin)
	viewer := join(t, w, a, "viewer@a.example", console.RoleTenantViewer)
	wants(t, admin.Post("/t/alerts", url.Values{"kind": {"quota-used"}, "value": {"120"}}), http.StatusSeeOther)
	wants(t, admin.Post("/t/alerts", url.Values{"kind": {"quota-used"}, "value": {"many"}}), http.StatusUnprocessableEntity, "A whole number.")
	page := admin.Post("/t/alerts/channels", url.Values{"name": {"Ours"}, "kind": {"webhook"}, "target": {"https://hooks.example/a"}})
	wants(t, page, http.StatusCreated, "shown once")
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{20,}`).FindString(page.Text)
	list := admin.Get("/t/alerts")
	wants(t, list, http.StatusOK, "120 % of the quota", "Ours", "https://hooks.example/a")
	if secret == "" || page.Header.Get("Cache-Control") != "no-store" || strings.Contains(list.Text, secret) {
		t.Error("the secret is shown never, or twice")
	}
	channel := "/t/alerts/channels/" + regexp.MustCompile(`chn_[a-z2-7]{16}`).FindString(list.Text)
	wants(t, admin.Post("/t/alerts/channels", url.Values{"name": {"Theirs"}, "kind": {"mail"}, "target": {"admin@b.example"}}), http.StatusUnprocessableEntity, "members of your organisation alone", "admin@b.example")
	for _, act := range []string{"/test", "/rotate", "/remove"} {
		wants(t, other.Post(channel+act, nil), http.StatusNotFound)
		wants(t, viewer.Post(channel+act, nil), http.StatusForbidden)
	}
	if text := other.Get("/t/alerts").Text; strings.Contains(text, "Ours") || strings.Contains(text, "120 %") {
		t.Error("another tenant sees them")
	}
	wants(t, admin.Post(channel+"/test", nil), http.StatusSeeOther)
	if _, err := w.Web.Alerts.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent := w.Notes.Sent(); len(sent) != 1 || sent[0].Secrets[0] != secret {
		t.Errorf("%+v", sent)
	}
	wants(t, admin.Get("/t/alerts"), http.StatusOK, "sent")
	wants(t, admin.Post(channel+"/rotate", nil), http.StatusOK, "signs, too, until")
	wants(t, admin.Post(channel+"/remove", nil), http.StatusSeeOther)
	wants(t, admin.Get("/t/alerts"), http.StatusOK, "Nowhere yet.")
}
