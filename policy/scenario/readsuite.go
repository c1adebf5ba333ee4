package scenario

import (
	"net/netip"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxCost is the largest cost of a request that stores can count.
const maxCost = 1<<48 - 1

// admitted is how a step says that nothing is refused.
const admitted = "admitted"

func (r *reader) suite(n *yaml.Node, s *Suite) {
	names := map[string]int{}
	seen := r.fields("", n, "a map with the field tests", reads{
		"tests": func(path string, n *yaml.Node) {
			r.list(path, n, "tests", MaxTests, func(path string, n *yaml.Node) {
				t := r.test(path, n)
				if first, twice := names[t.Name]; twice && t.Name != "" {
					r.problem(path+".name", n.Line, "%q is the name of the test on line %d, too: names are told in results", clip(t.Name), first)
				}
				names[t.Name] = n.Line
				s.Tests = append(s.Tests, t)
			})
		},
	})
	if seen != nil && seen["tests"] == 0 {
		r.problem("tests", n.Line, "is missing: a list of tests")
	}
	if r.sent > MaxSendAll {
		r.problem("tests", n.Line, "send %d requests in all: at most %d are allowed", r.sent, MaxSendAll)
	}
}

func (r *reader) test(path string, n *yaml.Node) Test {
	var t Test
	seen := r.fields(path, n, "a map with name and steps", reads{
		"name":        func(path string, n *yaml.Node) { r.line(path, n, &t.Name) },
		"description": func(path string, n *yaml.Node) { r.text(path, n, &t.Description) },
		"given":       func(path string, n *yaml.Node) { r.caller(path, n, &t.Given) },
		"steps": func(path string, n *yaml.Node) {
			r.list(path, n, "steps", MaxSteps, func(path string, n *yaml.Node) { t.Steps = append(t.Steps, r.step(path, n)) })
			if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
				r.problem(path, n.Line, "is empty: a test without a step shows nothing")
			}
		},
	})
	r.needs(path, n, seen, "name", "steps")
	return t
}

// needs complains about fields that are missing.
func (r *reader) needs(path string, n *yaml.Node, seen map[string]int, names ...string) {
	for _, name := range names {
		if seen != nil && seen[name] == 0 {
			r.problem(join(path, name), n.Line, "is missing")
		}
	}
}

func (r *reader) caller(path string, n *yaml.Node, c *Caller) {
	seen := r.fields(path, n, "a map such as {plan: free}", reads{
		"tenant": func(path string, n *yaml.Node) { r.line(path, n, &c.Tenant) },
		"plan":   func(path string, n *yaml.Node) { r.line(path, n, &c.Plan) },
		"user":   func(path string, n *yaml.Node) { r.line(path, n, &c.User) },
		"ip": func(path string, n *yaml.Node) {
			r.line(path, n, &c.IP)
			if addr, err := netip.ParseAddr(c.IP); c.IP != "" && (err != nil || addr.Zone() != "") {
				r.problem(path, n.Line, "%q is not an address such as 203.0.113.7 or 2001:db8::1", clip(c.IP))
			}
		},
	})
	if seen["tenant"] != 0 && seen["plan"] != 0 {
		r.problem(path, n.Line, "names a tenant and a plan: a tenant has its own plan, so give one of them")
	}
}

func (r *reader) step(path string, n *yaml.Node) Step {
	s := Step{Send: 1}
	seen := r.fields(path, n, "a map such as {send: 5, request: GET /v1/items, expect: admitted}", reads{
		"send":    func(path string, n *yaml.Node) { r.whole(path, n, &s.Send, 1, MaxSend) },
		"request": func(path string, n *yaml.Node) { r.request(path, n, &s.Request) },
		"in":      func(path string, n *yaml.Node) { r.span(path, n, &s.In) },
		"after":   func(path string, n *yaml.Node) { r.span(path, n, &s.After) },
		"lasts":   func(path string, n *yaml.Node) { r.span(path, n, &s.Lasts) },
		"cost":    func(path string, n *yaml.Node) { r.whole(path, n, &s.Cost, 1, maxCost) },
		"headers": func(path string, n *yaml.Node) { r.headers(path, n, &s.Headers) },
		"body":    func(path string, n *yaml.Node) { r.texts(path, n, &s.Body) },
		"query":   func(path string, n *yaml.Node) { r.text(path, n, &s.Query) },
		"expect":  func(path string, n *yaml.Node) { r.expect(path, n, &s.Expect) },
	})
	r.needs(path, n, seen, "request")
	if seen["body"] != 0 && seen["query"] != 0 {
		r.problem(path, n.Line, "has a body and a query: a GraphQL request has its query as body")
	}
	if s.Expect.At > s.Send {
		r.problem(path+".expect.at", n.Line, "%d is more than the %d requests that are sent", s.Expect.At, s.Send)
	}
	r.sent += s.Send
	return s
}

// headers must be ones that a request can have.
func (r *reader) headers(path string, n *yaml.Node, into *map[string]string) {
	r.texts(path, n, into)
	for name, value := range *into {
		if strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			r.problem(path, n.Line, "%q cannot be the name of a header", clip(name))
		}
		if strings.ContainsAny(value, "\n\t") {
			r.problem(join(path, name), n.Line, "must be one line without tabs")
		}
	}
}

// request reads a method and a path, perhaps with a host before it.
func (r *reader) request(path string, n *yaml.Node, into *string) {
	r.line(path, n, into)
	if *into == "" {
		return
	}
	method, target, ok := strings.Cut(*into, " ")
	if !ok || method == "" || strings.ToUpper(method) != method || !strings.Contains(target, "/") || strings.ContainsAny(target, " #?") {
		r.problem(path, n.Line, "%q must be a method and a path such as GET /v1/items, with a host before the path where routes need one", clip(*into))
	}
}

// SplitRequest parts a step's request into method, host ("" when none is given)
// and path.
func (s *Step) SplitRequest() (method, host, path string) {
	method, target, _ := strings.Cut(s.Request, " ")
	at := max(strings.IndexByte(target, '/'), 0)
	return method, target[:at], target[at:]
}

func (r *reader) expect(path string, n *yaml.Node, e *Expect) {
	const what = "admitted, or a map such as {refused_by: route:login.per-ip, at: 6}"
	if n.Kind == yaml.ScalarNode {
		if !r.plain(path, n) || n.Value == admitted {
			return
		}
		r.wrongKind(path, n, what)
		return
	}
	seen := r.fields(path, n, what, reads{
		"refused_by": func(path string, n *yaml.Node) { r.line(path, n, &e.RefusedBy) },
		"at":         func(path string, n *yaml.Node) { r.whole(path, n, &e.At, 1, MaxSend) },
		"route":      func(path string, n *yaml.Node) { r.line(path, n, &e.Route) },
		"retry_in": func(path string, n *yaml.Node) {
			if r.span(path, n, &e.RetryIn); e.RetryIn%time.Second != 0 {
				r.problem(path, n.Line, "must be whole seconds, as Retry-After tells them")
			}
		},
	})
	for _, name := range [...]string{"at", "retry_in"} {
		if seen[name] != 0 && seen["refused_by"] == 0 {
			r.problem(join(path, name), n.Line, "is about a refusal: name the limit in refused_by")
		}
	}
}
