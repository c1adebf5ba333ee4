package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

const (
	// overviewFor is how long the overview goes by what it read, for all who look at it:
	// it asks for itself every two seconds. overviewOld is the age from which that is
	// waited for, overviewWait how long reading may take.
	overviewFor  = 10 * time.Second
	overviewOld  = time.Minute
	overviewWait = 3 * time.Second
	// comingWithin is how far ahead the overview looks, comingShown how much it lists,
	// and of each kind.
	comingWithin = 14 * 24 * time.Hour
	comingShown  = 6
	// forecastFrom is the percentage of a quota from which a forecast of it is made:
	// each takes a look at four weeks of hours.
	forecastFrom = 25
)

// overviewLook is what the overview shows of the ledger and of what comes, read beside
// the requests and once for all of them. The zero value is empty. It is safe for
// concurrent use.
type overviewLook struct {
	mu      sync.Mutex
	last    overviewRead
	reading chan struct{} // closed once it has been read; nil: nobody reads
}

type overviewRead struct {
	at      time.Time
	week    string // refused share of the same hour a week ago
	coming  []views.ComingRow
	problem string // why coming cannot be told
}

// look is what was read last. It waits only when that is old, or nothing has been read.
func (s *Server) look(ctx context.Context) overviewRead {
	l := &s.overviewSeen
	l.mu.Lock()
	age := s.Now().Sub(l.last.at)
	known := !l.last.at.IsZero() && age >= 0
	if known && age < overviewFor {
		defer l.mu.Unlock()
		return l.last
	}
	if l.reading == nil {
		l.reading = make(chan struct{})
		go s.readLook(context.WithoutCancel(ctx), l.reading)
	}
	if known && age < overviewOld {
		defer l.mu.Unlock()
		return l.last
	}
	done := l.reading
	l.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (s *Server) readLook(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, overviewWait)
	defer cancel()
	now := s.Now()
	read := overviewRead{at: now, week: s.lastWeek(ctx, now)}
	coming, err := s.coming(ctx, now)
	if err != nil {
		s.Log.WarnContext(ctx, "the overview cannot tell what comes", "error", err)
		read.problem = "What comes up cannot be read right now."
	}
	read.coming = coming
	l := &s.overviewSeen
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.reading = read, nil
	close(done)
}

// lastWeek is the refused share of this hour a week ago, by the ledger.
func (s *Server) lastWeek(ctx context.Context, now time.Time) string {
	from := now.UTC().Truncate(time.Hour).Add(-7 * 24 * time.Hour)
	r, err := s.Ledger.Report(ctx, console.SystemActor(), console.UsageQuery{From: from, To: from.Add(time.Hour)})
	if err != nil {
		s.Log.WarnContext(ctx, "the overview lacks last week", "error", err)
		return ui.Unknown
	}
	if r.Total.Requests() == 0 {
		return ui.Unknown
	}
	return ui.Percent(used.Share(r.Total.Refused, r.Total.Requests()))
}

// coming lists what is overdue, and then what comes, the next first.
func (s *Server) coming(ctx context.Context, now time.Time) (rows []views.ComingRow, err error) {
	for _, read := range []func(context.Context, time.Time) ([]views.ComingRow, error){s.overdueRotations, s.endingOverrides, s.expiringKeys, s.scarceQuotas} {
		some, err := read(ctx, now)
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	urgent := func(r views.ComingRow) int {
		if r.Tone == "bad" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b views.ComingRow) int {
		return cmp.Or(cmp.Compare(urgent(a), urgent(b)), a.At.Compare(b.At))
	})
	return rows[:min(len(rows), comingShown)], nil
}

func (s *Server) overdueRotations(ctx context.Context, now time.Time) (rows []views.ComingRow, err error) {
	list, _, err := s.Rotations.ListByRisk(ctx, console.RotationQuery{State: console.ShownOverdue, Page: console.Page{Limit: comingShown}})
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		row := views.ComingRow{At: r.EndsAt, When: "overdue", Tone: "bad", Text: "Rotation", Object: r.CredentialName + " of " + r.TenantName, URL: ui.RotationURL(r.ID, ""),
			Note: "the old key is refused " + ui.Ago(now, r.EndsAt)}
		if r.OldLast != nil {
			row.Note += " and was used " + ui.Ago(now, *r.OldLast)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (s *Server) endingOverrides(ctx context.Context, _ time.Time) (rows []views.ComingRow, err error) {
	list, _, err := s.Overrides.List(ctx, console.OverrideQuery{Within: comingWithin, Page: console.Page{Limit: comingShown}})
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		word := "Override ends"
		if o.IsBoost() {
			word = "Boost ends"
		}
		row := views.ComingRow{At: *o.ExpiresAt, Text: word, Object: o.TenantOverride.Limit + " of " + o.TenantName, URL: ui.OverrideURL(o.ID, ""), Note: overrideText(o.Override)}
		if l := o.Limit; l == nil {
			row.Note += ", without effect"
		} else {
			row.Note += ", then " + l.Base().Text
			if p := l.Peak; p != nil && p.Known > 0 && p.OfBase > 0 {
				row.Note += "; peak use " + ui.Percent(100*p.OfBase) + " of that"
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (s *Server) expiringKeys(ctx context.Context, now time.Time) (rows []views.ComingRow, err error) {
	list, _, err := s.Keys.ListKeys(ctx, console.KeyQuery{Show: console.ShowExpiring, State: policy.KeyActive, Page: console.Page{Limit: comingShown}})
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if k.NotAfter == nil || k.NotAfter.Sub(now) > comingWithin {
			continue
		}
		row := views.ComingRow{At: *k.NotAfter, Text: "Key expires", Object: k.CredentialName + " of " + k.TenantName, URL: ui.KeyURL(k.KID, ""), Note: "not known to be used"}
		if k.Used {
			row.Note = "last used " + ui.Ago(now, k.IdleSince) + " (± 1 day)"
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// scarceQuotas are those that are used up, and those that will be before they start anew.
func (s *Server) scarceQuotas(ctx context.Context, now time.Time) (rows []views.ComingRow, err error) {
	if s.Quotas == nil {
		return nil, nil
	}
	list, err := s.Quotas.MostUsed(ctx, comingShown)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(list))
	for i, q := range list {
		ids[i] = q.TenantID
	}
	days, err := s.Ledger.Last24h(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, q := range list {
		bar := quotaBar(q)
		if bar.Percent < forecastFrom {
			break // the most used come first
		}
		row := views.ComingRow{At: now, Text: "Quota runs out", Object: firstOf(q.TenantName, q.TenantID), URL: ui.TenantURL(q.TenantID, ""), Bar: &bar}
		if q.Left() == 0 {
			row.When, row.Tone, row.Text = "used up", "bad", "Quota refuses"
			if q.Over == string(policy.OverBill) {
				row.Tone, row.Text = "warn", "Quota bills on"
			}
			if q.End != nil {
				row.Note = "it starts anew " + ui.Ago(now, *q.End)
			}
			rows = append(rows, row)
			continue
		}
		out, note, err := s.runsOut(ctx, now, q, days[q.TenantID].Total)
		if err != nil {
			return nil, err
		}
		if out.IsZero() {
			continue
		}
		row.At, row.Note = out, note
		rows = append(rows, row)
	}
	return rows, nil
}

// runsOut is when a quota is forecast to run out, and what that rests on; zero: not
// before it starts anew. With too little history for a forecast it goes by the last day.
func (s *Server) runsOut(ctx context.Context, now time.Time, q console.QuotaStanding, day console.UsageSums) (out time.Time, note string, err error) {
	f, err := s.Quotas.Forecast(ctx, console.SystemActor(), q.TenantID)
	if err != nil && !console.IsNotFound(err) {
		return out, "", err
	}
	if f.Known {
		if f.RunsOut == nil {
			return out, "", nil
		}
		note = "forecast"
		if f.Earliest != nil {
			note += ", not before " + f.Earliest.In(zoneNamed(q.TimeZone)).Format("2 Jan") + " in nine of ten futures"
		}
		return *f.RunsOut, note, nil
	}
	out, ok := atPace(now, q, day)
	if !ok {
		return time.Time{}, "", nil
	}
	return out, "at the pace of the last 24 hours", nil
}
