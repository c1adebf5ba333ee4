package console_test

import (
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// restoredTo makes the database say of a key what an older copy of it said.
func (e *env) restoredTo(t *testing.T, k console.KeyVersion) {
	t.Helper()
	if err := e.store.InTx(e.ctx, func(tx console.Tx) error { return tx.UpdateKey(e.ctx, k) }); err != nil {
		t.Fatal(err)
	}
}

// TestRelay_P03_R053_AfterARestoreARevocationIsInForce: the record in Redis has a
// higher number than any that the restored database gives, and must not keep a
// revocation out.
func TestRelay_P03_R053_AfterARestoreARevocationIsInForce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	kid := e.issue(t, e.tenant(t, "A").ID).KeyVersion.KID
	backup := e.key(t, kid)
	for range 3 {
		if _, err := e.keys.Suspend(e.ctx, owner, kid, "looks odd"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.keys.Resume(e.ctx, owner, kid, "is fine"); err != nil {
			t.Fatal(err)
		}
	}
	e.feed.until(t, "all changes", func() bool { return e.feed.records[kid].Seq == 7 })
	waitDrained(t, e)
	e.restoredTo(t, backup)
	change, err := e.keys.Revoke(e.ctx, owner, kid, "leak")
	if err != nil {
		t.Fatal(err)
	}
	e.feed.until(t, "revocation", func() bool {
		rec, ok := e.keyRecord(t, kid)
		return ok && rec.State == policy.KeyRevoked && e.feed.place.Epoch != ""
	})
	waitDrained(t, e)
	err = e.store.Read(e.ctx, func(tx console.Tx) error {
		row, err := tx.Outbox(e.ctx, change.OutboxID)
		e.feed.set(func() {
			if row.DoneAt == nil || row.Place.Epoch != e.feed.place.Epoch || e.feed.fills != 2 {
				t.Errorf("row %+v, place %+v, %d fills", row, e.feed.place, e.feed.fills)
			}
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRelay_P03_AfterARestoreKeysThatNobodyKnowsAreGone: a key that was issued after
// the copy was made is in Redis alone, where nobody could revoke it.
func TestRelay_P03_AfterARestoreKeysThatNobodyKnowsAreGone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	t.Run("before", func(t *testing.T) {
		e.relay(t)
		e.issue(t, e.tenant(t, "A").ID)
		e.feed.until(t, "fill", func() bool { return e.feed.place.Epoch != "" && len(e.feed.records) == 2 })
		waitDrained(t, e)
	})
	e.feed.set(func() {
		e.feed.records["ghost"] = policy.SignedRecord{Kind: policy.RecordKey, ID: "ghost", Seq: 1}
		e.feed.place.Seq++
	})
	e.relay(t)
	e.feed.until(t, "fill", func() bool {
		_, there := e.feed.records["ghost"]
		return !there && e.feed.fills == 2 && e.feed.place.Epoch != "" && len(e.feed.records) == 2
	})
}
