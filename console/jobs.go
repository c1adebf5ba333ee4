package console

import (
	"context"
	"time"
)

const (
	jobsEvery  = time.Second
	sweepEvery = time.Minute
	outboxKept = 24 * time.Hour
	sweepBatch = 5000
)

// Jobs is what happens by itself as time passes: keys and rotations whose time
// has run out are finalised, rows that nobody needs are removed. Gateways do
// not wait for it: records carry their deadlines. Several consoles may run it.
type Jobs struct {
	d         Deps
	policies  *Policies
	overrides *Overrides
}

// NewJobs returns the periodic jobs.
func NewJobs(d Deps) *Jobs { return &Jobs{d.withDefaults(), NewPolicies(d), NewOverrides(d)} }

// Run works until ctx ends. Schedules have a loop of their own: a publication
// may wait for its tests.
func (j *Jobs) Run(ctx context.Context) error {
	schedules := make(chan struct{})
	go func() {
		defer close(schedules)
		j.d.repeat(ctx, jobsEvery, "schedules are not carried out", j.policies.RunSchedules)
	}()
	var swept time.Time
	j.d.repeat(ctx, jobsEvery, "periodic jobs do not work", func(ctx context.Context) error {
		err := j.Expire(ctx)
		if err == nil {
			err = j.overrides.Expire(ctx)
		}
		if err == nil && time.Since(swept) > sweepEvery {
			if err = j.Sweep(ctx); err == nil {
				swept = time.Now()
			}
		}
		return err
	})
	<-schedules
	return nil
}

// Expire finalises versions and rotations whose time has run out, each
// credential in a transaction of its own.
func (j *Jobs) Expire(ctx context.Context) error {
	for {
		var due []string
		err := j.d.Store.Read(ctx, func(tx Tx) (err error) {
			due, err = tx.DueCredentials(ctx, j.d.now(), 100)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, id := range due {
			err := j.d.Store.InTx(ctx, func(tx Tx) error {
				_, err := j.d.openKeyring(ctx, tx, SystemActor(), id)
				return err
			})
			if err != nil {
				return err
			}
		}
		j.d.Nudge()
	}
}

// Sweep removes dead sessions, old idempotency keys and simulations, and outbox
// rows that were sent long ago. It also tells the audit trail of runs of saves
// that are over.
func (j *Jobs) Sweep(ctx context.Context) error {
	if err := j.d.tellOldSaves(ctx); err != nil {
		return err
	}
	err := j.d.Store.InTx(ctx, func(tx Tx) error {
		now := j.d.now()
		if err := tx.DeleteDeadSessions(ctx, now, now.Add(-SessionIdle)); err != nil {
			return err
		}
		if err := tx.DeleteDeadMemberSessions(ctx, now, now.Add(-SessionIdle)); err != nil {
			return err
		}
		if err := tx.DeleteOldSignInLinks(ctx, now); err != nil {
			return err
		}
		if err := tx.DeleteExpiredIdempotencyKeys(ctx, now); err != nil {
			return err
		}
		return tx.DeleteOldTrials(ctx, now.Add(-trialKept))
	})
	if err != nil {
		return err
	}
	return j.sweepOutbox(ctx)
}

// sweepOutbox removes rows in steps: a day may have left a million.
func (j *Jobs) sweepOutbox(ctx context.Context) error {
	for {
		var n int64
		err := j.d.Store.InTx(ctx, func(tx Tx) (err error) {
			n, err = tx.DeleteDoneOutbox(ctx, j.d.now().Add(-outboxKept), sweepBatch)
			return err
		})
		if err != nil || n < sweepBatch {
			return err
		}
	}
}
