package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// InsertReview implements console.ReviewRows.
func (t tx) InsertReview(ctx context.Context, r console.Review) error {
	missing, err := json.Marshal(r.Missing)
	if err != nil {
		return fmt.Errorf("encode what was missing: %w", err)
	}
	return t.q.InsertReview(ctx, gen.InsertReviewParams{
		Version: r.Version, AuthorID: r.AuthorID, Author: r.Author, Reason: r.Reason, Missing: missing, CreatedAt: r.At,
	})
}

func reviewOf(r gen.PolicyReview) (console.Review, error) {
	out := console.Review{
		Version: r.Version, Author: r.Author, AuthorID: r.AuthorID, Reason: r.Reason, At: r.CreatedAt,
		ClosedBy: r.ClosedBy, ClosedAt: r.ClosedAt, Note: r.Note,
	}
	if err := json.Unmarshal(r.Missing, &out.Missing); err != nil {
		return out, fmt.Errorf("decode what was missing of version %d: %w", r.Version, err)
	}
	return out, nil
}

// LockReview implements console.ReviewRows.
func (t tx) LockReview(ctx context.Context, version int64) (console.Review, error) {
	r, err := t.q.LockReview(ctx, version)
	if err != nil {
		return console.Review{}, absent(err, "review")
	}
	return reviewOf(r)
}

// Reviews implements console.ReviewRows.
func (t tx) Reviews(ctx context.Context, openOnly bool, limit int) ([]console.Review, error) {
	rows, err := t.q.ListReviews(ctx, gen.ListReviewsParams{OpenOnly: openOnly, MaxRows: int32(limit)})
	return decoded(rows, err, reviewOf)
}

// CountOpenReviews implements console.ReviewRows.
func (t tx) CountOpenReviews(ctx context.Context) (int64, error) { return t.q.CountOpenReviews(ctx) }

// CloseReview implements console.ReviewRows.
func (t tx) CloseReview(ctx context.Context, r console.Review, closerID string) error {
	return t.q.CloseReview(ctx, gen.CloseReviewParams{
		Version: r.Version, ClosedID: &closerID, ClosedBy: r.ClosedBy, ClosedAt: r.ClosedAt, Note: r.Note,
	})
}

// InsertTrial implements console.TrialRows.
func (t tx) InsertTrial(ctx context.Context, v console.Trial, authorID string) error {
	return t.q.InsertTrial(ctx, gen.InsertTrialParams{
		ID: v.ID, DraftID: v.Draft, Digest: v.Digest, Against: v.Against, FromAt: v.From, ToAt: v.To, AuthorID: authorID, Author: v.Author, CreatedAt: v.At,
	})
}

// SeeTrial implements console.TrialRows.
func (t tx) SeeTrial(ctx context.Context, id string, progress float64, now time.Time) error {
	return t.q.SeeTrial(ctx, gen.SeeTrialParams{ID: id, Progress: progress, Now: now})
}

// FinishTrial implements console.TrialRows.
func (t tx) FinishTrial(ctx context.Context, v console.Trial, now time.Time) error {
	var result []byte
	if v.Result != nil {
		var err error
		if result, err = json.Marshal(v.Result); err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
	}
	return t.q.FinishTrial(ctx, gen.FinishTrialParams{
		ID: v.ID, State: v.State, Progress: v.Progress, Problem: v.Problem, Result: result, Now: now,
	})
}

func trialOf(r gen.Trial) (console.Trial, error) {
	out := console.Trial{
		ID: r.ID, Draft: r.DraftID, Digest: r.Digest, Against: r.Against, From: r.FromAt, To: r.ToAt, State: r.State, Progress: r.Progress,
		Problem: r.Problem, Author: r.Author, At: r.CreatedAt, SeenAt: r.SeenAt,
	}
	if r.Result == nil {
		return out, nil
	}
	if err := json.Unmarshal(r.Result, &out.Result); err != nil {
		return out, fmt.Errorf("decode result of %s: %w", r.ID, err)
	}
	out.Result.From, out.Result.To = r.FromAt.UnixMicro(), r.ToAt.UnixMicro()
	return out, nil
}

// Trial implements console.TrialRows.
func (t tx) Trial(ctx context.Context, id string) (console.Trial, error) {
	r, err := t.q.GetTrial(ctx, id)
	if err != nil {
		return console.Trial{}, absent(err, "simulation")
	}
	return trialOf(r)
}

// Trials implements console.TrialLists.
func (t tx) Trials(ctx context.Context, draft string, limit int) ([]console.Trial, error) {
	rows, err := t.q.ListTrials(ctx, gen.ListTrialsParams{DraftID: draft, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListTrialsRow) console.Trial {
		return console.Trial{
			ID: r.ID, Draft: r.DraftID, Digest: r.Digest, Against: r.Against, From: r.FromAt, To: r.ToAt, State: r.State, Progress: r.Progress,
			Problem: r.Problem, Author: r.Author, At: r.CreatedAt, SeenAt: r.SeenAt,
		}
	}), err
}

// NewestTrial implements console.TrialLists.
func (t tx) NewestTrial(ctx context.Context, draft, digest string) (console.Trial, error) {
	r, err := t.q.NewestTrial(ctx, gen.NewestTrialParams{DraftID: draft, Digest: digest})
	if err != nil {
		return console.Trial{}, absent(err, "simulation")
	}
	return trialOf(r)
}

// DeleteOldTrials implements console.TrialLists.
func (t tx) DeleteOldTrials(ctx context.Context, before time.Time) error {
	return t.q.DeleteOldTrials(ctx, before)
}
