package db

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// AddUsagePeriod implements console.LedgerPeriodRows.
func (t tx) AddUsagePeriod(ctx context.Context, p console.UsagePeriod) error {
	s := p.Sums
	return t.q.AddUsagePeriod(ctx, gen.AddUsagePeriodParams{
		ID: p.ID, TenantID: p.TenantID, FromAt: p.From, ToAt: p.To, ClosedAt: p.ClosedAt, ClosedBy: p.ClosedBy, Note: p.Note, Ingest: p.Ingest,
		Admitted: s.Admitted, Cost: s.Cost, Fallback: s.Fallback, FallbackCost: s.FallbackCost, Interrupted: s.Interrupted,
		InterruptedCost: s.InterruptedCost, Settled: s.Settled, Refused: s.Refused, Other: s.Other,
	})
}

// OverlappingPeriods implements console.LedgerPeriodRows.
func (t tx) OverlappingPeriods(ctx context.Context, tenantID string, from, to time.Time) (int64, error) {
	return t.q.CountOverlappingPeriods(ctx, gen.CountOverlappingPeriodsParams{TenantID: tenantID, FromAt: from, ToAt: to})
}

// UsagePeriods implements console.LedgerPeriodRows.
func (t tx) UsagePeriods(ctx context.Context, tenantID, id string, after console.Cursor, limit int) ([]console.UsagePeriod, error) {
	rows, err := t.q.ListUsagePeriods(ctx, gen.ListUsagePeriodsParams{TenantID: tenantID, ID: id, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListUsagePeriodsRow) console.UsagePeriod {
		return console.UsagePeriod{
			ID: r.ID, TenantID: r.TenantID, From: r.FromAt, To: r.ToAt, ClosedAt: r.ClosedAt, ClosedBy: r.ClosedBy, Note: r.Note, Ingest: r.Ingest, Adjustments: r.LateEvents,
			Sums: console.UsageSums{
				Admitted: r.Admitted, Cost: r.Cost, Fallback: r.Fallback, FallbackCost: r.FallbackCost, Interrupted: r.Interrupted,
				InterruptedCost: r.InterruptedCost, Settled: r.Settled, Refused: r.Refused, Other: r.Other,
			},
			Adjusted: console.UsageSums{
				Admitted: r.LateAdmitted, Cost: r.LateCost, Fallback: r.LateFallback, FallbackCost: r.LateFallbackCost, Interrupted: r.LateInterrupted,
				InterruptedCost: r.LateInterruptedCost, Settled: r.LateSettled, Refused: r.LateRefused, Other: r.LateOther,
			},
		}
	}), err
}

// UsageAdjustments implements console.LedgerPeriodRows.
func (t tx) UsageAdjustments(ctx context.Context, periodID string) ([]console.UsageAdjustment, error) {
	rows, err := t.q.ListUsageAdjustments(ctx, periodID)
	return each(rows, func(r gen.UsageAdjustment) console.UsageAdjustment {
		return console.UsageAdjustment{
			PeriodID: r.PeriodID, KID: r.KID, Route: r.Route, Outcome: r.Outcome, Requests: r.Requests, Cost: r.Cost, Events: r.Events,
			FirstAt: r.FirstAt, LastAt: r.LastAt, NotedAt: r.NotedAt,
		}
	}), err
}

// LastClosedUsage implements console.LedgerLateRows.
func (t tx) LastClosedUsage(ctx context.Context) (time.Time, error) { return t.q.LastClosedUsage(ctx) }

// ClosedAfter implements console.LedgerLateRows.
func (t tx) ClosedAfter(ctx context.Context, tenantIDs []string, after time.Time) ([]console.UsagePeriod, error) {
	rows, err := t.q.ListClosedAfter(ctx, gen.ListClosedAfterParams{After: after, TenantIds: orEmpty(tenantIDs)})
	return each(rows, func(r gen.ListClosedAfterRow) console.UsagePeriod {
		return console.UsagePeriod{ID: r.ID, TenantID: r.TenantID, From: r.FromAt, To: r.ToAt}
	}), err
}

// AddUsageAdjustment implements console.LedgerLateRows.
func (t tx) AddUsageAdjustment(ctx context.Context, a console.UsageAdjustment, ingest int64) error {
	return t.q.AddUsageAdjustment(ctx, gen.AddUsageAdjustmentParams{
		PeriodID: a.PeriodID, Ingest: ingest, KID: a.KID, Route: a.Route, Outcome: a.Outcome, Requests: a.Requests, Cost: a.Cost, Events: a.Events,
		FirstAt: a.FirstAt, LastAt: a.LastAt, Now: a.NotedAt,
	})
}

// TryUsageJob implements console.LedgerMonthRows.
func (t tx) TryUsageJob(ctx context.Context) (bool, error) { return t.q.TryUsageJob(ctx) }

// UsageMonths implements console.LedgerMonthRows.
func (t tx) UsageMonths(ctx context.Context) ([]console.UsageMonth, error) {
	rows, err := t.q.ListUsageMonths(ctx)
	return decoded(rows, err, func(r gen.ListUsageMonthsRow) (console.UsageMonth, error) {
		month, err := time.Parse(time.DateOnly, r.Month)
		if err != nil {
			return console.UsageMonth{}, fmt.Errorf("read month of a partition: %w", err)
		}
		return console.UsageMonth{Month: month, Attached: r.Attached}, nil
	})
}

// MakeUsageMonth implements console.LedgerMonthRows.
func (t tx) MakeUsageMonth(ctx context.Context, month time.Time) (bool, error) {
	return t.q.MakeUsageMonth(ctx, month.Format(time.DateOnly))
}

// RemoveUsageMonth implements console.LedgerMonthRows.
func (t tx) RemoveUsageMonth(ctx context.Context, m console.UsageMonth) (err error) {
	if m.Attached {
		_, err = t.q.DetachUsageMonth(ctx, m.Month.Format(time.DateOnly))
	} else {
		_, err = t.q.DropUsageMonth(ctx, m.Month.Format(time.DateOnly))
	}
	return err
}

// StrayUsage implements console.LedgerMonthRows.
func (t tx) StrayUsage(ctx context.Context) (int64, error) { return t.q.CountStrayUsage(ctx) }

// TidyUsage implements console.LedgerMonthRows.
func (t tx) TidyUsage(ctx context.Context) (int64, error) { return t.q.TidyUsageDefault(ctx) }
