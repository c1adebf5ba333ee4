package db_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func TestRollouts_OneRunsAndEndsOnce(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	body := []byte(`{}`)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		for n := int64(1); n <= 3; n++ {
			v := console.Version{Number: n, Digest: policy.DigestOf(body), Body: body, Kind: console.KindPublish, Author: "Ann", AuthorID: "opr_x", CreatedAt: now}
			if err := tx.InsertVersion(ctx, v); err != nil {
				return err
			}
		}
		return tx.SetHead(ctx, 1, now)
	})
	want := console.Rollout{
		Version: 2, Base: 1, Plan: console.CanaryPlan{Count: 2, Hold: time.Minute, Promote: true, MaxRefusedRise: 0.05},
		Replicas: []string{"gw_a", "gw_b"}, State: console.RolloutRunning, Author: "Ann", StartedAt: now,
	}
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		if _, err := tx.RunningRollout(ctx); !console.IsNotFound(err) {
			t.Errorf("before any: %v", err)
		}
		if err := tx.InsertRollout(ctx, want, "opr_x"); err != nil {
			return err
		}
		got, err := tx.RunningRollout(ctx)
		if got.Version != 2 || got.Plan != want.Plan || !slices.Equal(got.Replicas, want.Replicas) || !got.StartedAt.Equal(now) || got.State != want.State {
			t.Errorf("stored %+v", got)
		}
		if n, err := tx.HighestVersion(ctx); err != nil || n != 3 {
			t.Errorf("the highest is %d, %v", n, err)
		}
		digests, err2 := tx.VersionDigests(ctx, []int64{1, 3, 9})
		if err2 != nil || len(digests) != 2 || digests[3] != policy.DigestOf(body) {
			t.Errorf("digests %v, %v", digests, err2)
		}
		return err
	})
	second := want
	second.Version = 3
	err := s.InTx(t.Context(), func(tx console.Tx) error { return tx.InsertRollout(t.Context(), second, "opr_x") })
	if console.CodeOf(err) != console.CodeConflict {
		t.Errorf("a second one: %v", err)
	}
	ended := want
	ended.State, ended.EndedAt, ended.EndReason, ended.By, ended.Successor = console.RolloutStopped, &now, "enough", "Bea", 3
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		first, err := tx.EndRollout(ctx, ended)
		if err != nil || !first {
			t.Errorf("ended: %v, %v", first, err)
		}
		again, err := tx.EndRollout(ctx, ended)
		if err != nil || again {
			t.Errorf("ended again: %v, %v", again, err)
		}
		got, err := tx.Rollout(ctx, 2)
		if got.State != console.RolloutStopped || got.Successor != 3 || got.By != "Bea" || got.EndReason != "enough" || got.EndedAt == nil {
			t.Errorf("stored %+v", got)
		}
		list, err2 := tx.Rollouts(ctx, 10)
		if err2 != nil || len(list) != 1 {
			t.Errorf("%d canaries, %v", len(list), err2)
		}
		return err
	})
}

func TestBeats_TheYoungerOneOfEachWayIsKept(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	put := func(via string, version int64, age time.Duration) {
		t.Helper()
		in(t, s, func(ctx context.Context, tx console.Tx) error {
			return tx.PutBeats(ctx, via, []console.Beat{{Heartbeat: policy.Heartbeat{ID: "gw_a", Boot: "b", Version: version}, Age: age}})
		})
	}
	put(console.BeatRedis, 3, 0)
	put(console.BeatRedis, 2, 10*time.Second) // of a console that saw an older one
	put(console.BeatHTTPS, 4, 5*time.Second)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		got, err := tx.Beats(ctx, time.Minute, 10)
		if len(got) != 2 || got[0].Via != console.BeatRedis || got[0].Version != 3 || got[1].Via != console.BeatHTTPS || got[1].Version != 4 || got[1].Age < 5*time.Second {
			t.Errorf("%+v", got)
		}
		if young, err := tx.Beats(ctx, 4*time.Second, 10); err != nil || len(young) > 1 {
			t.Errorf("within 4 s: %+v, %v", young, err)
		}
		return err
	})
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		if err := tx.DeleteOldBeats(ctx, 0); err != nil {
			return err
		}
		got, err := tx.Beats(ctx, time.Hour, 10)
		if len(got) != 0 {
			t.Errorf("left over: %+v", got)
		}
		return err
	})
}
