package console

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/policy"
)

// Rollouts manages versions that few replicas enforce before all others do, and
// versions that have to be taken over from Redis.
type Rollouts struct {
	d     Deps
	fleet *Fleet
	watch watch // of Run alone
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

// List returns the last canaries, the newest first, at most 200.
func (s *Rollouts) List(ctx context.Context, limit int) (out []Rollout, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Rollouts(ctx, min(max(limit, 1), 200))
		return err
	})
	return out, err
}

// Promote gives the canary's version to all replicas. It returns the version,
// which is now the one in force. It is CodeConflict before the plan's hold is
// over, while a replica of the canary refuses the version, and when the canary
// has ended.
func (s *Rollouts) Promote(ctx context.Context, actor Actor, version int64, note string) (v Version, err error) {
	if err := s.may(actor, &note, "note", false); err != nil {
		return Version{}, err
	}
	if err := s.refusedByCanary(ctx, version); err != nil {
		return Version{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		v, err = s.promoteIn(ctx, tx, actor, version, note)
		return err
	})
	if err != nil {
		return Version{}, err
	}
	s.d.Nudge()
	return v, nil
}

// may checks permission and text.
func (s *Rollouts) may(actor Actor, text *string, field string, needed bool) error {
	if err := actor.need(PermPublish); err != nil {
		return err
	}
	var bad problems
	*text = bad.text(field, *text, maxNote, needed)
	return bad.err()
}

func (s *Rollouts) refusedByCanary(ctx context.Context, version int64) error {
	p, err := s.fleet.Publication(ctx, version)
	if err != nil || !p.Canary || !p.Known || len(p.Nacks) == 0 {
		return err
	}
	return conflict(fmt.Sprintf("%d of %d gateways of the trial refuse v%d: %s.", len(p.Nacks), p.Of, version, p.Nacks[0].NACK.Code))
}

func (s *Rollouts) promoteIn(ctx context.Context, tx Tx, actor Actor, version int64, note string) (Version, error) {
	head, r, err := s.lockRunning(ctx, tx, version)
	if err != nil {
		return Version{}, err
	}
	if until := r.StartedAt.Add(r.Plan.Hold); s.d.now().Before(until) {
		return Version{}, conflict(fmt.Sprintf("v%d may be promoted from %s UTC on.", version, until.Format("15:04:05")))
	}
	v, err := tx.Version(ctx, version)
	if err != nil {
		return Version{}, err
	}
	if err := s.stillFits(ctx, tx, v); err != nil {
		return Version{}, err
	}
	return v, s.toAll(ctx, tx, actor, head, v, "policy.promote", note)
}

// stillFits checks once more what may have changed since the version was
// published: a tenant may be on a plan by now that it drops.
func (s *Rollouts) stillFits(ctx context.Context, tx Tx, v Version) error {
	doc, err := v.Document()
	if err != nil {
		return fmt.Errorf("read version %d: %w", v.Number, err)
	}
	var report policy.Report
	if err := addMissingPlans(ctx, tx, doc, &report); err != nil {
		return err
	}
	if !report.OK() {
		return invalidDocument(report)
	}
	return nil
}

// Stop takes a canary back: all replicas get a new version with the content of
// the one that the others enforce, because no replica ever goes back. It
// returns that version. It is CodeConflict when the canary has ended.
func (s *Rollouts) Stop(ctx context.Context, actor Actor, version int64, reason string) (v Version, err error) {
	if err := s.may(actor, &reason, "reason", true); err != nil {
		return Version{}, err
	}
	others := s.d.highestKnown(ctx)
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		v, err = s.stopIn(ctx, tx, actor, version, reason, others)
		return err
	})
	if err != nil {
		return Version{}, err
	}
	s.d.Nudge()
	return v, nil
}

func (s *Rollouts) stopIn(ctx context.Context, tx Tx, actor Actor, version int64, reason string, others known) (Version, error) {
	head, _, err := s.lockRunning(ctx, tx, version)
	if err != nil {
		return Version{}, err
	}
	highest, err := tx.HighestVersion(ctx)
	if err != nil {
		return Version{}, err
	}
	v := Version{
		Number: others.next(max(head.Number, highest)), Digest: head.Digest, Parent: head.Digest, Body: head.Body, Note: reason,
		Author: actor.Name, AuthorID: actor.ID, Kind: KindRollback, RollbackOf: head.Number, CreatedAt: s.d.now(), Tests: head.Tests,
	}
	if err := tx.InsertVersion(ctx, v); err != nil {
		return Version{}, fmt.Errorf("insert version %d: %w", v.Number, err)
	}
	return v, s.toAll(ctx, tx, actor, head, v, "policy.canary-stop", reason)
}

// lockRunning locks the head and returns it with the canary that runs, which
// has to be of the given version.
func (s *Rollouts) lockRunning(ctx context.Context, tx Tx, version int64) (Version, Rollout, error) {
	head, _, err := lockHead(ctx, tx, Version.Document)
	if err != nil {
		return Version{}, Rollout{}, err
	}
	r, err := tx.Rollout(ctx, version)
	if err != nil {
		return Version{}, Rollout{}, err
	}
	if r.State != RolloutRunning {
		return Version{}, Rollout{}, conflict(fmt.Sprintf("The trial of v%d has ended: %s.", version, r.State))
	}
	return head, r, nil
}

// toAll makes v the version in force, ends the canary by it, tells the relay
// and writes the event.
func (s *Rollouts) toAll(ctx context.Context, tx Tx, actor Actor, head, v Version, action, reason string) error {
	now := s.d.now()
	if err := tx.SetHead(ctx, v.Number, now); err != nil {
		return fmt.Errorf("set head to %d: %w", v.Number, err)
	}
	if err := s.d.endRollout(ctx, tx, actor, v, reason); err != nil {
		return err
	}
	number := strconv.FormatInt(v.Number, 10)
	if _, err := tx.InsertOutbox(ctx, OutboxPolicy, number, now); err != nil {
		return fmt.Errorf("insert outbox row of version %d: %w", v.Number, err)
	}
	return s.d.record(ctx, tx, actor, now, event{
		action: action, object: "policy", objectID: number, changes: PlainChanges(v.Changes), reason: reason,
		before: versionView{Number: head.Number, Digest: head.Digest},
		after:  versionView{v.Number, v.Digest, string(v.Kind), v.RollbackOf, v.Note},
	})
}

// holdOver reports whether a canary has been held for as long as its plan says.
func (r Rollout) holdOver(now time.Time) bool { return !now.Before(r.StartedAt.Add(r.Plan.Hold)) }
