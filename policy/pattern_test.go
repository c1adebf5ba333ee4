package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func patternOf(t interface{ Fatalf(string, ...any) }, s string) *pattern {
	p, err := parsePattern(s)
	if err != nil {
		t.Fatalf("pattern %q: %v", s, err)
	}
	return p
}

func TestCompare_RelatesPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want relation
	}{
		{"/", "/", equal},
		{"/a", "/a", equal},
		{"/a", "/b", disjoint},
		{"/a", "/a/b", disjoint},
		{"/a", "/a/", disjoint},
		{"/a", "/", narrower},
		{"/{x}", "/{y}", equal},
		{"/{x}", "/a", wider},
		{"/{x}", "/", narrower},
		{"/{x}", "/{$}", disjoint},
		{"/{x...}", "/", equal},
		{"/{$}", "/", narrower},
		{"/a/{$}", "/a/", narrower},
		{"/a/{$}", "/a/{x}", disjoint},
		{"/a/{$}", "/{x}/{$}", narrower},
		{"/a/{$}", "/{x}/", narrower},
		{"/a/", "/a/b/", wider},
		{"/a/", "/b/", disjoint},
		{"/{x}/", "/a/", wider},
		{"/{x}/b", "/a/{y}", crossing},
		{"/{x}/b", "/a/b", wider},
		{"/{x}/b/", "/a/", crossing},
		{"/a/{x}/c", "/a/", narrower},
		{"/a/b/c", "/a/{x...}", narrower},
		{"GET /a", "/a", narrower},
		{"GET /a", "POST /a", disjoint},
		{"GET /a", "HEAD /a", wider},
		{"HEAD /a", "/a", narrower},
		{"GET /", "/a", crossing},
		{"GET /a", "/", narrower},
		{"GET /{x}", "HEAD /a", wider},
		{"GET /a", "HEAD /{x}", crossing},
		{"GET /api/v2/", "/api/v2/items/{id}", crossing},
		{"/%61", "/a", equal},
	} {
		a, b := patternOf(t, c.a), patternOf(t, c.b)
		if got := a.compare(b); got != c.want {
			t.Errorf("%q against %q is %d, want %d", c.a, c.b, got, c.want)
		}
		back := map[relation]relation{disjoint: disjoint, equal: equal, narrower: wider, wider: narrower, crossing: crossing}[c.want]
		if got := b.compare(a); got != back {
			t.Errorf("%q against %q is %d, want %d", c.b, c.a, got, back)
		}
	}
}

// takes is the meaning of a pattern, written without a tree.
func (p *pattern) takes(method, path string) bool {
	if p.method != "" && p.method != method && !(p.method == "GET" && method == "HEAD") {
		return false
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if segments[len(segments)-1] == "" {
		segments[len(segments)-1] = "/"
	}
	for i, seg := range p.segments {
		switch {
		case seg.multi:
			return len(segments) > i
		case i >= len(segments):
			return false
		case seg.wild && segments[i] == "/", !seg.wild && segments[i] != seg.text:
			return false
		}
	}
	return len(segments) == len(p.segments)
}

// The relation of two patterns is that of the sets of requests they take.
func TestCompare_IsTheRelationOfTheRequests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := patternOf(t, genPattern().Draw(t, "a")), patternOf(t, genPattern().Draw(t, "b"))
		a.host, b.host = "", ""
		got := a.compare(b)
		for range 20 {
			method := rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT"}).Draw(t, "method")
			path := genPath().Draw(t, "path")
			inA, inB := a.takes(method, path), b.takes(method, path)
			if inA && inB && got == disjoint || inA && !inB && (got == narrower || got == equal) || inB && !inA && (got == wider || got == equal) {
				t.Fatalf("%q against %q is %d, but %s %s is in the first: %v, in the second: %v", a.text, b.text, got, method, path, inA, inB)
			}
		}
	})
}

// The tree finds what looking at each pattern in turn would find.
func TestRouter_FindsTheNarrowestOfAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newRouter()
		var all []*pattern
		for i, text := range rapid.SliceOfN(genPattern(), 1, 15).Draw(t, "patterns") {
			p := patternOf(t, text)
			p.order, p.host = i, ""
			if q, _ := r.conflict(p, conflictsWork); q == nil {
				r.add(p)
				all = append(all, p)
			}
		}
		for range 10 {
			method := rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT"}).Draw(t, "method")
			path := strings.TrimSuffix(genPath().Draw(t, "path"), "/")
			if path == "" {
				path = "/"
			}
			var want *pattern
			for _, p := range all {
				if p.takes(method, path) && (want == nil || p.compare(want) == narrower) {
					want = p
				}
			}
			if got := r.match(method, "", path); got != want {
				t.Fatalf("%s %s matched %v, want %v", method, path, got, want)
			}
		}
	})
}

// Whatever ends in a slash is charged where the same path without it is, unless
// a pattern names the slash: there is no third place.
func TestRouter_SlashFallsUnderTheBarePathOrItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newRouter()
		for i, text := range rapid.SliceOfN(genPattern(), 1, 15).Draw(t, "patterns") {
			p := patternOf(t, text)
			p.order, p.host = i, ""
			if q, _ := r.conflict(p, conflictsWork); q == nil {
				r.add(p)
			}
		}
		bare := strings.TrimSuffix(genPath().Draw(t, "path"), "/")
		if bare == "" {
			return
		}
		without, with := r.match("GET", "", bare), r.match("GET", "", bare+"/")
		if without == nil || without.open() {
			return // nothing names the bare path itself
		}
		if with != without && (with == nil || !with.exact(bare+"/")) {
			t.Fatalf("%s matched %v, %s/ matched %v", bare, without, bare, with)
		}
	})
}

func TestParsePattern_KeepsItsParts(t *testing.T) {
	t.Parallel()
	p := patternOf(t, "GET api.example/v1/{id}/caf%C3%A9/{rest...}")
	if p.method != "GET" || p.host != "api.example" || len(p.segments) != 4 || !p.open() {
		t.Fatalf("pattern %+v", p)
	}
	want := []segment{{text: "v1"}, {text: "id", wild: true}, {text: "café"}, {text: "rest", wild: true, multi: true}}
	for i, seg := range p.segments {
		if seg != want[i] {
			t.Errorf("segment %d is %+v, want %+v", i, seg, want[i])
		}
	}
	if p := patternOf(t, "/a/{$}"); p.open() || p.segments[1].text != "/" || !p.exact("/a/") {
		t.Errorf("pattern %+v", p)
	}
	if p := patternOf(t, "/a/"); !p.exact("/a/") || p.exact("/a/b/") || p.exact("/a/b") {
		t.Errorf("/a/ is exact for the wrong paths")
	}
}

func TestHostName_IsComparedWithoutPortDotAndCase(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                 "",
		"api.example":      "api.example",
		"API.Example:8443": "api.example",
		"api.example.":     "api.example",
		"api.example.:80":  "api.example",
		"192.0.2.7:80":     "192.0.2.7",
		"[2001:db8::1]:80": "2001:db8::1",
		"a:b:c":            "a:b:c",
	} {
		if got := hostName(in); got != want {
			t.Errorf("hostName(%q) = %q, want %q", in, got, want)
		}
	}
}
