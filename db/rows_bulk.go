package db

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

func bulkOf(r gen.BulkJob) console.BulkRecord {
	out := console.BulkRecord{
		BulkJob: console.BulkJob{
			ID: r.ID, Kind: console.BulkKind(r.Kind), State: console.BulkState(r.State), Name: r.Name, Reason: r.Reason, Author: r.Author, AuthorID: r.AuthorID,
			Loaded: r.Loaded, Total: r.Total, Checked: r.Checked, WouldDo: r.WouldDo, WouldSkip: r.WouldSkip, Bad: r.Bad, Done: r.Done, Failed: r.Failed,
			Problem: r.Problem, RowsKept: r.RowsKept, CreatedAt: r.CreatedAt, CheckedAt: r.CheckedAt, StartedAt: r.StartedAt, StartedBy: r.StartedBy,
			EndedAt: r.EndedAt, EndedBy: r.EndedBy,
		},
		Num: r.Num, AuthorRole: console.Role(r.AuthorRole), AuthorVia: r.AuthorVia, IdempotencyKey: orZero(r.IdempotencyKey), InputDigest: r.InputDigest,
		Gathered: r.Gathered, Unreadable: r.Unreadable, Place: r.Place, Steps: r.Steps, LeaseOwner: r.LeaseOwner, LeaseUntil: r.LeaseUntil,
		StartedByID: r.StartedByID, StartedRole: console.Role(r.StartedRole),
	}
	_ = json.Unmarshal(r.Selection, &out.Selection) // InsertBulk wrote it
	return out
}

// InsertBulk implements console.BulkRows.
func (t tx) InsertBulk(ctx context.Context, r console.BulkRecord) (int64, error) {
	selection, err := json.Marshal(r.Selection)
	if err != nil {
		return 0, fmt.Errorf("encode selection: %w", err)
	}
	return t.q.InsertBulkJob(ctx, gen.InsertBulkJobParams{
		ID: r.ID, Kind: string(r.Kind), State: string(r.State), Name: r.Name, Reason: r.Reason, Selection: selection, Author: r.Author, AuthorID: r.AuthorID,
		AuthorRole: string(r.AuthorRole), AuthorVia: r.AuthorVia, IdempotencyKey: orNull(r.IdempotencyKey), LeaseOwner: r.LeaseOwner, LeaseUntil: r.LeaseUntil,
		CreatedAt: r.CreatedAt,
	})
}

// UpdateBulk implements console.BulkRows.
func (t tx) UpdateBulk(ctx context.Context, r console.BulkRecord) error {
	return t.q.UpdateBulkJob(ctx, gen.UpdateBulkJobParams{
		Num: r.Num, State: string(r.State), IdempotencyKey: orNull(r.IdempotencyKey), InputDigest: r.InputDigest, Loaded: r.Loaded, Gathered: r.Gathered,
		Total: r.Total, Unreadable: r.Unreadable, Place: r.Place, Checked: r.Checked, WouldDo: r.WouldDo, WouldSkip: r.WouldSkip, Bad: r.Bad, Done: r.Done,
		Failed: r.Failed, Steps: r.Steps, Problem: r.Problem, LeaseOwner: r.LeaseOwner, LeaseUntil: r.LeaseUntil, CheckedAt: r.CheckedAt,
		StartedAt: r.StartedAt, StartedBy: r.StartedBy, StartedByID: r.StartedByID, StartedRole: string(r.StartedRole), EndedAt: r.EndedAt, EndedBy: r.EndedBy,
	})
}

// Bulk implements console.BulkRows.
func (t tx) Bulk(ctx context.Context, id string) (console.BulkRecord, error) {
	r, err := t.q.GetBulkJob(ctx, id)
	return bulkOf(r), absent(err, "bulk job")
}

// LockBulk implements console.BulkRows.
func (t tx) LockBulk(ctx context.Context, id string) (console.BulkRecord, error) {
	r, err := t.q.LockBulkJob(ctx, id)
	return bulkOf(r), absent(err, "bulk job")
}

// Bulks implements console.BulkLists.
func (t tx) Bulks(ctx context.Context, q console.BulkQuery, after console.Cursor, limit int) ([]console.BulkRecord, error) {
	rows, err := t.q.ListBulkJobs(ctx, gen.ListBulkJobsParams{
		State: string(q.State), Kind: string(q.Kind), AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, bulkOf), err
}

// BulkByKey implements console.BulkLists.
func (t tx) BulkByKey(ctx context.Context, authorID, key string) (console.BulkRecord, error) {
	r, err := t.q.GetBulkJobByKey(ctx, gen.GetBulkJobByKeyParams{AuthorID: authorID, IdempotencyKey: key})
	return bulkOf(r), absent(err, "bulk job")
}

// ClaimBulk implements console.BulkLists.
func (t tx) ClaimBulk(ctx context.Context, owner string, now, until time.Time) (console.BulkRecord, error) {
	r, err := t.q.ClaimBulkJob(ctx, gen.ClaimBulkJobParams{Owner: owner, Now: &now, Until: &until})
	return bulkOf(r), absent(err, "bulk job that waits")
}

// BulkRowsOf implements console.BulkLists. Rows without a mark are told by the
// job's place: before it they are checked or done, behind it not yet.
func (t tx) BulkRowsOf(ctx context.Context, r console.BulkRecord, outcome string, afterLine int64, limit int) ([]console.BulkRow, error) {
	switch outcome {
	case console.RowBad, console.RowFailed, console.RowWouldSkip:
		rows, err := t.q.ListMarkedBulkRows(ctx, gen.ListMarkedBulkRowsParams{Job: r.Num, Outcome: outcome, After: afterLine, MaxRows: int32(limit)})
		return each(rows, func(m gen.ListMarkedBulkRowsRow) console.BulkRow {
			return console.BulkRow{Line: m.Line, Subject: subjectOf(m.Subject, m.Name), Outcome: m.Outcome, Message: m.Message}
		}), err
	}
	arg := gen.ListBulkRowsParams{Job: r.Num, After: afterLine, Through: math.MaxInt64, Unmarked: outcome != "", MaxRows: int32(limit)}
	ran := r.StartedAt != nil
	switch {
	case outcome == console.RowDone && ran, outcome == console.RowWouldDo && !ran:
		arg.Through = r.Place
	case outcome == console.RowWouldDo:
		arg.After = max(afterLine, r.Place)
	case outcome == console.RowDone:
		return nil, nil
	}
	rows, err := t.q.ListBulkRows(ctx, arg)
	return each(rows, func(b gen.ListBulkRowsRow) console.BulkRow {
		out := console.BulkRow{Line: b.Line, Subject: subjectOf(b.Subject, b.Name), Outcome: b.Outcome, Message: b.Message}
		if out.Outcome == "" {
			out.Outcome, out.Message = unmarked(b.Line <= r.Place, ran), b.Note
		}
		return out
	}), err
}

// unmarked is the outcome of a row without a mark.
func unmarked(reached, ran bool) string {
	switch {
	case reached && ran:
		return console.RowDone
	case reached, ran:
		return console.RowWouldDo
	}
	return console.RowPending
}

func subjectOf(subject, name string) string {
	if subject == "" {
		return name
	}
	return subject
}

// BulkPlans implements console.BulkLists.
func (t tx) BulkPlans(ctx context.Context, job int64) (map[string]int64, error) {
	rows, err := t.q.CountBulkPlans(ctx, job)
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.Plan] = r.Tenants
	}
	return out, err
}

// PutBulkInput implements console.BulkInputs.
func (t tx) PutBulkInput(ctx context.Context, job int64, rows []console.BulkInput) error {
	if err := t.q.PlanChecksOnce(ctx); err != nil {
		return err
	}
	_, err := t.q.CopyBulkRows(ctx, each(rows, func(r console.BulkInput) gen.CopyBulkRowsParams {
		return gen.CopyBulkRowsParams{
			Job: job, Line: r.Line, Subject: r.Subject, ObjectID: r.ObjectID, Tenant: r.Tenant, Name: r.Name, Environment: r.Environment, Digest: r.Digest,
			Scopes: orEmpty(r.Scopes), ExpiresAt: r.ExpiresAt, Plan: r.Plan, TimeZone: r.TimeZone, Note: r.Note,
		}
	}))
	return err
}

// PutBulkMarks implements console.BulkInputs.
func (t tx) PutBulkMarks(ctx context.Context, job int64, marks []console.BulkMark) error {
	_, err := t.q.CopyBulkMarks(ctx, each(marks, func(m console.BulkMark) gen.CopyBulkMarksParams {
		return gen.CopyBulkMarksParams{Job: job, Line: m.Line, Outcome: m.Outcome, Message: m.Message, Unreadable: m.Unreadable}
	}))
	return err
}

// BulkCandidates implements console.BulkInputs.
func (t tx) BulkCandidates(ctx context.Context, kind console.BulkKind, s console.BulkSelection, after string, createdBefore *time.Time, limit int) ([]console.BulkCandidate, string, error) {
	if kind.OfTenants() {
		return t.tenantCandidates(ctx, s, after, limit)
	}
	span, err := t.q.GetBulkKeySpan(ctx, gen.GetBulkKeySpanParams{After: after, MaxRows: int32(limit)})
	if err != nil || span.Rows == 0 {
		return nil, "", err
	}
	rows, err := t.q.ListBulkKeys(ctx, gen.ListBulkKeysParams{
		After: after, Through: span.Through, Plan: s.Plan, Environment: s.Environment, Tenants: orEmpty(s.Tenants), Kids: orEmpty(s.KIDs),
		CreatedBefore: createdBefore,
	})
	return each(rows, func(r gen.ListBulkKeysRow) console.BulkCandidate {
		return console.BulkCandidate{ID: r.KID, Credential: r.CredentialID, Tenant: r.TenantID, Name: r.Name, CreatedAt: r.CreatedAt, NotAfter: r.NotAfter}
	}), nextAfter(span.Through, span.Rows, limit), err
}

func (t tx) tenantCandidates(ctx context.Context, s console.BulkSelection, after string, limit int) ([]console.BulkCandidate, string, error) {
	span, err := t.q.GetBulkTenantSpan(ctx, gen.GetBulkTenantSpanParams{After: after, MaxRows: int32(limit)})
	if err != nil || span.Rows == 0 {
		return nil, "", err
	}
	rows, err := t.q.ListBulkTenants(ctx, gen.ListBulkTenantsParams{After: after, Through: span.Through, Plan: s.Plan, Tenants: orEmpty(s.Tenants)})
	return each(rows, func(r gen.ListBulkTenantsRow) console.BulkCandidate {
		return console.BulkCandidate{ID: r.ID, Tenant: r.ID, Name: r.Name, Plan: r.Plan}
	}), nextAfter(span.Through, span.Rows, limit), err
}

// nextAfter is where the next span begins; "" after the last one.
func nextAfter(through string, rows int64, limit int) string {
	if rows < int64(limit) {
		return ""
	}
	return through
}

// DropBulkRows implements console.BulkInputs.
func (t tx) DropBulkRows(ctx context.Context, before time.Time, limit int) (bool, error) {
	job, err := t.q.GetOldBulkJob(ctx, before)
	if err = absent(err, "old bulk job"); err != nil {
		if console.IsNotFound(err) {
			return false, nil
		}
		return false, err
	}
	n, err := t.q.DeleteBulkMarks(ctx, gen.DeleteBulkMarksParams{Job: job, MaxRows: int32(limit)})
	if err != nil || n > 0 {
		return true, err
	}
	n, err = t.q.DeleteBulkRows(ctx, gen.DeleteBulkRowsParams{Job: job, MaxRows: int32(limit)})
	if err != nil || n > 0 {
		return true, err
	}
	return true, t.q.ForgetBulkRows(ctx, job)
}

// BulkSpanOf implements console.BulkSteps.
func (t tx) BulkSpanOf(ctx context.Context, job, afterLine int64, limit int) (console.BulkSpan, int64, error) {
	r, err := t.q.GetBulkSpan(ctx, gen.GetBulkSpanParams{Job: job, After: afterLine, MaxRows: int32(limit)})
	return console.BulkSpan{Job: job, After: afterLine, Through: r.Through}, r.Rows, err
}

// BulkSubjects implements console.BulkSteps.
func (t tx) BulkSubjects(ctx context.Context, s console.BulkSpan, marked bool) ([]console.BulkRow, error) {
	rows, err := t.q.ListBulkSubjects(ctx, gen.ListBulkSubjectsParams{Job: s.Job, After: s.After, Through: s.Through, Marked: marked})
	return each(rows, func(r gen.ListBulkSubjectsRow) console.BulkRow {
		return console.BulkRow{Line: r.Line, Subject: r.Subject}
	}), err
}

// ClearBulkMarks implements console.BulkSteps.
func (t tx) ClearBulkMarks(ctx context.Context, s console.BulkSpan) error {
	return t.q.ClearBulkMarks(ctx, gen.ClearBulkMarksParams{Job: s.Job, After: s.After, Through: s.Through})
}

// CountBulkMarks implements console.BulkDeeds.
func (t tx) CountBulkMarks(ctx context.Context, s console.BulkSpan) (map[string]int64, error) {
	rows, err := t.q.CountBulkMarks(ctx, gen.CountBulkMarksParams{Job: s.Job, After: s.After, Through: s.Through})
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.Outcome] = r.Rows
	}
	return out, err
}
