package scenario

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/policy"
)

// Causes are what may refuse a request besides a limit, for Expect.RefusedBy.
func Causes() []string {
	return []string{
		"ambiguous-path", "bad-query", "bad-request", "missing-credential", "no-route", "plan-unknown", "query-too-complex", "tenant-suspended",
	}
}

// maxNames bounds the names that a problem lists.
const maxNames = 20

// Check says what of the suite cannot come true against the document: plans, limits
// and routes that it does not have. Lines are not known.
func (s *Suite) Check(d *policy.Document) policy.Report {
	c := checker{doc: d, limits: limitIDs(d), routes: map[string]bool{}}
	for i := range d.Routes {
		c.routes[d.Routes[i].Name] = true
	}
	for i := range s.Tests {
		c.test("tests["+strconv.Itoa(i)+"]", &s.Tests[i])
	}
	return policy.Report{Problems: trimmed(c.found.problems), Warnings: trimmed(c.warned.problems)}
}

// checker compares a suite with a document.
type checker struct {
	doc           *policy.Document
	limits        map[string]bool // ids; true for one that refuses
	routes        map[string]bool
	found, warned reader
}

func (c *checker) test(path string, t *Test) {
	if _, known := c.doc.Plans[t.Given.Plan]; t.Given.Plan != "" && !known {
		c.found.problem(path+".given.plan", 0, "%q is not a plan of the policy; it has %s", clip(t.Given.Plan), listed(maps.Keys(c.doc.Plans)))
	}
	if t.Given.User != "" && c.doc.User == nil {
		c.warned.problem(path+".given.user", 0, "has no effect: the policy knows no users (user)")
	}
	for i := range t.Steps {
		c.expect(path+".steps["+strconv.Itoa(i)+"].expect", &t.Steps[i].Expect)
	}
}

func (c *checker) expect(path string, e *Expect) {
	if refuses, known := c.limits[e.RefusedBy]; e.RefusedBy != "" && !slices.Contains(Causes(), e.RefusedBy) {
		switch {
		case !known:
			c.found.problem(path+".refused_by", 0, "%q is not a limit of the policy; it has %s", clip(e.RefusedBy), listed(nearest(c.limits, e.RefusedBy)))
		case !refuses:
			c.found.problem(path+".refused_by", 0, "%s is in shadow mode: it never refuses", clip(e.RefusedBy))
		}
	}
	if e.Route != "" && !c.routes[e.Route] {
		c.found.problem(path+".route", 0, "%q is not a route of the policy; it has %s", clip(e.Route), listed(maps.Keys(c.routes)))
	}
}

// nearest are the ids of the same scope or, where there are none, all.
func nearest(limits map[string]bool, id string) iter.Seq[string] {
	scope := id[:strings.LastIndexAny(id, ".:")+1]
	same := func(other string) bool { return scope != "" && strings.HasPrefix(other, scope) }
	if some := slices.Collect(maps.Keys(limits)); slices.ContainsFunc(some, same) {
		return slices.Values(slices.DeleteFunc(some, func(other string) bool { return !same(other) }))
	}
	return maps.Keys(limits)
}

// listed tells names for people.
func listed(names iter.Seq[string]) string {
	sorted := slices.Sorted(names)
	if len(sorted) == 0 {
		return "none"
	}
	if more := len(sorted) - maxNames; more > 0 {
		return strings.Join(sorted[:maxNames], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(sorted, ", ")
}

// limitIDs are the ids of all limits, and whether each refuses: one of the same id
// may be in shadow in one plan and enforced in another.
func limitIDs(d *policy.Document) map[string]bool {
	ids := map[string]bool{}
	add := func(prefix string, limits []policy.Limit) {
		for _, l := range limits {
			id := prefix + l.Name
			ids[id] = ids[id] || l.Mode != policy.ModeShadow
		}
	}
	add("global.", d.Global.Limits)
	add("shared:", d.Shared)
	for _, plan := range d.Plans {
		add("plan.", plan.Limits)
		if plan.Quota != nil {
			ids[policy.QuotaID] = ids[policy.QuotaID] || plan.Quota.Mode != policy.ModeShadow
		}
	}
	for i := range d.Routes {
		r := &d.Routes[i]
		add("route:"+r.Name+".", r.Limits)
		if r.Concurrency != nil {
			ids["route:"+r.Name+".concurrency"] = r.Concurrency.Mode != policy.ModeShadow
		}
	}
	return ids
}
