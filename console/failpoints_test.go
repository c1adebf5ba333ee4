package console_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

var errFailPoint = errors.New("fail point")

// brokenStore is a database that fails at one kind of statement, before or
// after it had its effect.
type brokenStore struct {
	console.Store
	at    string
	after bool
	hits  *int
}

func (s brokenStore) InTx(ctx context.Context, fn func(console.Tx) error) error {
	return s.Store.InTx(ctx, func(tx console.Tx) error { return fn(brokenTx{tx, s}) })
}

type brokenTx struct {
	console.Tx
	s brokenStore
}

// point runs a statement unless it is the one that fails.
func (t brokenTx) point(name string, statement func() error) error {
	if name != t.s.at {
		return statement()
	}
	*t.s.hits++
	if t.s.after {
		if err := statement(); err != nil {
			return err
		}
	}
	return errFailPoint
}

func (t brokenTx) InsertTenant(ctx context.Context, v console.Tenant) error {
	return t.point("InsertTenant", func() error { return t.Tx.InsertTenant(ctx, v) })
}

func (t brokenTx) UpdateTenant(ctx context.Context, v console.Tenant) error {
	return t.point("UpdateTenant", func() error { return t.Tx.UpdateTenant(ctx, v) })
}

func (t brokenTx) InsertCredential(ctx context.Context, v console.Credential) error {
	return t.point("InsertCredential", func() error { return t.Tx.InsertCredential(ctx, v) })
}

func (t brokenTx) InsertKey(ctx context.Context, v console.KeyVersion) error {
	return t.point("InsertKey", func() error { return t.Tx.InsertKey(ctx, v) })
}

func (t brokenTx) UpdateKey(ctx context.Context, v console.KeyVersion) error {
	return t.point("UpdateKey", func() error { return t.Tx.UpdateKey(ctx, v) })
}

func (t brokenTx) InsertRotation(ctx context.Context, v console.Rotation) error {
	return t.point("InsertRotation", func() error { return t.Tx.InsertRotation(ctx, v) })
}

func (t brokenTx) UpdateRotation(ctx context.Context, v console.Rotation) error {
	return t.point("UpdateRotation", func() error { return t.Tx.UpdateRotation(ctx, v) })
}

func (t brokenTx) InsertVersion(ctx context.Context, v console.Version) error {
	return t.point("InsertVersion", func() error { return t.Tx.InsertVersion(ctx, v) })
}

func (t brokenTx) DeleteDraft(ctx context.Context, id, etag string) (ok bool, err error) {
	err = t.point("DeleteDraft", func() error { ok, err = t.Tx.DeleteDraft(ctx, id, etag); return err })
	return ok, err
}

func (t brokenTx) InsertAudit(ctx context.Context, v console.AuditEvent) error {
	return t.point("InsertAudit", func() error { return t.Tx.InsertAudit(ctx, v) })
}

// snapshot is everything that the services could have changed.
func (e *env) snapshot(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	read := func(name string, fn func(console.Tx) (any, error)) {
		err := e.store.Read(e.ctx, func(tx console.Tx) (err error) { out[name], err = fn(tx); return err })
		if err != nil && !console.IsNotFound(err) {
			t.Fatalf("read %s: %v", name, err)
		}
	}
	ctx := e.ctx
	read("tenants", func(tx console.Tx) (any, error) { return tx.Tenants(ctx, console.TenantQuery{}, console.Cursor{}, 100) })
	read("keys", func(tx console.Tx) (any, error) { return tx.Keys(ctx, console.KeyQuery{}, console.Cursor{}, 100) })
	read("rotations", func(tx console.Tx) (any, error) { return tx.Rotations(ctx, false, 100) })
	read("drafts", func(tx console.Tx) (any, error) { return tx.Drafts(ctx, 100) })
	read("versions", func(tx console.Tx) (any, error) { return tx.Versions(ctx, 0, 100) })
	read("head", func(tx console.Tx) (any, error) { n, _, err := tx.HeadNumber(ctx); return n, err })
	read("outbox", func(tx console.Tx) (any, error) { return tx.PendingOutbox(ctx, 100) })
	read("audit", func(tx console.Tx) (any, error) { return tx.AuditForward(ctx, 0, 100) })
	return out
}

// TestC01_ChangeIsWholeOrAbsent breaks each kind of statement of each
// change, before and after its effect: nothing of the change remains, and the
// same call succeeds afterwards.
func TestC01_ChangeIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	for at, hitBy := range map[string]int{
		"InsertTenant": 1, "UpdateTenant": 1, "InsertCredential": 1, "InsertKey": 2, "UpdateKey": 3, "InsertRotation": 1, "UpdateRotation": 1,
		"InsertVersion": 1, "DeleteDraft": 1, "InsertAudit": 7,
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after: %v", at, after), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				hits := 0
				broken := e.deps
				broken.Store = brokenStore{Store: e.store, at: at, after: after, hits: &hits}
				for i, call := range e.changes(t) {
					before, earlier := e.snapshot(t), hits
					err := call(broken)
					if hits == earlier {
						if err != nil {
							t.Fatalf("call %d did not reach the fail point: %v", i, err)
						}
						continue // it has happened, as it should
					}
					if !errors.Is(err, errFailPoint) {
						t.Fatalf("call %d: %v", i, err)
					}
					if now := e.snapshot(t); !reflect.DeepEqual(before, now) {
						t.Fatalf("call %d left something behind:\n%+v\n%+v", i, before, now)
					}
					if err := call(e.deps); err != nil {
						t.Fatalf("call %d again: %v", i, err)
					}
				}
				if hits != hitBy {
					t.Fatalf("the fail point was reached %d times, want %d", hits, hitBy)
				}
				if _, _, problem, err := e.audit.Verify(e.ctx); err != nil || problem != nil {
					t.Fatalf("trail %+v (%v)", problem, err)
				}
			})
		}
	}
}

// changes are calls that build on each other, each a change in one transaction.
func (e *env) changes(t *testing.T) []func(console.Deps) error {
	t.Helper()
	var ten console.Tenant
	var issued console.Issued
	var started console.Started
	draft, err := e.policies.CreateDraft(e.ctx, owner, "d", document("10"))
	if err != nil {
		t.Fatal(err)
	}
	return []func(console.Deps) error{
		func(d console.Deps) (err error) {
			ten, err = console.NewTenants(d).Create(e.ctx, owner, console.NewTenant{Name: "A", Plan: "free"})
			return err
		},
		func(d console.Deps) (err error) {
			issued, err = console.NewKeys(d).IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live"})
			return err
		},
		func(d console.Deps) (err error) {
			started, err = console.NewRotations(d).Start(e.ctx, owner, issued.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
			return err
		},
		func(d console.Deps) error {
			_, err := console.NewRotations(d).End(e.ctx, owner, started.Rotation.ID, "r")
			return err
		},
		func(d console.Deps) error {
			_, err := console.NewKeys(d).Revoke(e.ctx, owner, started.KeyVersion.KID, "leak")
			return err
		},
		func(d console.Deps) error {
			_, err := console.NewTenants(d).Suspend(e.ctx, owner, ten.ID, "r")
			return err
		},
		func(d console.Deps) error {
			_, err := console.NewPolicies(d).PublishDraft(e.ctx, owner, draft.ID, draft.ETag, console.PublishOptions{})
			return err
		},
	}
}

// lossyFeed does what it is asked to and loses its first answers.
type lossyFeed struct {
	*fakeFeed
	lost map[string]int // answers to lose, by call
}

var errLost = errors.New("connection reset")

func (f lossyFeed) answer(call string) error {
	defer f.lock()()
	if f.lost[call] == 0 {
		return nil
	}
	f.lost[call]--
	return errLost
}

func (f lossyFeed) PublishPolicy(ctx context.Context, p policy.SignedPolicy) (string, error) {
	out, err := f.fakeFeed.PublishPolicy(ctx, p)
	return out, errors.Join(err, f.answer("publish"))
}

func (f lossyFeed) PutRecords(ctx context.Context, r []policy.SignedRecord) (policy.Place, error) {
	out, err := f.fakeFeed.PutRecords(ctx, r)
	if lost := f.answer("put"); lost != nil {
		return policy.Place{}, lost
	}
	return out, err
}

func (f lossyFeed) FinishDirectory(ctx context.Context, epoch string) (policy.Place, error) {
	out, err := f.fakeFeed.FinishDirectory(ctx, epoch)
	if lost := f.answer("finish"); lost != nil {
		return policy.Place{}, lost
	}
	return out, err
}

func (f lossyFeed) PutStamp(ctx context.Context, s policy.Stamp) error {
	return errors.Join(f.fakeFeed.PutStamp(ctx, s), f.answer("stamp"))
}

// What Redis accepted and whose answer was lost is sent again, with the same
// bytes, and has no second effect.
func TestC03_LostAnswersAreHealedByRepeating(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	feed := lossyFeed{e.feed, map[string]int{"publish": 2, "put": 2, "finish": 1, "stamp": 1}}
	e.deps.Feed = feed
	e.relay(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	v := e.publish(t, "10", 0)
	e.feed.until(t, "everything", func() bool {
		_, key := e.keyRecord(t, out.KeyVersion.KID)
		return key && e.feed.head.Version == v.Number && e.feed.place.Epoch != "" && len(e.feed.stamps) > 1
	})
	waitDrained(t, e)
	e.feed.set(func() {
		if len(e.feed.policies) != 1 || e.feed.head.Digest != v.Digest || len(e.feed.records) != 2 {
			t.Errorf("%d policies, head %s, %d records", len(e.feed.policies), e.feed.head.Digest, len(e.feed.records))
		}
		if rec := e.feed.records[out.KeyVersion.KID]; rec.Seq != out.KeyVersion.Seq {
			t.Errorf("record has sequence %d", rec.Seq)
		}
	})
}
