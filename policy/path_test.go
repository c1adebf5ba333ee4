package policy

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestCanonicalPath_HasOneSpelling(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/":                   "/",
		"/v1/login":           "/v1/login",
		"/v1/login/":          "/v1/login/",
		"/V1/LOGIN":           "/V1/LOGIN",
		"/v1/%6Cogin":         "/v1/login",
		"/v1/%6cogin":         "/v1/login",
		"/%76%31/%6c%6F%67in": "/v1/login",
		"/a%20b":              "/a%20b",
		"/a+b":                "/a+b",
		"/a%2Bb":              "/a+b",
		"/a%2bb":              "/a+b",
		"/caf%c3%a9":          "/caf%C3%A9",
		"/café":               "/caf%C3%A9",
		"/100%25":             "/100%25",
		"/a%252fb":            "/a%252fb", // decoded once only
		"/a%3Bb":              "/a%3Bb",
		"/a%3fb":              "/a%3Fb",
		"/a%23b":              "/a%23b",
		"/%5B%5D":             "/%5B%5D",
		"/[]":                 "/%5B%5D",
		"/a|b":                "/a%7Cb",
		"/-._~!$&'()*+,=:@":   "/-._~!$&'()*+,=:@",
		"/...":                "/...",
		"/.well-known/x":      "/.well-known/x",
		"/a..b/c.":            "/a..b/c.",
		"/%2a":                "/*",
		"/%7Euser":            "/~user",
	} {
		got, err := CanonicalPath(in)
		if err != nil || got != want {
			t.Errorf("CanonicalPath(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestCanonicalPath_RefusesWhatProgramsDisagreeOn(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][]string{
		"no leading slash":    {"", "v1", "*", "http://h/v1", "%2Fv1"},
		"empty segment":       {"//", "//v1/login", "/v1//login", "/v1/login//"},
		"dot segment":         {"/.", "/..", "/v1/./login", "/v1/x/../login", "/v1/..", "/v1/../", "/v1/./"},
		"encoded dot segment": {"/%2e", "/v1/%2e/login", "/v1/x/%2e%2e/login", "/v1/x/.%2E/login", "/v1/x/%2E./login"},
		"encoded slash":       {"/v1%2flogin", "/v1%2Flogin", "/%2f", "/v1/%2F/login"},
		"backslash":           {`/v1\login`, "/v1%5clogin", "/v1%5Clogin", `/..\login`},
		"path parameter":      {"/v1;x=1/login", "/v1/login;", "/v1/;/login", "/..;/login"},
		"NUL and control":     {"/v1/login%00", "/v1/login\x00", "/v1%0d%0alogin", "/v1/\nlogin", "/a%7f", "/a%C2%85", "/a%09"},
		"broken encoding":     {"/%", "/a%", "/a%4", "/a%zz", "/a%4/b", "/%%41"},
		"invalid UTF-8":       {"/%ff", "/\xff", "/%c0%af", "/%c0%ae%c0%ae/x", "/%e0%80%af", "/%ed%a0%80", "/%f4%90%80%80"},
		"too long":            {"/" + strings.Repeat("a", MaxPathBytes)},
	} {
		for _, in := range paths {
			if got, err := CanonicalPath(in); !errors.Is(err, ErrAmbiguousPath) || got != "" {
				t.Errorf("%s: CanonicalPath(%q) = %q, %v, want ErrAmbiguousPath", name, in, got, err)
			}
		}
	}
}

func TestCanonicalPath_ErrorIsShort(t *testing.T) {
	t.Parallel()
	_, err := CanonicalPath("/" + strings.Repeat("é", 5000) + "%2f")
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

//nolint:paralleltest // AllocsPerRun counts what the whole process allocates
func TestCanonicalPath_CostsNothingForOrdinaryPaths(t *testing.T) {
	for _, p := range []string{"/", "/v1/reports/2026-11-30", "/a/b/c/"} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := CanonicalPath(p); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("CanonicalPath(%q) allocates %v times", p, n)
		}
	}
}

// Each spelling of a limited path falls to its route or is refused: none of
// them reaches the catch-all.
func TestCanonicalPath_NoSpellingReachesAnotherRoute(t *testing.T) {
	t.Parallel()
	r := routerOf(t, "/", "POST /v1/login")
	spellings := []string{
		"/v1/login", "/v1/login/", "//v1/login", "/v1//login", "/v1/./login", "/v1/x/../login", "/v1/%6Cogin", "/v1/%6cogin",
		"/%76%31/login", "/v1/login%00", "/v1%2flogin", "/v1%2Flogin", `/v1\login`, "/v1%5clogin", "/v1/login;x=1", "/v1;x/login",
		"/v1/%2e/login", "/v1/x/%2e%2e/login", "/./v1/login", "/../v1/login", "/v1/login/.", "/v1/login/x/..", "/v1/login//",
		"/v1/l%6fgin", "/v1/log%69n/", "/%2e/v1/login", "/v1/login%2f", "/v1/login%5c", "/v1/%c0%afogin", "/v1/login/%2e",
	}
	for _, s := range spellings {
		path, err := CanonicalPath(s)
		if err != nil {
			continue // 400, never passed on
		}
		if got := matched(r, "POST", "", path); got != "POST /v1/login" {
			t.Errorf("%q became %q and matched %q", s, path, got)
		}
	}
}

func FuzzCanonicalPath(f *testing.F) {
	for _, s := range []string{"/", "/a/%2e%2e/b", "/%c3%a9", "/a//b", "/a;b", "/a%", "/a%252f", "/é/", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := CanonicalPath(s)
		if err != nil {
			if !errors.Is(err, ErrAmbiguousPath) {
				t.Errorf("CanonicalPath(%q): %v", s, err)
			}
			return
		}
		if again, err := CanonicalPath(p); err != nil || again != p {
			t.Errorf("%q became %q and that %q, %v", s, p, again, err)
		}
		u, err := url.ParseRequestURI(p)
		if err != nil || u.EscapedPath() != p || u.RawQuery != "" {
			t.Errorf("%q became %q, which net/url reads as %v, %v", s, p, u, err)
		}
		want, err := url.PathUnescape(s)
		if err != nil || u.Path != want {
			t.Errorf("%q means %q and became %q, which means %q (%v)", s, want, p, u.Path, err)
		}
	})
}
