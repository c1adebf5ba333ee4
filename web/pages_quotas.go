package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

// reconciliation compares the quotas' counters in Redis with the ledger, the furthest
// apart first.
func (s *Server) reconciliation(w http.ResponseWriter, r *http.Request) error {
	now, page := s.Now(), pageOf(r)
	c, err := s.Quotas.Compared(r.Context(), actor(r), page)
	if err != nil {
		return err
	}
	p := views.ReconcileProps{Frame: s.titled(r, "Reconciliation"), Now: now, Tabs: usageTabs("reconciliation"), Source: "Redis against ledger", Pager: pagerOf(r, page, len(c.Items), c.Next),
		Empty: "No tenant with a quota has been compared yet. Plans with a quota are, every few seconds.", Totals: driftTotals(now, c.Drift)}
	if !c.Drift.Oldest.IsZero() {
		p.Source += " · the oldest look " + ui.Ago(now, c.Drift.Oldest)
	}
	for _, q := range c.Items {
		p.Rows = append(p.Rows, reconcileRow(q))
	}
	for _, l := range c.Losses {
		p.Losses = append(p.Losses, counterLossRow(l))
	}
	return s.render(w, r, http.StatusOK, views.Reconcile(p))
}

func driftTotals(now time.Time, d console.QuotaDrift) []views.UsageTotal {
	out := []views.UsageTotal{{Label: "Quotas", Value: ui.Int(d.Tenants), Note: "that are compared"}, {Label: "Apart", Value: ui.Int(d.Apart), Note: "Redis and ledger do not agree"},
		{Label: "Drift", Value: ui.Int(d.Units), Note: "units, either way"}, {Label: "Last healed", Value: "never", Note: "a counter was corrected"}}
	if d.HealedAt != nil {
		out[3].Value = ui.Ago(now, *d.HealedAt)
	}
	return out
}

func reconcileRow(q console.QuotaStanding) views.ReconcileRow {
	zone := zoneNamed(q.TimeZone)
	row := views.ReconcileRow{Tenant: firstOf(q.TenantName, q.TenantID), URL: ui.TenantURL(q.TenantID, ""), Period: q.Period + " from " + q.Start.In(zone).Format("2 Jan 2006"), Zone: zone.String(),
		Counter: "no counter", Ledger: ui.Int(q.Ledger), Drift: signed(q.Drift()), DriftKind: "ok", Checked: q.ComparedAt}
	if q.Redis != nil {
		row.Counter = ui.Int(*q.Redis)
	}
	if q.Drift() != 0 {
		row.DriftKind = "warn"
		if !q.Complete {
			row.Drift += ", on its way"
		} else if q.Drift() > 0 {
			row.DriftKind = "bad"
		}
	}
	if q.HealedAt != nil {
		row.Healed, row.HealedBy = *q.HealedAt, "raised by "+ui.Int(q.HealedUnits)
		if q.HealedUnits < 0 {
			row.HealedBy = "lowered by " + ui.Int(-q.HealedUnits)
		}
	}
	return row
}

func counterLossRow(l console.QuotaLoss) views.CounterLossRow {
	row := views.CounterLossRow{Seen: l.SeenAt, Rebuilt: l.RebuiltAt, Took: "under way", Lanes: ui.Int(int64(l.Lanes)), Tenants: ui.Int(l.Tenants), Raised: ui.Int(l.Raised), State: "ok", Word: "rebuilt"}
	if !l.RebuiltAt.IsZero() {
		row.Took = ui.Span(l.RebuiltAt.Sub(l.SeenAt))
	}
	if !l.Complete {
		row.State, row.Word, row.Missing = "warn", "rebuilt from what was told", "not heard: "+strings.Join(l.Missing, ", ")
	}
	return row
}

func zoneNamed(name string) *time.Location {
	zone, err := policy.LoadZone(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// quotaBar is how much of a quota is used.
func quotaBar(q console.QuotaStanding) ui.QuotaBar {
	b := ui.QuotaBar{Known: true, Text: ui.Int(q.Used()) + " of " + ui.Int(q.Amount)}
	if q.Amount > 0 {
		b.Percent = int(min(1000, 100*float64(q.Used())/float64(q.Amount)))
		if q.Most > q.Amount {
			b.Hard = int(min(1000, 100*float64(q.Most)/float64(q.Amount)))
		}
	} else if q.Used() > 0 {
		b.Percent = 100
	}
	return b
}

// pace is what becomes of a quota if the last 24 hours go on like that: an estimate
// for lists, where a forecast of each would take too long.
func pace(now time.Time, q console.QuotaStanding, day console.UsageSums) (text, tone string) {
	perDay := countedBy(q, day)
	switch {
	case q.Left() == 0:
		return "used up", "bad"
	case perDay <= 0:
		return "", ""
	}
	out, ok := atPace(now, q, day)
	if !ok {
		return "lasts at this pace", ""
	}
	return "runs out " + out.In(zoneNamed(q.TimeZone)).Format("2 Jan") + " at this pace", "warn"
}

// countedBy is what a quota counts of some use.
func countedBy(q console.QuotaStanding, of console.UsageSums) int64 {
	if q.Counts == string(policy.CountsRequests) {
		return of.Admitted
	}
	return of.Cost
}

// atPace is when a quota runs out if all days are like the last one; false: not before
// it starts anew, or in no foreseeable time.
func atPace(now time.Time, q console.QuotaStanding, day console.UsageSums) (time.Time, bool) {
	perDay := countedBy(q, day)
	if perDay <= 0 {
		return time.Time{}, false
	}
	days := float64(q.Left()) / float64(perDay)
	if days > 3650 {
		return time.Time{}, false
	}
	out := now.Add(time.Duration(days * 24 * float64(time.Hour)))
	return out, q.End == nil || out.Before(*q.End)
}

// quotaPanel is a tenant's quota on its page; nil when it has none that was compared.
func (s *Server) quotaPanel(ctx context.Context, r *http.Request, t console.Tenant, in inForce) (*views.QuotaPanel, error) {
	if in.Compiled == nil || in.Compiled.Quotas[t.Plan] == nil {
		return nil, nil
	}
	now := s.Now()
	p := &views.QuotaPanel{Text: amountText(in.Compiled.Quotas[t.Plan].Quota), Source: "not compared with the ledger yet", Bar: ui.QuotaBar{Text: ui.Unknown}, Starts: ui.Unknown,
		Forecast: ui.Unknown, Redis: ui.Unknown, Ledger: ui.Unknown, ReconciliationURL: ui.ReconcileURL("")}
	if can(r, console.PermManageTenants) {
		p.GrantURL = ui.TenantURL(t.ID, "grant")
	}
	q, err := s.Quotas.Standing(ctx, actor(r), t.ID)
	if console.IsNotFound(err) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	zone := zoneNamed(q.TimeZone)
	p.Source = "Redis and ledger · " + ui.Ago(now, q.ComparedAt)
	p.Bar, p.Left, p.Ledger, p.Redis = quotaBar(q), ui.Int(q.Left())+" "+countsWord(q.Counts), ui.Int(q.Ledger), "no counter"
	if q.Redis != nil {
		p.Redis = ui.Int(*q.Redis)
	}
	if q.Granted > 0 {
		p.Granted = ui.Int(q.Granted) + " units in this period, on top of the plan's"
	}
	p.Starts = q.Start.In(zone).Format("2 Jan 2006, 15:04")
	p.Resets = "does not renew"
	if q.End != nil {
		p.Resets = q.End.In(zone).Format("2 Jan 2006, 15:04") + " " + zone.String()
	}
	f, err := s.Quotas.Forecast(ctx, actor(r), t.ID)
	if err != nil && !console.IsNotFound(err) {
		return nil, err
	}
	p.Forecast = forecastText(f, zone)
	return p, nil
}

func countsWord(counts string) string {
	if counts == string(policy.CountsRequests) {
		return "requests"
	}
	return "units of cost"
}

// forecastText is a forecast in words, with its interval.
func forecastText(f console.QuotaForecast, zone *time.Location) string {
	if !f.Known {
		if f.Why == "" {
			return ui.Unknown
		}
		return ui.Unknown + ": " + f.Why
	}
	interval := "between " + ui.Int(f.Low) + " and " + ui.Int(f.High) + " in four of five futures, from " + counted(f.Days, "day") + " of history"
	if f.RunsOut != nil {
		return "runs out about " + f.RunsOut.In(zone).Format("2 Jan 2006, 15:04") + " " + zone.String() + "; use by the period's end is " + interval
	}
	if f.Earliest != nil {
		return "lasts probably; in one of ten futures it runs out from " + f.Earliest.In(zone).Format("2 Jan") + " on; use by the period's end is " + interval
	}
	return "lasts; use by the period's end is " + interval
}

// tenantDays are the last 24 hours and quotas of some tenants by the ledger. What
// cannot be told is absent.
type tenantDays struct {
	days   map[string]console.TenantDay
	quotas map[string]console.QuotaStanding
	known  bool // somebody is alive who tells the ledger
}

func (s *Server) tenantDays(ctx context.Context, ids []string) (d tenantDays, err error) {
	if len(ids) == 0 {
		return d, nil
	}
	if d.days, err = s.Ledger.Last24h(ctx, ids); err != nil {
		return d, err
	}
	if d.quotas, err = s.Quotas.Standings(ctx, ids); err != nil {
		return d, err
	}
	st, err := s.standing(ctx)
	d.known = err == nil && !st.Through.IsZero()
	return d, err
}

// put tells a row what the ledger knows of its tenant.
func (d tenantDays) put(row *views.TenantRow, now time.Time) {
	row.Quota, row.DayRefused = ui.QuotaBar{Text: "–"}, ui.Unknown
	day, has := d.days[row.ID]
	if has || d.known {
		t := day.Total
		row.Day, row.DayRefused = ui.Int(t.Requests()), ui.Percent(used.Share(t.Refused, t.Requests()))
		if t.Admitted > 0 {
			row.Line = used.Series(used.Requests, day.Hours[:])
		}
	}
	if q, ok := d.quotas[row.ID]; ok {
		row.Quota = quotaBar(q)
		row.Quota.Forecast, row.Quota.Tone = pace(now, q, day.Total)
	}
}
