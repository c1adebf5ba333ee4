package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
)

var errDead = errors.New("dead")

func TestShards_ALaneThatFailsIsLeftAloneButForAProbe(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	s := shards{now: func() time.Time { return now }}
	for range laneFailures {
		if err := s.enter(3); err != nil {
			t.Fatalf("left alone too soon: %v", err)
		}
		_ = s.leave(3, errDead)
	}
	if err := s.enter(3); !errors.Is(err, errPaused) || Cause(err) != "down" {
		t.Errorf("after %d failures: %v", laneFailures, err)
	}
	if err := s.enter(4); err != nil {
		t.Errorf("another lane: %v", err)
	}
	now = now.Add(lanePause)
	if err := s.enter(3); err != nil {
		t.Errorf("the probe is not let through: %v", err)
	}
	if err := s.enter(3); !errors.Is(err, errPaused) {
		t.Errorf("a second probe: %v", err)
	}
	if err := s.leave(3, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.enter(3); err != nil {
		t.Errorf("after an answer: %v", err)
	}
}

func TestShards_OnlyWhileOthersServeIsAFailureTheShardsOwn(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	s := shards{now: func() time.Time { return now }}
	if err := s.leave(3, errDead); errors.Is(err, limiter.ErrShard) || !errors.Is(err, errDead) {
		t.Errorf("nobody serves: %v", err)
	}
	_ = s.leave(4, nil)
	if err := s.leave(3, errDead); !errors.Is(err, limiter.ErrShard) || !errors.Is(err, errDead) {
		t.Errorf("another lane has just answered: %v", err)
	}
	now = now.Add(othersServe)
	if err := s.leave(3, errDead); errors.Is(err, limiter.ErrShard) {
		t.Errorf("nobody has answered for a while: %v", err)
	}
}

func TestShards_ACallerWhoLeavesSaysNothingOfTheLane(t *testing.T) {
	t.Parallel()
	s := shards{now: time.Now}
	for range 2 * laneFailures {
		_ = s.leave(3, context.Canceled)
	}
	if err := s.enter(3); err != nil {
		t.Error(err)
	}
}
