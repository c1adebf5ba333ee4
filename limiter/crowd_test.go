package limiter_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

// farStore is a store at some distance: its clock goes on while a call is on its way.
type farStore struct {
	*memstore.Store
	clock *manual
	there func() time.Duration
	back  func() time.Duration
	takes atomic.Int64
}

func (s *farStore) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	s.takes.Add(1)
	s.clock.Advance(s.there())
	out, err := s.Store.Take(ctx, d)
	s.clock.Advance(s.back())
	return out, err
}

func (s *farStore) Amend(ctx context.Context, id string, list []limiter.Amendment) error {
	s.clock.Advance(s.there())
	return s.Store.Amend(ctx, id, list)
}

// crowd is several replicas that lease one limit.
type crowd struct {
	clock    *manual
	store    *farStore
	replicas []*limiter.Limiter
	numbers  policy.Numbers
	virtual  limiter.Bucket // what the bound still allows, over every interval at once
	admitted int64
	local    int64
}

func newCrowd(t testing.TB, n int, numbers policy.Numbers) *crowd {
	c := &crowd{clock: newManual(), numbers: numbers}
	none := func() time.Duration { return 0 }
	c.store = &farStore{Store: memstore.New(c.clock.Time), clock: c.clock, there: none, back: none}
	for range n {
		l, err := limiter.New(limiter.Config{Store: c.store, Now: c.clock.Time, Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		l.Inline()
		c.replicas = append(c.replicas, l)
	}
	c.virtual = limiter.FullBucket(c.clock.Now(), numbers)
	return c
}

func (c *crowd) request(cost int64) limiter.Request {
	one := charge(limiter.Row{Kind: limiter.RowGlobal}, "global.all", c.numbers, cost)
	one.Leased = true
	return limiter.Request{Route: "r", Fail: closed, Draw: limiter.Draw{Charges: []limiter.Charge{one}}}
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Fatalf(format string, args ...any)
}

// ask makes one request and holds the bound: at no time may an interval that ends
// now have had more than its burst and its refill, which is what the virtual bucket
// says.
func (c *crowd) ask(t failer, replica int, cost int64) bool {
	began := c.clock.Now()
	d := c.replicas[replica].Decide(context.Background(), c.request(cost))
	if !d.Allowed {
		return false
	}
	at := d.NowMicros
	if d.Levels[0].Unknown {
		at = began
		c.local++
	}
	c.admitted += cost
	c.virtual = c.virtual.Advance(at, c.numbers)
	c.virtual.Units -= cost * c.numbers.Period
	if c.virtual.Units < 0 {
		t.Fatalf("%d tokens more than the limit allows, at %d µs", -c.virtual.Units/c.numbers.Period, at)
	}
	return true
}

// heat makes the replica lease: it asks often enough in a short time.
func (c *crowd) heat(t testing.TB, replica int) {
	t.Helper()
	for range 400 {
		c.ask(t, replica, 1)
		c.clock.Advance(20 * time.Microsecond)
	}
	if c.replicas[replica].SliceTokens() == 0 {
		t.Fatal("nothing is leased")
	}
}

// level is the number of whole tokens in the store's bucket.
func (c *crowd) level(t testing.TB) int64 {
	t.Helper()
	n := c.numbers
	n.Burst = n.LeasedBurst()
	req := c.request(1)
	out, err := c.store.Take(context.Background(), &limiter.Draw{
		Charges: []limiter.Charge{charge(req.Draw.Charges[0].Row, "global.all", n, 1)},
		Quotas:  []limiter.Quota{{Row: req.Draw.Charges[0].Row, Cost: 1}}, // refuses: a look that spends nothing
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Levels[0].Remaining(n)
}
