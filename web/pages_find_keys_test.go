package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
)

// What is pasted is seldom a key alone: a header, a line of a log, a key cut short.
func TestFind_A16_NoPartOfAPastedKeyGetsIntoAnAddressOrAPage(t *testing.T) {
	t.Parallel()
	w, _, kid, secret := withKey(t)
	c := w.As(t, console.RoleOwner)
	ops := "hg_ops_" + kid + "_" + secret[21:]
	for _, typed := range []string{
		secret, "Bearer " + secret, "ann@example.com " + secret, "Bearer " + secret[:len(secret)-1], "x=" + secret[:len(secret)-6] + "&y", secret[:len(secret)-2],
		ops, ops[:len(ops)-1], "token " + ops[:len(ops)-4],
	} {
		for _, path := range []string{"/find", "/find/list", "/explain"} {
			a := c.Post(path, url.Values{"q": {typed}})
			if place := a.Header.Get("Location"); strings.Contains(place, secret[21:37]) || strings.Contains(a.Text, secret[21:37]) {
				t.Errorf("%s of %.30q…: the secret comes back, location %q", path, typed, place)
			}
		}
	}
	for _, field := range []string{"route", "path", "ip", "at"} {
		for _, q := range []string{"Acme", secret} {
			a := c.Post("/explain", url.Values{"q": {q}, field: {"GET /v1/report?api_key=" + secret}})
			if strings.Contains(a.Header.Get("Location")+a.Text, secret[21:37]) {
				t.Errorf("%s with a key in it: %d, location %q", field, a.StatusCode, a.Header.Get("Location"))
			}
		}
	}
	if strings.Contains(w.Log.String(), secret[21:37]) {
		t.Error("the log has the secret")
	}
}
