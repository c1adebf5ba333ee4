package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

// usagePage is what was used, by the ledger.
func (s *Server) usagePage(w http.ResponseWriter, r *http.Request) error {
	record, err := s.usageRecord(r, nil)
	if err != nil {
		return err
	}
	return s.render(w, r, recordStatus(record), views.Usage(views.UsageProps{Frame: s.titled(r, "Usage"), Tabs: usageTabs("usage"), Usage: record}))
}

// recordStatus is 422 for a question with problems.
func recordStatus(u views.UsageRecord) int {
	if len(u.Filter.Problems) > 0 {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// usageTabs are the pages of the ledger.
func usageTabs(current string) []ui.Tab {
	return []ui.Tab{
		{Label: "Usage", URL: ui.UsageURL(""), Current: current == "usage"},
		{Label: "Reconciliation", URL: ui.ReconcileURL(""), Current: current == "reconciliation"},
		{Label: "Completeness", URL: ui.UsageStandingURL(), Current: current == "standing"},
		{Label: "Periods", URL: ui.UsagePeriodsURL(), Current: current == "periods"},
	}
}

// usageRecord answers the question of a request, for all tenants or for one.
func (s *Server) usageRecord(r *http.Request, tenant *console.Tenant) (views.UsageRecord, error) {
	ctx, now := r.Context(), s.Now()
	q := s.usageAsked(r, tenant)
	in, err := s.inForce(ctx)
	if err != nil {
		return views.UsageRecord{}, err
	}
	name, path := "", ui.UsageURL("")
	if tenant != nil {
		path = ui.TenantURL(tenant.ID, "usage")
	} else if name, err = q.named(ctx, s); err != nil {
		return views.UsageRecord{}, err
	}
	p := views.UsageRecord{Now: now, Action: path, Filter: q.filter(in, path, tenant, name)}
	if !q.form.OK() {
		p.Empty = "The question cannot be answered as it stands: see the marked fields."
		return p, nil
	}
	a, err := s.answer(ctx, actor(r), q)
	if status := s.take(q.form, err); status != 0 {
		p.Filter.Problems, p.Empty = q.form.Errors, "The question cannot be answered as it stands: see the marked fields. "+q.form.Message
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.Source, p.Notices = used.Age(now, a.report), s.usageNotices(ctx)
	if can(r, console.PermExport) {
		keep := url.Values{}
		for _, field := range usageFields() {
			if v := q.form.Get(field); v != "" {
				keep.Set(field, v)
			}
		}
		if tenant != nil {
			keep.Set("tenant", tenant.ID)
			keep.Set("zone", q.span.Zone.String())
		}
		p.CSV, p.JSON = ui.UsageFileURL("csv", keep.Encode()), ui.UsageFileURL("jsonl", keep.Encode())
	}
	q.show(&p, now, a)
	return p, nil
}

// usageAnswer is what the ledger says to a question.
type usageAnswer struct {
	report console.UsageReport
	before *console.UsageReport // with a comparison
	hours  *console.UsageReport // by hour, for the heat map; nil when the range is not fit for one
	span   console.UsageSpan    // of hours
}

// heatDays is the longest range of a heat map.
const heatDays = 32

func (s *Server) answer(ctx context.Context, who console.Actor, q usageQuestion) (a usageAnswer, err error) {
	if a.report, err = s.Ledger.Report(ctx, who, q.query); err != nil {
		return a, err
	}
	if q.compare {
		b := q.query
		span := q.span.Before()
		b.From, b.To, b.Top, b.Unnamed = span.From, span.To, 200, true
		before, err := s.Ledger.Report(ctx, who, b)
		if err != nil {
			return a, err
		}
		a.before = &before
	}
	a.span = q.span
	length := q.span.To.Sub(q.span.From).Hours()
	switch {
	case q.span.Step == console.SpanHour:
		a.hours = &a.report
	case q.span.Step == console.SpanDay && length <= heatDays*24:
		h := q.query
		h.Step, h.Group = console.StepHour, console.GroupNone
		a.span.Step = console.SpanHour
		hours, err := s.Ledger.Report(ctx, who, h)
		if err != nil {
			return a, err
		}
		a.hours = &hours
	}
	return a, nil
}
