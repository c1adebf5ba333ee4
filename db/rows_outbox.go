package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

func outboxOf(r gen.Outbox) console.OutboxRow {
	return console.OutboxRow{
		ID: r.ID, Kind: console.OutboxKind(r.Kind), Ref: r.Ref, CreatedAt: r.CreatedAt, DoneAt: r.DoneAt, Bulk: r.Bulk,
		Place: policy.Place{Epoch: r.Epoch, Seq: r.Seq}, Result: r.Result, Attempts: int(r.Attempts), LastError: r.LastError,
	}
}

// InsertOutbox implements console.OutboxRows.
func (t tx) InsertOutbox(ctx context.Context, kind console.OutboxKind, ref string, now time.Time) (int64, error) {
	return t.q.InsertOutbox(ctx, gen.InsertOutboxParams{Kind: string(kind), Ref: ref, Now: now})
}

// InsertBulkOutbox implements console.OutboxRows.
func (t tx) InsertBulkOutbox(ctx context.Context, kind console.OutboxKind, refs []string, now time.Time) error {
	return t.q.InsertBulkOutbox(ctx, gen.InsertBulkOutboxParams{Kind: string(kind), Refs: orEmpty(refs), Now: now})
}

// Outbox implements console.OutboxRows.
func (t tx) Outbox(ctx context.Context, id int64) (console.OutboxRow, error) {
	r, err := t.q.GetOutbox(ctx, id)
	return outboxOf(r), absent(err, "change")
}

// PendingOutbox implements console.OutboxRows.
func (t tx) PendingOutbox(ctx context.Context, limit int) ([]console.OutboxRow, error) {
	rows, err := t.q.ListPendingOutbox(ctx, int32(limit))
	return each(rows, outboxOf), err
}

// CountPendingOutbox implements console.OutboxRows.
func (t tx) CountPendingOutbox(ctx context.Context) (int64, error) {
	return t.q.CountPendingOutbox(ctx)
}

// FinishOutbox implements console.OutboxResults.
func (t tx) FinishOutbox(ctx context.Context, ids []int64, place policy.Place, result string, now time.Time) error {
	return t.q.FinishOutbox(ctx, gen.FinishOutboxParams{Ids: ids, Epoch: place.Epoch, Seq: place.Seq, Result: result, Now: &now})
}

// DeleteSentOutbox implements console.OutboxResults.
func (t tx) DeleteSentOutbox(ctx context.Context, ids []int64) error {
	return t.q.DeleteSentOutbox(ctx, ids)
}

// FailOutbox implements console.OutboxResults.
func (t tx) FailOutbox(ctx context.Context, ids []int64, problem string) error {
	return t.q.FailOutbox(ctx, gen.FailOutboxParams{Ids: ids, LastError: problem})
}

// DeleteDoneOutbox implements console.OutboxResults.
func (t tx) DeleteDoneOutbox(ctx context.Context, before time.Time, limit int) (int64, error) {
	return t.q.DeleteDoneOutbox(ctx, gen.DeleteDoneOutboxParams{Before: before, MaxRows: int32(limit)})
}
