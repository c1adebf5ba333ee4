package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) tenantList(w http.ResponseWriter, r *http.Request) error {
	f, page := form.Query(r, "q", "plan", "state", "only", "sort"), pageOf(r)
	items, next, err := s.Tenants.List(r.Context(), tenantQuery(f, page))
	if err != nil {
		return err
	}
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	now := s.Now()
	p := views.TenantListProps{Frame: s.titled(r, "Tenants"), Now: now, Q: f.Get("q"), Plan: f.Get("plan"), State: f.Get("state"), Only: f.Get("only"), Sort: f.Get("sort"),
		Plans: in.planOptions(ui.Option{Label: "any"}, f.Get("plan")), LiveAge: s.liveAge(now), CanManage: can(r, console.PermManageTenants), ExportURL: s.exportURL(r, "/tenants.csv")}
	p.Filtered = p.Q != "" || p.Plan != "" || p.State != "" || p.Only != ""
	total := ""
	if !p.Filtered {
		n, err := s.Tenants.Count(r.Context())
		if err != nil {
			return err
		}
		total = estimate(n)
	}
	rows, uses, err := s.tenantRows(r.Context(), now, items)
	if err != nil {
		return err
	}
	p.Rows, p.UseAge = rows, useAgeText(now, uses.age)
	p.Pager = withTotal(pagerOf(r, page, len(items), next), total)
	return s.render(w, r, http.StatusOK, views.TenantList(p))
}

// tenantQuery is what the filters of the list of tenants ask for.
func tenantQuery(f *form.Form, page console.Page) console.TenantQuery {
	return console.TenantQuery{Q: f.Get("q"), Plan: f.Get("plan"), State: policy.TenantState(f.Get("state")), WithOverrides: f.Get("only") == "overrides",
		Sort: console.TenantSort(f.Get("sort")), Page: page}
}

// tenantRows are tenants with what is known of them: keys, overrides, traffic.
func (s *Server) tenantRows(ctx context.Context, now time.Time, items []console.Tenant) ([]views.TenantRow, keyUses, error) {
	ids := make([]string, len(items))
	for i, t := range items {
		ids[i] = t.ID
	}
	facts, err := s.Tenants.Facts(ctx, ids)
	if err != nil {
		return nil, keyUses{}, err
	}
	uses, err := s.usesOf(ctx)
	if err != nil {
		return nil, keyUses{}, err
	}
	days, err := s.tenantDays(ctx, ids)
	if err != nil {
		return nil, keyUses{}, err
	}
	rows := make([]views.TenantRow, 0, len(items))
	for _, t := range items {
		row := s.tenantRow(now, t)
		putFacts(&row, facts[t.ID], uses, t.CreatedAt)
		days.put(&row, now)
		rows = append(rows, row)
	}
	return rows, uses, nil
}

// putFacts tells of keys, overrides and the last day of a tenant.
func putFacts(row *views.TenantRow, f console.TenantFacts, uses keyUses, created time.Time) {
	row.Keys = ui.Int(f.Active) + " active"
	if f.Retiring > 0 {
		row.Keys += ", " + ui.Int(f.Retiring) + " retiring"
	}
	if f.Overrides > 0 {
		row.Overrides, row.NextEnd = ui.Int(f.Overrides), at(f.NextEnd)
	}
	row.Seen, row.SeenWord, row.Day = at(f.LastSeen), uses.unused(created), ui.Unknown
}

func (s *Server) tenantRow(now time.Time, t console.Tenant) views.TenantRow {
	row := views.TenantRow{ID: t.ID, Name: t.Name, ExternalID: t.ExternalID, Plan: t.Plan, State: string(t.State),
		Created: t.CreatedAt, Requests: ui.Unknown, Refused: ui.Unknown}
	if !s.liveKnown(now) {
		return row
	}
	to := now.Add(-settled).Truncate(time.Minute / 2)
	points := s.Activity.Live().TenantSeries(t.ID, to.Add(-recent), to, time.Minute/2)
	last := sum(points[max(0, len(points)-2):])
	all := sum(points)
	row.Requests = ui.Num(float64(decided(last)) / 60)
	row.Refused = ui.Percent(percentOf(all.Refused, decided(all)))
	return row
}

func (s *Server) tenantNew(w http.ResponseWriter, r *http.Request) error {
	f := form.New(map[string]string{"time_zone": "UTC", "token": form.NewToken()})
	return s.tenantForm(w, r, http.StatusOK, f, nil)
}

// tenantForm shows the form for a new tenant or, when t is given, for a change.
// preview is what its other plan changes.
func (s *Server) tenantForm(w http.ResponseWriter, r *http.Request, status int, f *form.Form, t *console.Tenant, preview ...ui.DiffRow) error {
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	p := views.TenantFormProps{Form: f, Title: "New tenant", Action: ui.TenantsURL(), Button: "Make tenant", Back: ui.TenantsURL(),
		Token: f.Raw("token"), NoPlans: in.Compiled == nil || len(in.Compiled.Document.Plans) == 0}
	if t != nil {
		p.Title, p.Action, p.Button, p.Back, p.Token = "Edit "+t.Name, ui.TenantURL(t.ID, "edit"), "Save", ui.TenantURL(t.ID, ""), ""
		p.Seq, p.SeenPlan, p.Preview = f.Raw("seq"), f.Raw("seen_plan"), preview
	}
	p.Frame = s.titled(r, p.Title)
	p.Plans = in.planOptions(ui.Option{Label: "Choose…"}, f.Raw("plan"))
	return s.render(w, r, status, views.TenantForm(p))
}

func (s *Server) tenantCreate(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "name", "plan", "external_id", "time_zone", "contacts", "quota_anchor", "token")
	o, fresh, err := s.claim(w, r, "tenants.create", f, "name", "plan", "external_id", "time_zone", "contacts", "quota_anchor")
	if err != nil || !fresh {
		return err
	}
	t, err := s.Tenants.Create(r.Context(), actor(r), console.NewTenant{Name: f.Get("name"), Plan: f.Get("plan"),
		ExternalID: f.Get("external_id"), TimeZone: f.Get("time_zone"), QuotaAnchor: f.Get("quota_anchor"), Contacts: contactsOf(f)})
	if err != nil {
		o.failed(r, err)
		if f.Get("plan") == "" && console.CodeOf(err) == console.CodeInvalid {
			f.Fail("plan", "Choose a plan.") // instead of how a plan's name is spelt
		}
		if status := s.take(f, err); status != 0 {
			return s.tenantForm(w, r, status, f, nil)
		}
		return err
	}
	url := ui.TenantURL(t.ID, "")
	if err := o.done(r, made{URL: url, Label: "Go to " + t.Name}); err != nil {
		return err
	}
	return s.redirect(w, r, url, t.Name+" was made. Issue a key so that it can call the API.")
}

func (s *Server) tenantEdit(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	f := form.New(map[string]string{"name": t.Name, "plan": t.Plan, "external_id": t.ExternalID, "time_zone": t.TimeZone,
		"contacts": strings.Join(t.Contacts, ", "), "quota_anchor": t.QuotaAnchor, "seq": strconv.FormatInt(t.Seq, 10)})
	return s.tenantForm(w, r, http.StatusOK, f, &t)
}

func (s *Server) tenantUpdate(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	f := form.Parse(r, "name", "plan", "external_id", "time_zone", "contacts", "quota_anchor", "seq", "seen_plan")
	if shown, err := s.planPreview(w, r, f, t); shown || err != nil {
		return err
	}
	name, plan, external, zone, anchor, contacts := f.Get("name"), f.Get("plan"), f.Get("external_id"), f.Get("time_zone"), f.Get("quota_anchor"), contactsOf(f)
	patch := console.TenantPatch{Name: &name, Plan: &plan, ExternalID: &external, TimeZone: &zone, QuotaAnchor: &anchor, Contacts: &contacts}
	if seq, err := strconv.ParseInt(f.Get("seq"), 10, 64); err == nil {
		patch.Seq = &seq
	}
	_, err = s.Tenants.Update(r.Context(), actor(r), t.ID, patch)
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.tenantForm(w, r, status, f, &t)
		}
		return err
	}
	return s.redirect(w, r, ui.TenantURL(t.ID, ""), "Saved.")
}

// tenantHead is what stands above each tab of a tenant.
func (s *Server) tenantHead(r *http.Request, tab string) (console.Tenant, inForce, views.TenantHeadProps, error) {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return t, inForce{}, views.TenantHeadProps{}, err
	}
	in, err := s.inForce(r.Context())
	if err != nil {
		return t, in, views.TenantHeadProps{}, err
	}
	return t, in, s.headOf(r, t, in, tab), nil
}

func (s *Server) headOf(r *http.Request, t console.Tenant, in inForce, tab string) views.TenantHeadProps {
	now := s.Now()
	p := views.TenantHeadProps{Frame: s.titled(r, t.Name), Now: now, ID: t.ID, Name: t.Name, ExternalID: t.ExternalID, Plan: t.Plan,
		PlanMissing: in.Version > 0 && !in.hasPlan(t.Plan), TimeZone: t.TimeZone, State: string(t.State), StateReason: t.Reason,
		Created: t.CreatedAt, Tab: tab, CanManage: can(r, console.PermManageTenants), CanManageKey: can(r, console.PermManageKeys),
		CanAudit: can(r, console.PermViewAudit), CanViewAs: can(r, console.PermViewAsTenant),
		CanBoost: can(r, console.PermBoost), Contacts: t.Contacts}
	if t.State == policy.TenantSuspended {
		p.StateEffect = "Its keys are accepted again on every gateway, with the counters they had."
		return p
	}
	traffic := "How much it sends now is unknown."
	if s.liveKnown(now) {
		m := lastMinute(now, s.ofTenant(t.ID))
		traffic = "It sent " + ui.Int(decided(m.Point)) + " requests in the last minute."
	}
	p.StateEffect = "Every request with any of its keys is answered 403 on every gateway within a second. " + traffic + " Resume undoes it; no counter is reset."
	return p
}

func (s *Server) tenantSummary(w http.ResponseWriter, r *http.Request) error {
	t, in, head, err := s.tenantHead(r, "")
	if err != nil {
		return err
	}
	return s.tenantSummaryOf(w, r, http.StatusOK, t, in, head, nil)
}

// tenantSummaryOf shows a tenant; f is the form of a deletion that failed.
func (s *Server) tenantSummaryOf(w http.ResponseWriter, r *http.Request, status int, t console.Tenant, in inForce, head views.TenantHeadProps, f *form.Form) error {
	held, err := s.Overrides.Effective(r.Context(), t.ID)
	if err != nil {
		return err
	}
	p := views.TenantSummaryProps{Head: head, Version: in.label(), Limits: heldRows(r, held, in.routes()), Usage: s.tenantUsage(r, t.ID, in, false)}
	for _, o := range held.Unused {
		row := endedRow(o)
		row.CanAct = mayChange(r, o)
		p.Unused = append(p.Unused, row)
	}
	if p.Quota, err = s.quotaPanel(r.Context(), r, t, in); err != nil {
		return err
	}
	if head.CanManage && t.State != policy.TenantDeleted {
		if p.Deletion, err = s.tenantDeletion(r, t, f); err != nil {
			return err
		}
	}
	return s.render(w, r, status, views.TenantSummary(p))
}

func (s *Server) tenantUsagePage(w http.ResponseWriter, r *http.Request) error {
	t, in, head, err := s.tenantHead(r, "usage")
	if err != nil {
		return err
	}
	record, err := s.usageRecord(r, &t)
	if err != nil {
		return err
	}
	return s.render(w, r, recordStatus(record), views.TenantUsage(views.TenantUsageProps{Head: head, Usage: s.tenantUsage(r, t.ID, in, true), Record: record}))
}

// tenantLive is the part of a tenant's page that moves. An unknown tenant is 404.
func (s *Server) tenantLive(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.UsageLive(s.tenantUsage(r, t.ID, in, r.URL.Query().Get("details") == "1")))
}

func (s *Server) tenantAudit(w http.ResponseWriter, r *http.Request) error {
	t, _, head, err := s.tenantHead(r, "audit")
	if err != nil {
		return err
	}
	page := pageOf(r)
	events, next, err := s.Audit.List(r.Context(), console.AuditQuery{TenantID: t.ID, Page: page})
	if err != nil {
		return err
	}
	rows, err := s.eventRows(r.Context(), events)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.TenantAudit(views.TenantAuditProps{Head: head, Rows: rows,
		Pager: pagerOf(r, page, len(events), next)}))
}

func (s *Server) tenantSuspend(w http.ResponseWriter, r *http.Request) error {
	return s.tenantAct(w, r, s.Tenants.Suspend, "suspend")
}

func (s *Server) tenantResume(w http.ResponseWriter, r *http.Request) error {
	return s.tenantAct(w, r, s.Tenants.Resume, "resume")
}
