package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

// gateStore lets calls that carry extra tokens wait until they are let through.
type gateStore struct {
	*memstore.Store
	entered chan struct{}
	leave   chan error
	refills atomic.Int64
}

func (s *gateStore) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	for i := range d.Charges {
		if d.Charges[i].Extra > 0 {
			s.refills.Add(1)
			s.entered <- struct{}{}
			if err := <-s.leave; err != nil {
				return limiter.Outcome{}, err
			}
		}
	}
	return s.Store.Take(ctx, d)
}

// gated is a limiter whose first refill has been asked for in the background of a
// request that was let through.
type gated struct {
	*limiter.Limiter
	store *gateStore
	clock *manual
	req   limiter.Request
}

func newGated(t *testing.T) *gated {
	t.Helper()
	clock := newManual()
	store := &gateStore{Store: memstore.New(clock.Time), entered: make(chan struct{}), leave: make(chan error)}
	l, err := limiter.New(limiter.Config{Store: store, Now: clock.Time, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	one := charge(tenant("ten_a"), "l", perMilli(1000, 1_000_000), 1)
	one.Leased = true
	g := &gated{l, store, clock, each(closed, one)}
	for range 30 { // enough demand, in too short a time to measure it
		g.ask()
	}
	clock.Advance(5100 * time.Microsecond)
	return g
}

func (g *gated) ask() limiter.Decision { return g.Decide(context.Background(), g.req) }

func TestFetch_OneRefillIsUnderWayAtMostAndOthersAreExact(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	var wg sync.WaitGroup
	wg.Go(func() { g.ask() })
	<-g.store.entered
	for range 50 { // while the refill is on its way
		if d := g.ask(); !d.Allowed || d.Levels[0].Unknown {
			t.Fatalf("%+v", d)
		}
	}
	g.store.leave <- nil
	wg.Wait()
	if got := g.store.refills.Load(); got != 1 {
		t.Errorf("%d refills, want 1", got)
	}
	if d := g.ask(); !d.Allowed || !d.Levels[0].Unknown {
		t.Errorf("after the refill: %+v", d)
	}
}

func TestFetch_IsAskedForBeforeTheSliceIsEmpty(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	var wg sync.WaitGroup
	wg.Go(func() { g.ask() })
	<-g.store.entered
	g.store.leave <- nil
	wg.Wait()
	held := g.SliceTokens()
	if held < 4 {
		t.Fatalf("%d tokens", held)
	}
	g.clock.Advance(5100 * time.Microsecond)
	for range held/2 + 2 {
		if d := g.ask(); !d.Levels[0].Unknown {
			t.Fatal("asked although the slice could pay")
		}
	}
	<-g.store.entered // in the background
	if left := g.SliceTokens(); left == 0 {
		t.Error("the slice was empty before more was asked for")
	}
	g.store.leave <- nil
}

func TestFetch_ThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	for round := range 3 {
		var wg sync.WaitGroup
		wg.Go(func() {
			if d := g.ask(); round < 2 && !d.Degraded || round == 2 && !d.Allowed {
				t.Errorf("round %d: %+v", round, d)
			}
		})
		<-g.store.entered
		if round < 2 {
			g.store.leave <- errDown
		} else {
			g.store.leave <- nil
		}
		wg.Wait()
	}
	if g.SliceTokens() == 0 {
		t.Error("nothing is leased after the third attempt")
	}
}

func TestFetch_RunEndsAfterTheRefillsUnderWayAndGivesThemBack(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	var wg sync.WaitGroup
	wg.Go(func() { g.ask() })
	<-g.store.entered
	g.store.leave <- nil
	wg.Wait()
	g.clock.Advance(5100 * time.Microsecond)
	for range g.SliceTokens()/2 + 2 {
		g.ask()
	}
	<-g.store.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	g.store.leave <- nil
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ended with %v", err)
	}
	if held := g.SliceTokens(); held != 0 {
		t.Errorf("%d tokens still held", held)
	}
	got := g.Stats()
	if got.SliceReturned == 0 || got.Slices != 2 {
		t.Errorf("%+v", got)
	}
	if d := g.ask(); !d.Allowed || d.Levels[0].Unknown {
		t.Errorf("after the end: %+v", d)
	}
}

// TestFetch_SeveralLeasedLimitsArePaidTogetherOrNotAtAll.
func TestFetch_SeveralLeasedLimitsArePaidTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Inline()
	var charges []limiter.Charge
	for i := range 12 { // more than slices pay of one request
		c := charge(tenant("ten_a"), fmt.Sprint(i), perMilli(1000, 1_000_000), 1)
		c.Leased = true
		charges = append(charges, c)
	}
	for range 1600 {
		if !r.decide(each(closed, charges[:3]...)).Allowed {
			t.Fatal("refused")
		}
		r.clock.Advance(20 * time.Microsecond)
	}
	if got := r.Stats().Local; got < 1200 {
		t.Errorf("%d of 1600 requests on three leased limits were paid locally", got)
	}
	for range 400 {
		if !r.decide(each(closed, charges...)).Allowed {
			t.Fatal("refused")
		}
		r.clock.Advance(20 * time.Microsecond)
	}
	d := r.decide(each(closed, charges...))
	known := 0
	for _, l := range d.Levels {
		if !l.Unknown {
			known++
		}
	}
	if !d.Allowed || known < 4 {
		t.Errorf("%d of 12 limits were asked of the store, want at least 4: %+v", known, d)
	}
}

// TestFetch_DemandThatCeasesEndsLeasing: after a lull a single request is exact again.
func TestFetch_DemandThatCeasesEndsLeasing(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, perMilli(1000, 1_000_000))
	c.heat(t, 0)
	c.clock.Advance(time.Minute)
	c.replicas[0].GiveBack(false)
	slices := c.replicas[0].Stats().Slices
	for range 20 {
		c.ask(t, 0, 1)
		c.clock.Advance(time.Second)
		c.replicas[0].GiveBack(false)
	}
	if got := c.replicas[0].Stats().Slices - slices; got > 1 {
		t.Errorf("%d slices for one request a second", got)
	}
}

// TestFetch_ASliceLeavesMostOfTheBucketToOthers.
func TestFetch_ASliceLeavesMostOfTheBucketToOthers(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, perMilli(1, 1000))
	for range 600 {
		c.ask(t, 0, 1)
		c.clock.Advance(11 * time.Microsecond)
	}
	held, level := c.replicas[0].SliceTokens(), c.level(t)
	if held == 0 || held > level/2 {
		t.Errorf("%d tokens held, %d left in the store", held, level)
	}
}
