package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

func overrideOf(r gen.Override, tenantName string) console.TenantOverride {
	return console.TenantOverride{
		ID: r.ID, TenantID: r.TenantID, TenantName: tenantName,
		Override: policy.Override{
			Limit: r.LimitID, Rate: r.Rate, Burst: r.Burst, Amount: r.Amount, Max: r.Most, FactorMilli: orZero(r.FactorMilli),
			ExpiresAt: r.ExpiresAt, Reason: r.Reason, Author: r.Author,
		},
		AuthorID: r.AuthorID, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt, EndedBy: r.EndedBy, EndReason: r.EndReason,
	}
}

// InsertOverride implements console.OverrideRows.
func (t tx) InsertOverride(ctx context.Context, o console.TenantOverride) error {
	return t.q.InsertOverride(ctx, gen.InsertOverrideParams{
		ID: o.ID, TenantID: o.TenantID, LimitID: o.Limit, Kind: string(o.Kind()), Rate: o.Rate, Burst: o.Burst, Amount: o.Amount, Most: o.Max,
		FactorMilli: orNull(o.FactorMilli), Reason: o.Reason, AuthorID: o.AuthorID, Author: o.Author, CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt,
	})
}

// UpdateOverride implements console.OverrideRows.
func (t tx) UpdateOverride(ctx context.Context, o console.TenantOverride) error {
	return t.q.UpdateOverride(ctx, gen.UpdateOverrideParams{
		ID: o.ID, Reason: o.Reason, AuthorID: o.AuthorID, Author: o.Author, ExpiresAt: o.ExpiresAt,
		EndedAt: o.EndedAt, EndedBy: o.EndedBy, EndReason: o.EndReason,
	})
}

// Override implements console.OverrideRows.
func (t tx) Override(ctx context.Context, id string) (console.TenantOverride, error) {
	r, err := t.q.GetOverride(ctx, id)
	return overrideOf(r.Override, r.TenantName), absent(err, "override")
}

// OpenOverrides implements console.OverrideRows.
func (t tx) OpenOverrides(ctx context.Context, tenantIDs []string) ([]console.TenantOverride, error) {
	rows, err := t.q.ListOpenOverrides(ctx, orEmpty(tenantIDs))
	return each(rows, func(r gen.Override) console.TenantOverride { return overrideOf(r, "") }), err
}

// Overrides implements console.OverrideLists.
func (t tx) Overrides(ctx context.Context, q console.OverrideQuery, now time.Time, after console.Cursor, limit int) ([]console.OverrideRow, error) {
	all := gen.ListOverridesParams{
		TenantID: q.TenantID, LimitID: q.Limit, Kind: string(q.Kind), AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	}
	switch {
	case q.Within > 0:
		rows, err := t.q.ListEndingOverrides(ctx, gen.ListEndingOverridesParams{
			Now: now, Until: now.Add(q.Within), TenantID: q.TenantID, LimitID: q.Limit, Kind: string(q.Kind),
			AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListEndingOverridesRow) console.OverrideRow { return overrideRow(gen.ListOverridesRow(r)) }), err
	case q.State == console.OverridesEnded:
		rows, err := t.q.ListEndedOverrides(ctx, gen.ListEndedOverridesParams{
			Now: now, TenantID: all.TenantID, LimitID: all.LimitID, Kind: all.Kind, AfterID: all.AfterID, AfterAt: all.AfterAt, MaxRows: all.MaxRows,
		})
		return each(rows, func(r gen.ListEndedOverridesRow) console.OverrideRow { return overrideRow(gen.ListOverridesRow(r)) }), err
	case q.State == console.OverridesAll:
		rows, err := t.q.ListOverrides(ctx, all)
		return each(rows, overrideRow), err
	}
	rows, err := t.q.ListLiveOverrides(ctx, gen.ListLiveOverridesParams{
		Now: now, TenantID: all.TenantID, LimitID: all.LimitID, Kind: all.Kind, AfterID: all.AfterID, AfterAt: all.AfterAt, MaxRows: all.MaxRows,
	})
	return each(rows, func(r gen.ListLiveOverridesRow) console.OverrideRow { return overrideRow(gen.ListOverridesRow(r)) }), err
}

func overrideRow(r gen.ListOverridesRow) console.OverrideRow {
	return console.OverrideRow{TenantOverride: overrideOf(r.Override, r.TenantName), Plan: r.Plan}
}

// DueOverrides implements console.OverrideLists.
func (t tx) DueOverrides(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return t.q.ListTenantsWithDueOverrides(ctx, gen.ListTenantsWithDueOverridesParams{Now: &now, MaxRows: int32(limit)})
}

// CountOverrides implements console.OverrideLists.
func (t tx) CountOverrides(ctx context.Context, now time.Time) ([]console.OverrideCount, error) {
	rows, err := t.q.CountLiveOverrides(ctx, &now)
	return each(rows, func(r gen.CountLiveOverridesRow) console.OverrideCount {
		return console.OverrideCount{Limit: r.LimitID, Plan: r.Plan, Tenants: r.Tenants}
	}), err
}

// OverrideFacts implements console.OverrideLists.
func (t tx) OverrideFacts(ctx context.Context, tenantIDs []string, now time.Time) (map[string]console.OverrideFacts, error) {
	rows, err := t.q.ListOverrideFacts(ctx, gen.ListOverrideFactsParams{TenantIds: orEmpty(tenantIDs), Now: &now})
	out := make(map[string]console.OverrideFacts, len(rows))
	for _, r := range rows {
		f := console.OverrideFacts{Live: r.Overrides}
		if r.NextEnd.Unix() != 0 {
			f.NextEnd = &r.NextEnd
		}
		out[r.TenantID] = f
	}
	return out, err
}
