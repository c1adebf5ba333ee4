package policy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// routerOf builds a router from patterns, each its own route.
func routerOf(t testing.TB, patterns ...string) *router {
	t.Helper()
	r := newRouter()
	for i, text := range patterns {
		p, err := parsePattern(text)
		if err != nil {
			t.Fatalf("pattern %q: %v", text, err)
		}
		p.route, p.order = i, i
		if q, _ := r.conflict(p, conflictsWork); q != nil {
			t.Fatalf("pattern %q conflicts with %q", text, q.text)
		}
		r.add(p)
	}
	return r
}

func matched(r *router, method, host, path string) string {
	if p := r.match(method, host, path); p != nil {
		return p.text
	}
	return ""
}

func TestRouter_MostSpecificPatternWins(t *testing.T) {
	t.Parallel()
	r := routerOf(t,
		"/", "/api/", "GET /api/v2/", "GET /api/v2/items/{id}", "GET /api/v2/items/export", "POST /api/v2/items/{id}",
		"GET /files/{rest...}", "/dir/{$}", "example.com/", "GET example.com/api/", "HEAD /only/head", "GET /only/head",
		"/caf%C3%A9/{x}", "/users/{id}/keys/{key}", "/users/me/keys/{key}",
	)
	for _, c := range []struct{ method, host, path, want string }{
		{"GET", "", "/", "/"},
		{"GET", "", "/nothing", "/"},
		{"GET", "", "/api/x", "/api/"},
		{"POST", "", "/api/v2/other", "/api/"},
		{"GET", "", "/api/v2/other", "GET /api/v2/"},
		{"HEAD", "", "/api/v2/other", "GET /api/v2/"},
		{"GET", "", "/api/v2/items/7", "GET /api/v2/items/{id}"},
		{"HEAD", "", "/api/v2/items/7", "GET /api/v2/items/{id}"},
		{"POST", "", "/api/v2/items/7", "POST /api/v2/items/{id}"},
		{"PUT", "", "/api/v2/items/7", "/api/"},
		{"HEAD", "", "/api/v2/items/export", "GET /api/v2/items/export"},
		{"GET", "", "/files/", "GET /files/{rest...}"},
		{"GET", "", "/files/a/b/c", "GET /files/{rest...}"},
		{"POST", "", "/files/a", "/"},
		{"GET", "", "/dir/", "/dir/{$}"},
		{"GET", "", "/dir/x", "/"},
		{"GET", "example.com", "/x", "example.com/"},
		{"GET", "EXAMPLE.com:8443", "/api/x", "GET example.com/api/"},
		{"GET", "example.com.", "/api/x", "GET example.com/api/"},
		{"GET", "other.com", "/api/x", "/api/"},
		{"GET", "[::1]:80", "/api/x", "/api/"},
		{"HEAD", "", "/only/head", "HEAD /only/head"},
		{"GET", "", "/only/head", "GET /only/head"},
		{"GET", "", "/caf%C3%A9/y", "/caf%C3%A9/{x}"},
		{"GET", "", "/users/me/keys/1", "/users/me/keys/{key}"},
		{"GET", "", "/users/7/keys/1", "/users/{id}/keys/{key}"},
		{"GET", "", "/users/me/other", "/"},
		{"get", "", "/api/v2/other", "/api/"},
	} {
		if got := matched(r, c.method, c.host, c.path); got != c.want {
			t.Errorf("%s %s%s matched %q, want %q", c.method, c.host, c.path, got, c.want)
		}
	}
}

// The order in which rules are written must not decide.
func TestRouter_PrecedenceDoesNotHangOnOrder(t *testing.T) {
	t.Parallel()
	patterns := []string{"/api/", "GET /api/v2/", "GET /api/v2/items/export", "GET /api/v2/items/{id}"}
	permute(patterns, func(order []string) {
		r := routerOf(t, order...)
		for _, c := range []struct{ method, path, want string }{
			{"GET", "/api/v2/items/7", "GET /api/v2/items/{id}"},
			{"GET", "/api/v2/other", "GET /api/v2/"},
			{"POST", "/api/v2/other", "/api/"},
			{"GET", "/api/v2/items/export", "GET /api/v2/items/export"},
			{"POST", "/api/v2/items/export", "/api/"},
		} {
			if got := matched(r, c.method, "", c.path); got != c.want {
				t.Errorf("in order %q: %s %s matched %q, want %q", order, c.method, c.path, got, c.want)
			}
		}
	})
}

func permute(list []string, each func([]string)) {
	if len(list) < 2 {
		each(list)
		return
	}
	for i := range list {
		rest := slices.Delete(slices.Clone(list), i, i+1)
		permute(rest, func(tail []string) { each(append([]string{list[i]}, tail...)) })
	}
}

func TestRouter_TrailingSlashIsNoWayAroundALimit(t *testing.T) {
	t.Parallel()
	r := routerOf(t, "/", "POST /v1/login", "/v1/reports/{id}", "/v1/", "/tree/", "/both", "/both/")
	for _, c := range []struct{ method, path, want string }{
		{"POST", "/v1/login/", "POST /v1/login"},
		{"GET", "/v1/login/", "/v1/"},
		{"GET", "/v1/reports/7/", "/v1/reports/{id}"},
		{"GET", "/v1/reports/7/8/", "/v1/"},
		{"GET", "/tree", "/"}, // never a redirect, and not the tree
		{"GET", "/tree/", "/tree/"},
		{"GET", "/both", "/both"},
		{"GET", "/both/", "/both/"},
		{"GET", "/both/x/", "/both/"},
	} {
		if got := matched(r, c.method, "", c.path); got != c.want {
			t.Errorf("%s %s matched %q, want %q", c.method, c.path, got, c.want)
		}
	}
}

func TestRouter_NothingMatchesWithoutAPattern(t *testing.T) {
	t.Parallel()
	r := routerOf(t, "GET /a", "example.com/b")
	for _, c := range []struct{ method, host, path string }{
		{"POST", "", "/a"}, {"GET", "", "/a/b"}, {"GET", "", "/b"}, {"GET", "", "/"}, {"GET", "", "/A"},
	} {
		if got := matched(r, c.method, c.host, c.path); got != "" {
			t.Errorf("%s %s%s matched %q, want nothing", c.method, c.host, c.path, got)
		}
	}
}

func TestRouter_ConflictNamesTheFirstOfTheDocument(t *testing.T) {
	t.Parallel()
	for range 20 { // map order must not show
		r := newRouter()
		for i, text := range []string{"/b/{x}", "/a/{x}", "/c/{x}"} {
			p, err := parsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			p.order = i
			r.add(p)
		}
		p, err := parsePattern("/{y}/z")
		if err != nil {
			t.Fatal(err)
		}
		if q, _ := r.conflict(p, conflictsWork); q == nil || q.text != "/b/{x}" {
			t.Fatalf("conflict with %v, want /b/{x}", q)
		}
	}
}

func TestRouter_SearchForConflictsIsBounded(t *testing.T) {
	t.Parallel()
	r := newRouter()
	for i := range 500 {
		p, err := parsePattern(fmt.Sprintf("/l%d/{b}/end", i))
		if err != nil {
			t.Fatal(err)
		}
		r.add(p)
	}
	p, err := parsePattern("/{a}/mid/other")
	if err != nil {
		t.Fatal(err)
	}
	if _, left := r.conflict(p, 100); left > 0 {
		t.Errorf("%d of 100 steps left, want none: the search looks at all 500", left)
	}
	if _, left := r.conflict(p, 1_000_000); left < 990_000 {
		t.Errorf("%d of 1000000 steps left: the search takes more than a few steps a pattern", left)
	}
}

func TestPattern_IsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, want string }{
		{"", "path that begins with a slash"},
		{"GET", "path that begins with a slash"},
		{"reports", "path that begins with a slash"},
		{"get /a", "capital letters"},
		{"GET  /a", "host"},
		{"GET\t/a", "host"},
		{" /a", "METHOD, one space, path"},
		{"CONNECT /a", "CONNECT"},
		{"Example.com/a", "lower-case"},
		{"example.com:80/a", "without a port"},
		{".example.com/a", "not a host name"},
		{"*.example.com/a", "host"},
		{"/a//b", "empty segment"},
		{"/a/../b", "dot segment"},
		{"/a/%2e%2e/b", "dot segment"},
		{"/a%2fb", "encoded slash"},
		{"/a%zz", "percent-encoding"},
		{"/a;v=1", "path parameter"},
		{"/a\x00", "control character"},
		{"/x{id}", "whole segment"},
		{"/{id}x", "whole segment"},
		{"/{}", "not a name"},
		{"/{...}", "not a name"},
		{"/{1a}", "not a name"},
		{"/{a-b}", "not a name"},
		{"/{a}/{a}", "twice"},
		{"/{a...}/b", "at the end"},
		{"/{$}/b", "at the end"},
		{"/{$}/", "at the end"},
		{"/(a+)+$", ""}, // no regular expressions: a literal like any other
		{strings.Repeat("/a", maxSegments+1), "too long"},
	} {
		_, err := parsePattern(c.pattern)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("pattern %q is refused: %v", c.pattern, err)
		case c.want != "" && err == nil:
			t.Errorf("pattern %q is taken, want %q", c.pattern, c.want)
		case c.want != "" && !strings.Contains(err.Error(), c.want):
			t.Errorf("pattern %q: %v, want %q", c.pattern, err, c.want)
		}
	}
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"/", "GET /a/{id}", "h.example/{x...}", "POST /a/{$}", "/{", "/}", "/{$", "GET /%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePattern(s)
		if err != nil {
			return
		}
		if !muxHandle(http.NewServeMux(), s) {
			t.Errorf("we take %q, net/http does not", s)
		}
		r := newRouter()
		r.add(p)
		if q, _ := r.conflict(p, conflictsWork); q != p {
			t.Errorf("%q does not conflict with itself", s)
		}
	})
}
