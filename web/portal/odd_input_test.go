package portal_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
)

// oddWords are what strangers type into a field or an address.
func oddWords() []string {
	return []string{"\x00", "\xff", "a\x00b", "\u202e", "../..", "x/y", strings.Repeat("x", 3000), "9999-12-31", "0001-01-01", "-1h", "99999999h", "NaN", "1e9", "9223372036854775807"}
}

// Whatever a member sends, it is refused or done: nothing of it is a fault of ours.
func TestPages_B8_OddInputIsNeverAFaultOfOurs(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	ours := func(what string, status int) {
		t.Helper()
		if status >= http.StatusInternalServerError {
			t.Errorf("%.80q: %d", what, status)
		}
	}
	for _, word := range oddWords() {
		in, q := url.PathEscape(word), url.QueryEscape(word)
		for _, path := range []string{
			"/t/keys/" + in, "/t/rotations/" + in, "/t/credentials/" + in + "/rotate", "/t/invite/" + in, "/t/link/" + in, "/t/" + in,
			"/t/try?method=GET&path=" + q, "/t/try?method=" + q + "&path=/", "/t/try?method=POST&path=/graphql&query=" + q, "/t/signin?tenant=" + q,
		} {
			ours("GET "+path, c.Get(path).StatusCode)
		}
		for _, path := range []string{"/t/members/X/uninvite", "/t/members/X/role", "/t/members/X/remove", "/t/alerts/X/remove", "/t/rotations/X/end", "/t/rotations/X/extend",
			"/t/keys/X/revoke", "/t/invite/X", "/t/link/X", "/t/credentials/X/rotate"} {
			form := url.Values{"role": {"tenant-admin"}, "reason": {"x"}, "by": {"1h"}, "overlap": {"1h"}, "token": {strings.Repeat("A", 20)}}
			ours("POST "+path, c.Post(strings.Replace(path, "X", in, 1), form).StatusCode)
		}
		forms := map[string]url.Values{
			"/t/keys":    {"name": {"x"}, "environment": {"live"}, "expires_at": {""}, "token": {""}},
			"/t/members": {"email": {"a@b.example"}, "role": {"tenant-viewer"}},
			"/t/asks":    {"limit": {"plan.requests"}, "factor": {"1500"}, "for": {"168h"}, "why": {"x"}},
			"/t/alerts":  {"kind": {"refused-share"}, "value": {"1"}},
			"/t/signin":  {"tenant": {""}, "email": {"a@b.example"}, "password": {"x"}},
		}
		for path, form := range forms {
			for field, was := range form {
				if path == "/t/keys" && field != "token" {
					form["token"] = []string{token(t, c.Get("/t/keys/new"))}
				}
				form[field] = []string{word}
				ours("POST "+path+" "+field+"="+word, c.Post(path, form).StatusCode)
				form[field] = was
			}
		}
	}
}
