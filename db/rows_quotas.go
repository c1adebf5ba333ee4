package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// InsertQuotaGrant implements console.QuotaRows.
func (t tx) InsertQuotaGrant(ctx context.Context, g console.QuotaGrant) error {
	return t.q.InsertQuotaGrant(ctx, gen.InsertQuotaGrantParams{
		ID: g.ID, TenantID: g.TenantID, PeriodStart: g.Start, PeriodEnd: g.End, Units: g.Units,
		Reason: g.Reason, AuthorID: g.AuthorID, Author: g.Author, CreatedAt: g.At,
	})
}

// QuotaGrants implements console.QuotaRows.
func (t tx) QuotaGrants(ctx context.Context, tenantID string, limit int) ([]console.QuotaGrant, error) {
	rows, err := t.q.ListQuotaGrants(ctx, gen.ListQuotaGrantsParams{TenantID: tenantID, MaxRows: int32(limit)})
	return each(rows, func(r gen.QuotaGrant) console.QuotaGrant {
		return console.QuotaGrant{
			ID: r.ID, TenantID: r.TenantID, Start: r.PeriodStart, End: r.PeriodEnd, Units: r.Units,
			Reason: r.Reason, AuthorID: r.AuthorID, Author: r.Author, At: r.CreatedAt,
		}
	}), err
}

// QuotaGrantUnits implements console.QuotaRows.
func (t tx) QuotaGrantUnits(ctx context.Context, tenantIDs []string) ([]console.QuotaGrantUnits, error) {
	rows, err := t.q.SumQuotaGrants(ctx, orEmpty(tenantIDs))
	return each(rows, func(r gen.SumQuotaGrantsRow) console.QuotaGrantUnits {
		return console.QuotaGrantUnits{TenantID: r.TenantID, Start: r.PeriodStart, Units: r.Units}
	}), err
}

// InsertQuotaReset implements console.QuotaRows.
func (t tx) InsertQuotaReset(ctx context.Context, r console.QuotaReset) error {
	return t.q.InsertQuotaReset(ctx, gen.InsertQuotaResetParams{
		ID: r.ID, TenantID: r.TenantID, PeriodStart: r.Start, Units: r.Units, Reason: r.Reason, AuthorID: r.AuthorID, Author: r.Author, CreatedAt: r.At,
	})
}

// QuotaResets implements console.QuotaRows.
func (t tx) QuotaResets(ctx context.Context, tenantIDs []string) ([]console.QuotaGrantUnits, error) {
	rows, err := t.q.SumQuotaResets(ctx, orEmpty(tenantIDs))
	return each(rows, func(r gen.SumQuotaResetsRow) console.QuotaGrantUnits {
		return console.QuotaGrantUnits{TenantID: r.TenantID, Start: r.PeriodStart, Units: r.Units}
	}), err
}

// PutQuotaStandings implements console.QuotaStandingRows.
func (t tx) PutQuotaStandings(ctx context.Context, all []console.QuotaStanding, now time.Time) error {
	p := gen.PutQuotaStandingsParams{Now: now}
	for _, s := range all {
		counted := int64(-1)
		if s.Redis != nil {
			counted = *s.Redis
		}
		p.TenantIds, p.Plans, p.Periods = append(p.TenantIds, s.TenantID), append(p.Plans, s.Plan), append(p.Periods, s.Period)
		p.Starts, p.Ends, p.TimeZones = append(p.Starts, s.Start), append(p.Ends, orEpoch(s.End)), append(p.TimeZones, s.TimeZone)
		p.Counts, p.Overs = append(p.Counts, s.Counts), append(p.Overs, s.Over)
		p.Amounts, p.Mosts, p.Granted = append(p.Amounts, s.Amount), append(p.Mosts, s.Most), append(p.Granted, s.Granted)
		p.RedisUnits, p.LedgerUnits = append(p.RedisUnits, counted), append(p.LedgerUnits, s.Ledger)
		p.Complete, p.Healed = append(p.Complete, s.Complete), append(p.Healed, s.HealedUnits)
	}
	if len(all) == 0 {
		return nil
	}
	return t.q.PutQuotaStandings(ctx, p)
}

// DropQuotaStandings implements console.QuotaStandingRows.
func (t tx) DropQuotaStandings(ctx context.Context, before time.Time) error {
	return t.q.DropQuotaStandings(ctx, before)
}

func standingOf(r gen.QuotaStanding, tenantName string) console.QuotaStanding {
	return console.QuotaStanding{
		TenantID: r.TenantID, TenantName: tenantName, Plan: r.Plan, Period: r.Period, Start: r.PeriodStart, End: r.PeriodEnd,
		TimeZone: r.TimeZone, Counts: r.Counts, Over: r.Over, Amount: r.Amount, Most: r.Most, Granted: r.Granted,
		Redis: r.RedisUnits, Ledger: r.LedgerUnits, ComparedAt: r.ComparedAt, Complete: r.Complete, HealedAt: r.HealedAt, HealedUnits: r.HealedUnits,
	}
}

// QuotaStandings implements console.QuotaStandingRows.
func (t tx) QuotaStandings(ctx context.Context, tenantIDs []string) ([]console.QuotaStanding, error) {
	rows, err := t.q.ListQuotaStandings(ctx, orEmpty(tenantIDs))
	return each(rows, func(r gen.ListQuotaStandingsRow) console.QuotaStanding {
		return standingOf(r.QuotaStanding, r.TenantName)
	}), err
}

// QuotaStandingsByDrift implements console.QuotaStandingRows.
func (t tx) QuotaStandingsByDrift(ctx context.Context, afterDrift int64, afterID string, limit int) ([]console.QuotaStanding, error) {
	rows, err := t.q.ListQuotaStandingsByDrift(ctx, gen.ListQuotaStandingsByDriftParams{AfterValue: afterDrift, AfterID: afterID, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListQuotaStandingsByDriftRow) console.QuotaStanding {
		return standingOf(r.QuotaStanding, r.TenantName)
	}), err
}

// QuotaStandingsByUse implements console.QuotaStandingRows.
func (t tx) QuotaStandingsByUse(ctx context.Context, now time.Time, limit int) ([]console.QuotaStanding, error) {
	rows, err := t.q.ListQuotaStandingsByUse(ctx, gen.ListQuotaStandingsByUseParams{Now: &now, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListQuotaStandingsByUseRow) console.QuotaStanding {
		return standingOf(r.QuotaStanding, r.TenantName)
	}), err
}

// QuotaDrift implements console.QuotaStandingRows.
func (t tx) QuotaDrift(ctx context.Context) (console.QuotaDrift, error) {
	r, err := t.q.SumQuotaDrift(ctx)
	d := console.QuotaDrift{Tenants: r.Tenants, Apart: r.Apart, Units: r.Drift}
	if r.Oldest.Unix() != 0 {
		d.Oldest = r.Oldest
	}
	if r.HealedAt.Unix() != 0 {
		d.HealedAt = &r.HealedAt
	}
	return d, err
}

// InsertQuotaCrossings implements console.QuotaEventRows.
func (t tx) InsertQuotaCrossings(ctx context.Context, all []console.QuotaCrossing, now time.Time) (int64, error) {
	p := gen.InsertQuotaCrossingsParams{Now: now}
	for _, c := range all {
		p.TenantIds, p.Starts, p.Ends = append(p.TenantIds, c.TenantID), append(p.Starts, c.Start), append(p.Ends, orEpoch(c.End))
		p.Percents, p.Units, p.Amounts = append(p.Percents, int32(c.Percent)), append(p.Units, c.Units), append(p.Amounts, c.Amount)
	}
	if len(all) == 0 {
		return 0, nil
	}
	return t.q.InsertQuotaCrossings(ctx, p)
}

func crossingOf(r gen.QuotaCrossing, tenantName string) console.QuotaCrossing {
	return console.QuotaCrossing{
		ID: r.ID, TenantID: r.TenantID, TenantName: tenantName, Start: r.PeriodStart, End: r.PeriodEnd, Percent: int(r.Percent),
		Units: r.Units, Amount: r.Amount, At: r.CrossedAt,
	}
}

// QuotaCrossings implements console.QuotaEventRows.
func (t tx) QuotaCrossings(ctx context.Context, after int64, limit int) ([]console.QuotaCrossing, error) {
	rows, err := t.q.ListQuotaCrossings(ctx, gen.ListQuotaCrossingsParams{After: after, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListQuotaCrossingsRow) console.QuotaCrossing {
		return crossingOf(r.QuotaCrossing, r.TenantName)
	}), err
}

// QuotaCrossingsOf implements console.QuotaEventRows.
func (t tx) QuotaCrossingsOf(ctx context.Context, tenantID string, start time.Time) ([]console.QuotaCrossing, error) {
	rows, err := t.q.ListQuotaCrossingsOf(ctx, gen.ListQuotaCrossingsOfParams{TenantID: tenantID, PeriodStart: start})
	return each(rows, func(r gen.QuotaCrossing) console.QuotaCrossing { return crossingOf(r, "") }), err
}

// InsertQuotaLoss implements console.QuotaEventRows.
func (t tx) InsertQuotaLoss(ctx context.Context, l console.QuotaLoss) error {
	return t.q.InsertQuotaLoss(ctx, gen.InsertQuotaLossParams{
		SeenAt: l.SeenAt, Lanes: int32(l.Lanes), RebuiltAt: l.RebuiltAt, Tenants: l.Tenants, Raised: l.Raised, Complete: l.Complete, Missing: orEmpty(l.Missing),
	})
}

// QuotaLosses implements console.QuotaEventRows.
func (t tx) QuotaLosses(ctx context.Context, limit int) ([]console.QuotaLoss, error) {
	rows, err := t.q.ListQuotaLosses(ctx, int32(limit))
	return each(rows, func(r gen.QuotaLoss) console.QuotaLoss {
		return console.QuotaLoss{
			SeenAt: r.SeenAt, Lanes: int(r.Lanes), RebuiltAt: r.RebuiltAt, Tenants: r.Tenants, Raised: r.Raised, Complete: r.Complete, Missing: r.Missing,
		}
	}), err
}
