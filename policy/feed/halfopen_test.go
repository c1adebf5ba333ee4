package feed

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
)

// TestWatcher_R089_AHalfOpenBellCostsAPollAndComesBack swallows, without closing
// it, the connection that the bell rings on: neither side is told. What is
// published meanwhile comes with the poll, and the bell rings again before long.
func TestWatcher_R089_AHalfOpenBellCostsAPollAndComesBack(t *testing.T) {
	t.Parallel()
	const subscribes = "subscribe\r\n"
	t.Run("the poll", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.publish(1, 60)
		proxy := testkit.Proxy(t, r.redis.Addr)
		w := r.through(proxy, 0)
		w.untilVersion(t, 1)
		untilSubscribed(t, r, 1)
		w.untilPolled(t) // the new subscription's own ring is spent
		if n := proxy.HoleOf(subscribes); n != 1 {
			t.Fatalf("%d connections fell silent", n)
		}
		begin := time.Now()
		r.publish(2, 61)
		w.untilVersion(t, 2)
		holds(t, "a version while the bell's connection is half open", time.Since(begin), defaultPoll+defaultPoll/2, hung)
	})
	t.Run("the bell", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.publish(1, 60)
		proxy := testkit.Proxy(t, r.redis.Addr)
		w := r.through(proxy, rarely) // the bell alone
		w.untilVersion(t, 1)
		untilSubscribed(t, r, 1)
		if n := proxy.HoleOf(subscribes); n != 1 {
			t.Fatalf("%d connections fell silent", n)
		}
		begin := time.Now()
		r.publish(2, 61) // rings in vain
		untilSubscribed(t, r, 2)
		w.untilVersion(t, 2)
		holds(t, "the bell's return", time.Since(begin), 3*time.Second, hung)
		begin = time.Now()
		r.publish(3, 62)
		w.untilVersion(t, 3)
		holds(t, "a version that the bell told of", time.Since(begin), 250*time.Millisecond, hung)
	})
	t.Run("the directory", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		proxy := testkit.Proxy(t, r.redis.Addr)
		c := (&rig{t: t, redis: &testkit.RedisServer{URL: proxy.URL}}).newClient()
		d := r.directory("", 0, func(cfg *DirectoryConfig) { cfg.Client = c })
		place := r.fill("e1", r.tenantRecord("ten_a", 1, "active"))
		start(t, d.Run)
		until(t, d.changed, "the directory", func() bool { return d.Place() == place })
		untilSubscribed(t, r, 1)
		for range 2 { // the new subscription's own ring is spent
			from := d.Stats().Contact
			until(t, d.changed, "a poll", func() bool { return d.Stats().Contact.After(from) })
		}
		if n := proxy.HoleOf(subscribes); n != 1 {
			t.Fatalf("%d connections fell silent", n)
		}
		begin := time.Now()
		place = r.put(r.tenantRecord("ten_a", 2, "suspended"))
		until(t, d.changed, "the change", func() bool { return d.Place() == place })
		holds(t, "a suspension while the bell's connection is half open", time.Since(begin), defaultPoll+defaultPoll/2, hung)
	})
}

// through is a watcher whose Redis is behind a proxy, at work.
func (r *rig) through(p *testkit.FaultProxy, poll time.Duration) watching {
	r.t.Helper()
	w := r.watcherOn((&rig{t: r.t, redis: &testkit.RedisServer{URL: p.URL}}).newClient(), "", poll)
	start(r.t, w.Run)
	return w
}
