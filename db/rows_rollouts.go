package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// InsertRollout implements console.RolloutRows.
func (t tx) InsertRollout(ctx context.Context, r console.Rollout, authorID string) error {
	return t.q.InsertRollout(ctx, gen.InsertRolloutParams{
		Version: r.Version, Base: r.Base, CanaryCount: int32(r.Plan.Count), Zone: r.Plan.Zone, HoldMs: r.Plan.Hold.Milliseconds(),
		Promote: r.Plan.Promote, MaxRefusedRise: r.Plan.MaxRefusedRise, Replicas: r.Replicas, AuthorID: authorID, Author: r.Author,
		StartedAt: r.StartedAt,
	})
}

func rolloutOf(r gen.Rollout) console.Rollout {
	return console.Rollout{
		Version: r.Version, Base: r.Base, Replicas: r.Replicas, State: console.RolloutState(r.State), Author: r.Author,
		Plan: console.CanaryPlan{
			Count: int(r.CanaryCount), Zone: r.Zone, Hold: time.Duration(r.HoldMs) * time.Millisecond, Promote: r.Promote,
			MaxRefusedRise: r.MaxRefusedRise,
		},
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, EndReason: r.EndReason, By: r.EndedBy, Successor: r.Successor,
	}
}

// RunningRollout implements console.RolloutRows.
func (t tx) RunningRollout(ctx context.Context) (console.Rollout, error) {
	r, err := t.q.GetRunningRollout(ctx)
	return rolloutOf(r), absent(err, "canary")
}

// Rollout implements console.RolloutRows.
func (t tx) Rollout(ctx context.Context, version int64) (console.Rollout, error) {
	r, err := t.q.GetRollout(ctx, version)
	return rolloutOf(r), absent(err, "canary")
}

// Rollouts implements console.RolloutRows.
func (t tx) Rollouts(ctx context.Context, limit int) ([]console.Rollout, error) {
	rows, err := t.q.ListRollouts(ctx, int32(limit))
	return each(rows, rolloutOf), err
}

// EndRollout implements console.RolloutRows.
func (t tx) EndRollout(ctx context.Context, r console.Rollout) (bool, error) {
	n, err := t.q.EndRollout(ctx, gen.EndRolloutParams{
		State: string(r.State), Now: r.EndedAt, Reason: r.EndReason, EndedBy: r.By, Successor: r.Successor, Version: r.Version,
	})
	return n == 1, err
}

// HighestVersion implements console.RolloutVersions.
func (t tx) HighestVersion(ctx context.Context) (int64, error) { return t.q.HighestVersion(ctx) }

// VersionDigests implements console.RolloutVersions.
func (t tx) VersionDigests(ctx context.Context, numbers []int64) (map[int64]string, error) {
	rows, err := t.q.ListVersionDigests(ctx, numbers)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]string, len(rows))
	for _, r := range rows {
		out[r.Number] = r.Digest
	}
	return out, nil
}

// VersionMark implements console.RolloutVersions.
func (t tx) VersionMark(ctx context.Context, number int64) (console.VersionMark, error) {
	r, err := t.q.GetVersionMark(ctx, number)
	return console.VersionMark{Number: r.Number, Digest: r.Digest, CreatedAt: r.CreatedAt}, absent(err, "version")
}

// PutBeats implements console.BeatRows.
func (t tx) PutBeats(ctx context.Context, via string, beats []console.Beat) error {
	p := gen.PutBeatsParams{Via: via}
	for _, b := range beats {
		raw, err := json.Marshal(b.Heartbeat)
		if err != nil {
			return fmt.Errorf("encode heartbeat of %s: %w", b.ID, err)
		}
		p.Ids, p.Boots = append(p.Ids, b.ID), append(p.Boots, b.Boot)
		p.Beats, p.AgesMs = append(p.Beats, string(raw)), append(p.AgesMs, b.Age.Milliseconds())
	}
	return t.q.PutBeats(ctx, p)
}

// Beats implements console.BeatRows.
func (t tx) Beats(ctx context.Context, within time.Duration, limit int) ([]console.Beat, error) {
	rows, err := t.q.ListBeats(ctx, gen.ListBeatsParams{WithinMs: within.Milliseconds(), MaxRows: int32(limit)})
	if err != nil {
		return nil, err
	}
	out := make([]console.Beat, len(rows))
	for i, r := range rows {
		out[i] = console.Beat{Via: r.Via, Age: max(time.Duration(r.AgeMs)*time.Millisecond, 0)}
		if err := json.Unmarshal(r.Beat, &out[i].Heartbeat); err != nil {
			return nil, fmt.Errorf("decode heartbeat of %s: %w", r.ID, err)
		}
	}
	return out, nil
}

// CountBeats implements console.BeatRows.
func (t tx) CountBeats(ctx context.Context, within, held time.Duration) (live, rows int, err error) {
	r, err := t.q.CountBeats(ctx, gen.CountBeatsParams{WithinMs: within.Milliseconds(), HeldMs: held.Milliseconds()})
	return int(r.Live), int(r.Held), err
}

// HasBeat implements console.BeatRows.
func (t tx) HasBeat(ctx context.Context, id string) (bool, error) { return t.q.HasBeat(ctx, id) }

// DeleteOldBeats implements console.BeatRows.
func (t tx) DeleteOldBeats(ctx context.Context, older time.Duration) error {
	return t.q.DeleteOldBeats(ctx, older.Milliseconds())
}
