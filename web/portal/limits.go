package portal

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/graphql"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) limits(w http.ResponseWriter, r *http.Request, v *visit) error {
	in, err := s.Overrides.Effective(r.Context(), v.tenant.ID)
	if err != nil {
		return err
	}
	compiled, err := s.InForce(r.Context())
	if err != nil {
		return err
	}
	own := ownLimits(in.Limits)
	p := views.LimitsProps{Frame: s.frame(v, "Limits", "limits"), Plan: v.tenant.Plan, Header: s.header(r.Context(), "YOUR_KEY")}
	for _, l := range own {
		p.Rows = append(p.Rows, limitRow(l))
	}
	if compiled == nil {
		p.Problem = "No policy is in force yet, so no limits are known."
		return s.render(w, r, http.StatusOK, views.Limits(p))
	}
	for _, route := range compiled.Routes {
		if route.Route.Identity != policy.IdentityAPIKey {
			continue
		}
		p.Routes = append(p.Routes, views.RouteRow{Name: route.Name, Match: strings.Join(route.Route.Match, ", "), Cost: costText(route.Route), Limits: besides(own, route.Name)})
	}
	return s.render(w, r, http.StatusOK, views.Limits(p))
}

// besides names the limits that a route has beyond those of every route.
func besides(own []console.LimitInForce, route string) string {
	var ids []string
	for _, l := range own {
		if l.Routes != nil && meets(l, route) {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, ", ")
}

func meets(l console.LimitInForce, route string) bool {
	if l.Routes == nil {
		return true
	}
	for _, r := range l.Routes {
		if r == route {
			return true
		}
	}
	return false
}

func costText(r *policy.Route) string {
	switch {
	case r.GraphQL != nil:
		return "by query, ≤ " + ui.Int(r.GraphQL.Max)
	case r.SettleHeader != "":
		return ui.Int(r.Cost) + " at first, then as it turns out"
	}
	return ui.Int(r.Cost)
}

// limitRow is one limit in the tenant's words. Why an operator gave a value is
// not told.
func limitRow(l console.LimitInForce) views.LimitRow {
	now := l.Now()
	row := views.LimitRow{ID: l.ID, Applies: applies(l), Value: now.Text, Per: "per " + l.Per, From: now.Source}
	if l.Counts != "" {
		row.Per += ", counts " + l.Counts
	}
	if now.Source == policy.SourceBoost || now.Source == policy.SourceOverride {
		row.From = "your own " + now.Source
	}
	if now.ExpiresAt != nil {
		row.From += " until " + ui.Absolute(*now.ExpiresAt)
	}
	if base := l.Base(); len(l.Steps) > 1 {
		row.From += "; without it " + base.Text
	}
	return row
}

// try works out which route a call takes, what it costs and which limits it
// meets, by the same code as the gateways.
func (s *Server) try(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Query(r, "method", "path", "query")
	p := views.TryProps{Frame: s.frame(v, "Try", "try"), Form: f}
	if f.Get("path") == "" {
		if f.Get("method") == "" {
			f.Value["method"] = http.MethodGet
		}
		return s.render(w, r, http.StatusOK, views.Try(p))
	}
	compiled, err := s.InForce(r.Context())
	if err != nil {
		return err
	}
	if compiled == nil {
		f.Message = "No policy is in force yet."
		return s.render(w, r, http.StatusOK, views.Try(p))
	}
	route, status := matched(compiled, f)
	if route == nil && !f.OK() {
		return s.render(w, r, status, views.Try(p))
	}
	in, err := s.Overrides.Effective(r.Context(), v.tenant.ID)
	if err != nil {
		return err
	}
	p.Result = tried(route, f, ownLimits(in.Limits))
	if !f.OK() {
		p.Result = nil
		status = http.StatusUnprocessableEntity
	}
	return s.render(w, r, status, views.Try(p))
}

// matched is the route of the call that a form describes; nil when there is none.
func matched(compiled *policy.Compiled, f *form.Form) (*policy.CompiledRoute, int) {
	path, _, _ := strings.Cut(f.Get("path"), "?")
	if u, err := url.Parse(f.Get("path")); err == nil && u.Host != "" {
		path = u.EscapedPath()
	}
	canonical, err := policy.CanonicalPath(path)
	if err != nil {
		f.Fail("path", "This is not a path that gateways take: "+err.Error()+".")
		return nil, http.StatusUnprocessableEntity
	}
	switch f.Get("method") {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		f.Fail("method", "Choose one of the methods.")
		return nil, http.StatusUnprocessableEntity
	}
	route, _ := compiled.Match(f.Get("method"), "", canonical)
	return route, http.StatusOK
}

// tried tells what a call would meet.
func tried(route *policy.CompiledRoute, f *form.Form, own []console.LimitInForce) *views.TryResult {
	call := f.Get("method") + " " + f.Get("path")
	switch {
	case route == nil:
		return &views.TryResult{Kind: "bad", Text: call + " matches no route: it is answered 404."}
	case route.Route.Identity != policy.IdentityAPIKey:
		return &views.TryResult{Kind: "ok", Text: call + " takes route " + route.Name + ", which goes by no key: your limits do not concern it."}
	}
	out := &views.TryResult{Kind: "ok", Text: call + " takes route " + route.Name + ".", Cost: "It costs " + costText(route.Route) + "."}
	if g := route.Route.GraphQL; g != nil && f.Get("query") != "" {
		cost, err := graphql.Cost(f.Raw("query"), "", nil, graphql.Rules(*g))
		if err != nil {
			f.Fail("query", "This query is refused: "+err.Error()+".")
			return out
		}
		out.Cost = "This query costs " + ui.Int(max(cost, 1)) + " of at most " + ui.Int(g.Max) + "."
	}
	for _, l := range own {
		if meets(l, route.Name) {
			out.Rows = append(out.Rows, limitRow(l))
		}
	}
	return out
}
