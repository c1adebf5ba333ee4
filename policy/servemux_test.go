package policy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// serveMux asks net/http for its opinion; redirect is true when it would answer
// with one, which a limiter never does.
func serveMux(mux *http.ServeMux, method, host, path string) (pattern string, redirect bool) {
	req := &http.Request{Method: method, Host: host, URL: &url.URL{Path: path}}
	handler, pattern := mux.Handler(req)
	if _, ours := handler.(namedHandler); !ours {
		if pattern != "" {
			return "", true
		}
		return "", false
	}
	return pattern, false
}

type namedHandler struct{}

func (namedHandler) ServeHTTP(http.ResponseWriter, *http.Request) {}

// muxHandle registers a pattern and reports whether net/http took it.
func muxHandle(mux *http.ServeMux, pattern string) (ok bool) {
	defer func() { ok = recover() == nil }()
	mux.Handle(pattern, namedHandler{})
	return true
}

func genPattern() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		method := rapid.SampledFrom([]string{"", "", "GET ", "POST ", "HEAD "}).Draw(t, "method")
		host := rapid.SampledFrom([]string{"", "", "", "h.example"}).Draw(t, "host")
		n := rapid.IntRange(0, 4).Draw(t, "segments")
		path := ""
		for i := range n {
			path += "/" + rapid.SampledFrom([]string{"a", "b", "c", fmt.Sprintf("{w%d}", i)}).Draw(t, "segment")
		}
		end := rapid.SampledFrom([]string{"", "/", "/{$}", "/{rest...}"}).Draw(t, "end")
		if path+end == "" {
			end = "/"
		}
		return method + host + path + end
	})
}

func genPath() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		path := ""
		for range rapid.IntRange(0, 5).Draw(t, "segments") {
			path += "/" + rapid.SampledFrom([]string{"a", "b", "c", "z"}).Draw(t, "segment")
		}
		if path == "" || rapid.Bool().Draw(t, "slash") {
			path += "/"
		}
		return path
	})
}

// The router speaks the language of net/http.ServeMux: the same conflicts, and
// the same pattern for each request, except where ServeMux redirects or where a
// trailing slash would be a way around a limit.
func TestRouter_AgreesWithServeMux(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mux, r := http.NewServeMux(), newRouter()
		for i, text := range rapid.SliceOfN(genPattern(), 1, 12).Draw(t, "patterns") {
			p, err := parsePattern(text)
			if err != nil {
				t.Fatalf("pattern %q: %v", text, err)
			}
			p.order = i
			other, _ := r.conflict(p, conflictsWork)
			if taken := muxHandle(mux, text); taken != (other == nil) {
				t.Fatalf("pattern %q: ServeMux takes it: %v, ours conflicts with %v", text, taken, other)
			}
			if other == nil {
				r.add(p)
			}
		}
		for range 10 {
			method := rapid.SampledFrom([]string{"GET", "POST", "HEAD", "PUT"}).Draw(t, "method")
			host := rapid.SampledFrom([]string{"", "h.example", "h.example:80", "other"}).Draw(t, "host")
			path := genPath().Draw(t, "path")
			want, redirect := serveMux(mux, method, host, path)
			got := r.match(method, host, path)
			switch {
			case redirect:
			case got == nil:
				if want != "" {
					t.Fatalf("%s %s%s matched nothing, ServeMux says %q", method, host, path, want)
				}
			case got.text != want && !(strings.HasSuffix(path, "/") && !got.open()):
				t.Fatalf("%s %s%s matched %q, ServeMux says %q", method, host, path, got.text, want)
			}
		}
	})
}

// A path that goes to a server arrives there as it was matched.
func TestCanonicalPath_IsWhatAServerSees(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/%6Cogin", "/a%20b/c%25d", "/caf%c3%a9/", "/a:b@c/$&'()*+,=!"} {
		canonical, err := CanonicalPath(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		req := httptest.NewRequest(http.MethodGet, canonical, nil)
		again, err := CanonicalPath(req.URL.EscapedPath())
		if err != nil || again != canonical {
			t.Errorf("%s is forwarded as %s and read there as %s (%v)", path, canonical, again, err)
		}
	}
}
