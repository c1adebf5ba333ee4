package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestBrownouts_StartShowRefuseASecondAndStop(t *testing.T) {
	t.Parallel()
	w, c, started, page := rotating(t)
	first, last := w.Now().Add(-time.Hour), w.Now().Add(-time.Minute)
	old := started.Rotation.OldKID
	w.KeyUse.Set(console.KeyUse{KID: old, LastUsedAt: &last},
		console.KeySource{KID: old, Network: "192.0.2.0/24", Agent: "curl/8", FirstSeen: first, LastSeen: last, Requests: 12, Refused: 5})
	brown := url.Values{"network": {"192.0.2.0/24"}, "reason": {"who is left"}}
	a := c.Post(page+"/brownout", brown)
	wants(t, a, http.StatusSeeOther)
	shown := c.Get(page)
	wants(t, shown, http.StatusOK, "Brown-out of", "192.0.2.0/24", "who is left", "left.", "The old key is answered 401 there;", page+"/brownout/stop")
	k, err := w.Web.Keys.Get(t.Context(), old)
	if err != nil || k.Brownout == nil || k.Brownout.Network != "192.0.2.0/24" || k.Brownout.Until.Sub(k.Brownout.From) != time.Minute {
		t.Fatalf("brown-out %+v (%v)", k.Brownout, err)
	}
	if a := c.Post(page+"/brownout", brown); a.StatusCode != http.StatusConflict {
		t.Errorf("a second one at once: %d", a.StatusCode)
	}
	wants(t, c.Post(page+"/brownout/stop", url.Values{}), http.StatusSeeOther)
	if a := c.Get(page); strings.Contains(a.Text, page+"/brownout/stop") {
		t.Error("a stopped one can be stopped")
	}
	if k, err = w.Web.Keys.Get(t.Context(), old); err != nil || k.Brownout != nil {
		t.Errorf("after the stop: %+v (%v)", k.Brownout, err)
	}
	if a := c.Post(page+"/brownout/stop", url.Values{}); a.StatusCode < 400 || a.StatusCode >= 500 {
		t.Errorf("a second stop: %d", a.StatusCode)
	}
}

func TestBrownouts_EndByThemselvesOnThePage(t *testing.T) {
	t.Parallel()
	w, c, _, page := rotating(t)
	wants(t, c.Post(page+"/brownout", url.Values{"reason": {"all of them"}}), http.StatusSeeOther)
	wants(t, c.Get(page), http.StatusOK, page+"/brownout/stop")
	w.Advance(time.Minute)
	a := c.Get(page)
	wants(t, a, http.StatusOK, "all of them") // it stays in the list of what was done
	if strings.Contains(a.Text, page+"/brownout/stop") {
		t.Error("after its minute it still runs")
	}
}

func TestBrownouts_BadInputKeepsWhatWasWrittenAndRefusesNobody(t *testing.T) {
	t.Parallel()
	w, c, started, page := rotating(t)
	for name, f := range map[string]url.Values{
		"no reason":       {"network": {"192.0.2.0/24"}},
		"a long reason":   {"network": {"192.0.2.0/24"}, "reason": {strings.Repeat("y", 501)}},
		"no network":      {"network": {"everywhere"}, "reason": {"keep me"}},
		"a larger one":    {"network": {"10.0.0.0/8"}, "reason": {"keep me"}},
		"markup":          {"network": {hostile}, "reason": {"keep me"}},
		"reason is blank": {"network": {""}, "reason": {"   "}},
	} {
		a := c.Post(page+"/brownout", f)
		if a.StatusCode != http.StatusUnprocessableEntity || strings.Contains(a.Text, "<img") {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
		if f.Get("reason") == "keep me" && f.Get("network") == "" && !strings.Contains(a.Text, "keep me") {
			t.Errorf("%s: the reason is lost", name)
		}
	}
	k, err := w.Web.Keys.Get(t.Context(), started.Rotation.OldKID)
	if err != nil || k.Brownout != nil {
		t.Errorf("refused input started one: %+v (%v)", k.Brownout, err)
	}
}

func TestBrownouts_B5_RolesThatMayNotAndStrangers(t *testing.T) {
	t.Parallel()
	w, _, started, page := rotating(t)
	form := url.Values{"network": {"192.0.2.0/24"}, "reason": {"r"}}
	for _, act := range []string{"/brownout", "/brownout/stop"} {
		for _, role := range console.Roles() {
			if role.Can(console.PermManageKeys) {
				wants(t, w.As(t, role).Post("/rotations/rot_zzzzzzzzzzzzzzzz"+act, form), http.StatusNotFound)
				continue
			}
			wants(t, w.As(t, role).Post(page+act, form), http.StatusForbidden)
		}
		wants(t, w.Anonymous(t).Post(page+act, form), http.StatusUnauthorized)
	}
	k, err := w.Web.Keys.Get(t.Context(), started.Rotation.OldKID)
	if err != nil || k.Brownout != nil {
		t.Errorf("brown-out %+v (%v)", k.Brownout, err)
	}
}
