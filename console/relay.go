package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	relayEvery   = 250 * time.Millisecond // poll of outbox and Redis; nudges only make it sooner
	relayTimeout = 3 * time.Second        // one step with Redis; a policy may have 8 MiB
	stateTimeout = 400 * time.Millisecond
	stampEvery   = time.Minute
	relayBatch   = 1000
	drainFor     = time.Second         // that rows of bulk jobs may take before all else is looked after again
	keepFinal    = 30 * 24 * time.Hour // final records stay in the directory for this long
)

// Relay carries committed changes to the gateways. One relay works at a time
// over all consoles of a database. Everything it does may be repeated: it sends
// what the database says now, and Redis refuses to go back.
type Relay struct {
	d     Deps
	store OutboxStore
	wake  chan struct{}

	// owned by the loop that holds the lock
	place    policy.Place // that the directory has reached
	doubted  bool         // whether it was looked at what the directory had when this relay took over
	stamped  time.Time
	offered  string    // tag of the canary's record as this relay wrote it
	offering time.Time // when
	odd      string    // what Redis has that it should not, so that it is one log line
	sent     int64     // the version of ours that Redis last had in force
	foreign  foreignHead
	down     bool // whether the last round failed, so that an outage is one log line

	beside []func(context.Context) error
}

// NewRelay returns the relay. store must be the database of d.
func NewRelay(d Deps, store OutboxStore) *Relay {
	d.Store = store
	return &Relay{d: d.withDefaults(), store: store, wake: make(chan struct{}, 1)}
}

// While has fn run while this relay works: over all consoles of a database, one
// at a time. Call it before Run.
func (r *Relay) While(fn func(context.Context) error) { r.beside = append(r.beside, fn) }

// Nudge makes the next round happen now. It never blocks.
func (r *Relay) Nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends; while another console's relay works it stands by.
func (r *Relay) Run(ctx context.Context) error {
	down := false
	for {
		_, err := r.store.WithRelayLock(ctx, r.work)
		if err != nil && !down && ctx.Err() == nil {
			r.d.Log.WarnContext(ctx, "relay waits for the database", "error", err)
		}
		down = err != nil
		if !pause(ctx, relayEvery) {
			return nil
		}
	}
}

// work is what the holder of the lock does.
func (r *Relay) work(ctx context.Context) error {
	listening := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(listening)
		r.listen(ctx)
	}()
	var beside sync.WaitGroup
	for _, fn := range r.beside {
		beside.Go(func() {
			if err := fn(ctx); err != nil && ctx.Err() == nil {
				r.d.Log.ErrorContext(ctx, "work beside the relay stopped", "error", err)
			}
		})
	}
	defer func() { stop(); <-listening; beside.Wait() }()
	err := r.store.Read(ctx, func(tx Tx) (err error) {
		r.place, err = tx.FeedPlace(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the directory's place: %w", err)
	}
	r.stamped, r.offered, r.odd, r.doubted = time.Time{}, "", "", false
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for {
		r.note(ctx, r.round(ctx))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-tick.C:
		}
	}
}

// listen turns the database's notifications into nudges, and tries again when
// the connection breaks: the poll goes on meanwhile.
func (r *Relay) listen(ctx context.Context) {
	for {
		_ = r.store.ListenOutbox(ctx, r.Nudge)
		if !pause(ctx, time.Second) {
			return
		}
	}
}

func (r *Relay) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && !r.down:
		r.d.Log.WarnContext(ctx, "changes do not reach the gateways", "error", err)
	case err == nil && r.down:
		r.d.Log.InfoContext(ctx, "changes reach the gateways again")
	}
	r.down = err != nil
}

// round heals what Redis lost, then sends what is pending.
func (r *Relay) round(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, stateTimeout)
	state, err := r.d.Feed.State(ask)
	cancel()
	if err != nil {
		return errors.Join(fmt.Errorf("read the feed's state: %w", err), r.markFailed(ctx, err))
	}
	head, err := r.head(ctx)
	if err != nil {
		return err
	}
	// The canary first: its replicas must not be shown the head without it.
	if err := r.offer(ctx, state, head); err != nil {
		return err
	}
	switch {
	case lost(state, head):
		err = r.publish(ctx, head.Number)
	case state.Version > head.Number:
		err = r.examineHigher(ctx, state, head)
	default:
		r.sent = head.Number
	}
	if err != nil {
		return err
	}
	if err := r.doubt(ctx, state.Directory); err != nil {
		return err
	}
	if r.directoryLost(state.Directory) {
		if err := r.refill(ctx); err != nil {
			return fmt.Errorf("fill the directory: %w", err)
		}
	} else if err := r.mend(ctx, state); err != nil {
		return fmt.Errorf("compare the directory: %w", err)
	}
	if err := r.drain(ctx); err != nil {
		return err
	}
	return r.stamp(ctx)
}

// headRef is what is needed of the version in force in each round.
type headRef struct {
	Number int64
	Digest string
	Canary *Rollout // that runs beside it
}

func (r *Relay) head(ctx context.Context) (headRef, error) { return r.d.headRef(ctx) }

// lost reports whether Redis has less than the version in force, or another
// document under its number. A version above it means that the database was
// restored from an older copy: the next publication takes a higher number.
func lost(state policy.FeedState, head headRef) bool {
	return head.Number > 0 && (state.PolicyEpoch == "" || state.Version < head.Number ||
		state.Version == head.Number && (state.BodyMissing || state.Digest != head.Digest))
}

// directoryLost reports whether Redis' directory is not the one that this
// database filled, or lies before the place it had reached.
func (r *Relay) directoryLost(at policy.Place) bool {
	return at.Epoch == "" || at.Epoch != r.place.Epoch || at.Seq < r.place.Seq
}

// publish sends one version.
func (r *Relay) publish(ctx context.Context, number int64) error {
	signed, err := r.d.signVersion(ctx, number)
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	result, err := r.d.Feed.PublishPolicy(ask, signed)
	if err != nil {
		return fmt.Errorf("publish version %d: %w", number, err)
	}
	if result == "conflict" {
		return r.restore(ask, signed)
	}
	r.odd, r.stamped = "", time.Time{}
	if result != "went-back" {
		r.sent = number
	}
	return nil
}

// stamp renews the statement which version is the newest.
func (r *Relay) stamp(ctx context.Context) error {
	if time.Since(r.stamped) < stampEvery {
		return nil
	}
	head, err := r.head(ctx)
	if err != nil || head.Number == 0 {
		return err
	}
	if !r.stamped.IsZero() {
		// The same again: a body that somebody has written over is put right by it.
		if err := r.publish(ctx, head.Number); err != nil {
			return err
		}
	}
	ask, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	if err := r.d.Feed.PutStamp(ask, policy.SignStamp(r.d.Signer, r.d.Deployment, head.Number, head.Digest, r.d.now())); err != nil {
		return fmt.Errorf("put the stamp: %w", err)
	}
	r.stamped = time.Now()
	return nil
}

// drain sends pending rows until there are none. Rows of bulk jobs come last,
// and a million of them does not keep the relay from its other work.
func (r *Relay) drain(ctx context.Context) error {
	for begun := time.Now(); ; {
		rows, err := r.pending(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := r.send(ctx, rows); err != nil {
			return errors.Join(err, r.fail(ctx, rows, err))
		}
		if rows[0].Bulk && time.Since(begun) > drainFor {
			r.Nudge()
			return nil
		}
	}
}

// pending is what is to be sent next: either rows of bulk jobs or others.
func (r *Relay) pending(ctx context.Context) (rows []OutboxRow, err error) {
	err = r.store.Read(ctx, func(tx Tx) error {
		rows, err = tx.PendingOutbox(ctx, relayBatch)
		return err
	})
	if i := slices.IndexFunc(rows, func(row OutboxRow) bool { return row.Bulk }); i > 0 {
		rows = rows[:i]
	}
	return rows, err
}

// send sends rows: records in one batch, then versions in their order.
func (r *Relay) send(ctx context.Context, rows []OutboxRow) error {
	var versions, records, canaries, refusals []OutboxRow
	for _, row := range rows {
		switch row.Kind {
		case OutboxPolicy:
			versions = append(versions, row)
		case OutboxCanary:
			canaries = append(canaries, row)
		case OutboxRefusals:
			refusals = append(refusals, row)
		default:
			records = append(records, row)
		}
	}
	if err := r.sendRecords(ctx, records); err != nil {
		return err
	}
	if err := r.sendRefusals(ctx, refusals); err != nil {
		return err
	}
	if err := r.sendCanaries(ctx, canaries); err != nil {
		return err
	}
	for _, row := range versions {
		number, err := strconv.ParseInt(row.Ref, 10, 64)
		if err != nil {
			return fmt.Errorf("outbox row %d names version %q: %w", row.ID, row.Ref, err)
		}
		if err := r.publish(ctx, number); err != nil {
			return err
		}
		if err := r.finish(ctx, []OutboxRow{row}, policy.Place{}); err != nil {
			return err
		}
	}
	return nil
}

func idsOf(rows []OutboxRow) []int64 {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

// finish marks rows as sent, with the directory's place after them. Those of
// bulk jobs just go.
func (r *Relay) finish(ctx context.Context, rows []OutboxRow, place policy.Place) error {
	return r.store.InTx(ctx, func(tx Tx) error {
		now := r.d.now()
		if place.Epoch != "" {
			if err := tx.SetFeedPlace(ctx, place, now); err != nil {
				return err
			}
		}
		if rows[0].Bulk {
			return tx.DeleteSentOutbox(ctx, idsOf(rows))
		}
		return tx.FinishOutbox(ctx, idsOf(rows), place, "sent", now)
	})
}

func (r *Relay) fail(ctx context.Context, rows []OutboxRow, cause error) error {
	return r.store.InTx(ctx, func(tx Tx) error { return tx.FailOutbox(ctx, idsOf(rows), shorten(cause.Error(), 500)) })
}

// markFailed notes on pending rows that Redis cannot be reached, once per
// outage, so that whoever waits for them knows.
func (r *Relay) markFailed(ctx context.Context, cause error) error {
	rows, err := r.pending(ctx)
	fresh := rows[:0]
	for _, row := range rows {
		if row.LastError == "" {
			fresh = append(fresh, row)
		}
	}
	if err != nil || len(fresh) == 0 {
		return err
	}
	return r.fail(ctx, fresh, cause)
}
