package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

// each is a request on the limits of ten_a: one token of each.
func each(fail policy.StoreFailure, charges ...limiter.Charge) limiter.Request {
	return limiter.Request{Route: "r", Identity: "ten_a", Fail: fail, Draw: limiter.Draw{Charges: charges}}
}

// perSecond is a limit of one token a second with that burst.
func perSecond(burst int64) policy.Numbers {
	return policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: burst}
}

func (r rig) takes() int { n, _ := r.store.asked(); return n }

func TestDenied_ARefusalIsAnsweredInProcessUntilItsWaitIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	req := each(closed, charge(tenant("ten_a"), "l", perSecond(1), 1))
	if !r.decide(req).Allowed {
		t.Fatal("first refused")
	}
	asked := r.takes()
	for _, waited := range []time.Duration{0, 400 * time.Millisecond, 599_999 * time.Microsecond} {
		r.clock.Advance(waited)
		d := r.decide(req)
		if d.Allowed || !d.Cached || d.Degraded || d.Reason != limiter.ReasonLimit || d.DecidingKind != limiter.PartCharge || d.Deciding != 0 {
			t.Fatalf("after %v: %+v", waited, d)
		}
	}
	if r.takes() != asked {
		t.Errorf("%d calls for refusals that were known", r.takes()-asked)
	}
	r.clock.Advance(time.Microsecond)
	if d := r.decide(req); !d.Allowed || d.Cached {
		t.Errorf("when the wait is over: %+v", d)
	}
}

// TestDenied_R002_I13_WaitIsExactAlsoFromTheCache: waiting as long as told is enough, and 1 µs less is
// not, whichever cost asks and whether the store or the cache answers.
func TestDenied_R002_I13_WaitIsExactAlsoFromTheCache(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		n := policy.Numbers{Tokens: rapid.Int64Range(1, 50).Draw(rt, "tokens"), Period: rapid.Int64Range(1, 3_000_000).Draw(rt, "period"), Burst: 20}
		ask := func(cost int64) limiter.Decision {
			return r.decide(each(closed, charge(tenant("ten_a"), "l", n, cost)))
		}
		for ask(7).Allowed { // drains the bucket
		}
		r.clock.Advance(time.Duration(rapid.Int64Range(0, 1000).Draw(rt, "pause")) * time.Microsecond)
		cost := rapid.Int64Range(1, 20).Draw(rt, "cost")
		d := ask(cost)
		if d.Allowed {
			return
		}
		if again := ask(cost); again.RetryAfterMicros != d.RetryAfterMicros || !again.Cached {
			rt.Fatalf("from the store %+v, from the cache %+v", d, again)
		}
		r.clock.Advance(time.Duration(d.RetryAfterMicros-1) * time.Microsecond)
		if ask(cost).Allowed {
			rt.Fatalf("%+v cost %d: admitted 1 µs before the wait of %d µs is over", n, cost, d.RetryAfterMicros)
		}
		r.clock.Advance(time.Microsecond)
		if got := ask(cost); !got.Allowed {
			rt.Fatalf("%+v cost %d: refused after the wait: %+v", n, cost, got)
		}
	})
}

// denyModel is one store, a replica with a cache and one without.
type denyModel struct {
	clock         *manual
	with, without *limiter.Limiter
	limits        []policy.Numbers
}

func newDenyModel(t *testing.T) *denyModel {
	m := &denyModel{clock: newManual()}
	store := memstore.New(m.clock.Time)
	for _, l := range []struct {
		at      **limiter.Limiter
		entries int
	}{{&m.with, 8}, {&m.without, -1}} {
		made, err := limiter.New(limiter.Config{Store: store, Now: m.clock.Time, Budget: time.Minute, DenyEntries: l.entries})
		if err != nil {
			t.Fatal(err)
		}
		*l.at = made
	}
	return m
}

func (m *denyModel) request(rt *rapid.T) limiter.Request {
	var charges []limiter.Charge
	id := fmt.Sprint("ten_", rapid.IntRange(0, 3).Draw(rt, "tenant"))
	for i, n := range m.limits {
		if rapid.Bool().Draw(rt, "drawn") {
			c := charge(tenant(id), fmt.Sprint(i), n, rapid.Int64Range(1, n.Burst).Draw(rt, "cost"))
			c.Shadow = i == 3 && rapid.Bool().Draw(rt, "shadow")
			charges = append(charges, c)
		}
	}
	req := each(closed, charges...)
	if rapid.Bool().Draw(rt, "quota") {
		req.Draw.Quotas = []limiter.Quota{{
			Row: tenant(id), LimitID: "q", Hash: 9, Start: 0, End: 4_000_000_000_000_000,
			Cost: rapid.Int64Range(1, 5).Draw(rt, "units"), Amount: 40,
		}}
	}
	return req
}

// TestDenied_I14_WhatTheCacheRefusesTheStoreWouldRefuse on random traces with changing
// numbers, costs, settling, another replica and several tenants in a cache that is too
// small for them. Where nobody else draws, the wait is the store's too.
func TestDenied_I14_WhatTheCacheRefusesTheStoreWouldRefuse(t *testing.T) {
	t.Parallel()
	cached := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := newDenyModel(t)
		for range 4 {
			m.limits = append(m.limits, perSecond(rapid.Int64Range(1, 6).Draw(rt, "burst")))
		}
		alone := rapid.Bool().Draw(rt, "alone")
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			m.clock.Advance(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 300_000, 1_000_000, 61_000_000}).Draw(rt, "step")) * time.Microsecond)
			m.publish(rt)
			if !alone && rapid.Bool().Draw(rt, "elsewhere") {
				m.without.Decide(context.Background(), m.request(rt))
			}
			req := m.request(rt)
			got := m.with.Decide(context.Background(), req)
			if got.Cached {
				cached++
				m.agrees(rt, req, got, alone)
			}
			m.settle(rt, req, got)
		}
	})
	if cached < 50 {
		t.Errorf("only %d refusals came from the cache: the test says nothing", cached)
	}
}

// agrees asks the store itself what the cache has answered.
func (m *denyModel) agrees(rt *rapid.T, req limiter.Request, got limiter.Decision, alone bool) {
	want := m.without.Decide(context.Background(), req)
	if got.Allowed || want.Allowed || want.Cached || got.RetryAfterMicros > want.RetryAfterMicros {
		rt.Fatalf("from the cache %+v, from the store %+v", got, want)
	}
	if alone && len(req.Draw.Charges) == 1 && len(req.Draw.Quotas) == 0 && got.RetryAfterMicros != want.RetryAfterMicros {
		rt.Fatalf("one limit: wait %d µs from the cache, %d from the store", got.RetryAfterMicros, want.RetryAfterMicros)
	}
}

// publish changes a limit, now and then, as a policy that reaches every replica does.
func (m *denyModel) publish(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "publish") > 0 {
		return
	}
	i := rapid.IntRange(0, 3).Draw(rt, "which")
	m.limits[i] = policy.Numbers{Tokens: rapid.Int64Range(1, 9).Draw(rt, "new rate"), Period: 1_000_000, Burst: rapid.Int64Range(1, 6).Draw(rt, "new burst")}
	m.with.ForgetAll()
}

// settle gives back, or charges, some of what was admitted.
func (m *denyModel) settle(rt *rapid.T, req limiter.Request, d limiter.Decision) {
	if !d.Allowed || rapid.IntRange(0, 4).Draw(rt, "settle") > 0 {
		return
	}
	spent := d.Spent(&req.Draw)
	if err := m.with.Settle(context.Background(), "", &spent, rapid.Int64Range(-3, 3).Draw(rt, "delta")); err != nil {
		rt.Fatal(err)
	}
}

func TestDenied_R049_NewNumbersAskTheStoreAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	r.decide(each(closed, charge(row, "l", perSecond(1), 1)))
	if !r.decide(each(closed, charge(row, "l", perSecond(1), 1))).Cached {
		t.Fatal("not cached")
	}
	raised := policy.Numbers{Tokens: 1000, Period: 1_000_000, Burst: 1000}
	r.decide(each(closed, charge(row, "l", raised, 1))) // refused, but refilling a thousand times faster from here
	r.clock.Advance(3 * time.Millisecond)
	if d := r.decide(each(closed, charge(row, "l", raised, 1))); !d.Allowed {
		t.Errorf("after the limit was raised: %+v", d)
	}
	// Back to the old numbers: what was known under them is not true any more.
	if d := r.decide(each(closed, charge(row, "l", perSecond(1), 1))); d.Cached || !d.Allowed {
		t.Errorf("back at the old numbers: %+v", d)
	}
}

func TestDenied_R049_WhatWasRefusedForMoreCostSaysNothingOfLess(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	r.decide(each(closed, charge(row, "l", perSecond(10), 7)))
	if d := r.decide(each(closed, charge(row, "l", perSecond(10), 5))); d.Allowed || d.RetryAfterMicros != 2_000_000 {
		t.Fatalf("5 of 3 tokens: %+v", d)
	}
	if d := r.decide(each(closed, charge(row, "l", perSecond(10), 6))); !d.Cached || d.RetryAfterMicros != 3_000_000 {
		t.Errorf("6 of 3 tokens: %+v", d)
	}
	if d := r.decide(each(closed, charge(row, "l", perSecond(10), 3))); !d.Allowed {
		t.Errorf("3 of 3 tokens: %+v", d)
	}
}

// TestDenied_WhatIsKnownFollowsTheBucket: admissions in between make the wait longer,
// and other numbers make what was known under the old ones worthless.
func TestDenied_WhatIsKnownFollowsTheBucket(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ask := func(n policy.Numbers, cost int64) limiter.Decision {
		return r.decide(each(closed, charge(tenant("ten_a"), "l", n, cost)))
	}
	ask(perSecond(10), 6)
	if d := ask(perSecond(10), 6); d.Allowed || d.RetryAfterMicros != 2_000_000 {
		t.Fatalf("6 of 4 tokens: %+v", d)
	}
	ask(perSecond(10), 1)
	if d := ask(perSecond(10), 6); !d.Cached || d.RetryAfterMicros != 3_000_000 {
		t.Errorf("6 of 3 tokens: %+v", d)
	}
	fast := policy.Numbers{Tokens: 1000, Period: 1_000_000, Burst: 10}
	ask(fast, 1)
	r.clock.Advance(10 * time.Millisecond) // full again
	ask(fast, 1)
	if d := ask(perSecond(10), 6); !d.Allowed {
		t.Errorf("6 of 9 tokens under the old numbers: %+v", d)
	}
}

func TestDenied_ForgetDropsOneTenantForgetAllEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ask := func(id string) limiter.Decision {
		return r.decide(each(closed, charge(tenant(id), "l", perSecond(1), 1)))
	}
	for _, id := range []string{"ten_a", "ten_b"} {
		ask(id)
		if !ask(id).Cached {
			t.Fatalf("%s is not cached", id)
		}
	}
	r.Forget("ten_a")
	if ask("ten_a").Cached || !ask("ten_b").Cached {
		t.Error("Forget dropped the wrong tenant")
	}
	r.ForgetAll()
	if ask("ten_b").Cached {
		t.Error("ForgetAll left something")
	}
}

// forgettingStore has something happen while an answer is under way.
type forgettingStore struct {
	*memstore.Store
	meanwhile func()
}

func (s *forgettingStore) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	out, err := s.Store.Take(ctx, d)
	s.meanwhile()
	return out, err
}

func TestDenied_AnAnswerUnderWayWhenItsTenantIsForgottenIsNotRemembered(t *testing.T) {
	t.Parallel()
	clock := newManual()
	store := &forgettingStore{Store: memstore.New(clock.Time)}
	l, err := limiter.New(limiter.Config{Store: store, Now: clock.Time, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	store.meanwhile = func() { l.Forget("ten_a") }
	req := each(closed, charge(tenant("ten_a"), "l", perSecond(1), 1))
	for i := range 5 {
		if d := l.Decide(context.Background(), req); d.Cached || d.Allowed != (i == 0) {
			t.Errorf("request %d: %+v", i, d)
		}
	}
}

func TestDenied_LongWaitsAreAskedAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	slow := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1}
	for _, c := range []struct {
		name    string
		last    time.Duration
		request func(*limiter.Request)
		config  func(*limiter.Config)
	}{
		{"one", time.Minute, func(*limiter.Request) {}, nil},
		{"settled", time.Second, func(r *limiter.Request) { r.Settles = true }, nil},
		{"leased", time.Second, func(r *limiter.Request) { r.Draw.Charges[0].Leased = true }, nil},
		{"several shards", time.Second, func(*limiter.Request) {}, func(c *limiter.Config) { c.LeaseGlobal = true }},
	} {
		r := newRig(t, c.config)
		req := each(closed, charge(tenant("ten_a"), "l", slow, 1))
		c.request(&req)
		r.decide(req)
		r.clock.Advance(c.last - time.Microsecond)
		if d := r.decide(req); !d.Cached {
			t.Errorf("%s: forgotten before %v", c.name, c.last)
		}
		r.clock.Advance(time.Microsecond)
		if d := r.decide(req); d.Cached || d.Allowed {
			t.Errorf("%s: after %v: %+v", c.name, c.last, d)
		}
	}
}

func TestDenied_PlacesShadowsAndOverflowAreNeverRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	shadow := charge(tenant("ten_a"), "s", perSecond(1), 1)
	shadow.Shadow = true
	place := limiter.Slot{Row: tenant("ten_a"), LimitID: "c", Hash: 7, Max: 1, HoldMicros: 1_000_000}
	var overflow [2]limiter.Charge
	for i := range overflow { // the first takes the only identifier, the second is in the overflow bucket
		row := limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a", Subject: fmt.Sprint(i)}
		overflow[i] = charge(row, "d", perSecond(1), 1)
		overflow[i].Identifiers = 2
	}
	for name, reqs := range map[string][2]limiter.Request{
		"shadow":   {each(closed, shadow), each(closed, shadow)},
		"overflow": {each(closed, overflow[0]), each(closed, overflow[1])},
		"place":    {{Fail: closed, Draw: limiter.Draw{Slots: []limiter.Slot{lease(place, 1)}}}, {Fail: closed, Draw: limiter.Draw{Slots: []limiter.Slot{lease(place, 2)}}}},
	} {
		r.decide(reqs[0])
		for range 3 {
			before := r.takes()
			if d := r.decide(reqs[1]); d.Cached || r.takes() == before {
				t.Errorf("%s: %+v was not asked of the store", name, d)
			}
		}
	}
}

func lease(s limiter.Slot, i int) limiter.Slot {
	s.Lease = fmt.Sprintf("lease-%016d", i)
	return s
}

func TestDenied_QuotaIsRememberedForASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	now := r.clock.Now()
	quota := limiter.Quota{Row: tenant("ten_a"), LimitID: "plan.quota", Hash: 5, Start: now - 1000, End: now + 90_000_000, Cost: 4, Amount: 10}
	ask := func(cost, amount int64) limiter.Decision {
		q := quota
		q.Cost, q.Amount = cost, amount
		return r.decide(limiter.Request{Fail: closed, Draw: limiter.Draw{Quotas: []limiter.Quota{q}}})
	}
	ask(4, 10)
	ask(4, 10)
	first := ask(4, 10)
	if first.Cached || first.Reason != limiter.ReasonQuota || first.DecidingKind != limiter.PartQuota || first.RetryAfterMicros != 90_000_000 {
		t.Fatalf("%+v", first)
	}
	r.clock.Advance(time.Second / 2)
	if d := ask(3, 10); !d.Cached || d.RetryAfterMicros != 89_500_000 || d.Quotas[0].Used != 8 || !d.Quotas[0].Refused {
		t.Errorf("3 of 2 units, known: %+v", d)
	}
	if d := ask(4, 13); !d.Allowed {
		t.Errorf("under another amount: %+v", d)
	}
	r.Forget("ten_a")
	ask(4, 10)
	r.clock.Advance(time.Second)
	if d := ask(4, 10); d.Cached {
		t.Errorf("after a second: %+v", d)
	}
}

func TestDenied_IsBoundedAndStaysSound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *limiter.Config) { c.DenyEntries = 16 })
	for round := range 3 {
		for i := range 500 {
			d := r.decide(each(closed, charge(tenant(fmt.Sprint("ten_", i)), "l", perSecond(1), 1)))
			if d.Allowed != (round == 0) {
				t.Fatalf("round %d tenant %d: %+v", round, i, d)
			}
		}
	}
	if got := r.Denials(); got > 16 {
		t.Errorf("%d entries, at most 16", got)
	}
}

// TestDenied_CachedRefusalAllocatesAtMostTwice is the budget of a refusal under
// attack; BenchmarkDecide_Cached tells its time.
func TestDenied_CachedRefusalAllocatesAtMostTwice(t *testing.T) { //nolint:paralleltest // allocations are counted
	r := newRig(t, nil)
	ctx := context.Background()
	row := tenant("ten_a")
	req := each(closed, charge(row, "a", perSecond(1), 1), charge(row, "b", perSecond(9), 1), charge(row, "c", perSecond(9), 1), charge(row, "d", perSecond(9), 1))
	r.decide(req)
	if !r.decide(req).Cached {
		t.Fatal("not cached")
	}
	if got := testing.AllocsPerRun(1000, func() { r.Decide(ctx, req) }); got > 2 {
		t.Errorf("%v allocations a cached refusal, at most 2", got)
	}
}
