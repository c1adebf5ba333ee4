package console_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// hookedFeed calls put before records are put and finish before a filling ends.
type hookedFeed struct {
	*fakeFeed
	put    func([]policy.SignedRecord)
	finish func()
}

func (f hookedFeed) PutRecords(ctx context.Context, r []policy.SignedRecord) (policy.Place, error) {
	f.put(r)
	return f.fakeFeed.PutRecords(ctx, r)
}

func (f hookedFeed) FinishDirectory(ctx context.Context, epoch string) (policy.Place, error) {
	f.finish()
	return f.fakeFeed.FinishDirectory(ctx, epoch)
}

func TestRelay_ARevocationDoesNotWaitForAFillingToEnd(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	revoked := make(chan policy.KeyState, 1)
	f := hookedFeed{fakeFeed: e.feed}
	fills := 0
	f.put = func(records []policy.SignedRecord) {
		if fills++; fills != 2 { // the step with the key, which has been read
			return
		}
		if _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "leak"); err != nil {
			t.Error(err)
		}
	}
	f.finish = func() {
		e.feed.set(func() {
			rec, _ := e.keyRecord(t, out.KeyVersion.KID)
			select {
			case revoked <- rec.State:
			default:
			}
		})
	}
	e.deps.Feed = f
	e.relay(t)
	select {
	case state := <-revoked:
		if state != policy.KeyRevoked {
			t.Fatalf("the key is %s when the filling ends", state)
		}
	case <-e.ctx.Done():
		t.Fatal("never filled")
	}
	waitDrained(t, e)
}

func TestRelay_ARevocationGoesBeforeWhatIsLeftOfABulkJob(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	var puts []string
	done := make(chan struct{})
	f := hookedFeed{fakeFeed: e.feed, finish: func() {}}
	f.put = func(records []policy.SignedRecord) {
		if e.bulkPending(t) == 0 {
			return
		}
		for _, r := range records {
			puts = append(puts, string(r.Kind))
		}
		switch len(puts) {
		case 1:
			if _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "leak"); err != nil {
				t.Error(err)
			}
		case 4:
			close(done)
		}
	}
	e.deps.Feed = f
	e.relay(t)
	waitDrained(t, e)
	refs := slices.Repeat([]string{ten.ID}, 3000) // three batches of one record
	if err := e.store.InTx(e.ctx, func(tx console.Tx) error {
		return tx.InsertBulkOutbox(e.ctx, console.OutboxTenant, refs, e.clock.now())
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-e.ctx.Done():
		t.Fatalf("put so far: %v", puts)
	}
	if want := []string{"tenant", "key", "tenant", "tenant"}; !slices.Equal(puts, want) {
		t.Errorf("put %v, want %v: the rest of the bulk job after the revocation", puts, want)
	}
	waitDrained(t, e)
}

// bulkPending counts rows of bulk jobs that were not sent.
func (e *env) bulkPending(t *testing.T) (n int) {
	t.Helper()
	err := e.store.Read(e.ctx, func(tx console.Tx) error {
		rows, err := tx.PendingOutbox(e.ctx, 10_000)
		for _, r := range rows {
			if r.Bulk {
				n++
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	return n
}

func TestRelay_ABulkJobLeavesNoRowsBehind(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	ten := e.tenant(t, "A")
	waitDrained(t, e)
	var ids []int64
	err := e.store.InTx(e.ctx, func(tx console.Tx) error {
		err := tx.InsertBulkOutbox(e.ctx, console.OutboxTenant, []string{ten.ID, ten.ID, ten.ID}, e.clock.now())
		rows, err2 := tx.PendingOutbox(e.ctx, 10)
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		return errors.Join(err, err2)
	})
	if err != nil || len(ids) != 3 {
		t.Fatalf("%d rows, %v", len(ids), err)
	}
	waitDrained(t, e)
	for _, id := range ids {
		err := e.store.Read(e.ctx, func(tx console.Tx) error { _, err := tx.Outbox(e.ctx, id); return err })
		if !console.IsNotFound(err) {
			t.Errorf("row %d: %v, want that it is gone", id, err)
		}
	}
}
