package console

import (
	"context"
	"time"
)

// Rollouts manages versions that few replicas enforce before all others do.
type Rollouts struct {
	d     Deps
	fleet *Fleet
}

// NewRollouts returns the service of canaries. Its Run must run for guards to
// be held; give it to Relay.While, so that one console alone does.
func NewRollouts(d Deps, fleet *Fleet) *Rollouts { return &Rollouts{d: d.withDefaults(), fleet: fleet} }

// Current returns the canary that runs; nil when there is none.
func (s *Rollouts) Current(ctx context.Context) (r *Rollout, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		r, err = runningRollout(ctx, tx)
		return err
	})
	return r, err
}

// Get returns the canary of a version, which may have ended.
func (s *Rollouts) Get(ctx context.Context, version int64) (r Rollout, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		r, err = tx.Rollout(ctx, version)
		return err
	})
	return r, err
}

// List returns the last canaries, the newest first.
func (s *Rollouts) List(ctx context.Context, limit int) (out []Rollout, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Rollouts(ctx, min(max(limit, 1), 200))
		return err
	})
	return out, err
}

// Promote gives the canary's version to all replicas. It returns the version,
// which is now the one in force.
func (s *Rollouts) Promote(ctx context.Context, actor Actor, version int64, note string) (Version, error) {
	return Version{}, &Error{Code: CodeUnavailable, Public: "Canaries cannot be promoted yet."}
}

// Stop takes a canary back: all replicas get a new version with the content of
// the one that the others enforce, because no replica ever goes back. It
// returns that version.
func (s *Rollouts) Stop(ctx context.Context, actor Actor, version int64, reason string) (Version, error) {
	return Version{}, &Error{Code: CodeUnavailable, Public: "Canaries cannot be stopped yet."}
}

// Run holds the guards of the canary that runs until ctx ends.
func (s *Rollouts) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// canary is a plan with the replicas that were picked for it.
type canary struct {
	plan     CanaryPlan
	replicas []string
}

// chooseCanary checks a plan and picks its replicas from those that are heard
// of now. Call it before the transaction: it asks Redis. Problems are
// CodeInvalid with fields canary.count, canary.zone, canary.hold, canary.max_refused_rise.
func (d Deps) chooseCanary(ctx context.Context, plan CanaryPlan) (canary, error) {
	return canary{}, &Error{Code: CodeUnavailable, Public: "Canaries cannot be started yet."}
}

// beginRollout notes that v, which is inserted already and above the head, goes
// to the canary's replicas first, and tells the relay. The caller holds the
// head's lock, and leaves the head as it is. It refuses (CodeConflict) while
// another one runs.
func (d Deps) beginRollout(ctx context.Context, tx Tx, actor Actor, v Version, c canary) error {
	return nil
}

// endRollout notes that v, which goes to all replicas, ends the canary that
// runs: by promotion when it is the canary's own version, else by stopping it.
// It does nothing when none runs. The caller holds the head's lock.
func (d Deps) endRollout(ctx context.Context, tx Tx, actor Actor, v Version, reason string) error {
	return nil
}

// runningRollout is the canary that runs, nil when there is none.
func runningRollout(ctx context.Context, tx Tx) (*Rollout, error) {
	r, err := tx.RunningRollout(ctx)
	if IsNotFound(err) {
		return nil, nil
	}
	return &r, err
}

// Publication is how far a version has come, as of now.
type Publication struct {
	Version  int64
	Digest   string
	Canary   bool     // it goes to Targets alone
	Targets  []string // ids: the canary's, or all replicas that are not gone
	On, Of   int      // of Targets
	Silent   int      // of Targets: not heard of for SilentAfter, never counted in On
	Nacks    []ReplicaNACK
	After    time.Duration // from its commit until the last target that enforces it did; 0 when none does
	Known    bool          // false when replicas could not be asked: On and Of are the last known
	Rows     []PublicationRow
	Head     int64 // the version in force as of now: above Version, this is history
	Overtook int   // of On: enforce a later version by now
}

// Done reports whether all targets enforce the version or a later one, and
// there are some.
func (p Publication) Done() bool { return p.Known && p.Of > 0 && p.On == p.Of }

// PublicationRow is one replica and a version.
type PublicationRow struct {
	Replica
	Target bool
	On     bool          // enforces it or a later one
	After  time.Duration // from the commit until it came into force there; -1 when unknown
}

// Publication says how far a version has come. CodeNotFound when there is none.
func (s *Fleet) Publication(ctx context.Context, version int64) (Publication, error) {
	return Publication{}, &Error{Code: CodeUnavailable, Public: "This cannot be told yet."}
}
