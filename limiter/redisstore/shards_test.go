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

// TestShards_OthersAreAskedBeforeTheyAreForgotten: where no request reaches them,
// nobody else would.
func TestShards_OthersAreAskedBeforeTheyAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	asked := 0
	s := shards{now: func() time.Time { return now }, others: func() { asked++ }}
	_ = s.leave(4, nil)
	fails := func(want int) {
		t.Helper()
		for range 10 {
			_ = s.leave(3, errDead)
		}
		if asked != want {
			t.Errorf("others were asked %d times, want %d", asked, want)
		}
	}
	fails(0) // one has just answered
	now = now.Add(othersServe / 2)
	fails(1)
	now = now.Add(othersServe / 2)
	fails(2)
	_ = s.leave(4, nil)
	now = now.Add(othersServe/2 - 1)
	fails(2)
}

func TestShards_ALaneAilsUntilItAnswers(t *testing.T) {
	t.Parallel()
	s := shards{now: time.Now}
	if s.ails(3) {
		t.Error("a lane ails that never failed")
	}
	_ = s.leave(3, errDead)
	if !s.ails(3) || s.ails(4) {
		t.Error("it is another lane that ails")
	}
	if _ = s.leave(3, nil); s.ails(3) {
		t.Error("a lane that answered still ails")
	}
}

// TestShards_WhoseTimeIsUpBeforeTheCallEndsBlamesTheShardToo, or the breaker would
// open for all before the call has ended.
func TestShards_WhoseTimeIsUpBeforeTheCallEndsBlamesTheShardToo(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	s := shards{now: func() time.Time { return now }}
	_ = s.leave(4, nil)
	if err := s.left(context.DeadlineExceeded); !errors.Is(err, limiter.ErrShard) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another lane has just answered: %v", err)
	}
	if err := s.left(context.Canceled); errors.Is(err, limiter.ErrShard) {
		t.Errorf("a caller who leaves: %v", err)
	}
	if s.ails(3) {
		t.Error("the lane ails although its call is under way")
	}
	now = now.Add(othersServe)
	if err := s.left(context.DeadlineExceeded); errors.Is(err, limiter.ErrShard) {
		t.Errorf("nobody has answered for a while: %v", err)
	}
}
