package console_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// beat is a heartbeat of age, by the feed's clock.
func (f *fakeFeed) beat(id string, version int64, digest string, age time.Duration) policy.Heartbeat {
	return policy.Heartbeat{ID: id, Version: version, Digest: digest, At: f.now.Add(-age), Mode: policy.ModeNormal, DecisionsPerS: 10, RefusedPerS: 1}
}

func TestFleet_StatusIsComputedFromVersionDigestAndAge(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	v = e.publish(t, "20", v.Number)
	nack := &policy.NACK{Version: 2, Code: policy.NACKInvalid}
	want := map[string]console.Status{
		"in-sync": console.StatusInSync, "behind": console.StatusBehind, "none": console.StatusBehind, "other": console.StatusBehind,
		"nacked": console.StatusNACKed, "ahead": console.StatusAhead, "silent": console.StatusSilent, "gone": console.StatusGone,
	}
	e.feed.set(func() {
		f := e.feed
		nacked := f.beat("nacked", 1, "x", 0)
		nacked.NACK = nack
		degraded := f.beat("in-sync", 2, v.Digest, 5*time.Second)
		degraded.Mode = policy.ModeDegraded
		f.beats = []policy.Heartbeat{
			degraded, f.beat("behind", 1, v.Parent, 0), f.beat("none", 0, "", 0), f.beat("other", 2, "sha256:other", 0), nacked,
			f.beat("ahead", 3, "y", 0), f.beat("silent", 2, v.Digest, 7*time.Second), f.beat("gone", 2, v.Digest, 61*time.Second),
		}
	})
	list, err := e.fleet.Replicas(e.ctx)
	if err != nil || len(list) != len(want) {
		t.Fatalf("list %v (%v)", list, err)
	}
	for _, r := range list {
		if r.Status != want[r.ID] {
			t.Errorf("%s is %s", r.ID, r.Status)
		}
	}
	h := e.fleet.Health(e.ctx)
	if h.InSync != 1 || h.Of != 7 || h.Nacked != 1 || h.Degraded != 1 || h.DecisionsPerS != 60 || h.Version != 2 {
		t.Fatalf("health %+v", h)
	}
}

func TestFleet_OutageIsShownAsUnknownNotAsZero(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{e.feed.beat("gw", 1, v.Digest, 0)} })
	up := e.fleet.Health(e.ctx)
	if !up.RedisUp || !up.FleetKnown || !up.PostgresUp || up.InSync != 1 {
		t.Fatalf("health %+v", up)
	}
	e.feed.set(func() { e.feed.down = errors.New("refused") })
	e.clock.add(10 * time.Second)
	down := e.fleet.Health(e.ctx)
	if down.RedisUp || down.FleetKnown || down.RedisError == "" || !down.RedisSince.Equal(e.clock.now()) || !down.FleetAt.Equal(up.At) {
		t.Fatalf("health %+v", down)
	}
	if len(down.Replicas) != 1 || down.Replicas[0].Age != 10*time.Second || down.Replicas[0].Status != console.StatusSilent {
		t.Fatalf("replicas %+v", down.Replicas)
	}
	if list, err := e.fleet.Replicas(e.ctx); console.CodeOf(err) != console.CodeUnavailable || len(list) != 1 {
		t.Fatalf("list %v (%v)", list, err)
	}
	if c := e.fleet.WaitVersion(e.ctx, 1, time.Minute); c.Known || c.Done() {
		t.Fatalf("convergence %+v", c)
	}
}

// inspectedFeed is a feed whose Redis can be looked over.
type inspectedFeed struct {
	*fakeFeed
	found *[]policy.Hazard
	looks *int
}

func (f inspectedFeed) Inspect(context.Context) ([]policy.Hazard, error) {
	defer f.lock()()
	*f.looks++
	return *f.found, f.down
}

func TestFleet_HazardsAreLookedForNowAndThenAndKeptWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	feed := inspectedFeed{e.feed, new([]policy.Hazard), new(int)}
	*feed.found = []policy.Hazard{{Code: policy.HazardEvictionPolicy, Severity: policy.SeverityRed, Server: "a:1"}}
	d := e.deps
	d.Feed = feed
	fleet := console.NewFleet(d)
	first := fleet.Health(e.ctx)
	if len(first.Hazards) != 1 || !first.HazardsAt.Equal(e.clock.now()) {
		t.Fatalf("health %+v", first)
	}
	e.feed.set(func() { *feed.found = nil })
	e.clock.add(5 * time.Second)
	if h := fleet.Health(e.ctx); len(h.Hazards) != 1 || *feed.looks != 1 {
		t.Errorf("after 5 s: %d looks, %+v", *feed.looks, h.Hazards)
	}
	e.feed.set(func() { e.feed.down = errors.New("refused") })
	e.clock.add(10 * time.Second)
	if h := fleet.Health(e.ctx); len(h.Hazards) != 1 || !h.HazardsAt.Equal(first.HazardsAt) {
		t.Errorf("with Redis away: %+v", h)
	}
	e.feed.set(func() { e.feed.down = nil })
	e.clock.add(5 * time.Second)
	if h := fleet.Health(e.ctx); len(h.Hazards) != 0 || !h.HazardsAt.Equal(e.clock.now()) {
		t.Errorf("mended: %+v", h)
	}
}

func TestFleet_HealthIsServedFromTheSnapshot(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.fleet.Health(e.ctx)
	e.feed.set(func() { e.feed.down = errors.New("refused") })
	if again := e.fleet.Health(e.ctx); !again.RedisUp || !again.At.Equal(first.At) {
		t.Fatalf("a fresh snapshot was made again: %+v", again)
	}
}

func TestFleet_RunNoticesAnOutageAndItsEnd(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	run(t, e.fleet.Run)
	wait := func(up bool) {
		t.Helper()
		e.feed.asked(t, "change of health", func() bool { return e.fleet.Health(e.ctx).RedisUp == up })
	}
	wait(true)
	e.feed.set(func() { e.feed.down = errors.New("refused") })
	wait(false)
	e.feed.set(func() { e.feed.down = nil })
	wait(true)
	if h := e.fleet.History(); len(h) != 1 {
		t.Fatalf("%d samples within 10 s", len(h))
	}
}

func TestFleet_WaitVersionCountsSilentOnesAsMissing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	x := e.publish(t, "20", e.publish(t, "10", 0).Number).Digest
	e.feed.set(func() {
		f := e.feed
		nacked := f.beat("c", 1, "x", 0)
		nacked.NACK = &policy.NACK{Version: 2, Code: policy.NACKBadSignature}
		f.beats = []policy.Heartbeat{f.beat("a", 2, x, 0), f.beat("b", 2, x, 8*time.Second), nacked, f.beat("d", 2, x, 2*time.Minute)}
	})
	c := e.fleet.WaitVersion(e.ctx, 2, 60*time.Millisecond)
	if !c.Known || c.On != 1 || c.Of != 3 || len(c.Nacks) != 1 || c.Nacks[0].Replica != "c" || c.Done() {
		t.Fatalf("convergence %+v", c)
	}
	e.feed.set(func() { e.feed.beats = e.feed.beats[:1] })
	if c := e.fleet.WaitVersion(e.ctx, 2, time.Minute); !c.Done() || c.After > 10*time.Second {
		t.Fatalf("convergence %+v", c)
	}
	e.feed.set(func() { e.feed.beats = nil })
	if c := e.fleet.WaitVersion(e.ctx, 2, time.Minute); !c.Known || !c.Done() || c.Of != 1 {
		t.Fatalf("what Redis has lost is not gone: %+v", c)
	}
	if c := e.fleet.WaitVersion(e.ctx, 3, time.Minute); c.Known || c.After > 10*time.Second {
		t.Fatalf("convergence of a version that does not exist %+v", c)
	}
}

func TestFleet_WaitVersionWithoutReplicasReturnsAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	if c := e.fleet.WaitVersion(e.ctx, v.Number, time.Minute); c.Done() || c.Of != 0 || c.After > 10*time.Second {
		t.Fatalf("convergence without replicas %+v", c)
	}
}

func TestFleet_WhatAWaitHasSeenIsShownAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "20", e.publish(t, "10", 0).Number)
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{e.feed.beat("a", 1, v.Parent, 0)} })
	if got, err := e.fleet.Replicas(e.ctx); err != nil || len(got) != 1 || got[0].Version != 1 {
		t.Fatalf("replicas %+v, %v", got, err)
	}
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{e.feed.beat("a", 2, v.Digest, 0)} })
	if c := e.fleet.WaitVersion(e.ctx, 2, time.Minute); !c.Done() {
		t.Fatalf("convergence %+v", c)
	}
	if got, err := e.fleet.Replicas(e.ctx); err != nil || got[0].Version != 2 {
		t.Errorf("after the wait the replica is shown with version %d, %v", got[0].Version, err)
	}
}

func TestFleet_WaitChangeEndsWhenReplicasHaveTheRecord(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	e.feed.until(t, "key", func() bool { _, ok := e.keyRecord(t, out.KeyVersion.KID); return ok })
	waitDrained(t, e)
	e.feed.set(func() {
		behind, there := e.feed.beat("a", 1, "x", 0), e.feed.beat("b", 1, "x", 0)
		behind.Directory, there.Directory = policy.Place{Epoch: e.feed.place.Epoch, Seq: 0}, e.feed.place
		e.feed.beats = []policy.Heartbeat{behind, there}
	})
	if c := e.fleet.WaitChange(e.ctx, out.Change, 50*time.Millisecond); c.On != 1 || c.Of != 2 {
		t.Fatalf("convergence %+v", c)
	}
	e.feed.set(func() { e.feed.beats[0].Directory = e.feed.place })
	if c := e.fleet.WaitChange(e.ctx, out.Change, time.Minute); !c.Done() {
		t.Fatalf("convergence %+v", c)
	}
	inOrder(t, "a directory that was filled since counts", func() {
		e.feed.set(func() {
			e.feed.place = policy.Place{Epoch: "newer", Seq: 2}
			for i := range e.feed.beats {
				e.feed.beats[i].Directory = e.feed.place
			}
		})
		if c := e.fleet.WaitPlace(e.ctx, policy.Place{Epoch: "older", Seq: 99}, time.Minute); !c.Done() {
			t.Fatalf("convergence %+v", c)
		}
	})
	if c := e.fleet.WaitChange(e.ctx, console.Change{}, time.Minute); c.Known {
		t.Fatalf("convergence of no change %+v", c)
	}
}

func TestFleet_WaitChangeGivesUpWhenTheRelayCannotSend(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.relay(t)
	e.feed.until(t, "first fill", func() bool { return e.feed.place.Epoch != "" })
	e.feed.set(func() { e.feed.down = errors.New("refused") })
	out := e.issue(t, e.tenant(t, "A").ID)
	begun := time.Now()
	if c := e.fleet.WaitChange(e.ctx, out.Change, time.Minute); c.Known || time.Since(begun) > 20*time.Second {
		t.Fatalf("convergence %+v", c)
	}
}

func TestActivity_CollectsLiveCountsAndNamesTenants(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "Acme")
	e.clock.mu.Lock()
	e.clock.at = e.feed.now
	e.clock.mu.Unlock()
	a := console.NewActivity(e.deps)
	run(t, a.Run)
	e.feed.asked(t, "collection", func() bool { _, ok := a.Live().AsOf(); return ok })
	var admitted int64
	for _, p := range a.Live().TenantSeries("ten_x", e.feed.now.Add(-time.Minute), e.feed.now.Add(time.Second), time.Second) {
		admitted += p.Admitted
	}
	if admitted != 3 {
		t.Fatalf("%d admitted requests were collected", admitted)
	}
	names, err := a.Names(e.ctx, []string{ten.ID, "ten_unknown"})
	if err != nil || len(names) != 1 || names[ten.ID] != "Acme" {
		t.Fatalf("names %v (%v)", names, err)
	}
}

func TestHealth_WithoutPostgreSQLTheLastKnownStays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{e.feed.beat("gw", 1, v.Digest, 0)} })
	if h := e.fleet.Health(e.ctx); !h.PostgresUp || h.Version != 1 || h.InSync != 1 {
		t.Fatalf("health %+v", h)
	}
	e.store.Close()
	e.clock.add(10 * time.Second)
	h := e.fleet.Health(e.ctx)
	if h.PostgresUp || !h.PostgresSince.Equal(e.clock.now()) || h.Version != 1 || h.Digest != v.Digest || h.InSync != 1 || !h.RedisUp {
		t.Errorf("health %+v", h)
	}
	since := h.PostgresSince
	e.clock.add(10 * time.Second)
	if h := e.fleet.Health(e.ctx); !h.PostgresSince.Equal(since) {
		t.Errorf("down since %v, then since %v", since, h.PostgresSince)
	}
}

func TestHealth_HistoryIsOneHourAndNoMore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 365 {
		e.fleet.Health(e.ctx)
		e.clock.add(10 * time.Second)
	}
	h := e.fleet.History()
	if len(h) != 360 {
		t.Fatalf("%d samples", len(h))
	}
	for i := range h[1:] {
		if got := h[i+1].At.Sub(h[i].At); got != 10*time.Second {
			t.Fatalf("sample %d comes %v after the one before", i+1, got)
		}
	}
}

// slowFeed answers the first ping only when it is let go.
type slowFeed struct {
	*fakeFeed
	asked, letGo chan struct{}
}

func (f *slowFeed) Ping(ctx context.Context) (time.Duration, error) {
	select {
	case f.asked <- struct{}{}:
		<-f.letGo
	default:
	}
	return f.fakeFeed.Ping(ctx)
}

func TestFleet_FirstSnapshotIsWaitedForWhoeverMakesIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	slow := &slowFeed{fakeFeed: e.feed, asked: make(chan struct{}, 1), letGo: make(chan struct{})}
	d := e.deps
	d.Feed = slow
	fleet := console.NewFleet(d)
	maker, asker := make(chan console.Health, 1), make(chan console.Health, 1)
	go func() { maker <- fleet.Health(e.ctx) }()
	<-slow.asked
	go func() { asker <- fleet.Health(e.ctx) }()
	select {
	case h := <-asker:
		t.Fatalf("a health was made up before any was known: %+v", h)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.letGo)
	if a, b := <-maker, <-asker; !a.RedisUp || !b.RedisUp || !b.FleetKnown {
		t.Errorf("health is %+v, then %+v", a, b)
	}
}
