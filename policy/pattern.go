package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// pattern is one parsed match of a route: the language of net/http.ServeMux.
type pattern struct {
	text     string
	route    int    // index in Document.Routes
	order    int    // among all patterns of the document
	method   string // "" for any
	host     string // "" for any
	segments []segment
}

// segment is a part of a pattern's path. A literal's text is decoded; the text
// "/" stands for {$} (the path ends in this slash).
type segment struct {
	text  string
	wild  bool
	multi bool // the rest of the path, also an empty one; only at the end
}

// maxSegments bounds a pattern's depth, and with it the work of one match.
const maxSegments = 64

// parsePattern reads "[METHOD ][HOST]/path" as net/http.ServeMux does, and
// refuses what ServeMux would take but no request could ever match.
func parsePattern(s string) (*pattern, error) {
	p := &pattern{text: s}
	rest := s
	if method, after, found := strings.Cut(s, " "); found {
		if err := checkMethod(method); err != nil {
			return nil, err
		}
		p.method, rest = method, after
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return nil, errors.New("must hold a path that begins with a slash, such as \"GET /v1/reports/{id}\"")
	}
	p.host, rest = rest[:slash], rest[slash:]
	if err := checkHost(p.host); err != nil {
		return nil, err
	}
	if len(rest) > MaxPathBytes || strings.Count(rest, "/") > maxSegments {
		return nil, fmt.Errorf("is too long: at most %d segments", maxSegments)
	}
	return p, p.parsePath(rest)
}

func checkMethod(m string) error {
	if m == "" || len(m) > 32 {
		return errors.New("must be METHOD, one space, path; or the path alone")
	}
	for i := range len(m) {
		if m[i] < 'A' || m[i] > 'Z' {
			return fmt.Errorf("method %q must be capital letters", clip(m))
		}
	}
	if m == "CONNECT" {
		return errors.New("method CONNECT cannot be limited: the gateway does not tunnel")
	}
	return nil
}

func checkHost(h string) error {
	for i := range len(h) {
		c := h[i]
		if c != '.' && c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return fmt.Errorf("host %q must be a name in lower-case letters, without a port", clip(h))
		}
	}
	if strings.HasPrefix(h, ".") || strings.HasSuffix(h, ".") || len(h) > 253 {
		return fmt.Errorf("host %q is not a host name", clip(h))
	}
	return nil
}

func (p *pattern) parsePath(rest string) error {
	names := map[string]bool{}
	for rest != "" {
		var text string
		text, rest = cutSegment(rest)
		if text == "" && rest == "" { // trailing slash: everything below
			p.segments = append(p.segments, segment{wild: true, multi: true})
			return nil
		}
		seg, err := parseSegment(text, rest == "")
		if err != nil {
			return err
		}
		if seg.wild && names[seg.text] {
			return fmt.Errorf("has the wildcard {%s} twice", seg.text)
		}
		names[seg.text] = names[seg.text] || seg.wild
		p.segments = append(p.segments, seg)
	}
	return nil
}

func parseSegment(text string, last bool) (segment, error) {
	if !strings.Contains(text, "{") {
		literal, err := decodeSegment(text)
		if err != nil {
			return segment{}, fmt.Errorf("can never match: %w", err)
		}
		return segment{text: literal}, nil
	}
	if text[0] != '{' || text[len(text)-1] != '}' {
		return segment{}, fmt.Errorf("a wildcard must be a whole segment, as in /{id}/, not %q", clip(text))
	}
	name := text[1 : len(text)-1]
	if name == "$" {
		if !last {
			return segment{}, errors.New("{$} must stand at the end")
		}
		return segment{text: "/"}, nil
	}
	name, multi := strings.CutSuffix(name, "...")
	if multi && !last {
		return segment{}, fmt.Errorf("{%s...} must stand at the end", clip(name))
	}
	if !wildcardName(name) {
		return segment{}, fmt.Errorf("%q is not a name for a wildcard: letters, digits and _", clip(name))
	}
	return segment{text: name, wild: true, multi: multi}, nil
}

func wildcardName(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// open reports whether the pattern ends in a wildcard for the rest of the path.
func (p *pattern) open() bool { return p.segments[len(p.segments)-1].multi }

// catchAll reports whether the pattern matches every path.
func (p *pattern) catchAll() bool { return len(p.segments) == 1 && p.open() }

// matchesAll reports whether every request matches the pattern.
func (p *pattern) matchesAll() bool { return p.method == "" && p.host == "" && p.catchAll() }

// exact reports whether a path that matched the pattern did so without using up
// more than an empty rest: "/a/" and "/a/{rest...}" match the path "/a/" exactly.
func (p *pattern) exact(path string) bool {
	return !p.open() || (strings.HasSuffix(path, "/") && strings.Count(path, "/") == len(p.segments))
}

// relation says how the sets of two patterns lie to each other.
type relation int

const (
	disjoint relation = iota
	equal
	narrower // the first holds less
	wider    // the first holds more
	crossing // each holds something that the other does not
)

// compare relates two patterns of the same host, method and path together.
func (p *pattern) compare(q *pattern) relation {
	methods := compareMethods(p.method, q.method)
	if methods == disjoint {
		return disjoint
	}
	paths := comparePaths(p.segments, q.segments)
	if paths == disjoint {
		return disjoint
	}
	return join(methods, paths)
}

func compareMethods(a, b string) relation {
	switch {
	case a == b:
		return equal
	case a == "", a == "GET" && b == "HEAD": // GET matches HEAD too
		return wider
	case b == "", b == "GET" && a == "HEAD":
		return narrower
	}
	return disjoint
}

func comparePaths(a, b []segment) relation {
	aOpen, bOpen := a[len(a)-1].multi, b[len(b)-1].multi
	if (len(a) < len(b) && !aOpen) || (len(b) < len(a) && !bOpen) || (len(a) != len(b) && !aOpen && !bOpen) {
		return disjoint
	}
	result := equal
	for i := range min(len(a), len(b)) {
		r := compareSegments(a[i], b[i])
		if r == disjoint {
			return disjoint
		}
		result = join(result, r)
	}
	switch {
	case len(a) < len(b) && !a[len(a)-1].multi, len(b) < len(a) && !b[len(b)-1].multi:
		return disjoint
	case len(a) < len(b):
		return join(result, wider)
	case len(b) < len(a):
		return join(result, narrower)
	}
	return result
}

func compareSegments(a, b segment) relation {
	switch {
	case a.multi && b.multi:
		return equal
	case a.multi:
		return wider
	case b.multi:
		return narrower
	case a.wild && b.wild:
		return equal
	case a.wild:
		if b.text == "/" { // a wildcard does not match a trailing slash
			return disjoint
		}
		return wider
	case b.wild:
		if a.text == "/" {
			return disjoint
		}
		return narrower
	case a.text == b.text:
		return equal
	}
	return disjoint
}

// join combines the relations of two independent parts, neither of them disjoint.
func join(a, b relation) relation {
	switch {
	case a == b, b == equal:
		return a
	case a == equal:
		return b
	}
	return crossing
}
