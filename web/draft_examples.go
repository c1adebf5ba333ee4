package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/views"
)

// example is a test to begin with: it asks the draft, and what comes is what it
// expects from then on.
type example struct {
	id, title string
	test      func(*policy.Document) (scenario.Test, bool) // false: the document has nothing for it
}

func examples() []example {
	return []example{
		{"plan", "a plan's limit", planExample},
		{"stranger", "guessing passwords", strangerExample},
		{"recovers", "waiting helps", recoversExample},
	}
}

func exampleTitles(d *policy.Document) []views.TestExample {
	var out []views.TestExample
	if d == nil {
		return nil
	}
	for _, x := range examples() {
		if _, ok := x.test(d); ok {
			out = append(out, views.TestExample{ID: x.id, Title: x.title})
		}
	}
	return out
}

// withExample puts a test behind those of a suite. What it expects is what the
// document does now; where that cannot be tried it expects nothing to be refused.
func (s *Server) withExample(ctx context.Context, d *policy.Document, src, id string) string {
	i := slices.IndexFunc(examples(), func(x example) bool { return x.id == id })
	if d == nil || i < 0 {
		return src
	}
	test, ok := examples()[i].test(d)
	if !ok {
		return src
	}
	suite, report := scenario.Parse([]byte(src))
	if suite == nil || !report.OK() {
		suite = &scenario.Suite{}
	}
	test.Name = freeName(suite, test.Name)
	one := &scenario.Suite{Tests: []scenario.Test{test}}
	ctx, cancel := context.WithTimeout(ctx, testsWait)
	defer cancel()
	if results, _, err := s.Policies.RunTests(ctx, d, one.YAML()); err == nil && len(results) == 1 {
		expectWhatCame(&one.Tests[0], results[0])
	}
	text := string(one.YAML())
	if strings.TrimSpace(src) == "" {
		return text
	}
	_, list, _ := strings.Cut(text, "tests:\n")
	both := strings.TrimRight(src, " \n") + "\n" + list
	if again, _ := scenario.Parse([]byte(both)); again == nil && report.OK() { // written in another way: all of it anew
		suite.Tests = append(suite.Tests, one.Tests[0])
		return string(suite.YAML())
	}
	return both
}

func freeName(s *scenario.Suite, name string) string {
	taken := func(n string) bool {
		return slices.ContainsFunc(s.Tests, func(t scenario.Test) bool { return t.Name == n })
	}
	for i, n := 2, name; ; i++ {
		if !taken(n) {
			return n
		}
		n = fmt.Sprintf("%s (%d)", name, i)
	}
}

func expectWhatCame(t *scenario.Test, res scenario.Result) {
	for i, step := range res.Steps {
		if i < len(t.Steps) && step.RefusedBy != "" {
			t.Steps[i].Expect = scenario.Expect{RefusedBy: step.RefusedBy, At: step.At}
		}
	}
}

// sendMost bounds the requests of an example.
const sendMost = 2000

// planExample is one tenant that asks for more than its plan's first limit holds.
func planExample(d *policy.Document) (scenario.Test, bool) {
	request, ok := anyRequest(d, policy.IdentityAPIKey)
	for _, name := range planNames(d) {
		for _, l := range d.Plans[name].Limits {
			if n := l.Burst + 1; ok && n > 1 && n <= sendMost && l.Mode != policy.ModeShadow {
				return scenario.Test{Name: "plan " + name + " is held", Given: scenario.Caller{Plan: name},
					Steps: []scenario.Step{{Send: n, Request: request}}}, true
			}
		}
	}
	return scenario.Test{}, false
}

// strangerExample is an address that asks a route without a key.
func strangerExample(d *policy.Document) (scenario.Test, bool) {
	for _, r := range d.Routes {
		request, ok := requestOf(r)
		if !ok || r.Identity != policy.IdentityIP || len(r.Limits) == 0 {
			continue
		}
		step := scenario.Step{Send: min(r.Limits[0].Burst+1, sendMost), Request: request}
		for _, l := range r.Limits {
			for dim := range strings.SplitSeq(string(l.Per), ",") {
				if field, ok := strings.CutPrefix(dim, "body:"); ok {
					step.Body = map[string]string{field: "anna"}
				}
			}
		}
		return scenario.Test{Name: "a stranger is held on " + r.Name, Given: scenario.Caller{IP: "203.0.113.7"}, Steps: []scenario.Step{step}}, true
	}
	return scenario.Test{}, false
}

// recoversExample is planExample and a minute later.
func recoversExample(d *policy.Document) (scenario.Test, bool) {
	t, ok := planExample(d)
	if ok {
		t.Name = "plan " + t.Given.Plan + " has room again after a minute"
		t.Steps = append(t.Steps, scenario.Step{After: time.Minute, Send: 1, Request: t.Steps[0].Request})
	}
	return t, ok
}

// anyRequest is a request that a route of the identity takes; one with limits of
// its own only if there is no other.
func anyRequest(d *policy.Document, identity policy.Identity) (string, bool) {
	found := ""
	for _, r := range d.Routes {
		if request, ok := requestOf(r); ok && r.Identity == identity && r.GraphQL == nil {
			if len(r.Limits) == 0 && r.Concurrency == nil {
				return request, true
			}
			if found == "" {
				found = request
			}
		}
	}
	return found, found != ""
}

// requestOf is a request that a route's first pattern matches.
func requestOf(r policy.Route) (string, bool) {
	if len(r.Match) == 0 {
		return "", false
	}
	method, target, ok := strings.Cut(r.Match[0], " ")
	if !ok {
		method, target = "GET", r.Match[0]
	}
	var b strings.Builder
	for step := range strings.SplitSeq(strings.TrimSpace(target), "/") {
		switch {
		case step == "{$}":
			step = ""
		case strings.HasPrefix(step, "{"):
			step = "1"
		}
		b.WriteString(step + "/")
	}
	return method + " " + strings.TrimSuffix(b.String(), "/"), true
}
