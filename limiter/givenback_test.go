package limiter_test

import (
	"testing"
	"time"
)

// TestI01_SlicesThatComeBackUnspentNeverSaveUpRefill: replicas whose demand comes in
// bursts take turns in holding slices that they do not spend, so that some tokens are
// always out and the bucket never meets its brim. What refills meanwhile must
// not come on top of the burst when all is spent at once.
func TestI01_SlicesThatComeBackUnspentNeverSaveUpRefill(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 4, perMilli(8, 4000))
	back := func() {
		for _, l := range c.replicas {
			l.GiveBack(false)
		}
	}
	for step := range 196 {
		who, requests := step%4, 2
		if (step/4+who)%3 == 0 {
			requests = 130 // much for a moment: a large slice is wanted
		}
		for range requests {
			c.ask(t, who, 1)
			c.clock.Advance(10 * time.Microsecond)
		}
		for range 9 {
			c.clock.Advance(time.Millisecond)
			back()
		}
	}
	for range 4000 { // and now everything
		for who := range c.replicas {
			c.ask(t, who, 1)
		}
	}
	returned := int64(0)
	for _, l := range c.replicas {
		returned += l.Stats().SliceReturned
	}
	if returned < 1000 {
		t.Errorf("%d tokens came back: the test says nothing", returned)
	}
}
