package console

import (
	"context"
	"time"
)

const (
	jobsEvery  = time.Second
	sweepEvery = time.Minute
	outboxKept = 24 * time.Hour
)

// Jobs is what happens by itself as time passes: keys and rotations whose time
// has run out are finalised, rows that nobody needs are removed. Gateways do
// not wait for it: records carry their deadlines. Several consoles may run it.
type Jobs struct{ d Deps }

// NewJobs returns the periodic jobs.
func NewJobs(d Deps) *Jobs { return &Jobs{d.withDefaults()} }

// Run works until ctx ends.
func (j *Jobs) Run(ctx context.Context) error {
	var swept time.Time
	down := false
	for {
		err := j.Expire(ctx)
		if err == nil && time.Since(swept) > sweepEvery {
			if err = j.Sweep(ctx); err == nil {
				swept = time.Now()
			}
		}
		if err != nil && ctx.Err() == nil && !down {
			j.d.Log.WarnContext(ctx, "periodic jobs do not work", "error", err)
		}
		down = err != nil
		if !pause(ctx, jobsEvery) {
			return nil
		}
	}
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

// Sweep removes dead sessions, old idempotency keys and outbox rows that were
// sent long ago.
func (j *Jobs) Sweep(ctx context.Context) error {
	return j.d.Store.InTx(ctx, func(tx Tx) error {
		now := j.d.now()
		if err := tx.DeleteDeadSessions(ctx, now, now.Add(-SessionIdle)); err != nil {
			return err
		}
		if err := tx.DeleteExpiredIdempotencyKeys(ctx, now); err != nil {
			return err
		}
		return tx.DeleteDoneOutbox(ctx, now.Add(-outboxKept))
	})
}
