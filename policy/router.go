package policy

import (
	"net"
	"strings"
)

// router finds the pattern of a request: a tree of path segments per host, with
// the precedence of net/http.ServeMux. It is immutable once built.
//
// It is not a ServeMux because that answers "/tree" with a redirect when only
// "/tree/" is registered, and a limiter must never redirect; the language and
// the precedence are the same, which a test checks against ServeMux.
type router struct {
	hosts map[string]*pathNode
}

// pathNode is a place in the tree of segments.
type pathNode struct {
	literals map[string]*pathNode
	wild     *pathNode
	ends     []*pattern // patterns that end here, by method
	rests    []*pattern // patterns that take the rest of the path from here
}

func newRouter() *router { return &router{hosts: map[string]*pathNode{}} }

func (r *router) add(p *pattern) {
	n := r.hosts[p.host]
	if n == nil {
		n = &pathNode{}
		r.hosts[p.host] = n
	}
	for _, seg := range p.segments {
		switch {
		case seg.multi:
			n.rests = append(n.rests, p)
			return
		case seg.wild:
			if n.wild == nil {
				n.wild = &pathNode{}
			}
			n = n.wild
		default:
			n = n.literal(seg.text)
		}
	}
	n.ends = append(n.ends, p)
}

func (n *pathNode) literal(text string) *pathNode {
	child := n.literals[text]
	if child == nil {
		if n.literals == nil {
			n.literals = map[string]*pathNode{}
		}
		child = &pathNode{}
		n.literals[text] = child
	}
	return child
}

// conflictSearch looks in a router for the patterns that a new one cannot be
// told apart from. Work is counted in visited nodes and compared patterns, not
// in seconds, so that a document has the same verdict on every machine.
type conflictSearch struct {
	p     *pattern
	work  int      // what may still be spent
	found *pattern // the first in the order of the document, nil when none
}

// conflict finds the first pattern in the tree that equals or crosses p.
func (r *router) conflict(p *pattern, work int) (found *pattern, left int) {
	s := conflictSearch{p: p, work: work}
	s.along(r.hosts[p.host], 0)
	return s.found, s.work
}

// along follows the segments of the pattern.
func (s *conflictSearch) along(n *pathNode, depth int) {
	if n == nil || s.work <= 0 {
		return
	}
	s.work--
	s.compare(n.rests)
	if depth == len(s.p.segments) {
		s.compare(n.ends)
		return
	}
	seg := s.p.segments[depth]
	switch {
	case seg.multi:
		s.below(n)
		return
	case seg.wild:
		for text, child := range n.literals {
			if text != "/" {
				s.along(child, depth+1)
			}
		}
	default:
		s.along(n.literals[seg.text], depth+1)
	}
	if seg.text != "/" {
		s.along(n.wild, depth+1)
	}
}

// below compares with everything under a node.
func (s *conflictSearch) below(n *pathNode) {
	if n == nil || s.work <= 0 {
		return
	}
	s.work--
	s.compare(n.ends)
	s.compare(n.rests)
	for _, child := range n.literals {
		s.below(child)
	}
	s.below(n.wild)
}

func (s *conflictSearch) compare(others []*pattern) {
	for _, q := range others {
		s.work--
		if s.found != nil && s.found.order <= q.order {
			continue
		}
		if r := s.p.compare(q); r == equal || r == crossing {
			s.found = q
		}
	}
}

// match finds the most specific pattern for a canonical path; patterns of the
// host win over patterns of any host.
//
// A trailing slash is no way around a limit: when the path ends in one and no
// pattern says so itself, a pattern for the same path without the slash wins
// over a wider one.
func (r *router) match(method, host, path string) *pattern {
	if len(r.hosts) > 1 || r.hosts[""] == nil {
		if n := r.hosts[hostName(host)]; n != nil && host != "" {
			if p := n.matchEitherSlash(method, path); p != nil {
				return p
			}
		}
	}
	return r.hosts[""].matchEitherSlash(method, path)
}

func (n *pathNode) matchEitherSlash(method, path string) *pattern {
	found := n.match(method, path)
	if len(path) < 2 || path[len(path)-1] != '/' || (found != nil && found.exact(path)) {
		return found
	}
	if bare := n.match(method, path[:len(path)-1]); bare != nil && !bare.open() {
		return bare
	}
	return found
}

// match walks literals first, then wildcards, then the rest: among patterns
// without conflicts that is the order of their precedence. Each node is
// visited at most once.
func (n *pathNode) match(method, path string) *pattern {
	if n == nil {
		return nil
	}
	if path == "" {
		return byMethod(n.ends, method)
	}
	text, rest := cutSegment(path)
	if text == "" { // trailing slash
		text, rest = "/", ""
	} else if plain, ok := unescape(text); ok {
		text = plain
	}
	if p := n.literals[text].match(method, rest); p != nil {
		return p
	}
	if text != "/" {
		if p := n.wild.match(method, rest); p != nil {
			return p
		}
	}
	return byMethod(n.rests, method)
}

// byMethod prefers the method itself, then GET for HEAD, then any method.
func byMethod(patterns []*pattern, method string) *pattern {
	var get, anyMethod *pattern
	for _, p := range patterns {
		switch {
		case p.method == method:
			return p
		case p.method == "GET" && method == "HEAD":
			get = p
		case p.method == "":
			anyMethod = p
		}
	}
	if get != nil {
		return get
	}
	return anyMethod
}

// hostName is a Host header without port and final dot, in lower case.
func hostName(host string) string {
	if strings.Contains(host, ":") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
