package feed

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// looking is a Directory with its signals and clock.
type looking struct {
	*Directory
	changed *signals
	now     *clock
}

// clock is the time, moved by the test.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func (r *rig) directory(dir string, poll time.Duration, options ...func(*DirectoryConfig)) looking {
	r.t.Helper()
	s, c := newSignals(), &clock{}
	cfg := DirectoryConfig{
		Config:     Config{Client: r.newClient(), Deployment: deployment, Now: c.Now},
		PublicKeys: []ed25519.PublicKey{public(key('z')), public(r.key)}, StateDir: dir, Poll: poll, OnChange: s.notify,
		Timeout: time.Second, // busy machines; the default is tried where it matters
	}
	for _, o := range options {
		o(&cfg)
	}
	d, err := NewDirectory(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return looking{d, s, c}
}

// following is a directory at work that has read Redis, which holds the records.
func (r *rig) following(t *testing.T, poll time.Duration, records ...policy.SignedRecord) looking {
	t.Helper()
	place := r.fill("e1", records...)
	d := r.directory("", poll)
	start(t, d.Run)
	d.untilPlace(t, place)
	return d
}

func (l looking) untilPlace(t *testing.T, p policy.Place) {
	t.Helper()
	until(t, l.changed, fmt.Sprintf("place %+v", p), func() bool { return l.Place() == p && l.Stats().Whole })
}

// state looks a key up and tells its state or the error's name.
func (l looking) state(kid string) string {
	k, err := l.Key(context.Background(), kid)
	return told(string(k.State), err)
}

func (l looking) tenantState(id string) string {
	rec, err := l.Tenant(context.Background(), id)
	return told(string(rec.State), err)
}

func told(state string, err error) string {
	switch {
	case err == nil:
		return state
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	}
	return err.Error()
}

func TestDirectory_AnswersFromRedisThenFromItsCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive), r.tenantRecord("ten_a", 1, policy.TenantActive))
	k, err := d.Key(t.Context(), "k1")
	if err != nil || k.Tenant != "ten_a" || k.Digest != "sha256:00" || k.State != policy.KeyActive {
		t.Fatalf("key is %+v, %v", k, err)
	}
	r.do("CONFIG", "RESETSTAT")
	for range 10 {
		if d.state("k1") != "active" || d.tenantState("ten_a") != "active" {
			t.Fatal("not answered")
		}
	}
	s := d.Stats()
	if s.Misses != 1 || s.Hits != 20 || s.Entries != 2 {
		t.Fatalf("stats are %+v: want one question to Redis, which brought key and tenant", s)
	}
}

// TestDirectory_AKeyIsAnsweredOnceItsTenantIsThere: who was told of a key asks
// for its tenant next, and must not have to ask Redis again.
func TestDirectory_AKeyIsAnsweredOnceItsTenantIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	records := []policy.SignedRecord{r.tenantRecord("ten_a", 1, policy.TenantActive)}
	const rounds = 300
	for i := range rounds {
		records = append(records, r.keyRecord(fmt.Sprintf("k%d", i), 1, policy.KeyActive))
	}
	d := r.following(t, rarely, records...)
	untilSubscribed(t, r, 1)
	for i := range rounds {
		d.cache.drop(recordID{policy.RecordTenant, "ten_a"}, 0)
		if key, tenant := d.state(fmt.Sprintf("k%d", i)), d.tenantState("ten_a"); key != "active" || tenant != "active" {
			t.Fatalf("key is %s, tenant %s", key, tenant)
		}
	}
	if s := d.Stats(); s.Misses != rounds || s.Hits != rounds {
		t.Fatalf("stats are %+v: want one question for each key and its tenant", s)
	}
}

func TestDirectory_UnknownIsRememberedUntilTheKeyIsMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely)
	untilSubscribed(t, r, 1)
	for range 5 {
		if got := d.state("k1"); got != "unknown" {
			t.Fatal(got)
		}
	}
	if s := d.Stats(); s.Misses != 1 || s.Negative != 1 {
		t.Fatalf("stats are %+v: want one question, remembered", s)
	}
	d.untilPlace(t, r.put(r.keyRecord("k1", 1, policy.KeyActive)))
	if got := d.state("k1"); got != "active" {
		t.Fatalf("a key that was just made is %s", got)
	}
}

func TestDirectory_MisshapenIDsAreUnknownWithoutAQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.directory("", rarely)
	r.redis.Kill()
	for _, id := range []string{"", "a b", "*", "k1\nx", "{policy}", string(make([]byte, 65))} {
		if got := d.state(id); got != "unknown" {
			t.Errorf("%q is %s", id, got)
		}
	}
}

func TestDirectory_R053_RevocationIsFollowedOnBellAndPoll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		poll time.Duration
		cut  bool
	}{"bell": {rarely, false}, "poll": {0, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			d := r.following(t, c.poll, r.keyRecord("k1", 1, policy.KeyActive), r.tenantRecord("ten_a", 1, policy.TenantActive))
			untilSubscribed(t, r, 1)
			if d.state("k1") != "active" || d.tenantState("ten_a") != "active" {
				t.Fatal("not answered")
			}
			if c.cut {
				r.do("CLIENT", "KILL", "TYPE", "pubsub")
			}
			begin := time.Now()
			d.untilPlace(t, r.put(r.keyRecord("k1", 2, policy.KeyRevoked), r.tenantRecord("ten_a", 2, policy.TenantSuspended)))
			holds(t, "following by "+name, time.Since(begin), 3*time.Second, hung)
			if got := d.state("k1"); got != "revoked" {
				t.Errorf("key is %s", got)
			}
			if got := d.tenantState("ten_a"); got != "suspended" {
				t.Errorf("tenant is %s", got)
			}
		})
	}
}

// TestDirectory_NoAnswerIsOlderThanARefusal hammers a key from many sides while
// it is revoked: once one caller was told so, nobody is told otherwise.
func TestDirectory_NoAnswerIsOlderThanARefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1")
	d := r.directory("", rarely)
	start(t, d.Run)
	d.untilPlace(t, place)
	untilSubscribed(t, r, 1)
	for round := range 20 {
		kid := fmt.Sprintf("k%d", round)
		d.untilPlace(t, r.put(r.keyRecord(kid, 1, policy.KeyActive)))
		var refused, stop atomic.Bool
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for !stop.Load() {
					was := refused.Load()
					switch got := d.state(kid); got {
					case "revoked":
						refused.Store(true)
					case "active":
						if was {
							t.Error("admitted after it was refused")
						}
					default:
						t.Error(got)
					}
				}
			})
		}
		place := r.put(r.keyRecord(kid, 2, policy.KeyRevoked))
		d.untilPlace(t, place)
		if got := d.state(kid); got != "revoked" {
			t.Errorf("key is %s after its change was applied", got)
		}
		stop.Store(true)
		asking.Wait()
	}
}

func TestDirectory_AForgedRecordIsNeitherAdmittedNorUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely)
	other := *r
	other.key = key('x')
	staging, err := policy.SignRecord(r.key, "staging", policy.RecordKey, "k1", 1, policy.KeyRecord{KID: "k1", State: policy.KeyActive})
	if err != nil {
		t.Fatal(err)
	}
	noBody, err := policy.SignRecord(r.key, deployment, policy.RecordKey, "k1", 1, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	foreignBody, err := policy.SignRecord(r.key, deployment, policy.RecordKey, "k1", 1, policy.KeyRecord{KID: "k2"})
	if err != nil {
		t.Fatal(err)
	}
	changed := r.keyRecord("k1", 1, policy.KeyRevoked)
	changed.Body = r.keyRecord("k1", 1, policy.KeyActive).Body
	renumbered := r.keyRecord("k1", 1, policy.KeyActive)
	renumbered.Seq = 99
	for name, value := range map[string]any{
		"other key": other.keyRecord("k1", 1, policy.KeyActive).Encode(), "other deployment": staging.Encode(),
		"of another key": r.keyRecord("k2", 1, policy.KeyActive).Encode(), "of a tenant": r.tenantRecord("k1", 1, policy.TenantActive).Encode(),
		"body changed": changed.Encode(), "renumbered": renumbered.Encode(), "no body": noBody.Encode(), "body of another": foreignBody.Encode(),
		"empty": "", "nonsense": "hello", "torn": r.keyRecord("k1", 1, policy.KeyActive).Encode()[:60], "large": make([]byte, 1<<20),
	} {
		r.do("SET", "hg:key:k1", value)
		before := d.Stats().BadRecords
		if got := d.state("k1"); got != "unavailable" {
			t.Errorf("%s: key is %s", name, got)
		}
		if d.Stats().BadRecords == before {
			t.Errorf("%s: not counted", name)
		}
	}
	r.do("DEL", "hg:key:k1")
	r.do("RPUSH", "hg:key:k1", "x")
	if got := d.state("k1"); got != "unavailable" {
		t.Errorf("a list: key is %s", got)
	}
	if d.Stats().BreakerOpen {
		t.Error("bad records opened the breaker")
	}
	r.put(r.keyRecord("k1", 1, policy.KeyActive))
	if got := d.state("k1"); got != "active" {
		t.Errorf("after the console put it back: key is %s", got)
	}
}

func TestDirectory_AReplayedRecordIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.keyRecord("k1", 1, policy.KeyActive)
	d := r.following(t, rarely, old)
	untilSubscribed(t, r, 1)
	d.state("k1")
	d.untilPlace(t, r.put(r.keyRecord("k1", 2, policy.KeyRevoked)))
	if got := d.state("k1"); got != "revoked" {
		t.Fatal(got)
	}
	// The old record is put back, and announced as a console would.
	r.do("SET", "hg:key:k1", old.Encode())
	r.do("HINCRBY", "hg:{directory}:head", "seq", 1)
	r.do("XADD", "hg:{directory}:changes", fmt.Sprintf("%d-0", d.Place().Seq+1), "kind", "key", "id", "k1")
	r.do("PUBLISH", "hg:{policy}:bell", "directory 9")
	d.untilPlace(t, policy.Place{Epoch: "e1", Seq: d.Place().Seq + 1})
	if got := d.state("k1"); got != "unavailable" {
		t.Fatalf("key is %s", got)
	}
}

func TestDirectory_ManyChangesAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, often, r.keyRecord("k1", 1, policy.KeyActive))
	d.state("k1")
	var records []policy.SignedRecord
	for i := range 2*changesPerCall + 10 {
		records = append(records, r.keyRecord(fmt.Sprintf("n%d", i), 1, policy.KeyActive))
	}
	d.untilPlace(t, r.put(append(records, r.keyRecord("k1", 2, policy.KeyRevoked))...))
	if got := d.state("k1"); got != "revoked" {
		t.Fatalf("key is %s", got)
	}
}

func TestDirectory_MissesForOneKeyAreOneQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive))
	r.redis.Pause()
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if got := d.state("k1"); got != "active" {
				t.Error(got)
			}
		})
	}
	until(t, d.changed, "a question under way", func() bool { return d.Stats().Misses > 0 })
	r.redis.Resume()
	asking.Wait()
	if s := d.Stats(); s.Misses != 1 {
		t.Fatalf("%d questions for one key", s.Misses)
	}
}

func TestDirectory_ACallerWhoLeavesTakesNobodyWithHim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive))
	r.redis.Pause()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan string, 1)
	go func() {
		_, err := d.Key(ctx, "k1")
		left <- told("", err)
	}()
	until(t, d.changed, "a question under way", func() bool { return d.Stats().Misses > 0 })
	stays := make(chan string, 1)
	go func() { stays <- d.state("k1") }()
	leave()
	if got := <-left; got != "unavailable" {
		t.Errorf("who left got %s", got)
	}
	r.redis.Resume()
	if got := <-stays; got != "active" {
		t.Errorf("who stayed got %s", got)
	}
}

func TestDirectory_TablesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var records []policy.SignedRecord
	for i := range 100 {
		records = append(records, r.keyRecord(fmt.Sprintf("k%d", i), 1, policy.KeyActive))
	}
	place := r.fill("e1", records...)
	d := r.directory("", rarely, func(c *DirectoryConfig) { c.Entries = 20 })
	start(t, d.Run)
	d.untilPlace(t, place)
	for i := range 100 {
		if d.state(fmt.Sprintf("k%d", i)) != "active" || d.state(fmt.Sprintf("none%d", i)) != "unknown" {
			t.Fatal("not answered")
		}
	}
	if s := d.Stats(); s.Entries != 20 || s.Negative != 2 {
		t.Fatalf("stats are %+v, want 20 records and 2 misses", s)
	}
	before := d.Stats().Misses
	if d.state("k99") != "active" || d.Stats().Misses != before {
		t.Error("strangers' made up keys push records out")
	}
}

func TestDirectory_CachedAsksNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive))
	if _, held := d.Cached("k1"); held || d.Stats().Misses != 0 {
		t.Fatal("a key that nobody asked for is cached, or Redis was asked")
	}
	d.state("k1")
	if k, held := d.Cached("k1"); !held || k.KID != "k1" {
		t.Fatalf("key is %+v, %v", k, held)
	}
	d.state("none")
	if _, held := d.Cached("none"); held {
		t.Fatal("a remembered miss passes for a key")
	}
	d.now.advance(DefaultMaxStale + time.Second)
	if _, held := d.Cached("k1"); held {
		t.Fatal("a stale key is given out")
	}
}

func TestDirectory_BothPublicKeysCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rotated := *r
	rotated.key = key('z') // the other one that the directory trusts
	d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive), rotated.keyRecord("k2", 1, policy.KeyActive))
	if d.state("k1") != "active" || d.state("k2") != "active" {
		t.Fatal("not both are believed")
	}
}

func BenchmarkDirectory_Hit(b *testing.B) {
	r := newRig(b)
	r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive))
	d := r.directory("", rarely)
	start(b, d.Run)
	until(b, d.changed, "followed", func() bool { return d.Stats().Whole })
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := d.Key(context.Background(), "k1"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
