package portal

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/csvout"
	"github.com/headgate/headgate/policy"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

// zoneOf is the tenant's time zone, in which all of its pages tell time.
func zoneOf(t console.Tenant) *time.Location {
	zone, err := policy.LoadZone(t.TimeZone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// quota is a tenant's quota: how much is used, what becomes of it, and when it begins
// anew in the tenant's own zone.
func (s *Server) quota(r *http.Request, v *visit, l console.LimitInForce) (*views.Quota, error) {
	zone := zoneOf(v.tenant)
	q := &views.Quota{Text: l.Now().Text, Used: ui.Unknown}
	compiled, err := s.InForce(r.Context())
	if err != nil {
		return nil, err
	}
	if compiled != nil && compiled.Quotas[v.tenant.Plan] != nil && l.Period != string(policy.PeriodLifetime) {
		if _, end := compiled.Quotas[v.tenant.Plan].PeriodAt(s.Now(), v.tenant.CreatedAt, zone); !end.IsZero() {
			q.Resets = moment(end, zone)
		}
	}
	st, err := s.Quotas.Standing(r.Context(), v.actor, v.tenant.ID)
	if console.IsNotFound(err) {
		return q, nil
	}
	if err != nil {
		return nil, err
	}
	unit := "units of cost"
	if st.Counts == string(policy.CountsRequests) {
		unit = "requests"
	}
	q.Used, q.Left, q.Source = "", ui.Int(st.Left())+" "+unit, "counted "+ui.Ago(s.Now(), st.ComparedAt)
	q.Bar = ui.QuotaBar{Known: true, Text: ui.Int(st.Used()) + " of " + ui.Int(st.Amount) + " " + unit}
	if st.Amount > 0 {
		q.Bar.Percent = int(min(1000, 100*float64(st.Used())/float64(st.Amount)))
		if st.Most > st.Amount {
			q.Bar.Hard = int(min(1000, 100*float64(st.Most)/float64(st.Amount)))
		}
	}
	if st.End != nil {
		q.Resets = moment(*st.End, zone)
	}
	f, err := s.Quotas.Forecast(r.Context(), v.actor, v.tenant.ID)
	if err != nil && !console.IsNotFound(err) {
		return nil, err
	}
	q.Forecast = forecast(f, zone)
	return q, nil
}

func moment(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2 January 2006, 15:04") + " " + zone.String()
}

// forecast is what becomes of a quota, in words.
func forecast(f console.QuotaForecast, zone *time.Location) string {
	switch {
	case !f.Known && f.Why != "":
		return ui.Unknown + ": " + f.Why
	case !f.Known:
		return ui.Unknown
	case f.RunsOut != nil:
		return "runs out about " + moment(*f.RunsOut, zone) + ", if you go on as in the last " + fmt.Sprint(f.Days) + " days"
	case f.Earliest != nil:
		return "lasts probably; if you use more than usual it runs out from " + f.Earliest.In(zone).Format("2 January") + " on"
	}
	return "lasts for the period"
}

// usageAsked is the question of a request: always in the tenant's own zone.
func (s *Server) usageAsked(r *http.Request, v *visit) (console.UsageQuery, console.UsageSpan, error) {
	in := r.URL.Query()
	ask := console.UsageAsk{Range: in.Get("range"), Zone: zoneOf(v.tenant).String()}
	if ask.Range == "" {
		ask.Range = console.RangeDays30
	}
	span, err := ask.Span(s.Now())
	q := console.UsageQuery{From: span.From, To: span.To, Step: console.UsageStep(span.Step), Zone: span.Zone.String(), Group: console.GroupRoute, By: console.ByCost, Top: 50, TenantID: v.tenant.ID}
	if in.Get("by") == "key" {
		q.Group = console.GroupKey
	}
	return q, span, err
}

func (s *Server) usage(w http.ResponseWriter, r *http.Request, v *visit) error {
	q, span, err := s.usageAsked(r, v)
	if err != nil {
		return err
	}
	report, err := s.Ledger.Report(r.Context(), v.actor, q)
	if err != nil {
		return err
	}
	by := "route"
	if q.Group == console.GroupKey {
		by = "key"
	}
	at := func(name, by string) string {
		return v.url("usage") + "?" + url.Values{"range": {name}, "by": {by}}.Encode()
	}
	p := views.UsageProps{Frame: s.frame(v, "Usage", "usage"), Source: "the record · complete up to " + through(s.Now(), report), Group: by, Zone: span.Zone.String(),
		CSV:    v.url("usage.csv") + "?" + url.Values{"range": {span.Range}, "by": {by}}.Encode(),
		Groups: []ui.Tab{{Label: "By route", URL: at(span.Range, "route"), Current: by == "route"}, {Label: "By key", URL: at(span.Range, "key"), Current: by == "key"}}}
	for _, o := range [][2]string{{console.RangeDay, "24 hours"}, {console.RangeWeek, "7 days"}, {console.RangeDays30, "30 days"}, {console.RangeMonth, "This month"}, {console.RangeLastMonth, "Last month"}, {console.RangeYear, "12 months"}} {
		p.Ranges = append(p.Ranges, ui.Tab{Label: o[1], URL: at(o[0], by), Current: o[0] == span.Range})
	}
	if report.Total == (console.UsageSums{}) {
		p.Empty = "No requests of yours are recorded in this range."
		return s.render(w, r, http.StatusOK, views.Usage(p))
	}
	t := report.Total
	p.Totals = []views.UsageTotal{{Label: "Admitted", Value: ui.Int(t.Admitted), Note: "requests"}, {Label: "Cost", Value: ui.Int(t.Cost), Note: "units"},
		{Label: "Refused", Value: ui.Int(t.Refused), Note: ui.Percent(used.Share(t.Refused, t.Requests())) + " of requests; they cost nothing"}}
	if t.Interrupted > 0 {
		p.Totals = append(p.Totals, views.UsageTotal{Label: "Interrupted", Value: ui.Int(t.Interrupted), Note: "not billed"})
	}
	p.Chart = used.Chart("usage-bars", span, used.Requests, s.Now(), report, nil)
	starts := span.Starts()
	for _, l := range report.Groups {
		p.Rows = append(p.Rows, usageRow(v, q, span, starts, report, l))
	}
	if report.RestCount > 0 {
		row := usageRow(v, q, span, starts, report, report.Rest)
		row.Name, row.URL = fmt.Sprintf("all %d others together", report.RestCount), ""
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, http.StatusOK, views.Usage(p))
}

func usageRow(v *visit, q console.UsageQuery, span console.UsageSpan, starts []time.Time, report console.UsageReport, l console.UsageLine) views.UsageRow {
	row := views.UsageRow{Name: l.Key, Admitted: ui.Int(l.Total.Admitted), Refused: ui.Int(l.Total.Refused), Cost: ui.Int(l.Total.Cost),
		Share: ui.Percent(used.Share(l.Total.Cost, report.Total.Cost)), Line: used.Series(used.Requests, used.Spread(span, starts, report.Starts, l.Steps))}
	switch {
	case l.Key == "" && q.Group == console.GroupKey:
		row.Name = "(no key)"
	case l.Key == "":
		row.Name = "(no route)"
	case q.Group == console.GroupKey:
		row.URL = v.url("keys", l.Key)
	}
	row.LineLabel = row.Name + ", admitted requests over time"
	return row
}

func through(now time.Time, report console.UsageReport) string {
	if report.Through.IsZero() {
		return ui.Unknown
	}
	return ui.Ago(now, report.Through)
}

// usageCSV is the page's question as a file.
func (s *Server) usageCSV(w http.ResponseWriter, r *http.Request, v *visit) error {
	q, span, err := s.usageAsked(r, v)
	if err != nil {
		return err
	}
	out := &lateWriter{ResponseWriter: w, head: func() {
		w.Header().Set("Content-Type", csvout.ContentType)
		w.Header().Set("Content-Disposition", csvout.FileName("usage", s.Now()))
	}}
	if err := s.Ledger.WriteReport(r.Context(), v.actor, out, q, span, console.UsageCSV); err != nil {
		if !out.begun {
			return err
		}
		s.Log.ErrorContext(r.Context(), "a file of usage ended early", "request_id", s.RequestID(r.Context()), "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// lateWriter sets its headers with the first byte: until then an error can still be
// told.
type lateWriter struct {
	http.ResponseWriter
	head  func()
	begun bool
}

// Write implements io.Writer.
func (w *lateWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.head()
	}
	return w.ResponseWriter.Write(p)
}
