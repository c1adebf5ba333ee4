package db

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

func cellOf(r gen.UsageDetailStepsRow) console.UsageCell {
	return console.UsageCell{Step: int(r.Step) - 1, Key: r.Key, UsageSums: console.UsageSums{
		Admitted: r.Admitted, Cost: r.Cost, Fallback: r.Fallback, FallbackCost: r.FallbackCost, Interrupted: r.Interrupted, InterruptedCost: r.InterruptedCost,
		Settled: r.Settled, Refused: r.Refused, Other: r.Other,
	}}
}

// detailStart is from when quarters are read; minutes take their place.
func detailStart(c console.UsageCover) (minutesFrom, minutesTo, quartersFrom time.Time) {
	if c.Minutes {
		return c.From, c.To, c.To
	}
	return c.From, c.From, c.From
}

// UsageCells implements console.LedgerReportRows.
func (t tx) UsageCells(ctx context.Context, of console.UsageFamily, r console.UsageRead) ([]console.UsageCell, error) {
	c := r.Cover
	switch of {
	case console.UsageOfFleet:
		rows, err := t.q.UsageFleetSteps(ctx, gen.UsageFleetStepsParams{
			Starts: r.Starts, Grouped: string(r.Group), FromAt: c.From, DaysFrom: c.DaysFrom, DaysTo: c.DaysTo, ToAt: c.To,
			Replica: r.Replica, Route: r.Route, Outcome: r.Outcome,
		})
		return each(rows, func(r gen.UsageFleetStepsRow) console.UsageCell { return cellOf(gen.UsageDetailStepsRow(r)) }), err
	case console.UsageOfTenants:
		rows, err := t.q.UsageTenantSteps(ctx, gen.UsageTenantStepsParams{
			Starts: r.Starts, Grouped: string(r.Group), FromAt: c.From, HoursFrom: c.HoursFrom, DaysFrom: c.DaysFrom, DaysTo: c.DaysTo, HoursTo: c.HoursTo, ToAt: c.To,
			QuartersFrom: c.From, Tenants: orEmpty(r.TenantIDs), Plan: r.Plan,
		})
		return each(rows, func(r gen.UsageTenantStepsRow) console.UsageCell { return cellOf(gen.UsageDetailStepsRow(r)) }), err
	case console.UsageOfAll:
		minutesFrom, minutesTo, quartersFrom := detailStart(c)
		rows, err := t.q.UsageDetailSteps(ctx, gen.UsageDetailStepsParams{
			Starts: r.Starts, Grouped: string(r.Group), MinutesFrom: minutesFrom, MinutesTo: minutesTo, QuartersFrom: quartersFrom,
			FromAt: c.From, DaysFrom: c.DaysFrom, DaysTo: c.DaysTo, ToAt: c.To,
			Tenants: orEmpty(r.TenantIDs), Kids: orEmpty(r.KIDs), Route: r.Route, Outcome: r.Outcome,
		})
		return each(rows, cellOf), err
	}
	return nil, fmt.Errorf("sums of usage: there is no family %q", of)
}

// UsageGroups implements console.LedgerReportRows.
func (t tx) UsageGroups(ctx context.Context, of console.UsageFamily, r console.UsageRead) ([]console.UsageCell, int, error) {
	c := r.Cover
	var rows []gen.UsageDetailGroupsRow
	var err error
	if of == console.UsageOfTenants {
		var tenants []gen.UsageTenantGroupsRow
		tenants, err = t.q.UsageTenantGroups(ctx, gen.UsageTenantGroupsParams{
			By: string(r.By), MaxRows: int32(r.Top), Grouped: string(r.Group), FromAt: c.From, HoursFrom: c.HoursFrom, DaysFrom: c.DaysFrom, DaysTo: c.DaysTo,
			HoursTo: c.HoursTo, ToAt: c.To, QuartersFrom: c.From, Tenants: orEmpty(r.TenantIDs), Plan: r.Plan,
		})
		rows = each(tenants, func(r gen.UsageTenantGroupsRow) gen.UsageDetailGroupsRow { return gen.UsageDetailGroupsRow(r) })
	} else {
		minutesFrom, minutesTo, quartersFrom := detailStart(c)
		rows, err = t.q.UsageDetailGroups(ctx, gen.UsageDetailGroupsParams{
			By: string(r.By), MaxRows: int32(r.Top), Grouped: string(r.Group), MinutesFrom: minutesFrom, MinutesTo: minutesTo, QuartersFrom: quartersFrom,
			FromAt: c.From, DaysFrom: c.DaysFrom, DaysTo: c.DaysTo, ToAt: c.To,
			Tenants: orEmpty(r.TenantIDs), Kids: orEmpty(r.KIDs), Route: r.Route, Outcome: r.Outcome,
		})
	}
	groups := 0
	cells := each(rows, func(r gen.UsageDetailGroupsRow) console.UsageCell {
		groups = int(r.Groups)
		return cellOf(gen.UsageDetailStepsRow{
			Step: 1, Key: r.Key, Admitted: r.Admitted, Cost: r.Cost, Fallback: r.Fallback, FallbackCost: r.FallbackCost, Interrupted: r.Interrupted,
			InterruptedCost: r.InterruptedCost, Settled: r.Settled, Refused: r.Refused, Other: r.Other,
		})
	})
	return cells, groups, err
}

// sumAsks bounds the asks of one statement.
const sumAsks = 500

// UsageSums implements console.LedgerReportRows.
func (t tx) UsageSums(ctx context.Context, asks []console.LedgerAsk) ([]console.UsageSums, error) {
	out := make([]console.UsageSums, len(asks))
	for at := 0; at < len(asks); at += sumAsks {
		part := asks[at:min(at+sumAsks, len(asks))]
		var p gen.SumUsageOfParams
		for i, a := range part {
			c := a.Cover()
			p.Numbers, p.TenantIds = append(p.Numbers, int32(i)), append(p.TenantIds, a.TenantID)
			p.Froms, p.HoursFroms, p.DaysFroms = append(p.Froms, c.From), append(p.HoursFroms, c.HoursFrom), append(p.DaysFroms, c.DaysFrom)
			p.DaysTos, p.HoursTos, p.Tos = append(p.DaysTos, c.DaysTo), append(p.HoursTos, c.HoursTo), append(p.Tos, c.To)
		}
		rows, err := t.q.SumUsageOf(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			out[at+int(r.N)] = console.UsageSums{
				Admitted: r.Admitted, Cost: r.Cost, Fallback: r.Fallback, FallbackCost: r.FallbackCost, Interrupted: r.Interrupted,
				InterruptedCost: r.InterruptedCost, Settled: r.Settled, Refused: r.Refused, Other: r.Other,
			}
		}
	}
	return out, nil
}

// LastUsed implements console.LedgerReportRows.
func (t tx) LastUsed(ctx context.Context, tenantIDs []string, hoursSince, daysSince time.Time) (map[string]time.Time, error) {
	rows, err := t.q.UsageLastUsed(ctx, gen.UsageLastUsedParams{TenantIds: orEmpty(tenantIDs), HoursSince: hoursSince, DaysSince: daysSince})
	out := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		if r.At.Unix() > 0 {
			out[r.ID] = r.At
		}
	}
	return out, err
}

// UsageEvents implements console.LedgerReportRows.
func (t tx) UsageEvents(ctx context.Context, q console.UsageEventQuery, after console.UsagePlace, limit, scan int) ([]console.UsageRow, console.UsagePlace, int, error) {
	rows, err := t.q.ListUsageEvents(ctx, gen.ListUsageEventsParams{
		AfterIngest: after.Ingest, AfterRun: after.Run, AfterSeq: after.Seq, Scan: int32(scan), MaxRows: int32(limit),
		TenantID: q.TenantID, FromAt: q.From, ToAt: q.To, Billable: q.Billable,
	})
	if err != nil {
		return nil, after, 0, err
	}
	last, looked := after, 0
	out := make([]console.UsageRow, 0, len(rows))
	for _, r := range rows {
		place := console.UsagePlace{Ingest: r.Ingest, Run: r.Run, Seq: r.Seq}
		if !r.Wanted {
			last, looked = place, int(r.Scanned)
			continue
		}
		out = append(out, console.UsageRow{Run: r.Run, UsageEvent: console.UsageEvent{
			Ingest: r.Ingest, Replica: r.Replica, Boot: r.Boot, Seq: r.Seq, Second: r.OccurredAt, TenantID: r.TenantID, KID: r.KID, Route: r.Route,
			Outcome: r.Outcome, Requests: r.Requests, Cost: r.Cost,
		}})
	}
	return out, last, looked, nil
}
