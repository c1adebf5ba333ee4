package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

// usageFields are what a question to the ledger has in an address.
func usageFields() []string {
	return []string{"range", "from", "to", "step", "zone", "group", "by", "top", "tenant", "plan", "route", "kid", "outcome", "compare"}
}

// usageQuestion is a question to the ledger as a page was asked it.
type usageQuestion struct {
	form    *form.Form
	span    console.UsageSpan
	query   console.UsageQuery
	measure used.Measure
	compare bool
}

// usageAsked reads a question. tenant is whose page it is, nil on the page of all.
// Problems stand in the question's form.
func (s *Server) usageAsked(r *http.Request, tenant *console.Tenant) usageQuestion {
	q := usageQuestion{form: form.Query(r, usageFields()...)}
	f := q.form
	zone := f.Get("zone")
	if zone == "" && tenant != nil {
		zone = tenant.TimeZone
	}
	ask := console.UsageAsk{Range: f.Get("range"), From: f.Get("from"), To: f.Get("to"), ToLast: true, Step: f.Get("step"), Zone: zone}
	if ask.Range == console.RangeDates {
		ask.Range = ""
	}
	span, err := ask.Span(s.Now())
	if err != nil {
		f.Take(err)
	}
	q.span, q.measure, q.compare = span, used.Measure(f.Get("by")), f.Get("compare") != ""
	q.query = console.UsageQuery{From: span.From, To: span.To, Step: console.UsageStep(span.Step), Zone: span.Zone.String(), Group: console.UsageGroup(f.Get("group")),
		By: console.ByRequests, Top: 10, TenantID: f.Get("tenant"), Plan: f.Get("plan"), Route: f.Get("route"), KID: f.Get("kid"), Outcome: f.Get("outcome")}
	q.choices(tenant)
	return q
}

// choices reads what is one of a few.
func (q *usageQuestion) choices(tenant *console.Tenant) {
	f := q.form
	switch q.measure {
	case used.Requests:
	case used.Cost:
		q.query.By = console.ByCost
	default:
		f.Fail("by", "Choose requests or cost.")
	}
	if top := f.Get("top"); top != "" {
		n, err := strconv.Atoi(top)
		if err != nil || n < 1 || n > 200 {
			f.Fail("top", "Between 1 and 200.")
		}
		q.query.Top = n
	}
	groups := usageGroups(tenant != nil)
	if q.query.Group == "" && f.Get("group") == "" {
		q.query.Group = console.UsageGroup(groups[0].Value)
	}
	if q.query.Group == "none" {
		q.query.Group = console.GroupNone
	} else if !slices.ContainsFunc(groups, func(o ui.Option) bool { return o.Value == string(q.query.Group) }) {
		f.Fail("group", "Choose one of the list.")
	}
	if tenant != nil {
		q.query.TenantID, q.query.Plan = tenant.ID, ""
	}
}

func usageGroups(ofTenant bool) []ui.Option {
	var out []ui.Option
	if !ofTenant {
		out = append(out, ui.Option{Value: string(console.GroupTenant), Label: "tenant"}, ui.Option{Value: string(console.GroupPlan), Label: "plan"})
	}
	out = append(out, ui.Option{Value: string(console.GroupRoute), Label: "route"}, ui.Option{Value: string(console.GroupKey), Label: "key"},
		ui.Option{Value: string(console.GroupOutcome), Label: "outcome"})
	if !ofTenant {
		out = append(out, ui.Option{Value: string(console.GroupGateway), Label: "gateway"})
	}
	return append(out, ui.Option{Value: "none", Label: "nothing"})
}

// groupWord is what a row is.
func groupWord(g console.UsageGroup) string {
	return map[console.UsageGroup]string{console.GroupTenant: "Tenant", console.GroupPlan: "Plan", console.GroupRoute: "Route", console.GroupKey: "Key",
		console.GroupOutcome: "Outcome", console.GroupGateway: "Gateway"}[g]
}

// named looks up the tenant that was asked for. One that is unknown is a problem.
func (q *usageQuestion) named(ctx context.Context, s *Server) (name string, err error) {
	if q.query.TenantID == "" {
		return "", nil
	}
	t, err := s.Tenants.Get(ctx, q.query.TenantID)
	if console.CodeOf(err) == console.CodeNotFound {
		q.form.Fail("tenant", "There is no tenant with this id.")
		return "", nil
	}
	return t.Name, err
}

// filter is the question as its form shows it.
func (q *usageQuestion) filter(in inForce, path string, tenant *console.Tenant, name string) views.UsageFilter {
	f := q.form
	v := views.UsageFilter{Range: q.span.Range, Group: f.Get("group"), Top: f.Get("top"), By: f.Get("by"), Zone: q.span.Zone.String(),
		Groups: usageGroups(tenant != nil), Ranges: usageRanges(), Zones: zonesWith(q.span.Zone.String(), tenant),
		From: f.Get("from"), To: f.Get("to"), Tenant: f.Get("tenant"), TenantName: name, Fixed: tenant != nil, Plan: f.Get("plan"), Route: f.Get("route"), KID: f.Get("kid"),
		Outcome: f.Get("outcome"), Plans: in.planOptions(ui.Option{Label: "any"}, f.Get("plan")), Routes: routeOptions(in, f.Get("route")), Outcomes: outcomeOptions(),
		Compare: q.compare, Problems: f.Errors, Clear: path}
	if v.Group == "" {
		v.Group = string(q.query.Group)
	}
	if v.Top == "" {
		v.Top = "10"
	}
	for _, n := range []string{"10", "20", "50", "100", "200"} {
		v.Tops = append(v.Tops, ui.Option{Value: n, Label: "top " + n})
	}
	if !slices.ContainsFunc(v.Tops, func(o ui.Option) bool { return o.Value == v.Top }) {
		v.Tops = append(v.Tops, ui.Option{Value: v.Top, Label: "top " + v.Top})
	}
	for _, field := range []string{"from", "to", "tenant", "plan", "route", "kid", "outcome", "compare"} {
		v.Active = v.Active || f.Get(field) != ""
	}
	if keep := q.span.Range; keep != "" && keep != console.RangeDates {
		v.Clear = path + "?" + url.Values{"range": {keep}}.Encode()
	}
	return v
}

func usageRanges() []ui.Option {
	return []ui.Option{{Value: console.RangeHour, Label: "last hour"}, {Value: console.RangeDay, Label: "24 hours"}, {Value: console.RangeWeek, Label: "7 days"},
		{Value: console.RangeDays30, Label: "30 days"}, {Value: console.RangeDays90, Label: "90 days"}, {Value: console.RangeMonth, Label: "this month"},
		{Value: console.RangeLastMonth, Label: "last month"}, {Value: console.RangeYear, Label: "12 months"}, {Value: console.RangeDates, Label: "dates below"}}
}

// zonesWith are zones to choose from: some of those where people live, that of the
// tenant and the one in use.
func zonesWith(now string, tenant *console.Tenant) []ui.Option {
	names := []string{"UTC", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo", "Europe/London", "Europe/Berlin", "Africa/Lagos", "Asia/Dubai",
		"Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney"}
	if tenant != nil {
		names = append([]string{tenant.TimeZone}, names...)
	}
	if !slices.Contains(names, now) {
		names = append(names, now)
	}
	var out []ui.Option
	for i, name := range names {
		if name != "" && !slices.Contains(names[:i], name) {
			out = append(out, ui.Option{Value: name, Label: name})
		}
	}
	return out
}

func routeOptions(in inForce, present string) []ui.Option {
	out := []ui.Option{{Label: "any"}}
	for _, rt := range in.routes() {
		out = append(out, ui.Option{Value: rt.Name, Label: rt.Name})
	}
	if present != "" && !slices.ContainsFunc(in.routes(), func(rt policy.Route) bool { return rt.Name == present }) {
		out = append(out, ui.Option{Value: present, Label: present + " (not in the policy)"})
	}
	return out
}

func outcomeOptions() []ui.Option {
	out := []ui.Option{{Label: "any"}}
	for _, o := range append(usage.Outcomes(), ledger.OutcomeInterrupted, ledger.OutcomeSettled, ledger.OutcomeAborted) {
		out = append(out, ui.Option{Value: string(o), Label: string(o)})
	}
	return out
}
