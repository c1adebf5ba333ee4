package feed

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

// watching is a Watcher with its signals.
type watching struct {
	*Watcher
	changed *signals
}

// watcher makes one on a client of its own. Poll is what the test gives it.
func (r *rig) watcher(dir string, poll time.Duration) watching {
	r.t.Helper()
	return r.watcherOn(r.newClient(), dir, poll)
}

func (r *rig) watcherOn(c *redis.Client, dir string, poll time.Duration) watching {
	r.t.Helper()
	s := newSignals()
	w, err := NewWatcher(WatcherConfig{
		Config:     Config{Client: c, Deployment: deployment},
		PublicKeys: []ed25519.PublicKey{public(key('z')), public(r.key)}, StateDir: dir, Poll: poll, OnChange: s.notify,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return watching{w, s}
}

// enforcing is a watcher at work with a version in force.
func (r *rig) enforcing(t *testing.T, version int64, poll time.Duration) watching {
	t.Helper()
	r.publish(version, 60)
	w := r.watcher("", poll)
	start(t, w.Run)
	w.untilVersion(t, version)
	return w
}

func (w watching) version() int64 { return w.Status().Version }

func (w watching) untilVersion(t *testing.T, version int64) {
	t.Helper()
	until(t, w.changed, fmt.Sprintf("version %d", version), func() bool { return w.version() == version })
}

func (w watching) untilNACK(t *testing.T, code string) policy.NACK {
	t.Helper()
	until(t, w.changed, "NACK "+code, func() bool { n := w.Status().NACK; return n != nil && n.Code == code })
	return *w.Status().NACK
}

func (w watching) untilNoNACK(t *testing.T) {
	t.Helper()
	until(t, w.changed, "no NACK", func() bool { return w.Status().NACK == nil })
}

// untilPolled waits for a poll that began after the call, and one more.
func (w watching) untilPolled(t *testing.T) {
	t.Helper()
	for range 2 {
		from := w.Status().PolledAt
		until(t, w.changed, "a poll", func() bool { return w.Status().PolledAt.After(from) })
	}
}

const (
	// rarely leaves everything to the bell.
	rarely = time.Hour
	often  = 5 * time.Millisecond
)

func TestWatcher_TakesAVersionOnTheBell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(1, 60)
	w := r.watcher("", rarely)
	if w.Current() != nil || w.Status().StampAge != -1 {
		t.Fatalf("before it runs: %+v", w.Status())
	}
	start(t, w.Run)
	w.untilVersion(t, 1)
	untilSubscribed(t, r, 1)
	p := r.publish(2, 61)
	w.untilVersion(t, 2)
	c := w.Current()
	if c.Digest != p.Digest || !bytes.Equal(c.Body, p.Body) || c.Compiled == nil || c.Since.IsZero() {
		t.Fatalf("snapshot is %+v", c)
	}
	if s := w.Status(); s.NACK != nil || s.HighWater != 2 || !s.Reachable {
		t.Fatalf("status is %+v", s)
	}
}

// untilSubscribed waits until n clients listen to the bell.
func untilSubscribed(t *testing.T, r *rig, n int64) {
	t.Helper()
	until(t, newSignals(), "subscription", func() bool {
		return r.client.PubSubNumSub(t.Context(), "hg:{policy}:bell").Val()["hg:{policy}:bell"] >= n
	})
}

func TestWatcher_PollFindsWhatTheBellMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.watcher("", 0)
	start(t, w.Run)
	for version := int64(1); version <= 4; version++ {
		// No bell is heard: the listener is cut off, and its messages are lost.
		r.do("CLIENT", "KILL", "TYPE", "pubsub")
		before := time.Now()
		r.publish(version, int(version))
		w.untilVersion(t, version)
		holds(t, "the change to the next version", time.Since(before), 3*time.Second, hung)
	}
}

func TestWatcher_ANewSubscriptionLooksAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.watcher("", rarely)
	r.publish(1, 60)
	start(t, w.Run)
	w.untilVersion(t, 1)
	untilSubscribed(t, r, 1)
	other := r.signed(2, 61)
	// Version 2 comes without a bell; the cut subscription is what finds it.
	r.writeRaw(other, nil)
	r.do("CLIENT", "KILL", "TYPE", "pubsub")
	w.untilVersion(t, 2)
}

func TestWatcher_LosingThePolicyInRedisChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(5, 60)
	w := r.watcher("", often)
	start(t, w.Run)
	w.untilVersion(t, 5)
	r.do("FLUSHALL")
	w.untilPolled(t)
	if s := w.Status(); s.Version != 5 || s.NACK != nil {
		t.Fatalf("status after a flush is %+v", s)
	}
	if _, err := r.pub.PublishPolicy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.untilPolled(t)
	if s := w.Status(); s.Version != 5 || s.NACK != nil || !s.Reachable {
		t.Fatalf("status after the refill is %+v", s)
	}
}

func TestWatcher_IsBackWithinASecondAfterRedisIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enforcing(t, 5, 0)
	r.redis.Kill()
	until(t, w.changed, "outage noticed", func() bool { return !w.Status().Reachable })
	outage := time.NewTimer(3 * time.Second) // long enough for a client that gives up dialling
	<-outage.C
	if w.version() != 5 {
		t.Fatal("the version in force is gone")
	}
	r.redis.Start()
	back := time.Now()
	for {
		if result, err := r.pub.PublishPolicy(t.Context(), r.signed(6, 61)); err == nil {
			if result != "published" {
				t.Fatal(result)
			}
			break
		}
	}
	w.untilVersion(t, 6)
	holds(t, "the return", time.Since(back), 2*time.Second, hung) // 0.2 s on a quiet machine
}

func TestWatcher_AHangingRedisIsNoticedAndForgiven(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enforcing(t, 5, often)
	r.redis.Pause()
	until(t, w.changed, "hang noticed", func() bool { return !w.Status().Reachable })
	r.redis.Resume()
	until(t, w.changed, "back", func() bool { return w.Status().Reachable })
	if w.version() != 5 || w.Status().NACK != nil {
		t.Fatalf("status is %+v", w.Status())
	}
}

func TestWatcher_AFloodOfBellsIsCheap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enforcing(t, 1, rarely)
	untilSubscribed(t, r, 1)
	r.do("CONFIG", "RESETSTAT")
	begin := time.Now()
	r.do("EVAL", "for i = 1, 50000 do redis.call('PUBLISH', KEYS[1], 'policy ' .. i) end", 1, "hg:{policy}:bell")
	r.publish(2, 61)
	w.untilVersion(t, 2)
	polls := statCalls(t, r, "evalsha_ro")
	if most := int(time.Since(begin)/bellGap) + 5; polls > most {
		t.Fatalf("%d calls for 50 000 bells, more than %d", polls, most)
	}
}

// statCalls is how often Redis ran a command since RESETSTAT.
func statCalls(t *testing.T, r *rig, command string) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(r.client.Info(t.Context(), "commandstats").Val(), "cmdstat_"+command+":calls=")
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		t.Fatalf("commandstats: %v", err)
	}
	return n
}

func (r *rig) stamp(version int64, issued time.Time, k ed25519.PrivateKey) {
	r.t.Helper()
	if err := r.pub.PutStamp(r.t.Context(), policy.SignStamp(k, deployment, version, "sha256:00", issued)); err != nil {
		r.t.Fatal(err)
	}
}

func TestWatcher_ReportsTheAgeOfTheStampAndDecidesNothingByIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enforcing(t, 5, often)
	r.stamp(5, time.Now().Add(-time.Hour), r.key)
	until(t, w.changed, "stamp", func() bool { return w.Status().StampAge > 59*time.Minute })
	r.stamp(5, time.Now(), key('x')) // not a key of ours
	w.untilPolled(t)
	r.do("SET", "hg:{policy}:stamp", "{")
	w.untilPolled(t)
	r.stamp(5, time.Now().Add(-2*time.Hour), r.key) // replayed
	w.untilPolled(t)
	if age := w.Status().StampAge; age < 59*time.Minute || age > 90*time.Minute {
		t.Fatalf("a forged, torn or replayed stamp counts: age %v", age)
	}
	if s := w.Status(); s.Version != 5 || s.NACK != nil {
		t.Fatalf("status is %+v", s)
	}
	r.stamp(5, time.Now(), r.key)
	until(t, w.changed, "fresh stamp", func() bool { a := w.Status().StampAge; return a >= 0 && a < time.Minute })
}

func TestWatcher_AFreshReplicaTakesItsFloorFromTheStamp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stamp(9, time.Now(), r.key)
	r.publish(5, 60) // an old version, replayed byte for byte
	w := r.watcher("", often)
	start(t, w.Run)
	if nack := w.untilNACK(t, policy.NACKWentBack); nack.Version != 5 {
		t.Fatalf("NACK is %+v", nack)
	}
	if w.Current() != nil {
		t.Fatal("an old version is in force")
	}
	r.publish(9, 61)
	w.untilVersion(t, 9)
}

func TestWatcher_ErrorsOnDiskDoNotStopAPublish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := r.watcher(dir, often)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	start(t, w.Run)
	r.publish(1, 60)
	w.untilVersion(t, 1)
	until(t, w.changed, "fault told", func() bool { return w.Status().Disk != "" })
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.publish(2, 61)
	w.untilVersion(t, 2)
	until(t, w.changed, "fault over", func() bool { return w.Status().Disk == "" })
}
