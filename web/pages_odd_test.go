package web_test

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/apikey"
)

// A whole key or token that is typed into the search is looked up in memory. It
// must not stand in the address that the answer leads to.
func TestFind_A16_NoWholeKeyEverStandsInAnAddress(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleOwner)
	for _, env := range []string{apikey.Live, apikey.Test, apikey.Ops} {
		secret, _, err := apikey.Generate(env, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		a := c.Post("/find", url.Values{"q": {" " + secret.Reveal() + " "}})
		if a.StatusCode != http.StatusOK || strings.Contains(a.Header.Get("Location")+a.Text, secret.Reveal()) {
			t.Errorf("%s: %d %q", env, a.StatusCode, a.Header.Get("Location"))
		}
	}
}

func TestBulk_B8_AFieldThatStandsTwiceIsRefused(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	a := upload(t, w.As(t, console.RoleOwner), [][2]string{
		{"kind", "import-tenants"}, {"kind", "import-keys"}, {"reason", "r"}, {"token", strings.Repeat("A", 20)}, {"format", "csv"},
	}, "x.csv", "name,plan\na,free\n")
	if a.StatusCode != http.StatusUnprocessableEntity || a.Header.Get("Location") != "" {
		t.Errorf("%d %s", a.StatusCode, a.Header.Get("Location"))
	}
}
