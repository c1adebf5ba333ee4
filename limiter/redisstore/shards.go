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
	// opinionTimeout bounds the asking of others that nobody else has asked lately.
	opinionTimeout = 100 * time.Millisecond
)

// errPaused is what a call gets that is not made.
var errPaused = errors.New("its lane has failed and is left alone for a moment")

// shards keeps a dead shard of a Cluster from taking the others with it: its
// failures are told apart (limiter.ErrShard), and after some in a row the lanes
// that lie on it fail at once, but for one call each lanePause.
//
// Where all requests meet the dead shard first, or few come at all, nobody would
// hear of the others: then they are asked for their own sake.
type shards struct {
	now    func() time.Time
	others func()       // asks lanes of all shards, and returns soon; may be nil
	served atomic.Int64 // Unix ns of the last answer of any lane
	sought atomic.Int64 // Unix ns of the last time that others were asked
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

// left marks the error of a request whose time was up before its call had ended:
// how that one ends is not known yet, and counts then.
func (s *shards) left(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, limiter.ErrShard) {
		return err
	}
	return s.mark(s.now().UnixNano(), err)
}

// ails reports whether the lane did not answer last time.
func (s *shards) ails(lane int) bool { return s.lanes[lane].failures.Load() > 0 }

func (s *shards) mark(now int64, err error) error {
	s.seek(now)
	if now-s.served.Load() < int64(othersServe) {
		return fmt.Errorf("%w: %w", limiter.ErrShard, err)
	}
	return err
}

// seek asks the others before what is known of them is too old.
func (s *shards) seek(now int64) {
	const old = int64(othersServe / 2)
	sought := s.sought.Load()
	if s.others == nil || now-s.served.Load() < old || now-sought < old || !s.sought.CompareAndSwap(sought, now) {
		return
	}
	s.others()
}
