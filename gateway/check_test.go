package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// check asks the forward-auth door, from loopback unless "Peer" says otherwise.
func (f *fixture) check(query string, headers ...string) *http.Response {
	f.t.Helper()
	return serve(f.g.DecideHandler(), "GET", "/v1/check"+query, append([]string{"Peer", "127.0.0.1:1"}, headers...)...)
}

func TestCheck_AdmittedRequestIs200WithWhoAndWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	for _, names := range [][]string{{"X-Forwarded-Method", "X-Forwarded-Uri"}, {"X-Original-Method", "X-Original-URI"}} {
		res := f.check("", append(bearer(key), names[0], "GET", names[1], "/v1/reports/7?page=2")...)
		if res.StatusCode != 200 || res.Header.Get(headerTenant) != "ten_a" || res.Header.Get(headerCredential) != "crd_ten_a" || res.Header.Get("X-Headgate-Route") != "report" {
			t.Fatalf("%v: %d %v", names, res.StatusCode, res.Header)
		}
		checkFields(t, res.Header)
	}
	res := f.check("", append(bearer(key), "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/v1/reports/7")...)
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	if res.Header.Get("Retry-After") == "" || len(p.Violated) != 1 {
		t.Errorf("refusal %v %+v", res.Header, p)
	}
}

func TestCheck_R080_NginxGetsOnlyWhatItUnderstands(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	describe := func(path string, more ...string) []string {
		return append(more, "X-Original-Method", "GET", "X-Original-URI", path)
	}
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		real    string
	}{
		{"admitted", describe("/v1/reports/7", bearer(key)...), 200, "200"},
		{"admitted again", describe("/v1/reports/7", bearer(key)...), 200, "200"},
		{"over the limit", describe("/v1/reports/7", bearer(key)...), 403, "429"},
		{"no key", describe("/v1/reports/7"), 401, "401"},
		{"no route", describe("/nowhere"), 403, "404"},
		{"ambiguous path", describe("/a/../b"), 403, "400"},
	} {
		res := f.check("?style=nginx", c.headers...)
		if res.StatusCode != c.status || res.Header.Get(headerStatus) != c.real {
			t.Errorf("%s: %d, real status %q", c.name, res.StatusCode, res.Header.Get(headerStatus))
		}
		if c.real == "429" && res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After for nginx to pass on", c.name)
		}
	}
	f.store.fail(true)
	res := f.check("?style=nginx", "X-Original-Method", "POST", "X-Original-URI", "/login")
	if res.StatusCode != 403 || res.Header.Get(headerStatus) != "503" || res.Header.Get("Retry-After") == "" {
		t.Errorf("closed: %d, real status %q", res.StatusCode, res.Header.Get(headerStatus))
	}
}

func TestCheck_R081_ForgedDescriptionsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.DecideToken = "0123456789abcdef" })
	describe := []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login"}
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"stranger":                   {append([]string{"Peer", "192.0.2.1:1"}, describe...), 403},
		"stranger with wrong token":  {append([]string{"Peer", "192.0.2.1:1", headerToken, "0123456789abcdeX"}, describe...), 403},
		"token, but no proxy":        {append([]string{"Peer", "192.0.2.1:1", headerToken, "0123456789abcdef"}, describe...), 400},
		"proxy with token":           {append([]string{"Peer", "10.0.0.1:1", headerToken, "0123456789abcdef"}, describe...), 200},
		"proxy without token":        {append([]string{"Peer", "10.0.0.1:1"}, describe...), 403},
		"two paths":                  {append([]string{"X-Original-URI", "/public/x"}, describe...), 400},
		"two methods":                {append([]string{"X-Original-Method", "OPTIONS"}, describe...), 400},
		"two lines":                  {append([]string{"X-Forwarded-Uri", "/public/x"}, describe...), 400},
		"two hosts":                  {append([]string{"X-Forwarded-Host", "a", "X-Original-Host", "b"}, describe...), 400},
		"nothing":                    {nil, 400},
		"no path":                    {[]string{"X-Forwarded-Method", "GET"}, 400},
		"no method":                  {[]string{"X-Forwarded-Uri", "/login"}, 400},
		"absolute":                   {[]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "http://x/login"}, 400},
		"broken escape":              {[]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/%zz"}, 400},
		"same in both is no quarrel": {append([]string{"X-Original-URI", "/login"}, describe...), 200},
	} {
		res := f.check("", c.headers...)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, c.status)
		}
		if c.status == 400 {
			if p := body(t, res); p.Code != CodeBadRequest || p.Detail == "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}

func TestCheck_AddressComesFromTheProxysHeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	ask := func(forwarded string) int {
		return f.check("", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login", "X-Forwarded-For", forwarded).StatusCode
	}
	for range 5 {
		if got := ask("203.0.113.1"); got != 200 {
			t.Fatalf("within the limit: %d", got)
		}
	}
	if got := ask("spoof, 203.0.113.1"); got != 429 {
		t.Errorf("over the limit: %d", got)
	}
	if got := ask("203.0.113.2"); got != 200 {
		t.Errorf("another address: %d", got)
	}
}

func TestCheck_HostOfTheDescriptionMatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, strings.Replace(testPolicy, `"GET /public/"`, `"GET api.example/public/"`, 1), nil)
	describe := []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/public/x"}
	if res := f.check("", append([]string{"X-Forwarded-Host", "api.example"}, describe...)...); res.StatusCode != 200 {
		t.Errorf("its host: %d", res.StatusCode)
	}
	if res := f.check("", append([]string{"X-Forwarded-Host", "other.example"}, describe...)...); res.StatusCode != 404 {
		t.Errorf("another host: %d", res.StatusCode)
	}
}

func FuzzDescription(f *testing.F) {
	f.Add("/a?b", "/a?c", "GET", "")
	f.Add("//", "", "\x00", "POST")
	f.Fuzz(func(t *testing.T, uri, other, method, otherMethod string) {
		h := http.Header{"X-Forwarded-Uri": {uri}, "X-Original-Uri": {other}, "X-Forwarded-Method": {method}, "X-Original-Method": {otherMethod}}
		got, err := told(h, "X-Forwarded-Uri", "X-Original-Uri")
		if err == nil && got == "" {
			t.Fatal("nothing was told, and it is no error")
		}
		if path, _, err := pathOf(got); err == nil && (!strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#")) {
			t.Fatalf("path %q", path)
		}
	})
}
