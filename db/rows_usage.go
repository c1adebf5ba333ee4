package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// LockUsageIntake implements console.LedgerIntakeRows.
func (t tx) LockUsageIntake(ctx context.Context) (int64, error) { return t.q.LockUsageIntake(ctx) }

// SetUsageIngest implements console.LedgerIntakeRows.
func (t tx) SetUsageIngest(ctx context.Context, ingest int64, now time.Time) error {
	return t.q.SetUsageIngest(ctx, gen.SetUsageIngestParams{Ingest: ingest, Now: now})
}

// CopyUsageEvents implements console.LedgerIntakeRows.
func (t tx) CopyUsageEvents(ctx context.Context, rows []console.UsageRow) error {
	_, err := t.q.CopyUsageEvents(ctx, each(rows, func(r console.UsageRow) gen.CopyUsageEventsParams {
		return gen.CopyUsageEventsParams{
			OccurredAt: r.Second, Ingest: r.Ingest, Seq: r.Seq, Requests: r.Requests, Cost: r.Cost, Run: r.Run,
			TenantID: r.TenantID, KID: r.KID, Route: r.Route, Outcome: r.Outcome,
		}
	}))
	return err
}

// AddUsageEvents implements console.LedgerIntakeRows.
func (t tx) AddUsageEvents(ctx context.Context, rows []console.UsageRow) ([]console.UsageRow, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	n := len(rows)
	p := gen.AddUsageEventsParams{
		Ingest: rows[0].Ingest, OccurredAts: make([]time.Time, n), Seqs: make([]int64, n), Requests: make([]int64, n), Costs: make([]int64, n),
		Runs: make([]int32, n), Tenants: make([]string, n), Kids: make([]string, n), Routes: make([]string, n), Outcomes: make([]string, n),
	}
	type name struct {
		run int32
		seq int64
	}
	at := make(map[name]console.UsageRow, n)
	for i, r := range rows {
		p.OccurredAts[i], p.Seqs[i], p.Requests[i], p.Costs[i], p.Runs[i] = r.Second, r.Seq, r.Requests, r.Cost, r.Run
		p.Tenants[i], p.Kids[i], p.Routes[i], p.Outcomes[i] = r.TenantID, r.KID, r.Route, r.Outcome
		at[name{r.Run, r.Seq}] = r
	}
	added, err := t.q.AddUsageEvents(ctx, p)
	return each(added, func(r gen.AddUsageEventsRow) console.UsageRow { return at[name{r.Run, r.Seq}] }), err
}

// NextUsageCorrection implements console.LedgerIntakeRows.
func (t tx) NextUsageCorrection(ctx context.Context) (int64, error) {
	return t.q.NextUsageCorrection(ctx)
}

// KnownTenants implements console.LedgerIntakeRows.
func (t tx) KnownTenants(ctx context.Context, ids []string) ([]string, error) {
	return t.q.ListKnownTenants(ctx, orEmpty(ids))
}

func usageMarkOf(m gen.UsageMark) console.UsageMark {
	out := console.UsageMark{
		Run: m.Run, Replica: m.Replica, Boot: m.Boot, Seq: m.Seq, Ahead: stretches(m.Ahead), Through: m.Through, Final: m.Final, UpdatedAt: m.UpdatedAt,
	}
	if m.GapSince != nil {
		out.GapSince = *m.GapSince
	}
	return out
}

// stretches are kept as pairs of first and last.
func stretches(pairs []int64) []console.Stretch {
	out := make([]console.Stretch, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, console.Stretch{First: pairs[i], Last: pairs[i+1]})
	}
	return out
}

func pairs(s []console.Stretch) []int64 {
	out := make([]int64, 0, 2*len(s))
	for _, x := range s {
		out = append(out, x.First, x.Last)
	}
	return out
}

// UsageMarks implements console.LedgerMarkRows.
func (t tx) UsageMarks(ctx context.Context, of []console.BootName) ([]console.UsageMark, error) {
	rows, err := t.q.ListUsageMarks(ctx, gen.ListUsageMarksParams{
		Replicas: each(of, func(n console.BootName) string { return n.Replica }), Boots: each(of, func(n console.BootName) string { return n.Boot }),
	})
	return each(rows, usageMarkOf), err
}

// AddUsageMark implements console.LedgerMarkRows.
func (t tx) AddUsageMark(ctx context.Context, of console.BootName, now time.Time) (console.UsageMark, error) {
	m, err := t.q.AddUsageMark(ctx, gen.AddUsageMarkParams{Replica: of.Replica, Boot: of.Boot, Through: time.Unix(0, 0), Now: now})
	return usageMarkOf(m), err
}

// SaveUsageMark implements console.LedgerMarkRows.
func (t tx) SaveUsageMark(ctx context.Context, m console.UsageMark) error {
	return t.q.SaveUsageMark(ctx, gen.SaveUsageMarkParams{
		Seq: m.Seq, Ahead: pairs(m.Ahead), GapSince: orNull(m.GapSince), Through: m.Through, Final: m.Final, Now: m.UpdatedAt, Run: m.Run,
	})
}

// StaleUsageGaps implements console.LedgerMarkRows.
func (t tx) StaleUsageGaps(ctx context.Context, before, heardBefore time.Time) ([]console.UsageMark, error) {
	rows, err := t.q.ListStaleUsageGaps(ctx, gen.ListStaleUsageGapsParams{Before: &before, HeardBefore: heardBefore})
	return each(rows, usageMarkOf), err
}

// UsageRuns implements console.LedgerMarkRows.
func (t tx) UsageRuns(ctx context.Context, since, openSince time.Time) ([]console.UsageMark, error) {
	rows, err := t.q.ListUsageRuns(ctx, gen.ListUsageRunsParams{Since: since, OpenSince: openSince})
	return each(rows, usageMarkOf), err
}

// OpenUsageGaps implements console.LedgerGapRows.
func (t tx) OpenUsageGaps(ctx context.Context, runs []int32) ([]console.OpenGap, error) {
	rows, err := t.q.ListOpenUsageGaps(ctx, runs)
	return each(rows, func(g gen.UsageGap) console.OpenGap {
		return console.OpenGap{ID: g.ID, Run: g.Run, In: console.Stretch{First: g.FirstSeq, Last: g.LastSeq}, Missing: g.Missing, Filled: stretches(g.Filled)}
	}), err
}

// AddUsageGap implements console.LedgerGapRows.
func (t tx) AddUsageGap(ctx context.Context, run int32, in console.Stretch, after, now time.Time) (console.OpenGap, error) {
	g := console.OpenGap{Run: run, In: in, Missing: in.Last - in.First + 1}
	id, err := t.q.AddUsageGap(ctx, gen.AddUsageGapParams{Run: run, FirstSeq: in.First, LastSeq: in.Last, Missing: g.Missing, AfterAt: after, Now: now})
	g.ID = id
	return g, err
}

// FillUsageGap implements console.LedgerGapRows.
func (t tx) FillUsageGap(ctx context.Context, g console.OpenGap, now time.Time) error {
	return t.q.FillUsageGap(ctx, gen.FillUsageGapParams{ID: g.ID, Missing: g.Missing, Filled: pairs(g.Filled), Now: now})
}

// UsageGaps implements console.LedgerGapRows.
func (t tx) UsageGaps(ctx context.Context) ([]console.UsageGap, error) {
	rows, err := t.q.ListUsageGaps(ctx)
	return each(rows, func(g gen.ListUsageGapsRow) console.UsageGap {
		out := console.UsageGap{
			Replica: g.Replica, Boot: g.Boot, First: g.FirstSeq, Last: g.LastSeq, Missing: g.Missing, After: g.AfterAt, NotedAt: g.NotedAt,
		}
		if g.FilledAt != nil {
			out.FilledAt = *g.FilledAt
		}
		return out
	}), err
}

// CountMissingUsage implements console.LedgerGapRows.
func (t tx) CountMissingUsage(ctx context.Context) (int64, error) { return t.q.CountMissingUsage(ctx) }

// HoldUsage implements console.LedgerHeldRows.
func (t tx) HoldUsage(ctx context.Context, h console.HeldRow, now time.Time) (bool, error) {
	p := gen.HoldUsageParams{
		Reason: h.Reason, Detail: plainText(h.Detail), Replica: h.Replica, Boot: h.Boot, Seq: h.Seq, Body: h.Body, Events: h.Events, Now: now,
	}
	if h.Event != nil {
		event, err := json.Marshal(h.Event)
		if err != nil {
			return false, fmt.Errorf("encode held event: %w", err)
		}
		p.Event = event
	}
	n, err := t.q.HoldUsage(ctx, p)
	return n == 1, err
}

// plainText leaves out what PostgreSQL does not store.
func plainText(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r != 0 {
			out = append(out, r)
		}
	}
	return string(out)
}

func heldOf(r gen.LockHeldUsageRow) (console.HeldUsage, error) {
	h := console.HeldUsage{
		ID: r.ID, Reason: r.Reason, Detail: r.Detail, Replica: r.Replica, Boot: r.Boot, Seq: r.Seq, Events: r.Events, ReceivedAt: r.ReceivedAt,
		State: r.State, DecidedBy: r.DecidedBy, DecidedWhy: r.DecidedWhy,
	}
	if r.DecidedAt != nil {
		h.DecidedAt = *r.DecidedAt
	}
	if len(r.Event) == 0 {
		return h, nil
	}
	h.Event = new(console.UsageEvent)
	if err := json.Unmarshal(r.Event, h.Event); err != nil {
		return h, fmt.Errorf("decode held event %d: %w", r.ID, err)
	}
	return h, nil
}

// HeldUsage implements console.LedgerHeldRows.
func (t tx) HeldUsage(ctx context.Context, state string, beforeID int64, limit int) ([]console.HeldUsage, error) {
	rows, err := t.q.ListHeldUsage(ctx, gen.ListHeldUsageParams{State: state, Before: beforeID, MaxRows: int32(limit)})
	return decoded(rows, err, func(r gen.ListHeldUsageRow) (console.HeldUsage, error) { return heldOf(gen.LockHeldUsageRow(r)) })
}

// LockHeldUsage implements console.LedgerHeldRows.
func (t tx) LockHeldUsage(ctx context.Context, ids []int64) ([]console.HeldUsage, error) {
	rows, err := t.q.LockHeldUsage(ctx, ids)
	return decoded(rows, err, heldOf)
}

// DecideHeldUsage implements console.LedgerHeldRows.
func (t tx) DecideHeldUsage(ctx context.Context, ids []int64, state, by, why string, now time.Time) error {
	return t.q.DecideHeldUsage(ctx, gen.DecideHeldUsageParams{Ids: ids, State: state, DecidedBy: by, Why: why, Now: now})
}

// CountHeldUsage implements console.LedgerHeldRows.
func (t tx) CountHeldUsage(ctx context.Context) (events, batches int64, err error) {
	r, err := t.q.CountHeldUsage(ctx)
	return r.Events, r.Batches, err
}

// CountUnreadable implements console.LedgerRollupRows.
func (t tx) CountUnreadable(ctx context.Context, batches int64) error {
	return t.q.CountUnreadableUsage(ctx, batches)
}
