package web

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) usagePeriods(w http.ResponseWriter, r *http.Request) error {
	return s.usagePeriodsOf(w, r, http.StatusOK, form.New(nil))
}

// usagePeriodsOf lists closed periods; f is the form that closes one.
func (s *Server) usagePeriodsOf(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	ctx, now, page := r.Context(), s.Now(), pageOf(r)
	of := form.Query(r, "of").Get("of")
	list, next, err := s.Ledger.Periods(ctx, actor(r), of, page)
	if err != nil {
		return err
	}
	p := views.UsagePeriodsProps{Frame: s.titled(r, "Billing periods"), Now: now, Tabs: usageTabs("periods"), Source: "PostgreSQL, the record", Tenant: of, Form: f,
		CanClose: can(r, console.PermManageTenants), Pager: pagerOf(r, page, len(list), next)}
	if p.Rows, err = s.periodRows(ctx, list); err != nil {
		return err
	}
	return s.render(w, r, status, views.UsagePeriods(p))
}

func (s *Server) periodRows(ctx context.Context, list []console.UsagePeriod) ([]views.PeriodRow, error) {
	ids := make([]string, len(list))
	for i, x := range list {
		ids[i] = x.TenantID
	}
	names, err := s.Activity.Names(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]views.PeriodRow, 0, len(list))
	for _, x := range list {
		rows = append(rows, periodRow(x, names[x.TenantID], time.UTC))
	}
	return rows, nil
}

// periodRow is a period by the clock of a zone.
func periodRow(x console.UsagePeriod, name string, zone *time.Location) views.PeriodRow {
	if name == "" {
		name = x.TenantID
	}
	row := views.PeriodRow{URL: ui.UsagePeriodURL(x.ID), Tenant: name, TenantURL: ui.TenantURL(x.TenantID, "usage"), From: periodEnd(x.From.In(zone)), To: periodEnd(x.To.In(zone)),
		Zone: zone.String(), Admitted: ui.Int(x.Sums.Admitted), Cost: ui.Int(x.Sums.Cost), ClosedAt: x.ClosedAt, ClosedBy: x.ClosedBy, Note: x.Note}
	if x.Adjustments > 0 {
		row.Adjusted = signed(x.Adjusted.Cost)
	}
	return row
}

// periodEnd is a day, or a moment that is not the beginning of one.
func periodEnd(t time.Time) string {
	if t.Hour() == 0 && t.Minute() == 0 {
		return t.Format("2 Jan 2006")
	}
	return t.Format("2 Jan 2006, 15:04")
}

func signed(n int64) string {
	if n > 0 {
		return "+" + ui.Int(n)
	}
	return ui.Int(n)
}

func (s *Server) usagePeriod(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	x, list, err := s.Ledger.Period(ctx, actor(r), chi.URLParam(r, "period"))
	if err != nil {
		return err
	}
	t, err := s.Tenants.Get(ctx, x.TenantID)
	if err != nil && console.CodeOf(err) != console.CodeNotFound {
		return err
	}
	p := views.UsagePeriodProps{Frame: s.titled(r, "Billing period"), Now: s.Now(), Tabs: usageTabs("periods"), Period: periodRow(x, t.Name, zoneOf(t))}
	p.Totals = []views.UsageTotal{
		{Label: "Admitted", Value: ui.Int(x.Sums.Admitted), Note: "when it was closed"}, {Label: "Cost", Value: ui.Int(x.Sums.Cost), Note: "when it was closed"},
		{Label: "Refused", Value: ui.Int(x.Sums.Refused), Note: "when it was closed"}, {Label: "Interrupted", Value: ui.Int(x.Sums.Interrupted), Note: "not billed"},
		{Label: "Came later", Value: signed(x.Adjusted.Cost), Note: "cost of " + counted(int(x.Adjustments), "event")},
	}
	for _, a := range list {
		p.Adjustments = append(p.Adjustments, views.AdjustmentRow{KID: a.KID, Route: a.Route, Outcome: a.Outcome, Requests: ui.Int(a.Requests), Cost: signed(a.Cost), Events: ui.Int(a.Events),
			First: a.FirstAt, Last: a.LastAt, Noted: a.NotedAt})
	}
	return s.render(w, r, http.StatusOK, views.UsagePeriod(p))
}

// zoneOf is a tenant's time zone.
func zoneOf(t console.Tenant) *time.Location {
	zone, err := policy.LoadZone(t.TimeZone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// usagePeriodClose closes the days from one to another, both included, by the
// tenant's clock.
func (s *Server) usagePeriodClose(w http.ResponseWriter, r *http.Request) error {
	ctx, f := r.Context(), form.Parse(r, "tenant", "from", "to", "note")
	t, err := s.Tenants.Get(ctx, f.Get("tenant"))
	if console.CodeOf(err) == console.CodeNotFound {
		f.Fail("tenant", "There is no tenant with this id.")
	} else if err != nil {
		return err
	}
	from, to := dayField(f, "from", zoneOf(t)), dayField(f, "to", zoneOf(t))
	if !f.OK() {
		return s.usagePeriodsOf(w, r, http.StatusUnprocessableEntity, f)
	}
	x, err := s.Ledger.ClosePeriod(ctx, actor(r), t.ID, from, to.AddDate(0, 0, 1), f.Get("note"))
	if status := s.take(f, err); status != 0 {
		return s.usagePeriodsOf(w, r, status, f)
	}
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.UsagePeriodURL(x.ID), "Closed. What comes for it from now on is an adjustment.")
}

func dayField(f *form.Form, name string, zone *time.Location) time.Time {
	day, err := time.ParseInLocation(time.DateOnly, f.Get(name), zone)
	if err != nil {
		f.Fail(name, "This is no day. Write one such as 2026-11-30.")
	}
	return day
}
