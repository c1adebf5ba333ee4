package db

import (
	"context"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

func leakOf(r gen.LockLeakRow) console.LeakCase {
	l := r.LeakCase
	return console.LeakCase{
		ID: l.ID, KID: l.KID, TenantID: l.TenantID, TenantName: r.TenantName, State: console.LeakState(l.State), Source: l.Source, Kind: l.Kind,
		URL: l.URL, Note: l.Note, Done: l.Done, FoundAt: l.FoundAt, ClosedAt: l.ClosedAt, ClosedBy: l.ClosedBy, Reports: l.Reports,
	}
}

// InsertLeak implements console.LeakRows.
func (t tx) InsertLeak(ctx context.Context, c console.LeakCase) error {
	return t.q.InsertLeak(ctx, gen.InsertLeakParams{
		ID: c.ID, KID: c.KID, TenantID: c.TenantID, State: string(c.State), Source: c.Source, Kind: c.Kind, URL: c.URL, Note: c.Note,
		Done: c.Done, FoundAt: c.FoundAt, ClosedAt: c.ClosedAt, ClosedBy: c.ClosedBy,
	})
}

// UpdateLeak implements console.LeakRows.
func (t tx) UpdateLeak(ctx context.Context, c console.LeakCase) error {
	return t.q.UpdateLeak(ctx, gen.UpdateLeakParams{
		ID: c.ID, State: string(c.State), URL: c.URL, Note: c.Note, Done: c.Done, ClosedAt: c.ClosedAt, ClosedBy: c.ClosedBy, Reports: c.Reports,
	})
}

// LockLeak implements console.LeakRows.
func (t tx) LockLeak(ctx context.Context, id string) (console.LeakCase, error) {
	r, err := t.q.LockLeak(ctx, id)
	return leakOf(r), absent(err, "leak case")
}

// LockNewestLeak implements console.LeakRows.
func (t tx) LockNewestLeak(ctx context.Context, kid string) (console.LeakCase, error) {
	r, err := t.q.LockNewestLeak(ctx, kid)
	return leakOf(gen.LockLeakRow(r)), absent(err, "leak case")
}

// Leaks implements console.LeakLists.
func (t tx) Leaks(ctx context.Context, q console.LeakQuery, after console.Cursor, limit int) ([]console.LeakCase, error) {
	rows, err := t.q.ListLeaks(ctx, gen.ListLeaksParams{State: string(q.State), KID: q.KID, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListLeaksRow) console.LeakCase { return leakOf(gen.LockLeakRow(r)) }), err
}

// CountOpenLeaks implements console.LeakLists.
func (t tx) CountOpenLeaks(ctx context.Context) (int64, error) { return t.q.CountOpenLeaks(ctx) }
