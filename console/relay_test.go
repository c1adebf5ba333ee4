package console_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// relay runs a relay over the env's feed and wires the services to it.
func (e *env) relay(t *testing.T) *console.Relay {
	t.Helper()
	r := console.NewRelay(e.deps, e.store)
	e.deps.Nudge = r.Nudge
	e.tenants, e.keys, e.rotations, e.policies = console.NewTenants(e.deps), console.NewKeys(e.deps), console.NewRotations(e.deps), console.NewPolicies(e.deps)
	run(t, r.Run)
	return r
}

func (e *env) keyRecord(t *testing.T, kid string) (out policy.KeyRecord, ok bool) {
	t.Helper()
	r, ok := e.feed.records[kid]
	if !ok {
		return out, false
	}
	if err := policy.VerifyRecord([]ed25519.PublicKey{e.public}, testDeployment, r); err != nil {
		t.Errorf("record of %s: %v", kid, err)
	}
	if err := json.Unmarshal(r.Body, &out); err != nil {
		t.Error(err)
	}
	return out, true
}

func TestRelay_CommittedChangesReachTheGatewaysSigned(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	v := e.publish(t, "10", 0)
	e.feed.until(t, "key, tenant and policy", func() bool {
		_, key := e.keyRecord(t, out.KeyVersion.KID)
		_, tenant := e.feed.records[ten.ID]
		return key && tenant && e.feed.head.Version == v.Number && len(e.feed.stamps) > 0
	})
	e.feed.set(func() {
		if err := policy.VerifyPolicy([]ed25519.PublicKey{e.public}, testDeployment, e.feed.head); err != nil {
			t.Error(err)
		}
		rec, _ := e.keyRecord(t, out.KeyVersion.KID)
		if rec.State != policy.KeyActive || rec.Tenant != ten.ID || rec.Digest != out.KeyVersion.Digest || rec.NotAfter != nil {
			t.Errorf("record %+v", rec)
		}
	})
	if _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "leak"); err != nil {
		t.Fatal(err)
	}
	e.feed.until(t, "revocation", func() bool {
		rec, _ := e.keyRecord(t, out.KeyVersion.KID)
		return rec.State == policy.KeyRevoked
	})
}

func TestRelay_RotationCarriesTheDeadlineOfTheOldVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	r := e.rotate(t, out.Credential.ID, dayLong)
	e.feed.until(t, "both versions", func() bool {
		old, _ := e.keyRecord(t, out.KeyVersion.KID)
		fresh, ok := e.keyRecord(t, r.KeyVersion.KID)
		return ok && fresh.State == policy.KeyActive && old.State == policy.KeyRetiring &&
			old.NotAfter.Equal(r.Rotation.EndsAt) && old.RetiringAt.Equal(r.Rotation.StartedAt)
	})
}

func TestRelay_LostRedisIsFilledAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	ten := e.tenant(t, "A")
	out, gone := e.issue(t, ten.ID), e.issue(t, ten.ID)
	e.publish(t, "10", 0)
	if _, err := e.keys.Revoke(e.ctx, owner, gone.KeyVersion.KID, "leak"); err != nil {
		t.Fatal(err)
	}
	whole := func() bool {
		_, key := e.keyRecord(t, out.KeyVersion.KID)
		rec, _ := e.keyRecord(t, gone.KeyVersion.KID)
		return key && rec.State == policy.KeyRevoked && e.feed.head.Version == 1 && e.feed.place.Epoch != ""
	}
	e.feed.until(t, "first fill", whole)
	e.feed.lose()
	e.feed.until(t, "second fill", whole)
	e.feed.set(func() {
		if e.feed.fills < 2 {
			t.Errorf("%d fills", e.feed.fills)
		}
	})
}

func TestRelay_RewoundDirectoryIsFilledAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	e.issue(t, e.tenant(t, "A").ID)
	e.feed.until(t, "fill", func() bool { return e.feed.place.Epoch != "" && len(e.feed.records) == 2 })
	for name, rewind := range map[string]func(){
		"older place, same copy": func() { e.feed.place.Seq = 0; delete(e.feed.records, "") },
		"another copy":           func() { e.feed.place.Epoch = "of another time" },
	} {
		before := 0
		e.feed.set(func() { before = e.feed.fills; rewind() })
		e.feed.until(t, name, func() bool { return e.feed.fills > before && e.feed.place.Epoch != "" && len(e.feed.records) == 2 })
	}
}

// rewindingFeed goes back to the beginning of its copy just before a write, as
// a Redis does that a replica took over from.
type rewindingFeed struct {
	*fakeFeed
	armed *atomic.Bool
}

func (f rewindingFeed) PutRecords(ctx context.Context, r []policy.SignedRecord) (policy.Place, error) {
	if f.armed.CompareAndSwap(true, false) {
		f.set(func() { f.records, f.place.Seq = map[string]policy.SignedRecord{}, 0 })
	}
	return f.fakeFeed.PutRecords(ctx, r)
}

func TestRelay_DirectoryThatWasRewoundByTheTimeOfAWriteIsFilledAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	feed := rewindingFeed{e.feed, new(atomic.Bool)}
	e.deps.Feed = feed
	e.relay(t)
	for _, name := range []string{"A", "B", "C"} {
		e.tenant(t, name)
	}
	e.feed.until(t, "three tenants", func() bool { return e.feed.place.Epoch != "" && len(e.feed.records) == 3 })
	waitDrained(t, e)
	feed.armed.Store(true)
	e.tenant(t, "D")
	e.feed.until(t, "all four", func() bool { return len(e.feed.records) == 4 && e.feed.fills == 2 })
}

// mendingFeed is a feed on servers that can be replaced.
type mendingFeed struct {
	*fakeFeed
	servers, compared *string
	mended            *int
}

func (f mendingFeed) State(ctx context.Context) (policy.FeedState, error) {
	s, err := f.fakeFeed.State(ctx)
	defer f.lock()()
	s.Servers, s.Compared = *f.servers, *f.compared
	return s, err
}

func (f mendingFeed) MendDirectory(ctx context.Context, servers string, records func(func(context.Context, []policy.SignedRecord) error) error) (policy.Place, error) {
	err := records(func(_ context.Context, batch []policy.SignedRecord) error {
		defer f.lock()()
		for _, r := range batch {
			if f.records[r.ID].Seq < r.Seq {
				f.records[r.ID] = r
				*f.mended++
			}
		}
		return nil
	})
	defer f.lock()()
	*f.compared = servers
	f.ring()
	return f.place, err
}

func TestRelay_R05_WhatAFailoverLostIsPutBackWhileTheDirectoryStays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	feed := mendingFeed{e.feed, new(string), new(string), new(int)}
	*feed.servers, *feed.compared = "a", "a"
	e.deps.Feed = feed
	e.relay(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	kid := out.KeyVersion.KID
	if _, err := e.keys.Revoke(e.ctx, owner, kid, "leak"); err != nil {
		t.Fatal(err)
	}
	e.feed.until(t, "revocation", func() bool { return e.feed.place.Epoch != "" && e.feed.records[kid].Seq > 1 })
	waitDrained(t, e)
	e.feed.set(func() {
		revoked := e.feed.records[kid]
		revoked.Seq--
		e.feed.records[kid] = revoked // as it was before, on the server that takes over
		*feed.servers = "b"
	})
	e.feed.until(t, "comparison", func() bool { return *feed.compared == "b" })
	e.feed.set(func() {
		if *feed.mended != 1 || e.feed.fills != 1 {
			t.Errorf("%d records put back, %d fills; want one and the first", *feed.mended, e.feed.fills)
		}
	})
}

func TestRelay_RestartDoesNotFillAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	t.Run("first", func(t *testing.T) {
		e.relay(t)
		e.issue(t, e.tenant(t, "A").ID)
		e.feed.until(t, "fill", func() bool { return e.feed.place.Epoch != "" && len(e.feed.records) == 2 })
		waitDrained(t, e)
	})
	e.relay(t)
	ten := e.tenant(t, "B")
	e.feed.until(t, "next change", func() bool { _, ok := e.feed.records[ten.ID]; return ok })
	e.feed.set(func() {
		if e.feed.fills != 1 {
			t.Errorf("%d fills", e.feed.fills)
		}
	})
}

// waitDrained waits until nothing is pending.
func waitDrained(t *testing.T, e *env) {
	t.Helper()
	waitFor(t, "an empty outbox", func() bool {
		var n int64
		err := e.store.Read(e.ctx, func(tx console.Tx) (err error) { n, err = tx.CountPendingOutbox(e.ctx); return err })
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

func TestRelay_OutageKeepsChangesPendingAndSaysSo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	e.feed.until(t, "first fill", func() bool { return e.feed.place.Epoch != "" })
	e.feed.set(func() { e.feed.down = errors.New("connection refused") })
	v := e.publish(t, "10", 0) // stored, though Redis is away
	out := e.issue(t, e.tenant(t, "A").ID)
	for {
		var row console.OutboxRow
		err := e.store.Read(e.ctx, func(tx console.Tx) (err error) { row, err = tx.Outbox(e.ctx, out.Change.OutboxID); return err })
		if err != nil {
			t.Fatal(err)
		}
		if row.DoneAt != nil {
			t.Fatal("sent while Redis was away")
		}
		if row.LastError != "" {
			break
		}
	}
	e.feed.set(func() { e.feed.down = nil })
	e.feed.until(t, "after the outage", func() bool {
		_, ok := e.keyRecord(t, out.KeyVersion.KID)
		return ok && e.feed.head.Version == v.Number
	})
}

func TestRelay_TwoConsolesSendEachChangeOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	e.relay(t) // a second console on the same database
	e.feed.until(t, "first fill", func() bool { return e.feed.place.Epoch != "" })
	ten := e.tenant(t, "A")
	e.feed.until(t, "tenant", func() bool { _, ok := e.feed.records[ten.ID]; return ok })
	waitDrained(t, e)
	e.feed.set(func() {
		if e.feed.fills != 1 {
			t.Errorf("%d fills", e.feed.fills)
		}
	})
}

// restoringFeed can put a version back. Reads counts how often what is there was read.
type restoringFeed struct {
	*fakeFeed
	reads *int
}

func (f restoringFeed) ReadPolicy(context.Context) (policy.SignedPolicy, error) {
	defer f.lock()()
	*f.reads++
	return f.head, f.down
}

func (f restoringFeed) RestorePolicy(_ context.Context, p, _ policy.SignedPolicy) error {
	defer f.lock()()
	if f.down == nil {
		f.policies[p.Version], f.head = p, p
		f.ring()
	}
	return f.down
}

func TestRelay_VersionThatSomebodyElseWroteIsPutRight(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.deps.Feed = restoringFeed{e.feed, new(int)}
	e.relay(t)
	v := e.publish(t, "10", 0)
	e.feed.until(t, "publication", func() bool { return e.feed.head.Digest == v.Digest })
	e.feed.set(func() { e.feed.head.Digest = "sha256:forged" })
	e.feed.until(t, "restoration", func() bool { return e.feed.head.Digest == v.Digest })
}

// TestRelay_R090_AForeignHigherVersionIsLeftToBeRefusedForAWhile: gateways
// report why they refuse it, and nobody would see that if it went at once.
func TestRelay_R090_AForeignHigherVersionIsLeftToBeRefusedForAWhile(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	reads := 0
	e.deps.Feed = restoringFeed{e.feed, &reads}
	e.relay(t)
	v := e.publish(t, "10", 0)
	e.feed.until(t, "publication", func() bool { return e.feed.head.Digest == v.Digest })
	forge := func(version int64) {
		body := newest(t, "90")
		e.feed.set(func() { e.feed.head = policy.SignPolicy(otherKey(), testDeployment, version, "", body, e.clock.now()) })
	}
	forge(50)
	e.tenant(t, rand.Text())
	e.feed.until(t, "a round that has seen it, and a later one", func() bool { return reads >= 2 })
	e.feed.set(func() {
		if e.feed.head.Version != 50 {
			t.Errorf("version %d is in Redis already", e.feed.head.Version)
		}
	})
	e.clock.add(time.Minute)
	e.tenant(t, "later")
	e.feed.until(t, "restoration", func() bool { return e.feed.head.Digest == v.Digest })

	forge(60)
	ten := e.tenant(t, rand.Text())
	e.feed.until(t, "a round that has seen it", func() bool { _, ok := e.feed.records[ten.ID]; return ok })
	v = e.publish(t, "20", v.Number)
	e.feed.until(t, "a publication that it keeps out", func() bool { return e.feed.head.Digest == v.Digest })
}

func TestFleet_VersionThatSomebodyElseWroteIsShown(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	e.feed.set(func() { e.feed.head = policy.SignedPolicy{Version: v.Number, Digest: v.Digest} })
	if h := e.fleet.Health(e.ctx); h.PolicyDiffers {
		t.Fatalf("health %+v", h)
	}
	e.feed.set(func() { e.feed.head.Digest = "sha256:forged" })
	e.clock.add(time.Minute)
	if h := e.fleet.Health(e.ctx); !h.PolicyDiffers {
		t.Fatalf("health %+v", h)
	}
}
