package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

func perMilli(n, burst int64) policy.Numbers {
	return policy.Numbers{Tokens: n, Period: 1000, Burst: burst}
}

// TestSlices_NeverExceedTheLimitOverAnyInterval: several replicas, calls that take
// their time, demand that comes and goes, tokens given back early, late and never.
func TestSlices_NeverExceedTheLimitOverAnyInterval(t *testing.T) {
	t.Parallel()
	var local, returned int64
	rapid.Check(t, func(rt *rapid.T) {
		n := perMilli(rapid.Int64Range(1, 20).Draw(rt, "rate"), rapid.Int64Range(100, 4000).Draw(rt, "burst"))
		c := newCrowd(t, rapid.IntRange(1, 4).Draw(rt, "replicas"), n)
		delay := func() time.Duration {
			return time.Duration(rapid.SampledFrom([]int64{0, 0, 50, 300, 4000, 60_000}).Draw(rt, "delay")) * time.Microsecond
		}
		c.store.there, c.store.back = delay, delay
		for range rapid.IntRange(1, 40).Draw(rt, "phases") {
			who := rapid.IntRange(0, len(c.replicas)-1).Draw(rt, "replica")
			pause := time.Duration(rapid.SampledFrom([]int64{0, 20, 300, 2000, 45_000, 500_000}).Draw(rt, "pause")) * time.Microsecond
			cost := rapid.Int64Range(1, 3).Draw(rt, "cost")
			for range rapid.IntRange(1, 300).Draw(rt, "requests") {
				c.ask(rt, who, cost)
				c.clock.Advance(pause / 10)
			}
			c.clock.Advance(pause)
			if rapid.Bool().Draw(rt, "sweep") {
				c.replicas[who].GiveBack(rapid.Bool().Draw(rt, "all"))
			}
		}
		local += c.local
		for _, l := range c.replicas {
			returned += l.Stats().SliceReturned
		}
	})
	if local < 1000 || returned < 100 {
		t.Errorf("%d requests from slices, %d tokens returned: the test says nothing", local, returned)
	}
}

// TestSlices_WhatRefillsWhileASliceIsOutIsKeptOffTheBurst: the worst moment is when a
// slice has just not ended, the bucket has refilled behind it, and all is spent at once.
func TestSlices_WhatRefillsWhileASliceIsOutIsKeptOffTheBurst(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 2, perMilli(20, 4000))
	for range 400 { // demand just below the rate, so that the bucket stays full
		c.ask(t, 0, 1)
		c.clock.Advance(50 * time.Microsecond)
	}
	if held := c.replicas[0].SliceTokens(); held < 300 {
		t.Fatalf("%d tokens leased", held)
	}
	c.clock.Advance(sliceOut(c))
	before := c.admitted
	for who := range c.replicas {
		for range 4000 {
			c.ask(t, who, 1)
		}
	}
	if got := c.admitted - before; got < 3000 {
		t.Errorf("%d admitted at once, want most of the burst", got)
	}
}

// sliceOut waits until the replica's slice is about to end.
func sliceOut(c *crowd) time.Duration {
	return c.replicas[0].SliceEnds().Sub(c.clock.Time()) - time.Microsecond
}

// TestSlices_GreedyCallersGetTheLimit: at least 0.995 of what it allows, over a long run.
func TestSlices_GreedyCallersGetTheLimit(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 4, perMilli(1, 200))
	start := c.clock.Now()
	for c.clock.Now()-start < 20_000_000 {
		for who := range c.replicas {
			for range 3 {
				c.ask(t, who, 1)
			}
		}
		c.clock.Advance(time.Millisecond)
		for _, l := range c.replicas {
			l.GiveBack(false)
		}
	}
	bound := 200 + (c.clock.Now()-start)/1000
	if c.admitted*1000 < bound*995 {
		t.Errorf("%d admitted of %d", c.admitted, bound)
	}
}

// TestSlices_DemandWithinTheLimitIsPaidLocally: a hot key whose limit is not reached
// asks the store for a small part of its requests.
func TestSlices_DemandWithinTheLimitIsPaidLocally(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 3, perMilli(1000, 1_000_000))
	for range 2000 { // two virtual seconds at 150 requests a ms
		for who := range c.replicas {
			for range 50 {
				if !c.ask(t, who, 1) {
					t.Fatal("refused within the limit")
				}
			}
		}
		c.clock.Advance(time.Millisecond)
		for _, l := range c.replicas {
			l.GiveBack(false)
		}
	}
	if takes := c.store.takes.Load(); takes*200 > c.admitted {
		t.Errorf("%d calls for %d requests", takes, c.admitted)
	}
}

func TestSlices_WhatIsUnspentIsGivenBackWhenIdleAndAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, atTheEnd := range []bool{false, true} {
		c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 100_000}) // hardly refills
		c.heat(t, 0)
		l := c.replicas[0]
		held, before := l.SliceTokens(), c.level(t)
		if atTheEnd {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := l.Run(ctx); err == nil {
				t.Error("Run ended without its context's error")
			}
		} else {
			c.clock.Advance(41 * time.Millisecond)
			l.GiveBack(false)
		}
		if got := c.level(t); got < before+held || got > before+held+1 || l.SliceTokens() != 0 {
			t.Errorf("at the end %t: %d tokens in the bucket, %d and %d of the slice were expected; %d still held", atTheEnd, got, before, held, l.SliceTokens())
		}
		if c.ask(t, 0, 1); !atTheEnd && l.Stats().SliceReturned != held {
			t.Errorf("%d counted as returned, want %d", l.Stats().SliceReturned, held)
		}
	}
}

// TestSlices_TokensThatComeBackBringNoRefill: what the bucket refilled while they were
// out stays its own, so that late ones bring less and much later ones nothing.
func TestSlices_TokensThatComeBackBringNoRefill(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{41 * time.Millisecond, time.Second, time.Hour} {
		c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 100_000})
		c.heat(t, 0)
		held, before := c.replicas[0].SliceTokens(), c.level(t)
		c.clock.Advance(late)
		c.replicas[0].GiveBack(false)
		want := min(before+max(held, late.Milliseconds()/50), 99_999)
		if got := c.level(t); got > want || got < want-1 {
			t.Errorf("after %v: %d tokens, %d and %d out before: want %d", late, got, before, held, want)
		}
	}
}

func TestSlices_ASliceIsNotSpentAfterFortyMilliseconds(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 100_000})
	c.heat(t, 0)
	takes, local := c.store.takes.Load(), c.local
	c.clock.Advance(40 * time.Millisecond)
	c.ask(t, 0, 1)
	if c.store.takes.Load() == takes || c.local != local {
		t.Error("spent from a slice that has ended")
	}
}

func TestSlices_ShrinkToExactAsTheBucketEmpties(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 2000})
	for c.ask(t, 0, 1) {
		c.clock.Advance(10 * time.Microsecond)
	}
	if c.local == 0 {
		t.Fatal("nothing was leased")
	}
	if held := c.replicas[0].SliceTokens(); held != 0 {
		t.Errorf("%d tokens held while a request was refused", held)
	}
	if c.admitted < 1999 {
		t.Errorf("%d admitted of 2000", c.admitted)
	}
}

// TestSlices_ManyReplicasHoldAsLittleAsOne: what all of them hold unspent when the bucket
// runs empty is lost to callers elsewhere.
func TestSlices_ManyReplicasHoldAsLittleAsOne(t *testing.T) {
	t.Parallel()
	for replicas, most := range map[int]int64{0: 5000, 1: 5000, 12: 416} {
		c := newCrowd(t, 0, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 20_000})
		l, err := limiter.New(limiter.Config{Store: c.store, Now: c.clock.Time, Budget: time.Minute, Replicas: func() int { return replicas }})
		if err != nil {
			t.Fatal(err)
		}
		l.Inline()
		c.replicas = append(c.replicas, l)
		c.heat(t, 0)
		for range 4000 {
			c.ask(t, 0, 1)
			c.clock.Advance(2 * time.Microsecond)
			if held := l.SliceTokens(); held > 2*most {
				t.Fatalf("%d replicas: %d tokens in two slices of one, want at most %d each", replicas, held, most)
			}
		}
	}
}

func TestSlices_OneOnAQuietLimitIsExactAndKnowsItsLevel(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, perMilli(1, 1000))
	for range 50 {
		d := c.replicas[0].Decide(context.Background(), c.request(1))
		if !d.Allowed || d.Levels[0].Unknown || d.Levels[0].Extra != 0 {
			t.Fatalf("%+v", d)
		}
		c.clock.Advance(time.Second)
	}
	if got := c.replicas[0].Stats(); got.Slices != 0 || got.Local != 0 {
		t.Errorf("%+v", got)
	}
}

// TestSlices_R029_LevelsOfASliceAreUnknownNeverInvented.
func TestSlices_R029_LevelsOfASliceAreUnknownNeverInvented(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, perMilli(100, 10_000))
	c.heat(t, 0)
	d := c.replicas[0].Decide(context.Background(), c.request(1))
	if !d.Allowed || len(d.Levels) != 1 || d.Levels[0] != (limiter.Level{Unknown: true}) {
		t.Errorf("%+v", d)
	}
}

func TestSlices_ACostThatOnlyTheWholeBurstPaysIsExact(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, perMilli(1, 200)) // the leased bucket holds 150
	if !c.ask(t, 0, 180) {
		t.Fatal("180 of 200 refused")
	}
	if c.ask(t, 0, 21) {
		t.Fatal("21 of 20 admitted")
	}
}

func TestSlices_SmallLimitsAreExact(t *testing.T) {
	t.Parallel()
	n := perMilli(1, 60) // 50 of 60 refill within a slice's life
	if n.LeasedBurst() != n.Burst {
		t.Fatal("not small")
	}
	c := newCrowd(t, 1, n)
	for range 60 {
		if !c.ask(t, 0, 1) {
			t.Fatal("refused within the burst")
		}
	}
	if c.ask(t, 0, 1) || c.local != 0 {
		t.Errorf("61 of 60 admitted, or %d from slices", c.local)
	}
}

// TestSlices_ARefusalElsewhereTakesNothing: a request that a slice has paid in part
// and that the store refuses has spent nothing.
func TestSlices_R006_ARefusalElsewhereTakesNothing(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 100_000})
	c.heat(t, 0)
	l := c.replicas[0]
	req := c.request(1)
	req.Draw.Charges = append(req.Draw.Charges, charge(tenant("ten_a"), "plan.requests", perSecond(1), 1))
	if d := l.Decide(context.Background(), req); !d.Allowed || d.Levels[1].Unknown || !d.Levels[0].Unknown {
		t.Fatalf("first: %+v", d)
	}
	held := l.SliceTokens()
	for range 5 {
		l.ForgetAll()
		if d := l.Decide(context.Background(), req); d.Allowed || d.Deciding != 1 {
			t.Fatalf("%+v", d)
		}
	}
	if got := l.SliceTokens(); got != held {
		t.Errorf("%d tokens held, %d before five refusals", got, held)
	}
}

func TestSlices_NewNumbersGiveBackWhatWasTakenUnderTheOld(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 100_000})
	c.heat(t, 0)
	l := c.replicas[0]
	for range 3 { // what is held is spent first, or ends; then the new numbers hold
		c.numbers = policy.Numbers{Tokens: 1, Period: 50_000, Burst: 50}
		c.clock.Advance(40 * time.Millisecond)
		l.Decide(context.Background(), c.request(1))
	}
	l.GiveBack(false)
	if held := l.SliceTokens(); held > 50 {
		t.Errorf("%d tokens held of a limit of 50", held)
	}
}

func TestSlices_GlobalLimitsAreLeasedOnAStoreOfSeveralShards(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0, perMilli(1000, 1_000_000))
	l, err := limiter.New(limiter.Config{Store: c.store, Now: c.clock.Time, Budget: time.Minute, LeaseGlobal: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Inline()
	req := c.request(1)
	req.Draw.Charges[0].Leased = false
	for range 4000 {
		if !l.Decide(context.Background(), req).Allowed {
			t.Fatal("refused")
		}
		c.clock.Advance(20 * time.Microsecond)
	}
	if got := l.Stats(); got.Local < 3600 {
		t.Errorf("%+v", got)
	}
	shadow := req
	shadow.Draw.Charges = []limiter.Charge{req.Draw.Charges[0]}
	shadow.Draw.Charges[0].Shadow = true
	before := c.store.takes.Load()
	l.Decide(context.Background(), shadow)
	if c.store.takes.Load() == before {
		t.Error("a shadow was paid from a slice")
	}
}

func TestSlices_AStoreThatFailsLeavesThemExactAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Inline()
	one := charge(tenant("ten_a"), "l", perMilli(1000, 1_000_000), 1)
	one.Leased = true
	for range 400 {
		r.decide(each(closed, one))
		r.clock.Advance(20 * time.Microsecond)
	}
	if r.SliceTokens() == 0 {
		t.Fatal("nothing is leased")
	}
	r.store.set(errDown)
	admitted := 0
	for range 10_000 {
		if r.decide(each(closed, one)).Allowed {
			admitted++
		}
		r.clock.Advance(10 * time.Microsecond)
	}
	if admitted == 0 || !r.Degraded() {
		t.Errorf("%d admitted from what was held, degraded %t", admitted, r.Degraded())
	}
	r.store.set(nil)
	r.clock.Advance(time.Second)
	r.Probe()
	for range 400 {
		if !r.decide(each(closed, one)).Allowed {
			t.Fatal("refused after the recovery")
		}
		r.clock.Advance(20 * time.Microsecond)
	}
	if r.SliceTokens() == 0 {
		t.Error("nothing is leased after the recovery")
	}
}

func TestSlices_AreBoundedAndIdleOnesMakeRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			one := charge(tenant(fmt.Sprint("ten_", i)), "l", perMilli(10, 10_000), 1)
			one.Leased = true
			if !r.decide(each(closed, one)).Allowed {
				t.Fatal("refused")
			}
		}
	}
	ask(0, 9000)
	if got := r.Slices(); got != 8192 {
		t.Errorf("%d slices, want 8192", got)
	}
	r.clock.Advance(11 * time.Second)
	ask(9000, 9100)
	if got := r.Slices(); got != 8192 {
		t.Errorf("%d slices after idle ones made room", got)
	}
}

// TestSlices_ConcurrentCallersNeverExceedTheBurst on a clock that stands still, with
// refills in goroutines of their own.
func TestSlices_ConcurrentCallersNeverExceedTheBurst(t *testing.T) {
	t.Parallel()
	clock := newManual()
	store := memstore.New(clock.Time)
	n := perMilli(100, 60_000)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		l, err := limiter.New(limiter.Config{Store: store, Now: clock.Time, Budget: time.Minute, DenyEntries: -1})
		if err != nil {
			t.Fatal(err)
		}
		one := charge(tenant("ten_a"), "l", n, 1)
		one.Leased = true
		for range 4 {
			wg.Go(func() {
				for range 10_000 {
					if l.Decide(context.Background(), each(closed, one)).Allowed {
						admitted.Add(1)
					}
					if admitted.Load()%64 == 0 {
						clock.Advance(time.Microsecond)
					}
				}
			})
		}
	}
	start := clock.Now()
	wg.Wait()
	if bound := n.Burst + (clock.Now()-start+1)*n.Tokens/n.Period + 1; admitted.Load() > bound {
		t.Errorf("%d admitted, at most %d", admitted.Load(), bound)
	}
}

func TestSlices_RunGivesBackInTheBackground(t *testing.T) {
	t.Parallel()
	clock := newManual()
	store := &amendStore{Store: memstore.New(clock.Time), amended: make(chan []limiter.Amendment, 1)}
	l, err := limiter.New(limiter.Config{Store: store, Now: clock.Time, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l.Inline()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	one := charge(tenant("ten_a"), "l", perMilli(1000, 1_000_000), 1)
	one.Leased = true
	for l.SliceTokens() == 0 {
		l.Decide(ctx, each(closed, one))
		clock.Advance(20 * time.Microsecond)
	}
	clock.Advance(41 * time.Millisecond)
	back := <-store.amended
	if len(back) != 1 || back[0].Tokens < 1 || back[0].Since == 0 {
		t.Errorf("%+v", back)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ended with %v", err)
	}
}

// amendStore tells what is given back.
type amendStore struct {
	*memstore.Store
	amended chan []limiter.Amendment
}

func (s *amendStore) Amend(ctx context.Context, id string, list []limiter.Amendment) error {
	select {
	case s.amended <- list:
	default:
	}
	return s.Store.Amend(ctx, id, list)
}
