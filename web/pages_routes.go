package web

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// Which routes the page shows.
const (
	showNoLimit  = "no-limit"
	showFailOpen = "fail-open"
)

func (s *Server) routeList(w http.ResponseWriter, r *http.Request) error {
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	q := r.URL.Query()
	p := views.RouteListProps{Frame: s.titled(r, "Routes"), Version: in.label(), LiveAge: s.liveAge(s.Now()), Query: q.Get("q"), Show: q.Get("show"),
		Ask: form.Query(r, "request", "tenant", "ip"), Published: in.Compiled != nil}
	if in.Compiled == nil {
		return s.render(w, r, http.StatusOK, views.RouteList(p))
	}
	if p.Ask.Get("request") != "" {
		if p.Trace, err = s.traceOf(r.Context(), in.Compiled, p.Ask); err != nil {
			return err
		}
	}
	s.putRoutes(r, &p, in.Compiled)
	p.Seen = s.seen(r)
	return s.render(w, r, http.StatusOK, views.RouteList(p))
}

// putRoutes fills in a page of the routes that the query string asks for.
func (s *Server) putRoutes(r *http.Request, p *views.RouteListProps, c *policy.Compiled) {
	page, start, next := pageOf(r), 0, ""
	if n, err := strconv.Atoi(page.After); err == nil && n > 0 {
		start = n
	}
	totals, matching, since := s.routeTotals(), 0, s.reportedSeconds(recent)
	live := s.Activity.Live()
	times, told, met := live.RouteTimes(), live.DetailKnown(), s.metRoutes()
	for i, rt := range c.Routes {
		noLimit, open := unlimited(rt.Route), rt.Route.OnStoreFailure.Mode == policy.FailOpen
		p.Total++
		if noLimit {
			p.NoLimit++
		}
		if open {
			p.FailOpen++
		}
		if p.Show == showNoLimit && !noLimit || p.Show == showFailOpen && !open || !routeFits(c.Document, i, p.Query) {
			continue
		}
		matching++
		switch {
		case i < start:
		case len(p.Rows) == page.Limit && next == "":
			next = strconv.Itoa(i)
		case len(p.Rows) < page.Limit:
			row := views.RouteUse{RouteRow: routeRow(*rt.Route, 0), NoLimit: noLimit, Bounded: worstText(rt.Route.OnStoreFailure, 1) != "no bound",
				Requests: ui.Unknown, Refused: ui.Unknown}
			row.P50, row.P99 = deciding(times, told, met[rt.Name], rt.Name)
			if totals != nil {
				t := totals[rt.Name]
				all := t.Admitted + t.Refused + t.Degraded
				row.Requests, row.Refused = ui.Num(float64(all)/since), ui.Percent(percentOf(t.Refused, all))
			}
			p.Rows = append(p.Rows, row)
		}
	}
	p.Pager = withTotal(pagerOf(r, page, len(p.Rows), next), ui.Int(int64(matching)))
}

// routeTotals are the counts of the last minutes by route; nil when they are not
// known.
func (s *Server) routeTotals() map[string]usage.RouteTotals {
	now := s.Now()
	if !s.liveKnown(now) {
		return nil
	}
	out := map[string]usage.RouteTotals{}
	for _, t := range s.Activity.Live().Routes(now.Add(-recent)) {
		out[t.Route] = t
	}
	return out
}

// reportedSeconds is how much of a range that ends now was reported: a rate over all
// of it would be too low right after a start.
func (s *Server) reportedSeconds(length time.Duration) float64 {
	now, seconds := s.Now(), 0.0
	for _, p := range s.Activity.Live().Totals(now.Add(-length), now, minuteStep) {
		if p.Reported {
			seconds += minuteStep.Seconds()
		}
	}
	return min(max(seconds, minuteStep.Seconds()), length.Seconds())
}

// metRoutes are those that were asked for in the last minute.
func (s *Server) metRoutes() map[string]bool {
	met := map[string]bool{}
	for _, t := range s.Activity.Live().Routes(s.Now().Add(-time.Minute)) {
		met[t.Route] = t.Admitted+t.Refused+t.Invalid > 0
	}
	return met
}

// unlimited reports whether a route has no limit of its own, nor a shared one:
// its callers are held by their plan alone.
func unlimited(r *policy.Route) bool {
	return len(r.Uses) == 0 && r.Concurrency == nil && !slices.ContainsFunc(r.Limits, func(l policy.Limit) bool { return !l.Rate.Unlimited })
}

// routeFits reports whether all words of a query stand in what a route says.
func routeFits(d *policy.Document, i int, query string) bool {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(d.Routes[i].Name + " " + summaryOf(d, routeSection(i)))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// traceOf says what would decide a request.
func (s *Server) traceOf(ctx context.Context, c *policy.Compiled, f *form.Form) (*views.TraceProps, error) {
	method, host, path, problem := splitRequest(f.Get("request"))
	if problem != "" {
		f.Fail("request", problem)
		return nil, nil //nolint:nilnil // there is nothing to trace
	}
	if ip := f.Get("ip"); ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			f.Fail("ip", "Is no IP address.")
			return nil, nil //nolint:nilerr // the form says it
		}
	}
	plan, who, err := s.callerOf(ctx, c, f)
	if err != nil || !f.OK() {
		return nil, err
	}
	canonical, err := policy.CanonicalPath(path)
	if err != nil {
		return &views.TraceProps{Problem: "Refused with 400 before any limit: " + err.Error() + "."}, nil //nolint:nilerr // that is the answer
	}
	rt, ok := c.Match(method, host, canonical)
	if !ok {
		return &views.TraceProps{Problem: "No route matches " + method + " " + canonical + ": 404, reason no-route."}, nil
	}
	t := &views.TraceProps{Route: rt.Name, Pattern: canonical, Limits: routeLadder(c, rt, plan)}
	t.Sentence = fmt.Sprintf("%s %s meets route %s%s; if Redis is away: %s.", method, canonical, rt.Name, who, failText(rt.Route.OnStoreFailure))
	if rt.Route.Identity == policy.IdentityAPIKey && plan == "" {
		t.Notes = append(t.Notes, "The route wants an API key. Say which tenant asks, to see the limits of its plan.")
	}
	if rt.Route.Identity != policy.IdentityAPIKey && plan != "" {
		t.Notes = append(t.Notes, "The route charges the "+string(rt.Route.Identity)+", not the tenant: the plan's limits are not met here.")
	}
	if len(t.Limits) == 0 {
		t.Notes = append(t.Notes, "It meets no limit at all.")
	}
	return t, nil
}

// splitRequest reads "GET /v1/x", with a host before the path or a whole URL;
// the method may be left out.
func splitRequest(text string) (method, host, path, problem string) {
	method, target, ok := strings.Cut(text, " ")
	if !ok {
		method, target = http.MethodGet, text
	}
	method, target = strings.ToUpper(method), strings.TrimSpace(target)
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		return method, u.Host, max(u.EscapedPath(), "/"), ""
	}
	target, _, _ = strings.Cut(target, "?")
	i := strings.IndexByte(target, '/')
	if i < 0 || strings.ContainsAny(target, " \t") {
		return "", "", "", "Must be a method and a path, such as GET /v1/reports/7."
	}
	return method, target[:i], target[i:], ""
}

// callerOf finds the plan of whoever asks: a tenant's by id or external id, or
// the plan itself.
func (s *Server) callerOf(ctx context.Context, c *policy.Compiled, f *form.Form) (plan, who string, err error) {
	name := f.Get("tenant")
	if name == "" {
		return "", "", nil
	}
	if _, ok := c.Document.Plans[name]; ok {
		return name, " as a tenant on plan " + name, nil
	}
	items, _, err := s.Tenants.List(ctx, console.TenantQuery{Q: name, Page: console.Page{Limit: 50}})
	if err != nil {
		return "", "", err
	}
	fits := func(t console.Tenant) bool {
		return t.ID == name || t.ExternalID == name || strings.EqualFold(t.Name, name)
	}
	i := slices.IndexFunc(items, fits)
	if i < 0 && len(items) == 1 {
		i = 0
	}
	if i < 0 {
		f.Fail("tenant", "No tenant and no plan has this name or id.")
		return "", "", nil
	}
	return items[i].Plan, fmt.Sprintf(" as %s (plan %s)", items[i].Name, items[i].Plan), nil
}

// routeLadder are the limits that a request of a route meets, in the order in
// which gateways ask them.
func routeLadder(c *policy.Compiled, rt *policy.CompiledRoute, plan string) []views.EffectiveRow {
	cost := costText(*rt.Route)
	var rows []views.EffectiveRow
	add := func(limits []policy.CompiledLimit) {
		for _, l := range limits {
			rows = append(rows, effectiveRow(l, cost))
		}
	}
	add(c.Global)
	if rt.Route.Identity == policy.IdentityAPIKey {
		add(c.Plans[plan])
	}
	add(rt.Limits)
	if p := rt.Concurrency; p != nil {
		rows = append(rows, views.EffectiveRow{ID: p.ID, Rate: ui.Int(p.Max) + " at once", Burst: "–", Per: p.Per.Text(), Cost: "a place", Source: p.Source, Shadow: p.Shadow})
	}
	if rt.Route.Identity == policy.IdentityAPIKey {
		rows = append(rows, quotaRows(c, plan)...)
	}
	return rows
}

// effectiveRow is a limit as it is enforced; cost is what one request takes of
// it when it counts cost.
func effectiveRow(l policy.CompiledLimit, cost string) views.EffectiveRow {
	row := views.EffectiveRow{ID: l.ID, Applies: "every route", Rate: l.Rate.String(), Burst: ui.Int(l.Burst), Per: l.Per.Text(),
		Counts: string(l.Counts), Cost: cost, Source: l.Source, Shadow: l.Shadow}
	if l.ExpiresMicros != 0 {
		row.Until = time.UnixMicro(l.ExpiresMicros).UTC().Format(time.RFC3339Nano)
	}
	switch {
	case l.Unlimited:
		row.Rate, row.Burst = "unlimited", "–"
	case l.Numbers.Blocked():
		row.Rate = "nothing is admitted"
	}
	if l.Counts == policy.CountsRequests {
		row.Cost = "1"
	}
	return row
}
