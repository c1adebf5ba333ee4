package feed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

func TestDirectory_LostTrailDropsTheWholeCache(t *testing.T) {
	t.Parallel()
	head, changes := "hg:{directory}:head", "hg:{directory}:changes"
	type do = func(args ...any)
	for name, harm := range map[string]func(do){
		"trimmed": func(do do) {
			do("HINCRBY", head, "seq", 1)
			do("XADD", changes, "5-0", "kind", "key", "id", "k8")
			do("XTRIM", changes, "MAXLEN", 1)
		},
		"entry gone":       func(do do) { do("XDEL", changes, "4-0") },
		"stream gone":      func(do do) { do("DEL", changes) },
		"head behind":      func(do do) { do("HSET", head, "seq", 0); do("DEL", changes) },
		"foreign id":       func(do do) { do("XADD", changes, "99-7", "kind", "key", "id", "x") },
		"nameless":         func(do do) { do("XADD", changes, "99-0", "kind", "key") },
		"names none":       func(do do) { do("XADD", changes, "99-0", "kind", "key", "ids", "") },
		"names a megabyte": func(do do) { do("XADD", changes, "99-0", "kind", "key", "ids", strings.Repeat("k", 1<<20)) },
		"another copy":     func(do do) { do("HSET", head, "epoch", "e2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive))
			untilSubscribed(t, r, 1)
			if d.state("k1") != "active" {
				t.Fatal("not answered")
			}
			// A change that the replica cannot see. All at one moment: the first
			// poll after the subscription may still be under way, and must not
			// read the trail while it is whole.
			_, err := r.client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				queue := func(args ...any) { p.Do(t.Context(), args...) }
				queue("SET", "hg:key:k1", r.keyRecord("k1", 2, policy.KeyRevoked).Encode())
				queue("HINCRBY", head, "seq", 3)
				for i := int64(2); i <= 4; i++ {
					queue("XADD", changes, fmt.Sprintf("%d-0", i), "kind", "key", "id", "k9")
				}
				harm(queue)
				queue("PUBLISH", "hg:{policy}:bell", "directory x")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			until(t, d.changed, "cache dropped", func() bool { return d.state("k1") == "revoked" })
		})
	}
}

func TestDirectory_OutageKeepsWhatIsCachedUntilMaxStale(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, often, r.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive))
	if d.state("k1") != "active" || d.state("k3") != "unknown" {
		t.Fatal("not answered")
	}
	r.redis.Kill()
	until(t, d.changed, "outage noticed", func() bool { return !d.Stats().Whole })
	for kid, want := range map[string]string{"k1": "active", "k2": "unavailable", "k3": "unavailable"} {
		if got := d.state(kid); got != want {
			t.Errorf("%s is %s during the outage, want %s", kid, got, want)
		}
	}
	d.now.advance(DefaultMaxStale - time.Minute)
	if got := d.state("k1"); got != "active" {
		t.Errorf("k1 is %s before MaxStale", got)
	}
	d.now.advance(2 * time.Minute)
	if got := d.state("k1"); got != "unavailable" {
		t.Errorf("k1 is %s after MaxStale", got)
	}
}

func TestDirectory_AnOutageAddsNoLatencyAndEndsWithinASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	records := []policy.SignedRecord{r.keyRecord("k1", 1, policy.KeyActive)}
	place := r.fill("e1", records...)
	d := r.directory("", 0, func(c *DirectoryConfig) { c.Timeout = 0 }) // the default
	start(t, d.Run)
	d.untilPlace(t, place)
	r.redis.Pause() // nothing answers, connections stay open: the worst kind
	for i := 0; !d.Stats().BreakerOpen; i++ {
		if i > 50 {
			t.Fatal("the breaker does not open")
		}
		begin := time.Now()
		if got := d.state(fmt.Sprintf("x%d", i)); got != "unavailable" {
			t.Fatal(got)
		}
		holds(t, "a lookup", time.Since(begin), time.Second, 2500*time.Millisecond)
	}
	begin := time.Now()
	for i := range 1000 {
		if got := d.state(fmt.Sprintf("y%d", i)); got != "unavailable" {
			t.Fatal(got)
		}
	}
	holds(t, "a thousand lookups with the breaker open", time.Since(begin), 2*time.Second, 10*time.Second)
	r.redis.Resume()
	begin = time.Now()
	until(t, d.changed, "back", func() bool { return d.state("k1") == "active" })
	holds(t, "the return", time.Since(begin), 3*time.Second, hung)
}

func TestDirectory_ARestartedEmptyRedisRefusesNobodyFalsely(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	records := []policy.SignedRecord{r.keyRecord("k1", 4, policy.KeyActive), r.keyRecord("k2", 4, policy.KeyActive)}
	place := r.fill("e1", records...)
	d := r.directory("", 0)
	start(t, d.Run)
	d.untilPlace(t, place)
	d.state("k1")
	r.redis.Kill()
	until(t, d.changed, "outage noticed", func() bool { return !d.Stats().Whole })
	r.redis.Start()
	begin := time.Now()
	// Until the console has filled it again, an empty Redis knows nothing.
	until(t, d.changed, "Redis answers", func() bool { return !d.Stats().BreakerOpen })
	for kid, want := range map[string]string{"k1": "active", "k2": "unavailable", "k9": "unavailable"} {
		if got := d.state(kid); got != want {
			t.Errorf("%s is %s while the directory is empty, want %s", kid, got, want)
		}
	}
	if err := r.pub.BeginDirectory(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.put(records[0])
	if got := d.state("k2"); got != "unavailable" {
		t.Errorf("k2 is %s while the directory is being filled", got)
	}
	r.put(records[1])
	if got := d.state("k2"); got != "active" {
		t.Errorf("k2 is %s although its record is there", got)
	}
	place, err := r.pub.FinishDirectory(t.Context(), "e2")
	if err != nil {
		t.Fatal(err)
	}
	d.untilPlace(t, place)
	holds(t, "the return", time.Since(begin), 3*time.Second, hung)
	for kid, want := range map[string]string{"k1": "active", "k2": "active", "k9": "unknown"} {
		if got := d.state(kid); got != want {
			t.Errorf("%s is %s after the refill, want %s", kid, got, want)
		}
	}
}

// TestDirectory_AFlushBetweenPollsMakesNoGoodKeyUnknown is about the moment
// before the replica has noticed.
func TestDirectory_AFlushBetweenPollsMakesNoGoodKeyUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely, r.keyRecord("k1", 1, policy.KeyActive))
	r.do("FLUSHALL")
	if got := d.state("k1"); got != "unavailable" {
		t.Fatalf("key is %s", got)
	}
}

func TestDirectory_ChangesDuringARefillAreFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive))
	for name, lose := range map[string]func(){
		"same Redis": func() {}, "emptied Redis": func() { r.do("FLUSHALL") },
	} {
		d := r.directory("", often)
		stop := start(t, d.Run)
		d.untilPlace(t, place)
		if d.state("k1") != "active" {
			t.Fatal("not answered")
		}
		lose()
		if err := r.pub.BeginDirectory(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, d.changed, name+": filling noticed", func() bool { return !d.Stats().Whole })
		if got := d.state("k1"); got != "active" {
			t.Errorf("%s: k1 is %s", name, got)
		}
		r.put(r.keyRecord("k1", 2, policy.KeyRevoked))
		until(t, d.changed, name+": revoked", func() bool { return d.state("k1") == "revoked" })
		stop()
		place = r.fill("e-"+name, r.keyRecord("k1", 1, policy.KeyActive))
	}
}

// TestDirectory_AClientThatIgnoresDeadlinesDelaysNobody: the lookup's deadline
// is the Directory's own.
func TestDirectory_AClientThatIgnoresDeadlinesDelaysNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	slow := redis.NewClient(&redis.Options{Addr: r.redis.Addr, MaxRetries: -1, ReadTimeout: 2 * time.Second})
	t.Cleanup(func() {
		if err := slow.Close(); err != nil {
			t.Error(err)
		}
	})
	d := r.directory("", rarely, func(c *DirectoryConfig) { c.Client, c.Timeout = slow, 20*time.Millisecond })
	r.redis.Pause()
	begin := time.Now()
	if got := d.state("k1"); got != "unavailable" {
		t.Fatal(got)
	}
	holds(t, "the caller's wait", time.Since(begin), time.Second, 1800*time.Millisecond)
	r.redis.Resume()
	until(t, d.changed, "the question ended", func() bool { return len(d.slots) == 0 })
}
