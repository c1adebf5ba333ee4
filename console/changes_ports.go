package console

import (
	"context"
	"time"
)

// Writer is somebody who wrote in a draft, and what of that the audit trail has
// not told yet.
type Writer struct {
	Actor    Actor
	LoggedAt time.Time // of the last event that told of their saves
	Untold   int       // saves since
	Before   []byte    // view of the draft before the first of these
}

// ChangeRows keeps what a change goes through from draft to version.
type ChangeRows interface {
	WriterRows
	CommentRows
	ApprovalRows
	ScheduleRows
	ReviewRows
	TrialRows
	SettingRows
}

// WriterRows keeps who wrote in drafts.
type WriterRows interface {
	// PutWriter notes a save that the audit trail tells now.
	PutWriter(ctx context.Context, draft string, actor Actor, now time.Time) error
	// AddSave notes one that it tells later; before is kept of the first of these.
	AddSave(ctx context.Context, draft string, actor Actor, before []byte) error
	Writers(ctx context.Context, draft string) ([]Writer, error)
	// TellSaves notes that the audit trail tells all of them now.
	TellSaves(ctx context.Context, draft, actorID string, now time.Time) error
	// UntoldDrafts lists drafts with saves since before that nobody told.
	UntoldDrafts(ctx context.Context, before time.Time, limit int) ([]string, error)
}

// CommentRows keeps comments; they outlive a draft that was published.
type CommentRows interface {
	InsertComment(ctx context.Context, c Comment, authorID string) error
	Comments(ctx context.Context, draft string, limit int) ([]Comment, error)
	DeleteComments(ctx context.Context, draft string) error
}

// ApprovalRows keeps each person's last word on a draft. It goes with the draft.
type ApprovalRows interface {
	PutApproval(ctx context.Context, draft string, a Approval) error
	// DeleteApproval reports false when there was none.
	DeleteApproval(ctx context.Context, draft, actorID string) (bool, error)
	Approvals(ctx context.Context, draft string) ([]Approval, error)
	// ApprovalsOf lists approvals of one content, on whichever draft.
	ApprovalsOf(ctx context.Context, digest string, base int64) ([]Approval, error)
}

// ScheduleRows keeps schedules, at most one a draft. It goes with the draft.
type ScheduleRows interface {
	PutSchedule(ctx context.Context, s Schedule) error
	// DeleteSchedule reports false when there was none.
	DeleteSchedule(ctx context.Context, draft string) (bool, error)
	Schedule(ctx context.Context, draft string) (Schedule, error)
	Schedules(ctx context.Context, limit int) ([]Schedule, error)
	ScheduleEnds
}

// ScheduleEnds finds schedules that have to be looked at.
type ScheduleEnds interface {
	// DueSchedules lists those whose time has come, or whose draft or base is
	// another one by now.
	DueSchedules(ctx context.Context, now time.Time, limit int) ([]Schedule, error)
	// SuspendSchedule reports false when it was replaced or has ended meanwhile.
	SuspendSchedule(ctx context.Context, s Schedule, reason string) (bool, error)
}

// ReviewRows keeps reviews of publications by break-glass.
type ReviewRows interface {
	InsertReview(ctx context.Context, r Review) error
	LockReview(ctx context.Context, version int64) (Review, error)
	Reviews(ctx context.Context, openOnly bool, limit int) ([]Review, error)
	CountOpenReviews(ctx context.Context) (int64, error)
	// CloseReview refuses (CodeConflict) the author, and a review that is closed.
	CloseReview(ctx context.Context, r Review, closerID string) error
}

// TrialRows keeps simulations.
type TrialRows interface {
	InsertTrial(ctx context.Context, t Trial, authorID string) error
	// SeeTrial notes that it still runs.
	SeeTrial(ctx context.Context, id string, progress float64, now time.Time) error
	// FinishTrial writes State, Progress, Problem and Result of one that runs.
	FinishTrial(ctx context.Context, t Trial, now time.Time) error
	Trial(ctx context.Context, id string) (Trial, error)
	TrialLists
}

// TrialLists reads many simulations.
type TrialLists interface {
	// Trials lists the newest first, without results.
	Trials(ctx context.Context, draft string, limit int) ([]Trial, error)
	// NewestTrial is that of one document of a draft.
	NewestTrial(ctx context.Context, draft, digest string) (Trial, error)
	DeleteOldTrials(ctx context.Context, before time.Time) error
}

// SettingRows keeps settings, JSON by name.
type SettingRows interface {
	// Setting is CodeNotFound until it was set.
	Setting(ctx context.Context, name string) ([]byte, error)
	PutSetting(ctx context.Context, name string, value []byte, now time.Time) error
}
