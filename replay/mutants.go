package replay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/headgate/headgate/policy"
)

// mutation is a small change of a document. It makes a limit looser, tighter or
// disappear, so that some request is decided otherwise; what no test can show is none:
// fail modes, how slices are leased, and dimensions that tell callers apart, because a
// test has one caller.
type mutation struct {
	path  string
	text  string
	route string // that alone it concerns; "" more than one
	apply func(*policy.Document)
}

// mutations lists all of a document, in its order.
func mutations(d *policy.Document) []mutation {
	m := &mutator{}
	m.limits("global.limits", "global.", "", d.Global.Limits, func(d *policy.Document) *[]policy.Limit { return &d.Global.Limits })
	m.limits("shared", "shared:", "", d.Shared, func(d *policy.Document) *[]policy.Limit { return &d.Shared })
	for _, name := range slices.Sorted(maps.Keys(d.Plans)) {
		m.plan(name, d.Plans[name])
	}
	for i := range d.Routes {
		m.routeAt(i, &d.Routes[i])
	}
	return m.list
}

type mutator struct{ list []mutation }

func (m *mutator) add(path, route, text string, apply func(*policy.Document)) {
	m.list = append(m.list, mutation{path, "no test would notice if " + text, route, apply})
}

// limits are those of one list, which at finds in a copy of the document.
func (m *mutator) limits(path, prefix, route string, list []policy.Limit, at func(*policy.Document) *[]policy.Limit) {
	for i := range list {
		l, id := list[i], prefix+list[i].Name
		if l.Mode == policy.ModeShadow || l.Rate.Unlimited { // refuses nobody
			continue
		}
		here := path + "[" + strconv.Itoa(i) + "]"
		set := func(change func(*policy.Limit)) func(*policy.Document) {
			return func(d *policy.Document) { change(&(*at(d))[i]) }
		}
		if !l.Rate.Blocked() {
			for _, other := range [...]policy.Limit{times(l, 2), half(l)} {
				m.add(here+".rate", route, id+" were "+rateText(other)+" instead of "+rateText(l), set(func(l *policy.Limit) { l.Rate, l.Burst = other.Rate, other.Burst }))
			}
		}
		m.add(here, route, id+" were not there", func(d *policy.Document) { *at(d) = slices.Delete(*at(d), i, i+1) })
		m.add(here+".mode", route, id+" were in shadow mode", set(func(l *policy.Limit) { l.Mode = policy.ModeShadow }))
		if wider := widened(l.Per); wider != l.Per {
			m.add(here+".per", route, id+" were counted per "+wider.Text()+" instead of "+l.Per.Text(), set(func(l *policy.Limit) { l.Per = wider }))
		}
	}
}

func rateText(l policy.Limit) string {
	text := l.Rate.String()
	if l.Burst != l.Rate.DefaultBurst() {
		text += fmt.Sprintf(" with a burst of %d", l.Burst)
	}
	return text
}

func times(l policy.Limit, n int64) policy.Limit {
	l.Rate.Tokens, l.Burst = l.Rate.Tokens*n, l.Burst*n
	return l
}

func half(l policy.Limit) policy.Limit {
	if l.Rate.Tokens > 1 {
		l.Rate.Tokens /= 2
	} else {
		l.Rate.Period *= 2
	}
	l.Burst = max(1, l.Burst/2)
	return l
}

// widened leaves out the dimensions that steps of one test can have different values
// of.
func widened(per policy.Per) policy.Per {
	rest := slices.DeleteFunc(per.Dimensions(), func(d policy.Dimension) bool {
		return d.Kind == policy.DimensionHeader || d.Kind == policy.DimensionBody
	})
	if len(rest) == 0 {
		return policy.PerGlobal
	}
	return policy.PerOf(rest)
}

func (m *mutator) plan(name string, p policy.Plan) {
	path := "plans." + name
	edit := func(change func(*policy.Plan)) func(*policy.Document) {
		return func(d *policy.Document) {
			p := d.Plans[name]
			change(&p)
			d.Plans[name] = p
		}
	}
	m.planLimits(name, path, p)
	q := p.Quota
	if q == nil || q.Mode == policy.ModeShadow {
		return
	}
	bound := q.Amount
	if q.Over == policy.OverBill {
		bound = q.Max
	}
	if bound > 0 {
		for _, other := range [...]int64{2 * bound, bound / 2} {
			m.add(path+".quota.amount", "", fmt.Sprintf("the quota of plan %s were %d instead of %d", name, other, bound), edit(func(p *policy.Plan) {
				q := *p.Quota
				if q.Over == policy.OverBill {
					q.Max, q.Amount = other, min(q.Amount, other)
				} else {
					q.Amount = other
				}
				p.Quota = &q
			}))
		}
		m.add(path+".quota", "", "plan "+name+" had no quota", edit(func(p *policy.Plan) { p.Quota = nil }))
	}
}

// planLimits are a plan's limits. A map's values cannot be pointed into.
func (m *mutator) planLimits(name, path string, p policy.Plan) {
	inner := &mutator{}
	var limits []policy.Limit // of the copy that is being changed
	inner.limits(path+".limits", "plan.", "", p.Limits, func(*policy.Document) *[]policy.Limit { return &limits })
	for _, one := range inner.list {
		apply := one.apply
		one.text += " on plan " + name
		one.apply = func(d *policy.Document) {
			p := d.Plans[name]
			limits = p.Limits
			apply(d)
			p.Limits = limits
			d.Plans[name] = p
		}
		m.list = append(m.list, one)
	}
}

func (m *mutator) routeAt(i int, r *policy.Route) {
	path := "routes[" + strconv.Itoa(i) + "]"
	edit := func(change func(*policy.Route)) func(*policy.Document) {
		return func(d *policy.Document) { change(&d.Routes[i]) }
	}
	m.add(path+".match", r.Name, "route "+r.Name+" were not there", func(d *policy.Document) { d.Routes = slices.Delete(d.Routes, i, i+1) })
	if r.GraphQL == nil {
		m.add(path+".cost", r.Name, fmt.Sprintf("a request of route %s cost %d instead of %d", r.Name, 2*r.Cost, r.Cost), edit(func(r *policy.Route) { r.Cost *= 2 }))
	}
	m.limits(path+".limits", "route:"+r.Name+".", r.Name, r.Limits, func(d *policy.Document) *[]policy.Limit { return &d.Routes[i].Limits })
	for j, name := range r.Uses {
		m.add(fmt.Sprintf("%s.uses[%d]", path, j), r.Name, "route "+r.Name+" did not draw from shared:"+name, edit(func(r *policy.Route) { r.Uses = slices.Delete(r.Uses, j, j+1) }))
	}
	c := r.Concurrency
	if c == nil || c.Mode == policy.ModeShadow {
		return
	}
	id := "route:" + r.Name + ".concurrency"
	for _, other := range [...]int64{2 * c.Max, c.Max / 2} {
		if other > 0 {
			m.add(path+".concurrency.max", r.Name, fmt.Sprintf("%s were %d instead of %d", id, other, c.Max), edit(func(r *policy.Route) { r.Concurrency.Max = other }))
		}
	}
	m.add(path+".concurrency", r.Name, id+" were not there", edit(func(r *policy.Route) { r.Concurrency = nil }))
}

// copied is a document whose parts that mutations change are its own.
func copied(d *policy.Document) *policy.Document {
	out := *d
	out.Global.Limits, out.Shared = slices.Clone(d.Global.Limits), slices.Clone(d.Shared)
	out.Plans = make(map[string]policy.Plan, len(d.Plans))
	for name, p := range d.Plans {
		p.Limits = slices.Clone(p.Limits)
		out.Plans[name] = p
	}
	out.Routes = slices.Clone(d.Routes)
	for i := range out.Routes {
		r := &out.Routes[i]
		r.Limits, r.Uses = slices.Clone(r.Limits), slices.Clone(r.Uses)
		if r.Concurrency != nil {
			r.Concurrency = new(*r.Concurrency)
		}
	}
	return &out
}
