package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

func brownoutOfKey(v gen.KeyVersion) *policy.Brownout {
	if v.BrownoutFrom == nil || v.BrownoutUntil == nil {
		return nil
	}
	return &policy.Brownout{Network: orZero(v.BrownoutNetwork), From: *v.BrownoutFrom, Until: *v.BrownoutUntil}
}

func brownoutColumns(b *policy.Brownout) (network *string, from, until *time.Time) {
	if b == nil {
		return nil, nil, nil
	}
	return &b.Network, &b.From, &b.Until
}

// ShownKeys implements console.KeyStanding.
func (t tx) ShownKeys(ctx context.Context, q console.KeyQuery, now time.Time, after console.Cursor, limit int) ([]console.KeyVersion, error) {
	switch q.Show {
	case console.ShowUnused:
		rows, err := t.q.ListKeysIdle(ctx, gen.ListKeysIdleParams{
			IdleBefore: now.Add(-console.UnusedAfter),
			Q:          q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListKeysIdleRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
	case console.ShowRetiringUsed:
		rows, err := t.q.ListKeysRetiringUsed(ctx, gen.ListKeysRetiringUsedParams{
			Q: q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListKeysRetiringUsedRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
	case console.ShowNever:
		rows, err := t.q.ListKeysNeverUsed(ctx, gen.ListKeysNeverUsedParams{
			Q: q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListKeysNeverUsedRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
	case console.ShowExpiring:
		rows, err := t.q.ListKeysExpiring(ctx, gen.ListKeysExpiringParams{
			Until: now.Add(console.ExpiringWithin),
			Q:     q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListKeysExpiringRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
	case console.ShowCompromised:
		rows, err := t.q.ListKeysLeaked(ctx, gen.ListKeysLeakedParams{
			Q: q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListKeysLeakedRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
	}
	return nil, nil
}

// TouchKeys implements console.KeyStanding.
func (t tx) TouchKeys(ctx context.Context, kids []string, ats []time.Time) error {
	return t.q.TouchKeys(ctx, gen.TouchKeysParams{Kids: orEmpty(kids), Ats: ats})
}

// MarkKeyLeaked implements console.KeyStanding.
func (t tx) MarkKeyLeaked(ctx context.Context, kid string) error { return t.q.MarkKeyLeaked(ctx, kid) }

// InsertBrownout implements console.BrownoutRows.
func (t tx) InsertBrownout(ctx context.Context, b console.Brownout) error {
	return t.q.InsertBrownout(ctx, gen.InsertBrownoutParams{
		ID: b.ID, RotationID: b.RotationID, KID: b.KID, TenantID: b.TenantID, Network: b.Network, FromAt: b.From, UntilAt: b.Until,
		AuthorID: b.AuthorID, Author: b.Author, Reason: b.Reason,
	})
}

// StopBrownouts implements console.BrownoutRows.
func (t tx) StopBrownouts(ctx context.Context, rotationID string, now time.Time) error {
	return t.q.StopBrownouts(ctx, gen.StopBrownoutsParams{RotationID: rotationID, Now: &now})
}

// Brownouts implements console.BrownoutRows.
func (t tx) Brownouts(ctx context.Context, rotationID string) ([]console.Brownout, error) {
	rows, err := t.q.ListBrownouts(ctx, rotationID)
	return each(rows, func(r gen.Brownout) console.Brownout {
		return console.Brownout{
			ID: r.ID, RotationID: r.RotationID, KID: r.KID, TenantID: r.TenantID, Network: r.Network, From: r.FromAt, Until: r.UntilAt,
			StoppedAt: r.StoppedAt, Author: r.Author, AuthorID: r.AuthorID, Reason: r.Reason,
		}
	}), err
}
