package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// endedShown bounds the ended overrides on a tenant's tab.
const endedShown = 50

// withins are the spans in which overrides of the list end.
func withins() []ui.Option {
	return []ui.Option{{Value: "", Label: "at any time"}, {Value: "24h", Label: "within 24 hours"}, {Value: "168h", Label: "within 7 days"}, {Value: "720h", Label: "within 30 days"}}
}

func (s *Server) overrideList(w http.ResponseWriter, r *http.Request) error {
	f, page := form.Query(r, "limit", "kind", "state", "within"), pageOf(r)
	within, _ := time.ParseDuration(f.Get("within")) // what is no duration selects nothing less
	list, next, err := s.Overrides.List(r.Context(), console.OverrideQuery{Limit: f.Get("limit"), Kind: console.OverrideKind(f.Get("kind")),
		State: console.OverrideState(f.Get("state")), Within: max(within, 0), Page: page})
	if err != nil {
		return err
	}
	p := views.OverrideListProps{Frame: s.titled(r, "Overrides"), Now: s.Now(), Limit: f.Get("limit"), Kind: f.Get("kind"), State: f.Get("state"),
		Within: f.Get("within"), Withins: withins()}
	p.Filtered = p.Limit != "" || p.Kind != "" || p.State != "" || p.Within != ""
	for _, o := range list {
		p.Rows = append(p.Rows, s.overrideRow(r, o))
	}
	p.Pager = pagerOf(r, page, len(list), next)
	return s.render(w, r, http.StatusOK, views.OverrideList(p))
}

// overrideRow is an override with what it does now.
func (s *Server) overrideRow(r *http.Request, o console.OverrideRow) views.OverrideRow {
	row := endedRow(o.TenantOverride)
	row.Plan = o.Plan
	if o.EndedAt != nil {
		return row
	}
	row.CanAct = mayChange(r, o.TenantOverride) && o.Live(s.Now())
	row.WithoutEffect = o.WithoutEffect()
	if o.Limit != nil {
		row.Base, row.Peak = o.Limit.Base().Text, peakText(*o.Limit)
		for _, step := range o.Limit.Steps {
			if step.OverrideID == o.ID {
				row.Value = step.Text
			}
		}
	}
	return row
}

// endedRow is an override by itself: what it says, and how it ended.
func endedRow(o console.TenantOverride) views.OverrideRow {
	return views.OverrideRow{ID: o.ID, Limit: o.Limit, Tenant: o.TenantName, TenantURL: ui.TenantURL(o.TenantID, "overrides"), Kind: string(o.Kind()),
		Value: overrideText(o.Override), Reason: o.Reason, By: o.Author, Created: o.CreatedAt, Expires: at(o.ExpiresAt), Ended: at(o.EndedAt),
		EndedBy: o.EndedBy, EndReason: o.EndReason, Peak: "–"}
}

// overrideText is what an override says, in words.
func overrideText(o policy.Override) string {
	switch {
	case o.FactorMilli != 0:
		return "×" + console.FactorText(o.FactorMilli)
	case o.Rate != "" && o.Burst != nil:
		return o.Rate + ", burst " + ui.Int(*o.Burst)
	case o.Rate != "":
		return o.Rate
	case o.Amount != nil && o.Max != nil && *o.Max > 0:
		return ui.Int(*o.Amount) + ", at most " + ui.Int(*o.Max)
	case o.Amount != nil:
		return ui.Int(*o.Amount)
	case o.Max != nil:
		return ui.Int(*o.Max) + " at once"
	}
	return ui.Unknown
}

// peakText is the most that was asked of a limit in a minute, as far as is known.
func peakText(l console.LimitInForce) string {
	if l.Peak == nil || l.Peak.Known <= 0 {
		return ui.Unknown
	}
	return ui.Int(l.Peak.PerMinute) + "/min, " + ui.Span(l.Peak.Known) + " seen"
}

// mayChange reports whether the role may end or extend an override: who manages
// tenants all of them, who boosts boosts alone.
func mayChange(r *http.Request, o console.TenantOverride) bool {
	return can(r, console.PermManageTenants) || o.IsBoost() && can(r, console.PermBoost)
}

func (s *Server) overridePage(w http.ResponseWriter, r *http.Request) error {
	return s.overridePageWith(w, r, http.StatusOK, "", "", nil)
}

// overridePageWith shows an override, with the problem of an act that failed.
func (s *Server) overridePageWith(w http.ResponseWriter, r *http.Request, status int, act, problem string, f *form.Form) error {
	o, err := s.Overrides.Get(r.Context(), chi.URLParam(r, "override"))
	if err != nil {
		return err
	}
	live, _, err := s.Overrides.OfTenant(r.Context(), o.TenantID, 0)
	if err != nil {
		return err
	}
	row := endedRow(o)
	for _, l := range live {
		if l.ID == o.ID {
			row = s.overrideRow(r, l)
		}
	}
	if row.Base == "" {
		row.Base = "the value of the plan"
	}
	row.Act, row.Problem, row.Kept, row.Until = act, problem, f.Raw("reason"), f.Raw("expires_at")
	if row.Until == "" && o.ExpiresAt != nil {
		row.Until = o.ExpiresAt.UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	}
	return s.render(w, r, status, views.OverridePage(views.OverridePageProps{Frame: s.titled(r, "Override of "+o.TenantName), Now: s.Now(), Row: row}))
}

func (s *Server) overrideEnd(w http.ResponseWriter, r *http.Request) error {
	o, err := s.Overrides.Get(r.Context(), chi.URLParam(r, "override"))
	if err != nil {
		return err
	}
	f := form.Parse(r, "reason")
	end := s.Overrides.Clear
	if o.IsBoost() {
		end = s.Overrides.EndBoost
	}
	change, err := console.Change{}, error(nil)
	if o.EndedAt != nil {
		f.Fail("reason", "It has ended already.")
	} else {
		change, err = end(r.Context(), actor(r), o.TenantID, o.Limit, f.Get("reason"))
	}
	return s.overrideTold(w, r, "end", f, change, err)
}

func (s *Server) overrideExtend(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "expires_at", "reason")
	until, ok := endOfDay(f)
	if !ok {
		return s.overridePageWith(w, r, http.StatusUnprocessableEntity, "extend", f.Error("expires_at"), f)
	}
	set, err := s.Overrides.Extend(r.Context(), actor(r), chi.URLParam(r, "override"), console.Extension{Until: until, Reason: f.Get("reason")})
	return s.overrideTold(w, r, "extend", f, set.Change, err)
}

// overrideTold answers an act on an override: with its page, or with what is wrong.
func (s *Server) overrideTold(w http.ResponseWriter, r *http.Request, act string, f *form.Form, change console.Change, err error) error {
	id := chi.URLParam(r, "override")
	if err == nil && f.OK() {
		name := map[string]string{"end": "clear", "extend": "extend"}[act]
		return s.told(w, r, ui.OverrideURL(id, ""), name, change)
	}
	problem, status := f.Error("reason"), http.StatusUnprocessableEntity
	if err != nil {
		if problem, status = s.problemOf(f, err); status == 0 {
			return err
		}
		for _, name := range []string{"expires_at", "until", "for"} {
			if e := f.Error(name); e != "" {
				problem = e
			}
		}
	}
	return s.overridePageWith(w, r, status, act, problem, f)
}

func (s *Server) tenantOverrides(w http.ResponseWriter, r *http.Request) error {
	t, _, head, err := s.tenantHead(r, "overrides")
	if err != nil {
		return err
	}
	live, ended, err := s.Overrides.OfTenant(r.Context(), t.ID, endedShown)
	if err != nil {
		return err
	}
	p := views.TenantOverridesProps{Head: head}
	for _, o := range live {
		p.Live = append(p.Live, s.overrideRow(r, o))
	}
	for _, o := range ended {
		p.Ended = append(p.Ended, endedRow(o))
	}
	return s.render(w, r, http.StatusOK, views.TenantOverrides(p))
}

// heldRows are the limits that a tenant meets, with where each value comes from;
// routes are those of the policy in force.
func heldRows(r *http.Request, t console.TenantLimits, routes []policy.Route) []views.HeldRow {
	deleted := t.Tenant.State == policy.TenantDeleted
	var rows []views.HeldRow
	for _, l := range t.Limits {
		row := heldRow(l)
		row.Counts = chargeText(l, routes)
		query := "?limit=" + url.QueryEscape(l.ID)
		if l.Own && !deleted && can(r, console.PermBoost) && !l.Now().Value.Unlimited {
			row.BoostURL = ui.TenantURL(t.Tenant.ID, "boost") + query
		}
		if l.Own && !deleted && can(r, console.PermManageTenants) {
			row.SetURL = ui.TenantURL(t.Tenant.ID, "override") + query
		}
		rows = append(rows, row)
	}
	return rows
}

func heldRow(l console.LimitInForce) views.HeldRow {
	row := views.HeldRow{ID: l.ID, Applies: "every route", Per: l.Per, Value: l.Now().Text, Shadow: l.Shadow, Peak: peakText(l)}
	if len(l.Routes) > 0 {
		row.Applies = "route " + strings.Join(l.Routes, ", ")
	}
	if l.Expires != nil {
		row.Until = ui.Absolute(*l.Expires)
	}
	if l.Kind == console.LimitQuota {
		row.Peak = "–"
		if l.Over == string(policy.OverBlock) && !l.Now().Value.Unlimited {
			row.Value += ", then refused"
		}
	}
	for _, step := range l.Steps {
		row.Steps = append(row.Steps, views.LimitStepRow{Source: step.Source, Text: step.Text, Until: at(step.ExpiresAt), Reason: step.Reason, By: step.Author})
	}
	return row
}

// chargeText is what a request charges of a limit.
func chargeText(l console.LimitInForce, routes []policy.Route) string {
	if l.Kind == console.LimitConcurrency {
		return "a request takes a place"
	}
	if l.Counts == string(policy.CountsRequests) {
		return "a request charges 1"
	}
	if len(l.Routes) == 1 {
		for _, r := range routes {
			if r.Name == l.Routes[0] {
				return "a request charges " + costText(r)
			}
		}
	}
	return "a request charges its cost"
}

// limitOptions are the limits that a tenant can have values of its own for.
func limitOptions(t console.TenantLimits) []ui.Option {
	options := []ui.Option{{Value: "", Label: "Choose…"}}
	for _, l := range t.Limits {
		if l.Own {
			options = append(options, ui.Option{Value: l.ID, Label: l.ID + " (" + l.Now().Text + ")"})
		}
	}
	return options
}
