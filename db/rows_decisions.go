package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// InsertDecisionBatch implements console.DecisionRows.
func (t tx) InsertDecisionBatch(ctx context.Context, b console.DecisionBatch) (bool, error) {
	n, err := t.q.InsertDecisionBatch(ctx, gen.InsertDecisionBatchParams{
		Replica: b.Replica, Boot: b.Boot, Seq: b.Seq, FromAt: b.From, ToAt: b.To, Entries: int32(b.Entries), Sample: int32(b.Sample),
		Dropped: b.Dropped, Unjudged: b.Unjudged, Body: b.Body, ReceivedAt: b.ReceivedAt,
	})
	return n == 1, err
}

// DecisionBatches implements console.DecisionRows.
func (t tx) DecisionBatches(ctx context.Context, in console.DecisionSpan, afterAt time.Time, afterID int64, limit int) ([]console.DecisionBatch, error) {
	rows, err := t.q.ListDecisionBatches(ctx, gen.ListDecisionBatchesParams{
		Since: in.From.Add(-time.Hour), FromAt: in.From, ToAt: in.To, AfterAt: afterAt, AfterID: afterID, MaxRows: int32(limit),
	})
	return each(rows, func(r gen.ListDecisionBatchesRow) console.DecisionBatch {
		return console.DecisionBatch{
			ID: r.ID, Replica: r.Replica, Boot: r.Boot, Seq: r.Seq, From: r.FromAt, To: r.ToAt, Entries: int(r.Entries), Sample: uint32(r.Sample),
			Dropped: r.Dropped, Unjudged: r.Unjudged, Body: r.Body,
		}
	}), err
}

// DecisionTotals implements console.DecisionRows.
func (t tx) DecisionTotals(ctx context.Context, in console.DecisionSpan) (console.DecisionTotals, error) {
	r, err := t.q.SumDecisions(ctx, gen.SumDecisionsParams{Since: in.From.Add(-time.Hour), FromAt: in.From, ToAt: in.To})
	return console.DecisionTotals{
		Batches: r.Batches, Entries: r.Entries, Dropped: r.Dropped, Unjudged: r.Unjudged, Bytes: r.Bytes,
		Sample: uint32(r.Sample), First: r.FirstAt, Last: r.LastAt,
	}, err
}

// DecisionPlace implements console.DecisionUpkeep.
func (t tx) DecisionPlace(ctx context.Context) (string, error) { return t.q.GetDecisionPlace(ctx) }

// SetDecisionPlace implements console.DecisionUpkeep.
func (t tx) SetDecisionPlace(ctx context.Context, place string, now time.Time) error {
	return t.q.SetDecisionPlace(ctx, gen.SetDecisionPlaceParams{Place: place, Now: &now})
}

// DeleteOldDecisions implements console.DecisionUpkeep.
func (t tx) DeleteOldDecisions(ctx context.Context, before time.Time, limit int) (int64, error) {
	return t.q.DeleteOldDecisions(ctx, gen.DeleteOldDecisionsParams{Before: before, MaxRows: int32(limit)})
}

// TrimDecisions implements console.DecisionUpkeep.
func (t tx) TrimDecisions(ctx context.Context, bytes int64, limit int) (int64, error) {
	return t.q.TrimDecisions(ctx, gen.TrimDecisionsParams{MaxBytes: bytes, MaxRows: int32(limit)})
}
