package web

import (
	"net/url"
	"strconv"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

// show puts an answer on the page.
func (q *usageQuestion) show(p *views.UsageRecord, now time.Time, a usageAnswer) {
	if q.form.Get("by") == "cost" {
		p.Cost = true
	}
	total := a.report.Total
	if total == (console.UsageSums{}) && (a.before == nil || a.before.Total == (console.UsageSums{})) {
		p.Empty = "No usage is in the ledger for this range."
		if p.Filter.Active {
			p.Empty = "No usage is in the ledger for this range and these filters."
		} else if a.report.Through.IsZero() {
			p.Empty = "The ledger has nothing yet. Gateways tell it what they admit and refuse, within seconds: send a request through one."
		}
		return
	}
	p.Chart = used.Chart("usage-bars", q.span, q.measure, now, a.report, a.before)
	if a.hours != nil {
		p.Heat = used.Heat(a.span, q.measure, *a.hours)
	}
	c := q.comparison(a)
	if a.before != nil {
		p.Before = c.words
	}
	p.Totals = q.totals(total, c)
	if q.query.Group != console.GroupNone {
		p.Group = groupWord(q.query.Group)
		p.Rows = q.rows(a, c)
	}
}

// comparison sets complete steps against the same steps before: an hour that is
// under way is no decline.
type comparison struct {
	on    bool
	steps int
	now   console.UsageSums
	then  console.UsageSums
	words string
	lines map[string][]console.UsageSums // of the groups before
	all   bool                           // every group before is among them
}

func (q *usageQuestion) comparison(a usageAnswer) comparison {
	c := comparison{on: a.before != nil}
	if !c.on {
		return c
	}
	starts, b := q.span.Starts(), q.span.Before()
	c.steps = used.Complete(q.span, starts, a.report.Through)
	c.now = used.Sum(used.Spread(q.span, starts, a.report.Starts, a.report.Steps), c.steps)
	c.then = used.Sum(used.Spread(b, b.Starts(), a.before.Starts, a.before.Steps), c.steps)
	c.words = "against the " + strconv.Itoa(c.steps) + " " + plural(q.span.Step, c.steps) + " from " + used.When(q.span.Step, b.From) + "; complete steps only"
	c.lines, c.all = map[string][]console.UsageSums{}, a.before.RestCount == 0
	for _, l := range a.before.Groups {
		c.lines[l.Key] = used.Spread(b, b.Starts(), a.before.Starts, l.Steps)
	}
	return c
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// of is a group's change.
func (c comparison) of(m used.Measure, key string, steps []console.UsageSums) string {
	before, ok := c.lines[key]
	if !ok && !c.all {
		return ui.Unknown
	}
	now, then := used.Sum(steps, c.steps), used.Sum(before, c.steps)
	return used.Change(m.Of(now), m.Of(then))
}

// totals are the sums of the range; admitted requests, admitted cost and refused
// requests are never mixed.
func (q *usageQuestion) totals(t console.UsageSums, c comparison) []views.UsageTotal {
	note := func(plain string, now, then int64) string {
		if !c.on {
			return plain
		}
		return used.Change(now, then) + " " + c.words
	}
	out := []views.UsageTotal{
		{Label: "Admitted", Value: ui.Int(t.Admitted), Note: note("requests", c.now.Admitted, c.then.Admitted)},
		{Label: "Cost", Value: ui.Int(t.Cost), Note: note("units, of what was admitted", c.now.Cost, c.then.Cost)},
		{Label: "Refused", Value: ui.Int(t.Refused), Note: ui.Percent(used.Share(t.Refused, t.Requests())) + " of all requests"},
	}
	more := []struct {
		n           int64
		label, note string
	}{{t.Other, "Not valid", "no key, no route, suspended …"}, {t.Fallback, "Without Redis", "of the admitted ones"},
		{t.Interrupted, "Interrupted", "a gateway was killed; not billed"}, {t.Settled, "Settled later", "units, part of the cost"}}
	for _, m := range more {
		if m.n != 0 {
			out = append(out, views.UsageTotal{Label: m.label, Value: ui.Int(m.n), Note: m.note})
		}
	}
	return out
}

// rows are the groups, the largest first, and what is beyond them.
func (q *usageQuestion) rows(a usageAnswer, c comparison) []views.UsageRow {
	starts := q.span.Starts()
	of := q.measured(a.report.Total)
	row := func(l console.UsageLine) views.UsageRow {
		t := l.Total
		r := views.UsageRow{Name: lineName(q.query.Group, l), Admitted: ui.Int(t.Admitted), Cost: ui.Int(t.Cost), Refused: ui.Int(t.Refused),
			RefusedShare: ui.Percent(used.Share(t.Refused, t.Requests())), Share: ui.Percent(used.Share(q.measured(t), of))}
		steps := used.Spread(q.span, starts, a.report.Starts, l.Steps)
		r.Line = used.Series(q.measure, steps)
		r.LineLabel = r.Name + ", " + q.measure.Unit() + " by " + q.span.Step + ": at most " + ui.Int(most(r.Line))
		if c.on {
			r.Change = c.of(q.measure, l.Key, steps)
		}
		return r
	}
	var out []views.UsageRow
	for _, l := range a.report.Groups {
		r := row(l)
		r.URL = q.lineURL(l)
		if l.Name != "" {
			r.ID = l.Key
		}
		out = append(out, r)
	}
	if a.report.RestCount > 0 {
		r := row(a.report.Rest)
		r.Name, r.Rest = "all "+ui.Int(int64(a.report.RestCount))+" others together", true
		if c.on {
			r.Change = ""
		}
		out = append(out, r)
	}
	return out
}

// measured is what groups are ordered and shared by.
func (q *usageQuestion) measured(t console.UsageSums) int64 {
	if q.measure == used.Cost {
		return t.Cost
	}
	return t.Requests()
}

func most(values []int64) (m int64) {
	for _, v := range values {
		m = max(m, v)
	}
	return m
}

func lineName(g console.UsageGroup, l console.UsageLine) string {
	switch {
	case l.Name != "":
		return l.Name
	case l.Key != "":
		return l.Key
	}
	return map[console.UsageGroup]string{console.GroupTenant: "(no tenant)", console.GroupRoute: "(no route)", console.GroupKey: "(no key)", console.GroupPlan: "(no plan)"}[g]
}

// lineURL leads from a row to more about it: a tenant's own usage in the same range,
// or the same page for that one alone.
func (q *usageQuestion) lineURL(l console.UsageLine) string {
	if l.Key == "" {
		return ""
	}
	keep := url.Values{}
	for _, field := range []string{"range", "from", "to", "zone", "by", "compare"} {
		if v := q.form.Get(field); v != "" {
			keep.Set(field, v)
		}
	}
	path := ui.UsageURL("")
	if q.query.TenantID != "" {
		keep.Set("tenant", q.query.TenantID)
	}
	switch q.query.Group {
	case console.GroupTenant:
		return withParams(ui.TenantURL(l.Key, "usage"), keep, "tenant")
	case console.GroupKey:
		return ui.KeyURL(l.Key, "")
	case console.GroupGateway:
		return ui.GatewaysURL()
	case console.GroupRoute, console.GroupPlan, console.GroupOutcome:
		keep.Set(string(q.query.Group), l.Key)
		return path + "?" + keep.Encode()
	}
	return ""
}

func withParams(path string, keep url.Values, less string) string {
	keep.Del(less)
	if len(keep) == 0 {
		return path
	}
	return path + "?" + keep.Encode()
}
