package feed

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// clientFor is a client as a process would make it for a URL.
func clientFor(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	o, _, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(*o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return c
}

// wideRig is a rig on some topology, in a namespace of its own.
type wideRig struct {
	rig
	url  string
	wire Config
}

func newWideRig(t testing.TB, url, namespace string) *wideRig {
	t.Helper()
	w := &wideRig{rig: rig{t: t, key: key('a')}, url: url}
	w.wire = Config{Client: clientFor(t, url), Namespace: namespace, Deployment: deployment}
	var err error
	if w.pub, err = NewPublisher(w.wire); err != nil {
		t.Fatal(err)
	}
	return w
}

// patiently repeats what a machine that starts six servers at once may keep from
// being done in time. Everything that a console sends may be repeated.
func (w *wideRig) patiently(what string, do func() error) {
	w.t.Helper()
	var err error
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%s: %v", what, err)
		}
	}()
	until(w.t, newSignals(), what, func() bool { err = do(); return err == nil })
}

func (w *wideRig) publish(version int64, rate int) {
	w.t.Helper()
	w.patiently(fmt.Sprintf("publish version %d", version), func() error {
		result, err := w.pub.PublishPolicy(w.t.Context(), w.signed(version, rate))
		if err == nil && result != "published" && result != "same" {
			err = errors.New(result)
		}
		return err
	})
}

func (w *wideRig) put(records ...policy.SignedRecord) {
	w.t.Helper()
	w.patiently("put records", func() error {
		_, err := w.pub.PutRecords(w.t.Context(), records)
		return err
	})
}

func (w *wideRig) fill(epoch string, records ...policy.SignedRecord) (place policy.Place) {
	w.t.Helper()
	w.patiently("fill", func() error {
		if err := w.pub.BeginDirectory(w.t.Context()); err != nil {
			return err
		}
		if _, err := w.pub.PutRecords(w.t.Context(), records); err != nil {
			return err
		}
		var err error
		if place, err = w.pub.FinishDirectory(w.t.Context(), epoch); err == nil && w.state().Compared == "" {
			err = errors.New("a server did not say who it is at the begin")
		}
		return err
	})
	return place
}

// state is State, when all servers say who they are.
func (w *wideRig) state() (s policy.FeedState) {
	w.t.Helper()
	w.patiently("state", func() (err error) {
		if s, err = w.pub.State(w.t.Context()); err == nil && s.Servers == "" {
			err = errors.New("a server does not say who it is")
		}
		return err
	})
	return s
}

// ends are one replica's ends of the wire, at work on a client of their own.
type ends struct {
	watching
	looking
	reporter        *Reporter
	records, resets *atomic.Int64 // what the hooks were told
}

func (w *wideRig) ends() ends {
	w.t.Helper()
	cfg := w.wire
	cfg.Client = clientFor(w.t, w.url)
	cfg.Now = nil
	changed := newSignals()
	e := ends{records: new(atomic.Int64), resets: new(atomic.Int64)}
	trusted := []ed25519.PublicKey{public(w.key)}
	watcher, err := NewWatcher(WatcherConfig{Config: cfg, PublicKeys: trusted, OnChange: changed.notify})
	directory, err2 := NewDirectory(DirectoryConfig{
		Config: cfg, PublicKeys: trusted, OnChange: changed.notify, Timeout: time.Second,
		OnRecord: func(policy.RecordKind, string) { e.records.Add(1) }, OnReset: func() { e.resets.Add(1) },
	})
	reporter, err3 := NewReporter(cfg)
	if err := errors.Join(err, err2, err3); err != nil {
		w.t.Fatal(err)
	}
	e.watching, e.looking, e.reporter = watching{watcher, changed}, looking{directory, changed, &clock{}}, reporter
	start(w.t, watcher.Run)
	start(w.t, directory.Run)
	return e
}

func (e ends) untilState(t *testing.T, kid, want string) {
	t.Helper()
	until(t, e.looking.changed, fmt.Sprintf("key %s is %s", kid, want), func() bool { return e.state(kid) == want })
}

// TestWire_R041_IsTheSameOnEveryTopology drives every call of the wire: a key in
// the wrong slot, a script that is not there or a server that is not the right
// one would show as an error.
func TestWire_R041_IsTheSameOnEveryTopology(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return testkit.Redis(t).URL },
		"Sentinel":   func(t testing.TB) string { return testkit.Sentinel(t).URL() },
		"Cluster":    func(t testing.TB) string { return testkit.Cluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWideRig(t, begin(t), "hg")
			first, second := w.ends(), w.ends()
			w.publish(1, 60)
			var records []policy.SignedRecord
			for i := range 300 {
				records = append(records, w.keyRecord(fmt.Sprintf("k%d", i), 1, policy.KeyActive))
			}
			place := w.fill("e1", append(records, w.tenantRecord("ten_a", 1, policy.TenantActive))...)
			for _, e := range []ends{first, second} {
				e.untilVersion(t, 1)
				e.untilPlace(t, place)
				for i := range 300 {
					e.untilState(t, fmt.Sprintf("k%d", i), "active")
				}
				until(t, e.looking.changed, "tenant", func() bool { return e.tenantState("ten_a") == "active" })
				e.untilState(t, "stranger", "unknown")
				if e.resets.Load() == 0 {
					t.Fatal("the hook was not told of the new directory")
				}
			}
			w.drive(t, first, second)
		})
	}
}

// drive goes on with changes, reports and a second filling.
func (w *wideRig) drive(t *testing.T, first, second ends) {
	t.Helper()
	before := first.records.Load()
	w.put(w.keyRecord("k7", 2, policy.KeyRevoked), w.keyRecord("k300", 1, policy.KeyActive))
	w.publish(2, 61)
	for _, e := range []ends{first, second} {
		e.untilState(t, "k7", "revoked")
		e.untilState(t, "k300", "active")
		e.untilVersion(t, 2)
	}
	if n := first.records.Load() - before; n < 2 {
		t.Errorf("the hook was told of %d records, want 2", n)
	}
	const some = 20 // replicas, in as many slots
	for i := range some {
		w.patiently("beat", func() error {
			live, now, err := first.reporter.Beat(t.Context(), policy.Heartbeat{ID: fmt.Sprintf("gw_%d", i)})
			if err == nil && (live != i+1 || now.IsZero()) {
				t.Errorf("beat %d: %d live at %v", i, live, now)
			}
			return err
		})
	}
	w.patiently("usage", func() error {
		return second.reporter.SendUsage(t.Context(), usage.Batch{Replica: "gw_1", Boot: "b", Seq: 1})
	})
	var replicas []policy.Heartbeat
	var batches []usage.Batch
	w.patiently("all that a console reads", func() error {
		var errs [5]error
		replicas, errs[0] = w.pub.Replicas(t.Context())
		batches, _, errs[1] = w.pub.Usage(t.Context(), "")
		_, errs[2] = w.pub.Now(t.Context())
		_, errs[3] = w.pub.Ping(t.Context())
		errs[4] = w.pub.PutStamp(t.Context(), policy.Stamp{})
		return errors.Join(errs[:]...)
	})
	state := w.state()
	if len(replicas) != some || len(batches) < 1 || state.Version != 2 || state.Servers != state.Compared {
		t.Errorf("%d replicas, %d batches, state %+v", len(replicas), len(batches), state)
	}
	place := w.fill("e2", w.keyRecord("k7", 3, policy.KeyActive))
	for _, e := range []ends{first, second} {
		e.untilPlace(t, place)
		e.untilState(t, "k7", "active")
		e.untilState(t, "k8", "unknown")
	}
}

// loseReplication has a primary's replicas miss everything from now on, and
// nothing of what was written before; mend lets them run again, so that one of
// them can take over.
func loseReplication(t *testing.T, primary *testkit.Node, replicas ...*testkit.Node) (mend func()) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: primary.Addr})
	defer func() { _ = client.Close() }()
	c := client.Conn() // WAIT is for what the server had written when this connection last asked something
	defer func() { _ = c.Close() }()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Wait(t.Context(), len(replicas), patience).Result(); err != nil || int(n) < len(replicas) {
		t.Fatalf("%d of %d replicas have everything: %v", n, len(replicas), err)
	}
	for _, r := range replicas {
		r.Pause()
	}
	if err := c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, r := range replicas {
			r.Resume()
		}
	}
}

// backAfter is how soon after a promotion both ends have to be back.
const backAfter = time.Second

func TestSentinel_R05_NobodyGoesBackAndAllAreBackSoonAfterAPromotion(t *testing.T) {
	t.Parallel()
	s := testkit.Sentinel(t)
	w := newWideRig(t, s.URL(), "hg")
	e := w.ends()
	w.publish(1, 60)
	place := w.fill("e1", w.keyRecord("k1", 1, policy.KeyActive), w.keyRecord("k2", 1, policy.KeyActive))
	e.untilVersion(t, 1)
	e.untilPlace(t, place)
	e.untilState(t, "k1", "active")

	primary := s.Primary()
	mend := loseReplication(t, primary, s.Replicas()...)
	w.publish(2, 61)
	w.put(w.keyRecord("k1", 2, policy.KeyRevoked))
	e.untilVersion(t, 2)
	e.untilState(t, "k1", "revoked")
	primary.Kill()
	mend()
	s.Promoted(primary)
	from := time.Now()
	e.untilReachable(t)
	holds(t, "reaching the new primary", time.Since(from), backAfter, hung)

	// The new primary has neither the version nor the revocation.
	if state := w.state(); state.Version != 1 || state.Servers == state.Compared {
		t.Fatalf("state after the failover: %+v", state)
	}
	for range 50 {
		if v := e.Current().Version; v != 2 {
			t.Fatalf("version %d is in force", v)
		}
		if got := e.state("k1"); got == "active" {
			t.Fatal("the revoked key is accepted again")
		}
	}
	w.publish(3, 62)
	e.untilVersion(t, 3)
	w.fill("e2", w.keyRecord("k1", 2, policy.KeyRevoked))
	e.untilState(t, "k1", "revoked")
	e.untilState(t, "k2", "unknown")
}

// untilReachable waits until both ends have asked Redis and were answered.
func (e ends) untilReachable(t *testing.T) {
	t.Helper()
	begun := time.Now()
	defer func() {
		if t.Failed() {
			t.Logf("since %v: %+v, %+v", begun, e.Status(), e.Stats())
		}
	}()
	until(t, e.watching.changed, "both ends are answered", func() bool {
		return e.Status().PolledAt.After(begun) && e.Stats().Contact.After(begun)
	})
}

func TestCluster_R05_WhatAShardLostIsPutBackOnEveryGateway(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	w := newWideRig(t, c.URL(), "hg")
	known := w.ends()
	w.publish(1, 60)
	kid := keyOutside(c, "hg:{directory}:head", "hg:{policy}:head")
	records := []policy.SignedRecord{w.keyRecord(kid, 1, policy.KeyActive), w.keyRecord("other", 1, policy.KeyActive)}
	place := w.fill("e1", records...)
	known.untilPlace(t, place)
	known.untilState(t, kid, "active")

	shard := c.Owner(c.Slot("hg:key:" + kid))
	mend := loseReplication(t, shard, c.ReplicaOf(shard))
	revoked := w.keyRecord(kid, 2, policy.KeyRevoked)
	w.put(revoked)
	known.untilState(t, kid, "revoked")
	shard.Kill()
	mend()
	c.KillNode(shard)
	from := time.Now()
	known.untilReachable(t)
	until(t, known.looking.changed, "the shard answers", func() bool { return known.state("nobody") == "unknown" && w.reads(kid) })
	holds(t, "reaching the shard's new primary", time.Since(from), backAfter, hung)

	// The change is there, and the record is not: a gateway that never saw the
	// revocation has no way to know.
	fresh := w.ends()
	fresh.untilState(t, kid, "active")
	if got := known.state(kid); got != "revoked" && got != "unavailable" {
		t.Errorf("a gateway that has seen the revocation says %s", got)
	}
	state := w.state()
	if state.Servers == state.Compared {
		t.Fatalf("the loss does not show: %+v", state)
	}
	resets := fresh.resets.Load()
	var after policy.Place
	w.patiently("mend", func() (err error) {
		after, err = w.pub.MendDirectory(t.Context(), state.Servers, func(put func(context.Context, []policy.SignedRecord) error) error {
			return put(t.Context(), []policy.SignedRecord{revoked, records[1]})
		})
		return err
	})
	if after.Epoch != "e1" || after.Seq <= place.Seq {
		t.Fatalf("mended at %+v", after)
	}
	fresh.untilPlace(t, after)
	known.untilPlace(t, after)
	for _, e := range []ends{fresh, known} {
		if e.state(kid) == "active" {
			t.Error("the revoked key is still accepted after mending")
		}
		e.untilState(t, kid, "revoked")
	}
	if fresh.resets.Load() == resets {
		t.Error("the hook was not told that anything may have changed")
	}
	if state = w.state(); state.Servers != state.Compared || state.Directory != after {
		t.Errorf("state after mending: %+v", state)
	}
}

// keyOutside finds a key id whose record lies on another shard than both keys.
func keyOutside(c *testkit.ClusterSet, one, two string) string {
	for i := 0; ; i++ {
		kid := fmt.Sprintf("k%d", i)
		if at := c.Owner(c.Slot("hg:key:" + kid)); at != c.Owner(c.Slot(one)) && at != c.Owner(c.Slot(two)) {
			return kid
		}
	}
}

// reads reports whether a key's record can be read by the console.
func (w *wideRig) reads(kid string) bool {
	return w.wire.Client.Get(w.t.Context(), "hg:key:"+kid).Err() == nil
}

func TestMendDirectory_OfAWholeDirectoryDisturbsNobody(t *testing.T) {
	t.Parallel()
	w := newWideRig(t, testkit.Redis(t).URL, "hg")
	e := w.ends()
	rec := w.keyRecord("k1", 1, policy.KeyActive)
	place := w.fill("e1", rec)
	e.untilPlace(t, place)
	e.untilState(t, "k1", "active")
	mend := func(fail error) (policy.Place, error) {
		return w.pub.MendDirectory(t.Context(), "servers", func(put func(context.Context, []policy.SignedRecord) error) error {
			return errors.Join(put(t.Context(), []policy.SignedRecord{rec}), fail)
		})
	}
	if after, err := mend(nil); err != nil || after != place {
		t.Fatalf("nothing to mend: %+v, %v; want %+v", after, err, place)
	}
	if s, err := w.pub.State(t.Context()); err != nil || s.Compared != "servers" {
		t.Errorf("state %+v, %v", s, err)
	}
	// Cut off after it put something back: the next one tells everybody.
	if err := w.wire.Client.Del(t.Context(), "hg:key:k1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := mend(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Fatalf("cut off: %v", err)
	}
	after, err := mend(nil)
	if err != nil || after.Seq <= place.Seq {
		t.Fatalf("after one that was cut off: %+v, %v", after, err)
	}
	e.untilPlace(t, after)
	w.wire.Client.Del(t.Context(), "hg:{directory}:head")
	if lost, err := mend(nil); err != nil || lost.Epoch != "" {
		t.Errorf("a directory that is gone was mended at %+v, %v", lost, err)
	}
}
