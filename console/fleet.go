package console

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/policy"
)

// When a replica counts as silent and as gone, since its last heartbeat.
const (
	SilentAfter = 6 * time.Second
	GoneAfter   = 60 * time.Second
	// StaleAfter is the age of a stamp that should be renewed every minute.
	StaleAfter = 2 * time.Minute
)

const (
	healthEvery   = 500 * time.Millisecond
	healthTimeout = 400 * time.Millisecond // for each of Redis and PostgreSQL, so a snapshot is never older than 1 s
	waitEvery     = 25 * time.Millisecond
)

// Status of a replica, computed when it is read.
type Status string

// Statuses of a replica.
const (
	StatusInSync Status = "in-sync" // enforces the version in force
	StatusBehind Status = "behind"  // enforces an older one, or has not saved this one yet (Unsaved)
	StatusNACKed Status = "nacked"  // says why it cannot use the version in force
	StatusSilent Status = "silent"  // no heartbeat for SilentAfter
	StatusGone   Status = "gone"    // no heartbeat for GoneAfter
	StatusAhead  Status = "ahead"   // enforces a version that the database does not have
	StatusCanary Status = "canary"  // enforces the version on trial, as it should
)

// Replica is a heartbeat with what the console makes of it.
type Replica struct {
	policy.Heartbeat
	Status Status
	Age    time.Duration // since its last heartbeat, by the clock of Redis or PostgreSQL
	// ViaConsole says that it brought its last heartbeat to a console itself,
	// because it cannot reach Redis.
	ViaConsole bool
}

// Fleet knows the replicas and whether Redis and PostgreSQL can be used.
type Fleet struct {
	d       Deps
	refresh sync.Mutex // one refresh at a time
	cached  atomic.Pointer[Health]
	history atomic.Pointer[[]Sample]
	digests digests

	// owned by whoever holds refresh
	rostered time.Time // when the replicas were last noted in PostgreSQL
	noted    []string  // which
}

// NewFleet returns the fleet service. Its Run must run for Health to be fresh.
func NewFleet(d Deps) *Fleet { return &Fleet{d: d.withDefaults()} }

// statusOf says how a replica stands to the version in force (0 and "" before
// the first publication).
func statusOf(h policy.Heartbeat, age time.Duration, version int64, digest string) Status {
	switch {
	case age > GoneAfter:
		return StatusGone
	case age > SilentAfter:
		return StatusSilent
	case h.Version > version:
		return StatusAhead
	case h.NACK != nil:
		return StatusNACKed
	case h.Version == version && h.Digest == digest && !h.Unsaved:
		return StatusInSync
	}
	return StatusBehind
}

// Replicas returns what the last snapshot knows. While Redis cannot be asked
// it returns the last known ones together with a CodeUnavailable error.
func (s *Fleet) Replicas(ctx context.Context) ([]Replica, error) {
	h := s.Health(ctx)
	if !h.FleetKnown {
		return h.Replicas, &Error{Code: CodeUnavailable, Public: "Redis cannot be asked; these are the last known gateways."}
	}
	return h.Replicas, nil
}

// Convergence says how many replicas have applied something. On and Of leave
// out replicas that are gone; one that is silent is never counted in On.
type Convergence struct {
	On, Of int
	After  time.Duration
	Nacks  []ReplicaNACK
	Known  bool // false when Redis could not be asked: On and Of mean nothing
}

// Done reports whether all replicas have applied it, and there are some.
func (c Convergence) Done() bool { return c.Known && c.Of > 0 && c.On == c.Of }

// ReplicaNACK is why one replica has not applied a version.
type ReplicaNACK struct {
	Replica string
	NACK    policy.NACK
}

// WaitVersion waits until all replicas that version n is meant for enforce it,
// or a later one, or refuse it, or timeout is over. Without replicas, or while
// neither Redis nor the replicas themselves tell, it returns early.
func (s *Fleet) WaitVersion(ctx context.Context, n int64, timeout time.Duration) Convergence {
	begun := time.Now()
	var last Convergence
	for failures := 0; ; {
		settled := 0 // has said how it stands, and will not change soon
		ask, cancel := context.WithTimeout(ctx, 2*healthTimeout)
		p, err := s.Publication(ask, n)
		cancel()
		if err == nil && p.Known {
			failures = 0
			last = Convergence{On: p.On, Of: p.Of, Nacks: p.Nacks, Known: true}
			settled = p.On + p.OnTrial + len(p.Nacks)
		} else if failures++; failures > 3 {
			return Convergence{After: time.Since(begun)}
		}
		last.After = time.Since(begun)
		if err == nil && last.Known && settled >= last.Of {
			s.catchUp(ctx)
			return last
		}
		if last.After >= timeout || !pause(ctx, waitEvery) {
			return last
		}
	}
}

// WaitPlace waits until all replicas have applied the directory up to p, or
// timeout is over. A directory that was filled anew since holds p's change too.
func (s *Fleet) WaitPlace(ctx context.Context, p policy.Place, timeout time.Duration) Convergence {
	var current policy.Place
	return s.wait(ctx, timeout, func(r Replica) (bool, *policy.NACK) {
		at := r.Directory
		if at.Epoch == p.Epoch {
			return at.Seq >= p.Seq, nil
		}
		if current.Epoch == "" {
			current = s.directoryNow(ctx)
		}
		return current.Epoch != "" && current.Epoch != p.Epoch && at.Epoch == current.Epoch && at.Seq >= current.Seq, nil
	})
}

func (s *Fleet) directoryNow(ctx context.Context) policy.Place {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	st, err := s.d.Feed.State(ctx)
	if err != nil {
		return policy.Place{}
	}
	return st.Directory
}

// WaitChange waits until all replicas have applied a committed change: first
// for the relay to send it, then for the replicas, for timeout in all.
func (s *Fleet) WaitChange(ctx context.Context, c Change, timeout time.Duration) Convergence {
	begun := time.Now()
	if c.OutboxID == 0 {
		return Convergence{}
	}
	for {
		var row OutboxRow
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			row, err = tx.Outbox(ctx, c.OutboxID)
			return err
		})
		left := timeout - time.Since(begun)
		if err == nil && row.DoneAt != nil {
			out := s.WaitPlace(ctx, row.Place, max(left, waitEvery))
			out.After = time.Since(begun)
			return out
		}
		if left <= 0 || !pause(ctx, waitEvery) {
			out := s.wait(ctx, 0, func(Replica) (bool, *policy.NACK) { return false, nil })
			out.After = time.Since(begun)
			return out
		}
		if row.LastError != "" && !s.Health(ctx).RedisUp {
			return Convergence{After: time.Since(begun)}
		}
	}
}

// wait asks Redis every waitEvery until applied holds for all replicas.
func (s *Fleet) wait(ctx context.Context, timeout time.Duration, applied func(Replica) (bool, *policy.NACK)) Convergence {
	begun := time.Now()
	var last Convergence
	defer func() {
		if last.Done() {
			s.catchUp(ctx)
		}
	}()
	for failures := 0; ; {
		now, err := s.converged(ctx, applied)
		if err == nil {
			last, failures = now, 0
		} else if failures++; failures > 3 {
			return Convergence{After: time.Since(begun)}
		}
		last.After = time.Since(begun)
		if err == nil && last.On+len(last.Nacks) >= last.Of {
			return last
		}
		if last.After >= timeout || !pause(ctx, waitEvery) {
			return last
		}
	}
}

func (s *Fleet) converged(ctx context.Context, applied func(Replica) (bool, *policy.NACK)) (Convergence, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	replicas, _, err := s.d.roster(ctx, s.lastKnown(), false)
	if err != nil {
		return Convergence{}, err
	}
	c := Convergence{Known: true}
	for _, r := range replicas {
		if r.Age > GoneAfter {
			continue
		}
		c.Of++
		if r.Age > SilentAfter {
			continue
		}
		ok, nack := applied(r)
		if ok {
			c.On++
		} else if nack != nil {
			c.Nacks = append(c.Nacks, ReplicaNACK{Replica: r.ID, NACK: *nack})
		}
	}
	return c, nil
}

// repeat does something every so often until ctx ends; that it fails is one line in
// the log, until it works again.
func (d Deps) repeat(ctx context.Context, every time.Duration, problem string, do func(context.Context) error) {
	down := false
	for {
		err := do(ctx)
		if err != nil && ctx.Err() == nil && !down {
			d.Log.WarnContext(ctx, problem, "error", err)
		}
		down = err != nil
		if !pause(ctx, every) {
			return
		}
	}
}

// andSweep does something and, now and then after it succeeded, sweeps.
func (d Deps) andSweep(do, sweep func(context.Context) error) func(context.Context) error {
	var swept time.Time
	return func(ctx context.Context) error {
		if err := do(ctx); err != nil {
			return err
		}
		now := d.now()
		if now.Sub(swept) <= sweepEvery {
			return nil
		}
		err := sweep(ctx)
		if err == nil {
			swept = now
		}
		return err
	}
}

// pause waits for d; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
