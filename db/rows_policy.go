package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

// InsertDraft implements console.DraftRows.
func (t tx) InsertDraft(ctx context.Context, d console.Draft) error {
	return t.q.InsertDraft(ctx, gen.InsertDraftParams{
		ID: d.ID, Name: d.Name, Base: d.Base, Source: d.Source, Tests: d.Tests, Etag: d.ETag, AuthorID: d.AuthorID, Author: d.Author,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	})
}

func draftOf(r gen.Draft) console.Draft {
	return console.Draft{
		ID: r.ID, Name: r.Name, Base: r.Base, Source: r.Source, Tests: r.Tests, ETag: r.Etag, AuthorID: r.AuthorID, Author: r.Author,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Draft implements console.DraftRows.
func (t tx) Draft(ctx context.Context, id string) (console.Draft, error) {
	r, err := t.q.GetDraft(ctx, id)
	return draftOf(r), absent(err, "draft")
}

// LockDraft implements console.DraftRows.
func (t tx) LockDraft(ctx context.Context, id string) (console.Draft, error) {
	r, err := t.q.LockDraft(ctx, id)
	return draftOf(r), absent(err, "draft")
}

// Drafts implements console.DraftLists.
func (t tx) Drafts(ctx context.Context, limit int) ([]console.Draft, error) {
	rows, err := t.q.ListDrafts(ctx, int32(limit))
	return each(rows, func(r gen.ListDraftsRow) console.Draft {
		return console.Draft{
			ID: r.ID, Name: r.Name, Base: r.Base, ETag: r.Etag, AuthorID: r.AuthorID, Author: r.Author, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}
	}), err
}

// UpdateDraft implements console.DraftRows.
func (t tx) UpdateDraft(ctx context.Context, d console.Draft, etag string) (bool, error) {
	n, err := t.q.UpdateDraft(ctx, gen.UpdateDraftParams{
		ID: d.ID, Name: d.Name, Base: d.Base, Source: d.Source, Tests: d.Tests, NewEtag: d.ETag, UpdatedAt: d.UpdatedAt, Etag: etag,
	})
	return n == 1, err
}

// DeleteDraft implements console.DraftRows.
func (t tx) DeleteDraft(ctx context.Context, id, etag string) (bool, error) {
	n, err := t.q.DeleteDraft(ctx, gen.DeleteDraftParams{ID: id, Etag: etag})
	return n == 1, err
}

// CountDrafts implements console.DraftRows.
func (t tx) CountDrafts(ctx context.Context) (int64, error) { return t.q.CountDrafts(ctx) }

// InsertVersion implements console.VersionRows.
func (t tx) InsertVersion(ctx context.Context, v console.Version) error {
	changes, err := json.Marshal(v.Changes)
	if err != nil {
		return fmt.Errorf("encode changes: %w", err)
	}
	proof, err := json.Marshal(v.Proof)
	if err != nil {
		return fmt.Errorf("encode proof: %w", err)
	}
	return t.q.InsertVersion(ctx, gen.InsertVersionParams{
		Number: v.Number, Digest: v.Digest, Parent: v.Parent, Body: v.Body, Changes: changes, Note: v.Note, AuthorID: v.AuthorID,
		Author: v.Author, Kind: string(v.Kind), RollbackOf: orNull(v.RollbackOf), CreatedAt: v.CreatedAt, Tests: v.Tests, Proof: proof,
	})
}

func changesOf[T any](b []byte) (out []T, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("decode changes: %w", err)
	}
	return out, nil
}

func versionOf(r gen.PolicyVersion) (console.Version, error) {
	v := console.Version{
		Number: r.Number, Digest: r.Digest, Parent: r.Parent, Body: r.Body, Note: r.Note, AuthorID: r.AuthorID, Author: r.Author,
		Kind: console.VersionKind(r.Kind), RollbackOf: orZero(r.RollbackOf), CreatedAt: r.CreatedAt, Tests: r.Tests,
	}
	var err error
	if v.Changes, err = changesOf[console.RatedChange](r.Changes); err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.Proof, &v.Proof); err != nil {
		return v, fmt.Errorf("decode proof of version %d: %w", r.Number, err)
	}
	return v, nil
}

// Version implements console.VersionRows.
func (t tx) Version(ctx context.Context, number int64) (console.Version, error) {
	r, err := t.q.GetVersion(ctx, number)
	if err != nil {
		return console.Version{}, absent(err, "version")
	}
	return versionOf(r)
}

// Versions implements console.VersionRows.
func (t tx) Versions(ctx context.Context, before int64, limit int) ([]console.Version, error) {
	rows, err := t.q.ListVersions(ctx, gen.ListVersionsParams{Before: before, MaxRows: int32(limit)})
	return decoded(rows, err, func(r gen.ListVersionsRow) (console.Version, error) {
		return versionOf(gen.PolicyVersion{
			Number: r.Number, Digest: r.Digest, Parent: r.Parent, Changes: r.Changes, Note: r.Note, AuthorID: r.AuthorID,
			Author: r.Author, Kind: r.Kind, RollbackOf: r.RollbackOf, CreatedAt: r.CreatedAt, Proof: r.Proof,
		})
	})
}

// Head implements console.HeadRow.
func (t tx) Head(ctx context.Context) (console.Version, error) {
	r, err := t.q.GetHead(ctx)
	if err != nil {
		return console.Version{}, absent(err, "version")
	}
	return versionOf(r)
}

// HeadNumber implements console.HeadRow.
func (t tx) HeadNumber(ctx context.Context) (int64, string, error) {
	r, err := t.q.GetHeadNumber(ctx)
	return r.Number, r.Digest, absent(err, "version")
}

// LockHead implements console.HeadRow.
func (t tx) LockHead(ctx context.Context) (int64, error) {
	n, err := t.q.LockHead(ctx)
	return orZero(n), err
}

// ShareHead implements console.HeadRow.
func (t tx) ShareHead(ctx context.Context) (int64, error) {
	n, err := t.q.ShareHead(ctx)
	return orZero(n), err
}

// SetHead implements console.HeadRow.
func (t tx) SetHead(ctx context.Context, number int64, now time.Time) error {
	return t.q.SetHead(ctx, gen.SetHeadParams{Number: &number, Now: &now})
}

// FeedPlace implements console.OutboxResults.
func (t tx) FeedPlace(ctx context.Context) (policy.Place, error) {
	r, err := t.q.GetFeedPlace(ctx)
	return policy.Place{Epoch: r.Epoch, Seq: r.Seq}, err
}

// SetFeedPlace implements console.OutboxResults.
func (t tx) SetFeedPlace(ctx context.Context, p policy.Place, now time.Time) error {
	return t.q.SetFeedPlace(ctx, gen.SetFeedPlaceParams{Epoch: p.Epoch, Seq: p.Seq, Now: &now})
}

// LockAuditHead implements console.AuditRows.
func (t tx) LockAuditHead(ctx context.Context) (int64, []byte, error) {
	if err := t.q.LockAudit(ctx); err != nil {
		return 0, nil, err
	}
	r, err := t.q.GetAuditHead(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, make([]byte, 32), nil
	}
	return r.Seq, r.Hash, err
}

// InsertAudit implements console.AuditRows.
func (t tx) InsertAudit(ctx context.Context, e console.AuditEvent) error {
	var changes []byte
	if e.Changes != nil {
		var err error
		if changes, err = json.Marshal(e.Changes); err != nil {
			return fmt.Errorf("encode changes: %w", err)
		}
	}
	return t.q.InsertAudit(ctx, gen.InsertAuditParams{
		Seq: e.Seq, At: e.At, ActorID: e.ActorID, Actor: e.Actor, Role: string(e.Role), Via: e.Via, Action: e.Action, Object: e.Object,
		ObjectID: e.ObjectID, TenantID: e.TenantID, Before: e.Before, After: e.After, Changes: changes, Reason: e.Reason, IP: e.IP,
		RequestID: e.RequestID, PrevHash: e.PrevHash, Hash: e.Hash,
	})
}

func auditOf(rows []gen.AuditEvent, err error) ([]console.AuditEvent, error) {
	if err != nil {
		return nil, err
	}
	out := make([]console.AuditEvent, len(rows))
	for i, r := range rows {
		changes, err := changesOf[policy.Change](r.Changes)
		if err != nil {
			return nil, err
		}
		out[i] = console.AuditEvent{
			Seq: r.Seq, At: r.At, ActorID: r.ActorID, Actor: r.Actor, Role: console.Role(r.Role), Via: r.Via, Action: r.Action,
			Object: r.Object, ObjectID: r.ObjectID, TenantID: r.TenantID, Before: r.Before, After: r.After, Changes: changes,
			Reason: r.Reason, IP: r.IP, RequestID: r.RequestID, PrevHash: r.PrevHash, Hash: r.Hash,
		}
	}
	return out, nil
}

// AuditForward implements console.AuditRows.
func (t tx) AuditForward(ctx context.Context, afterSeq int64, limit int) ([]console.AuditEvent, error) {
	return auditOf(t.q.ListAuditForward(ctx, gen.ListAuditForwardParams{AfterSeq: afterSeq, MaxRows: int32(limit)}))
}
