package usage_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
)

func TestAgentOf_KeepsProductsWithTheirMajorVersionsAlone(t *testing.T) {
	t.Parallel()
	secret := "abcdefghijklmnopqrstuvwxyz0123450mwVJp"
	for in, want := range map[string]string{
		"":                       "",
		"curl/8.5.0":             "curl/8",
		"Go-http-client/2.0":     "Go-http-client/2",
		"python-requests/2.31.0": "python-requests/2",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36": "Mozilla/5 AppleWebKit/537 Chrome/126 Safari/537",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X (nested \\) still)) Version/17.5":                "Mozilla/5 Version/17",
		"Mozilla/5.0 (never closed Chrome/126": "Mozilla/5",
		"MyApp/v3.2-beta":                      "MyApp/3",
		"MyApp/abc123":                         "MyApp",
		"MyApp/12ab":                           "MyApp",
		"App/20240115 build":                   "App build",
		"my tool, 2.0; extra":                  "my tool extra",
		"jane.doe@example.com curl/8":          "curl/8",
		"device-4915123456789 curl/8":          "curl/8",
		"id/+49 30 1234567":                    "id",
		"\x00\x1b[31mevil curl/8":              "curl/8",
		"Ünïcode/1 curl/8":                     "curl/8",
		"5/curl -x _y":                         "",
		"hg_live_0123456789AB_" + secret:       "",
		"curl/8 " + secret:                     "curl/8",
		"app hg_live_0123456789AB":             "app",
		"abcdefgh/" + secret:                   "",
		"Bearer hg%5Flive%5F0123456789AB":      "Bearer",
		strings.Repeat("x ", 400) + "hg":       strings.TrimSpace(strings.Repeat("x ", 30)),
		"(" + strings.Repeat("a", 600):         "",
		strings.Repeat("a", 600):               "",
	} {
		if got := usage.AgentOf(in); got != want {
			t.Errorf("%.80q is reduced to %q, want %q", in, got, want)
		}
	}
}

func TestNetworkOf_R072_MasksAndUnmaps(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"203.0.113.77":         "203.0.113.0/24",
		"::ffff:203.0.113.77":  "203.0.113.0/24",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1::/48",
		"fe80::1%eth0":         "fe80::/48",
		"0.0.0.1":              "0.0.0.0/24",
		"::1":                  "::/48",
	} {
		if got := usage.NetworkOf(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s lies in %s, want %s", in, got, want)
		}
	}
	if got := usage.NetworkOf(netip.Addr{}); got != "" {
		t.Errorf("no address lies in %q", got)
	}
}

// FuzzAgentOf_A16: whatever is sent, little and harmless text remains.
func FuzzAgentOf_A16(f *testing.F) {
	f.Add("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36")
	f.Add("hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp")
	f.Add("((\\")
	f.Add("a/1234567 b/v b/v12")
	f.Fuzz(func(t *testing.T, header string) {
		agent := usage.AgentOf(header)
		if len(agent) > usage.MaxAgent {
			t.Fatalf("%d bytes remain", len(agent))
		}
		for _, word := range strings.Fields(agent) {
			if len(word) > 29 || strings.HasPrefix(word, "hg_") {
				t.Fatalf("%q remains", word)
			}
		}
		for i := range len(agent) {
			if c := agent[i]; c < ' ' || c > '~' {
				t.Fatalf("byte %x remains", c)
			}
		}
		if again := usage.AgentOf(agent); again != agent {
			t.Fatalf("%q is reduced further to %q", agent, again)
		}
	})
}
