package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// UsageState implements console.LedgerRollupRows.
func (t tx) UsageState(ctx context.Context) (console.UsageState, error) {
	r, err := t.q.GetUsageState(ctx)
	return console.UsageState{Ingest: r.Ingest, Rolled: r.Rolled, Unreadable: r.Unreadable}, err
}

// LockUsageRollup implements console.LedgerRollupRows.
func (t tx) LockUsageRollup(ctx context.Context) (int64, error) { return t.q.LockUsageRollup(ctx) }

// NextUsageSlice implements console.LedgerRollupRows.
func (t tx) NextUsageSlice(ctx context.Context, after int64, events int) (int64, error) {
	return t.q.NextUsageSlice(ctx, gen.NextUsageSliceParams{After: after, Rows: int32(events)})
}

// RollUsage implements console.LedgerRollupRows.
func (t tx) RollUsage(ctx context.Context, after, through int64, now time.Time) error {
	return t.q.RollUsage(ctx, gen.RollUsageParams{After: after, Through: through, Now: now})
}

// ForgetUsage implements console.LedgerRollupRows.
func (t tx) ForgetUsage(ctx context.Context, minutes, quarters, days time.Time, limit int) (more bool, err error) {
	n := int32(limit)
	for _, forget := range []func() (int64, error){
		func() (int64, error) {
			return t.q.ForgetUsageMinutes(ctx, gen.ForgetUsageMinutesParams{Before: minutes, MaxRows: n})
		},
		func() (int64, error) {
			return t.q.ForgetUsageQuarters(ctx, gen.ForgetUsageQuartersParams{Before: quarters, MaxRows: n})
		},
		func() (int64, error) {
			return t.q.ForgetUsageFleet(ctx, gen.ForgetUsageFleetParams{Before: quarters, MaxRows: n})
		},
		func() (int64, error) {
			return t.q.ForgetUsageHours(ctx, gen.ForgetUsageHoursParams{Before: quarters, MaxRows: n})
		},
		func() (int64, error) {
			return t.q.ForgetUsageDays(ctx, gen.ForgetUsageDaysParams{Before: days, MaxRows: n})
		},
	} {
		gone, err := forget()
		if err != nil {
			return false, err
		}
		more = more || gone == int64(limit)
	}
	return more, nil
}

// RebuildUsage implements console.LedgerRebuildRows.
func (t tx) RebuildUsage(ctx context.Context, from, to time.Time, through int64) (int64, error) {
	changed, err := t.q.CountWrongQuarters(ctx, gen.CountWrongQuartersParams{FromAt: from, ToAt: to, Through: through})
	if err != nil {
		return 0, err
	}
	for _, step := range []func() error{
		func() error {
			return t.q.ClearUsageMinutes(ctx, gen.ClearUsageMinutesParams{FromAt: from, ToAt: to})
		},
		func() error {
			return t.q.ClearUsageQuarters(ctx, gen.ClearUsageQuartersParams{FromAt: from, ToAt: to})
		},
		func() error { return t.q.ClearUsageFleet(ctx, gen.ClearUsageFleetParams{FromAt: from, ToAt: to}) },
		func() error {
			return t.q.RemakeUsageMinutes(ctx, gen.RemakeUsageMinutesParams{FromAt: from, ToAt: to, Through: through})
		},
		func() error {
			return t.q.RemakeUsageQuarters(ctx, gen.RemakeUsageQuartersParams{FromAt: from, ToAt: to, Through: through})
		},
		func() error {
			return t.q.RemakeUsageFleet(ctx, gen.RemakeUsageFleetParams{FromAt: from, ToAt: to, Through: through})
		},
	} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return changed, nil
}

// RebuildUsageDay implements console.LedgerRebuildRows.
func (t tx) RebuildUsageDay(ctx context.Context, day time.Time) (rows int64, err error) {
	to := day.AddDate(0, 0, 1)
	for _, step := range []func() error{
		func() error { return t.q.ClearUsageDays(ctx, gen.ClearUsageDaysParams{FromAt: day, ToAt: to}) },
		func() error {
			return t.q.ClearUsageFleetDays(ctx, gen.ClearUsageFleetDaysParams{FromAt: day, ToAt: to})
		},
		func() error {
			return t.q.ClearUsageTenantHours(ctx, gen.ClearUsageTenantHoursParams{FromAt: day, ToAt: to})
		},
		func() error {
			return t.q.ClearUsageTenantDays(ctx, gen.ClearUsageTenantDaysParams{FromAt: day, ToAt: to})
		},
		func() (err error) {
			rows, err = t.q.RemakeUsageDays(ctx, gen.RemakeUsageDaysParams{FromAt: day, ToAt: to})
			return err
		},
		func() error {
			return t.q.RemakeUsageFleetDays(ctx, gen.RemakeUsageFleetDaysParams{FromAt: day, ToAt: to})
		},
		func() error {
			return t.q.RemakeUsageTenantHours(ctx, gen.RemakeUsageTenantHoursParams{FromAt: day, ToAt: to})
		},
		func() error {
			return t.q.RemakeUsageTenantDays(ctx, gen.RemakeUsageTenantDaysParams{FromAt: day, ToAt: to})
		},
	} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return rows, nil
}

// UsageSince implements console.LedgerRollupRows.
func (t tx) UsageSince(ctx context.Context, own string) (time.Time, error) {
	return t.q.UsageSince(ctx, own)
}
