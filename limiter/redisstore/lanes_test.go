package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
)

// TestI01_RefundsOfAnotherLaneBringNoRefill: a refund reaches its bucket some time after
// the charge, and what has refilled meanwhile must not come on top of the burst.
func TestI01_RefundsOfAnotherLaneBringNoRefill(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 10}
	row := limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	draw := limiter.Draw{
		Charges: []limiter.Charge{{Row: row, Hash: 1, Numbers: n, Cost: 2}},
		Quotas:  []limiter.Quota{{Row: row, Hash: 2, Cost: 3, Start: 7, End: 9}},
	}
	back := redisstore.RefundsOf(draw, limiter.Outcome{
		Admitted: true, NowMicros: 1_700_000_000_000_000, Levels: []limiter.Level{{Units: 5000, Extra: 1}}, Quotas: make([]limiter.QuotaLevel, 1),
	})
	if len(back) != 2 {
		t.Fatalf("%+v", back)
	}
	if got := back[0]; got.Tokens != 3 || got.Since != 1_700_000_000_000_000 {
		t.Errorf("bucket: %+v, want 3 tokens out since the lane's decision", got)
	}
	if got := back[1]; !got.Quota || got.Tokens != 3 || got.Since != 0 || got.Start != 7 {
		t.Errorf("counter: %+v, want all of it: it does not refill", got)
	}
}

// TestI01_SlicesAreAsOldAsTheEarliestClockSays: servers of a Cluster have clocks of their
// own, and a slice that seems younger brings refill back.
func TestI01_SlicesAreAsOldAsTheEarliestClockSays(t *testing.T) {
	t.Parallel()
	for _, lanes := range [][]int64{{500}, {500, 600}, {600, 500}, {700, 500, 600}, {500, 0}} {
		if got := redisstore.TimeOf(lanes...); got != 500 {
			t.Errorf("lanes %v: %d, want 500", lanes, got)
		}
	}
}
