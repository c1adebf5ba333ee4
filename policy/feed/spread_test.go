package feed

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestRation_AFewAtOnceThenOneAfterTheOther(t *testing.T) {
	t.Parallel()
	at := time.Now()
	r := newRation(3, time.Second)
	for range 3 {
		if wait := r.take(at); wait != 0 {
			t.Fatalf("one of the first three waits %v", wait)
		}
	}
	for _, c := range []struct{ after, wait time.Duration }{
		{0, time.Second}, {400 * time.Millisecond, 600 * time.Millisecond}, {time.Second, 0}, {1500 * time.Millisecond, 500 * time.Millisecond},
		{2 * time.Second, 0}, {2 * time.Second, time.Second}, {time.Minute, 0}, {time.Minute, 0}, {time.Minute, 0}, {time.Minute, time.Second}, {0, time.Second}, // a clock that stepped back
	} {
		if wait := r.take(at.Add(c.after)); wait != c.wait {
			t.Errorf("after %v: waits %v, want %v", c.after, wait, c.wait)
		}
	}
}

// TestWatcher_R092_ReplicasDoNotReadANewVersionAtTheSameMoment rings the bell for
// twelve replicas, and measures over how long they read.
func TestWatcher_R092_ReplicasDoNotReadANewVersionAtTheSameMoment(t *testing.T) {
	t.Parallel()
	const replicas = 12
	r := newRig(t)
	r.publish(1, 1)
	read := &readings{}
	all := make([]watching, replicas)
	for i := range all {
		all[i] = r.named("gw", t.TempDir(), rarely, func(c *WatcherConfig) {
			c.Client.(*redis.Client).AddHook(read) // as newClient makes it
		})
		start(t, all[i].Run)
	}
	for _, w := range all {
		w.untilVersion(t, 1)
	}
	untilSubscribed(t, r, replicas)
	begin := time.Now()
	r.publish(2, 2)
	for _, w := range all {
		w.untilVersion(t, 2)
	}
	took := time.Since(begin)
	at := slices.SortedFunc(slices.Values(read.at[replicas:]), time.Time.Compare)
	if len(at) != replicas {
		t.Fatalf("%d replicas read %d times", replicas, len(at))
	}
	span := at[len(at)-1].Sub(at[0])
	t.Logf("%d replicas read over %v, all enforce it after %v", replicas, span, took)
	// By chance alone twelve of them are within a quarter of the spread once in
	// more than two hundred thousand times.
	if span < defaultSpread/4 {
		t.Errorf("all read within %v", span)
	}
	holds(t, "a version on twelve replicas", took, 250*time.Millisecond, hung)
}

// TestWatcher_G11_WhateverIsPublishedIsReadAtAMeasuredPace publishes more than
// replicas should read.
func TestWatcher_G11_WhateverIsPublishedIsReadAtAMeasuredPace(t *testing.T) {
	t.Parallel()
	const versions = 40
	r := newRig(t)
	w := r.named("gw", "", rarely)
	start(t, w.Run)
	untilSubscribed(t, r, 1)
	begin := time.Now()
	for v := int64(1); v <= versions; v++ {
		r.publish(v, int(v))
		w.untilPolledSince(t, time.Now())
	}
	w.untilVersion(t, versions)
	took := time.Since(begin)
	most := int64(fetchBurst + took/(fetchEvery-fetchEvery/10) + 1)
	if got := r.fetches(); got > most {
		t.Errorf("%d documents of %d were read in %v, more than %d", got, versions, took, most)
	}
}

// untilPolledSince waits for a look at Redis that ended after a moment.
func (w watching) untilPolledSince(t *testing.T, at time.Time) {
	t.Helper()
	until(t, w.changed, "a poll", func() bool { return w.Status().PolledAt.After(at) })
}

// readings notes when documents are asked for. Use it as a hook of several clients.
type readings struct {
	mu sync.Mutex
	at []time.Time
}

func (*readings) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*readings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *readings) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "getrange" {
			h.mu.Lock()
			h.at = append(h.at, time.Now())
			h.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}
