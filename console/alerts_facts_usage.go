package console

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	// quotasStale is the age of a comparison of Redis and ledger that says nothing of now.
	quotasStale = 2 * time.Minute
	// forecasts is how many quotas are looked ahead of: those that are used most.
	forecasts = 200
	// gapTold is how long a gap that nothing will fill is an alert.
	gapTold = 7 * 24 * time.Hour
)

// percentOf is the share of a quota that is used, rounded down.
func percentOf(q QuotaStanding) int64 {
	if q.Amount <= 0 {
		return 0
	}
	return int64(float64(q.Used()) / float64(q.Amount) * 100)
}

// quotaEnd says when a quota begins anew.
func quotaEnd(q QuotaStanding) string {
	if q.End == nil {
		return ""
	}
	return "; it begins anew on " + q.End.UTC().Format("2 Jan 2006 15:04") + " UTC"
}

// askQuotas answers from the last comparison of Redis and ledger.
func (s *Alerts) askQuotas(ctx context.Context, w alertWatch, now time.Time) ([]finding, bool, error) {
	if s.c.Quotas == nil {
		return nil, false, nil
	}
	if w.tenantID != "" {
		all, err := s.c.Quotas.Standings(ctx, []string{w.tenantID})
		if err != nil {
			return nil, false, fmt.Errorf("read a quota: %w", err)
		}
		q, ok := all[w.tenantID]
		if !ok {
			return nil, true, nil
		}
		return quotaFindings(w, []QuotaStanding{q}, now)
	}
	list, err := s.c.Quotas.MostUsed(ctx, maxFindings)
	if err != nil {
		return nil, false, fmt.Errorf("read quotas: %w", err)
	}
	return quotaFindings(w, list, now)
}

func quotaFindings(w alertWatch, list []QuotaStanding, now time.Time) (out []finding, known bool, err error) {
	for _, q := range list {
		if now.Sub(q.ComparedAt) > quotasStale {
			return nil, false, nil
		}
		used := percentOf(q)
		if used < w.threshold || q.Amount <= 0 {
			continue
		}
		of := " of " + q.TenantName
		if w.tenantID != "" {
			of = ""
		}
		words := fmt.Sprintf("%d %% of the quota%s is used: %d of %d%s.", used, of, q.Used(), q.Amount, quotaEnd(q))
		out = append(out, finding{object: q.TenantID, name: q.TenantName, value: used, words: words})
	}
	return out, true, nil
}

// askForecast answers for the quotas that are used most.
func (s *Alerts) askForecast(ctx context.Context, w alertWatch, now time.Time) (out []finding, known bool, err error) {
	if s.c.Quotas == nil {
		return nil, false, nil
	}
	list, err := s.c.Quotas.MostUsed(ctx, forecasts)
	if err != nil {
		return nil, false, fmt.Errorf("read quotas: %w", err)
	}
	for _, q := range list {
		if q.Amount <= 0 || q.Used() >= q.Amount {
			continue // nothing to look ahead to
		}
		f, err := s.c.Quotas.Forecast(ctx, SystemActor(), q.TenantID)
		if IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("forecast a quota: %w", err)
		}
		if !f.Known || f.RunsOut == nil || f.RunsOut.Sub(now) >= time.Duration(w.threshold)*24*time.Hour {
			continue
		}
		words := fmt.Sprintf("The quota of %s is forecast to run out on %s UTC%s.", q.TenantName, f.RunsOut.UTC().Format("2 Jan 2006 15:04"), quotaEnd(q))
		out = append(out, finding{object: q.TenantID, name: q.TenantName, value: max(0, int64(f.RunsOut.Sub(now)/(24*time.Hour))), words: words})
	}
	return out, true, nil
}

// askLedger answers from what the ledger says of itself. A gap that a boot's end left
// stays one for ever; it is an alert for a week.
func (s *Alerts) askLedger(ctx context.Context, now time.Time) (out []finding, known bool, err error) {
	if s.c.Ledger == nil {
		return nil, false, nil
	}
	st, err := s.c.Ledger.Standing(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("read the ledger's standing: %w", err)
	}
	for _, g := range st.Gaps {
		if g.Missing == 0 || now.Sub(g.NotedAt) > gapTold {
			continue
		}
		words := fmt.Sprintf("The ledger lacks %d events of gateway %s: it never told numbers %d to %d of its boot %s.", g.Missing, g.Replica, g.First, g.Last, g.Boot)
		out = append(out, finding{object: g.Replica + " " + g.Boot + " " + strconv.FormatInt(g.First, 10), name: g.Replica, value: g.Missing, words: words})
	}
	if held := st.Held + st.HeldBatch; held > 0 {
		words := fmt.Sprintf("The ledger has set %d events and %d batches aside that it cannot take.", st.Held, st.HeldBatch)
		out = append(out, finding{object: "quarantine", name: "Quarantine", value: held, words: words})
	}
	return out, true, nil
}
