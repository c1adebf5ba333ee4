package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter"
)

// When a lane of a Cluster is left alone, and until when.
const (
	laneFailures = 5
	lanePause    = 250 * time.Millisecond
	// othersServe is how recent an answer of another lane must be for a failure to
	// be one of this lane's shard and not of the whole.
	othersServe = 250 * time.Millisecond
)

// errPaused is what a call gets that is not made.
var errPaused = errors.New("its lane has failed and is left alone for a moment")

// shards keeps a dead shard of a Cluster from taking the others with it: its
// failures are told apart (limiter.ErrShard), and after some in a row the lanes
// that lie on it fail at once, but for one call each lanePause.
type shards struct {
	now    func() time.Time
	served atomic.Int64 // Unix ns of the last answer of any lane
	lanes  [laneCount]laneHealth
}

type laneHealth struct {
	failures atomic.Int32 // in a row
	until    atomic.Int64 // Unix ns until which calls fail at once
}

// enter refuses a call to a lane that is being left alone.
func (s *shards) enter(lane int) error {
	l := &s.lanes[lane]
	if l.failures.Load() < laneFailures {
		return nil
	}
	now, until := s.now().UnixNano(), l.until.Load()
	if now >= until && l.until.CompareAndSwap(until, now+int64(lanePause)) {
		return nil
	}
	return s.mark(now, errPaused)
}

// leave notes how a call ended, and marks an error that is the shard's own.
func (s *shards) leave(lane int, err error) error {
	l, now := &s.lanes[lane], s.now().UnixNano()
	if err == nil {
		s.served.Store(now)
		l.failures.Store(0)
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if l.failures.Add(1) >= laneFailures {
		l.until.Store(now + int64(lanePause))
	}
	return s.mark(now, err)
}

func (s *shards) mark(now int64, err error) error {
	if now-s.served.Load() < int64(othersServe) {
		return fmt.Errorf("%w: %w", limiter.ErrShard, err)
	}
	return err
}
