package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// PutWriter implements console.WriterRows.
func (t tx) PutWriter(ctx context.Context, draft string, a console.Actor, now time.Time) error {
	return t.q.InsertWriter(ctx, gen.InsertWriterParams{
		DraftID: draft, ActorID: a.ID, Actor: a.Name, Role: string(a.Role), Via: a.Via, IP: a.IP, RequestID: a.RequestID, LoggedAt: now,
	})
}

// AddSave implements console.WriterRows.
func (t tx) AddSave(ctx context.Context, draft string, a console.Actor, before []byte) error {
	return t.q.AddSave(ctx, gen.AddSaveParams{
		DraftID: draft, ActorID: a.ID, Actor: a.Name, Role: string(a.Role), Via: a.Via, IP: a.IP, RequestID: a.RequestID, Before: before,
	})
}

// Writers implements console.WriterRows.
func (t tx) Writers(ctx context.Context, draft string) ([]console.Writer, error) {
	rows, err := t.q.ListWriters(ctx, draft)
	return each(rows, func(r gen.DraftWriter) console.Writer {
		return console.Writer{
			Actor:    console.Actor{ID: r.ActorID, Name: r.Actor, Role: console.Role(r.Role), Via: r.Via, IP: r.IP, RequestID: r.RequestID},
			LoggedAt: r.LoggedAt, Untold: int(r.Untold), Before: r.Before,
		}
	}), err
}

// TellSaves implements console.WriterRows.
func (t tx) TellSaves(ctx context.Context, draft, actorID string, now time.Time) error {
	return t.q.TellSaves(ctx, gen.TellSavesParams{DraftID: draft, ActorID: actorID, Now: now})
}

// UntoldDrafts implements console.WriterRows.
func (t tx) UntoldDrafts(ctx context.Context, before time.Time, limit int) ([]string, error) {
	return t.q.ListUntoldDrafts(ctx, gen.ListUntoldDraftsParams{Before: before, MaxRows: int32(limit)})
}

// InsertComment implements console.CommentRows.
func (t tx) InsertComment(ctx context.Context, c console.Comment, authorID string) error {
	return t.q.InsertComment(ctx, gen.InsertCommentParams{
		ID: c.ID, DraftID: c.Draft, AuthorID: authorID, Author: c.Author, Body: c.Text, CreatedAt: c.At,
	})
}

// Comments implements console.CommentRows.
func (t tx) Comments(ctx context.Context, draft string, limit int) ([]console.Comment, error) {
	rows, err := t.q.ListComments(ctx, gen.ListCommentsParams{DraftID: draft, MaxRows: int32(limit)})
	return each(rows, func(r gen.DraftComment) console.Comment {
		return console.Comment{ID: r.ID, Draft: r.DraftID, Author: r.Author, Text: r.Body, At: r.CreatedAt}
	}), err
}

// DeleteComments implements console.CommentRows.
func (t tx) DeleteComments(ctx context.Context, draft string) error {
	return t.q.DeleteComments(ctx, draft)
}

// PutApproval implements console.ApprovalRows.
func (t tx) PutApproval(ctx context.Context, draft string, a console.Approval) error {
	return t.q.PutApproval(ctx, gen.PutApprovalParams{
		DraftID: draft, ActorID: a.ActorID, Actor: a.Actor, Digest: a.Digest, Base: a.Base, Note: a.Note, CreatedAt: a.At,
	})
}

// DeleteApproval implements console.ApprovalRows.
func (t tx) DeleteApproval(ctx context.Context, draft, actorID string) (bool, error) {
	n, err := t.q.DeleteApproval(ctx, gen.DeleteApprovalParams{DraftID: draft, ActorID: actorID})
	return n == 1, err
}

func approvalOf(r gen.DraftApproval) console.Approval {
	return console.Approval{ActorID: r.ActorID, Actor: r.Actor, Digest: r.Digest, Base: r.Base, Note: r.Note, At: r.CreatedAt}
}

// Approvals implements console.ApprovalRows.
func (t tx) Approvals(ctx context.Context, draft string) ([]console.Approval, error) {
	rows, err := t.q.ListApprovals(ctx, draft)
	return each(rows, approvalOf), err
}

// ApprovalsOf implements console.ApprovalRows.
func (t tx) ApprovalsOf(ctx context.Context, digest string, base int64) ([]console.Approval, error) {
	rows, err := t.q.ListApprovalsOf(ctx, gen.ListApprovalsOfParams{Digest: digest, Base: base})
	return each(rows, approvalOf), err
}

// scheduleOptions is what of a publication's options is stored with a schedule.
type scheduleOptions struct {
	Confirmed map[string]string   `json:"confirmed,omitempty"`
	Canary    *console.CanaryPlan `json:"canary,omitempty"`
}

// PutSchedule implements console.ScheduleRows.
func (t tx) PutSchedule(ctx context.Context, s console.Schedule) error {
	options, err := json.Marshal(scheduleOptions{s.Confirmed, s.Canary})
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	return t.q.PutSchedule(ctx, gen.PutScheduleParams{
		DraftID: s.Draft, Etag: s.ETag, At: s.At, Note: s.Note, Options: options, AuthorID: s.AuthorID, Author: s.Author, CreatedAt: s.CreatedAt,
	})
}

// DeleteSchedule implements console.ScheduleRows.
func (t tx) DeleteSchedule(ctx context.Context, draft string) (bool, error) {
	n, err := t.q.DeleteSchedule(ctx, draft)
	return n == 1, err
}

func scheduleOf(r gen.DraftSchedule) (console.Schedule, error) {
	var o scheduleOptions
	if err := json.Unmarshal(r.Options, &o); err != nil {
		return console.Schedule{}, fmt.Errorf("decode options of the schedule of %s: %w", r.DraftID, err)
	}
	return console.Schedule{
		Draft: r.DraftID, ETag: r.Etag, At: r.At, Note: r.Note, Author: r.Author, AuthorID: r.AuthorID, Suspended: r.Suspended,
		CreatedAt: r.CreatedAt, Confirmed: o.Confirmed, Canary: o.Canary,
	}, nil
}

// Schedule implements console.ScheduleRows.
func (t tx) Schedule(ctx context.Context, draft string) (console.Schedule, error) {
	r, err := t.q.GetSchedule(ctx, draft)
	if err != nil {
		return console.Schedule{}, absent(err, "schedule")
	}
	return scheduleOf(r)
}

// Schedules implements console.ScheduleRows.
func (t tx) Schedules(ctx context.Context, limit int) ([]console.Schedule, error) {
	rows, err := t.q.ListSchedules(ctx, int32(limit))
	return decoded(rows, err, scheduleOf)
}

// DueSchedules implements console.ScheduleEnds.
func (t tx) DueSchedules(ctx context.Context, now time.Time, limit int) ([]console.Schedule, error) {
	rows, err := t.q.ListDueSchedules(ctx, gen.ListDueSchedulesParams{Now: now, MaxRows: int32(limit)})
	return decoded(rows, err, scheduleOf)
}

// SuspendSchedule implements console.ScheduleEnds.
func (t tx) SuspendSchedule(ctx context.Context, s console.Schedule, reason string) (bool, error) {
	n, err := t.q.SuspendSchedule(ctx, gen.SuspendScheduleParams{DraftID: s.Draft, CreatedAt: s.CreatedAt, Reason: reason})
	return n == 1, err
}

// Setting implements console.SettingRows.
func (t tx) Setting(ctx context.Context, name string) ([]byte, error) {
	b, err := t.q.GetSetting(ctx, name)
	return b, absent(err, "setting")
}

// PutSetting implements console.SettingRows.
func (t tx) PutSetting(ctx context.Context, name string, value []byte, now time.Time) error {
	return t.q.PutSetting(ctx, gen.PutSettingParams{Name: name, Value: value, Now: now})
}

// CountByPlan implements console.TenantPlans.
func (t tx) CountByPlan(ctx context.Context) (map[string]int64, error) {
	rows, err := t.q.CountTenantsByPlan(ctx)
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.Plan] = r.Tenants
	}
	return out, err
}

// PlansOf implements console.TenantPlans.
func (t tx) PlansOf(ctx context.Context, ids []string) (map[string]string, error) {
	rows, err := t.q.ListTenantPlans(ctx, orEmpty(ids))
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.ID] = r.Plan
	}
	return out, err
}

// FindTenant implements console.TenantPlans.
func (t tx) FindTenant(ctx context.Context, ref string) (console.Tenant, error) {
	r, err := t.q.FindTenant(ctx, ref)
	return tenantOf(r), absent(err, "tenant")
}
