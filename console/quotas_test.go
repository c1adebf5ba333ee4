package console_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// TestQuotas_I12_LostCountersAreRebuiltOnceTheLedgerHasAllThatWasAdmitted before the loss,
// within 10 s of it.
func TestQuotas_I12_LostCountersAreRebuiltOnceTheLedgerHasAllThatWasAdmitted(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten, idle := w.on("month", console.NewTenant{}), w.on("month", console.NewTenant{})
	w.beat("gw_1", 0)
	w.firstMarks()
	w.count(ten, 900)
	w.used(ten, 880)
	w.beat("gw_1", 2*time.Second)
	w.work()

	w.redis.flush()
	w.later(time.Second)
	w.work() // sees it
	for range 4 {
		w.later(time.Second)
		w.beat("gw_1", 20*time.Second)
		w.work()
		if w.marked() != 0 {
			t.Fatal("marked before the ledger had what gw_1 admitted")
		}
	}
	w.used(ten, 900)
	w.later(time.Second)
	w.beat("gw_1", time.Second)
	w.work()
	if w.marked() != policy.TenantLanes || w.counter(ten) != 900 || w.counter(idle) != policy.AbsentUnits {
		t.Errorf("%d lanes marked, counters %d and %d", w.marked(), w.counter(ten), w.counter(idle))
	}
	l := w.losses()[0]
	if l.Lanes != policy.TenantLanes || l.Tenants != 2 || l.Raised != 1 || !l.Complete || len(l.Missing) != 0 || l.RebuiltAt.Sub(l.SeenAt) > 10*time.Second {
		t.Errorf("loss %+v", l)
	}
}

// TestQuotas_I12_AReplicaThatIsGoneIsNotWaitedForLongerThanSevenSeconds, and the loss says whose
// admissions are missing.
func TestQuotas_I12_AReplicaThatIsGoneIsNotWaitedForLongerThanSevenSeconds(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.beat("gw_1", 0)
	w.beat("gw_2", 0)
	w.firstMarks()
	w.used(ten, 300)
	w.redis.flush()
	w.work()
	waited := 0
	for ; w.marked() == 0 && waited < 20; waited++ { // gw_2 was killed
		w.later(time.Second)
		w.beat("gw_1", 0)
		w.work()
	}
	if waited != 7 || w.counter(ten) != 300 {
		t.Errorf("rebuilt after %d s to %d", waited, w.counter(ten))
	}
	if l := w.losses()[0]; l.Complete || fmt.Sprint(l.Missing) != "[gw_2]" {
		t.Errorf("loss %+v", l)
	}
	// It comes back with what it had admitted, which the comparison adds.
	w.used(ten, 320)
	w.later(20 * time.Second)
	w.beat("gw_2", 0)
	w.work()
	if s := w.standing(ten); w.counter(ten) != 320 || s.Drift() != 0 || s.HealedAt == nil || s.HealedUnits != 20 {
		t.Errorf("counter %d, standing %+v", w.counter(ten), s)
	}
}

// TestQuotas_I12_WhoIsNotHeardOfAfterALossIsWaitedFor: heartbeats were lost too.
func TestQuotas_I12_WhoIsNotHeardOfAfterALossIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	w.beat("gw_1", 0)
	w.firstMarks()
	w.redis.flush()
	w.work()
	w.later(4 * time.Second)
	w.work()
	if w.marked() != 0 {
		t.Error("rebuilt although nobody had said a word")
	}
	w.redis.set(func() { w.redis.beats = append(w.redis.beats, policy.Heartbeat{ID: "gw_1", At: w.redis.now}) })
	w.work()
	if w.marked() == 0 {
		t.Error("a replica that keeps no spool any more is waited for")
	}
}

// TestQuotas_I12_AnotherLossInTheMiddleOfARebuildingIsNotMarkedOver.
func TestQuotas_I12_AnotherLossInTheMiddleOfARebuildingIsNotMarkedOver(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.used(ten, 70)
	w.work()
	w.later(4 * time.Second)
	w.redis.began = w.redis.flush
	w.work()
	if w.marked() != 0 || len(w.losses()) != 0 {
		t.Fatalf("%d lanes are marked that have lost their counters", w.marked())
	}
	w.redis.began = nil
	w.redis.flush()
	w.work()
	w.later(4 * time.Second)
	w.work()
	if w.marked() != policy.TenantLanes || w.counter(ten) != 70 {
		t.Errorf("in the next round: %d lanes, counter %d", w.marked(), w.counter(ten))
	}
}

// TestQuotas_I12_OneLaneIsRebuiltAlone, as when a shard of a Cluster lost its data.
func TestQuotas_I12_OneLaneIsRebuiltAlone(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	one, other := w.on("month", console.NewTenant{}), w.on("month", console.NewTenant{})
	for policy.TenantLane(one.ID) == policy.TenantLane(other.ID) {
		other = w.on("month", console.NewTenant{})
	}
	w.used(one, 5)
	w.used(other, 7)
	w.firstMarks()
	w.redis.set(func() { delete(w.redis.marks, policy.TenantLane(one.ID)); clear(w.redis.counters) })
	w.work()
	w.later(4 * time.Second)
	w.work()
	if l := w.losses()[0]; l.Lanes != 1 || l.Tenants != 1 || l.Raised != 1 {
		t.Errorf("loss %+v", l)
	}
}

// TestQuotas_I12_ACounterBelowTheLedgerIsRaisedAtOnce: the ledger has nothing that was not
// admitted. So a failover to a replica that lagged, and what fallbacks admitted, are made good.
func TestQuotas_I12_ACounterBelowTheLedgerIsRaisedAtOnce(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.firstMarks()
	w.count(ten, 60)
	w.ledger.used[ten.ID] = console.UsageSums{Admitted: 5, Cost: 70, FallbackCost: 8, Interrupted: 1, InterruptedCost: 10}
	w.later(20 * time.Second)
	w.work()
	s := w.standing(ten)
	if w.counter(ten) != 80 || s.Drift() != 0 || s.HealedUnits != 20 || *s.Redis != 80 || s.Ledger != 80 {
		t.Errorf("counter %d, %+v", w.counter(ten), s)
	}
}

// TestQuotas_I12_ACounterAboveTheLedgerIsLoweredOnlyWhenItIsCertainlyWrong: the ledger had
// all that was admitted by the time of a reading, twice.
func TestQuotas_I12_ACounterAboveTheLedgerIsLoweredOnlyWhenItIsCertainlyWrong(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.beat("gw_1", 0)
	w.firstMarks()
	w.count(ten, 100)
	w.used(ten, 90)
	round := func(lag time.Duration) {
		w.later(20 * time.Second)
		w.beat("gw_1", lag)
		w.work()
	}
	for range 5 { // behind by a minute: nobody knows
		round(time.Minute)
	}
	if n := w.counter(ten); n != 100 {
		t.Fatalf("lowered to %d although events were on their way", n)
	}
	if s := w.standing(ten); s.Complete || s.Drift() != -10 {
		t.Errorf("standing %+v", s)
	}
	round(0)
	if n := w.counter(ten); n != 100 {
		t.Fatalf("lowered to %d after one sight", n)
	}
	round(0)
	if s := w.standing(ten); w.counter(ten) != 90 || s.HealedUnits != -10 || s.Drift() != 0 || !s.Complete {
		t.Errorf("counter %d, %+v", w.counter(ten), s)
	}
}

// TestQuotas_I12_WhatTheLedgerCannotHaveIsNotTakenOffACounter: what was admitted before there
// was a ledger, by a replica without a spool, or when a spool had no room.
func TestQuotas_I12_WhatTheLedgerCannotHaveIsNotTakenOffACounter(t *testing.T) {
	t.Parallel()
	for name, blind := range map[string]func(w *quotaWorld){
		"the ledger began within the period": func(w *quotaWorld) { w.ledger.since = w.redis.now },
		"there is no ledger":                 func(w *quotaWorld) { w.ledger.since = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		"a replica keeps no spool":           func(w *quotaWorld) { w.beatOf(policy.Heartbeat{ID: "gw_2"}) },
		"a spool had no room for a few notes": func(w *quotaWorld) {
			w.beatOf(policy.Heartbeat{ID: "gw_2", Usage: &policy.UsageStanding{Committed: 1 << 40, Unnoted: 3}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newQuotaWorld(t)
			w.clock.add(-20 * 24 * time.Hour)
			ten := w.on("month", console.NewTenant{}) // older than the period
			w.clock.add(20 * 24 * time.Hour)
			w.beat("gw_1", 0)
			w.firstMarks()
			w.count(ten, 900)
			w.used(ten, 100)
			for range 4 {
				w.later(20 * time.Second)
				w.beat("gw_1", 0)
				blind(w)
				w.work()
			}
			if n := w.counter(ten); n != 900 {
				t.Errorf("900 units were lowered to %d", n)
			}
			if s := w.standing(ten); s.Drift() != -800 {
				t.Errorf("standing %+v", s)
			}
		})
	}
}

// TestQuotas_I12_ABusyCounterIsNotLowered: under load Redis is always ahead of the ledger.
func TestQuotas_I12_ABusyCounterIsNotLowered(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.beat("gw_1", 0)
	w.firstMarks()
	for i := range int64(8) {
		w.count(ten, 100)
		w.used(ten, 100*(i+1)-3) // the last second is on its way
		w.later(20 * time.Second)
		w.beat("gw_1", time.Second)
		w.work()
		if got := w.counter(ten); got != 100*(i+1) {
			t.Fatalf("round %d: %d", i, got)
		}
	}
	// What is too high in truth is found out when less comes in than is wrong.
	w.count(ten, 40)
	for i := range int64(5) {
		w.count(ten, 1)
		w.used(ten, 800+i+1)
		w.later(20 * time.Second)
		w.beat("gw_1", time.Second)
		w.work()
	}
	if got := w.counter(ten); got < 805 || got > 808 {
		t.Errorf("%d, want 805 and no more than what came in between two sights", got)
	}
}

// TestQuotas_I12_LongRequestsAreTakenAgainWhenTheyEnd.
func TestQuotas_I12_LongRequestsAreTakenAgainWhenTheyEnd(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.beat("gw_1", 0)
	w.firstMarks()
	w.count(ten, 50) // charged, and under way for minutes
	for range 4 {
		w.later(20 * time.Second)
		w.beat("gw_1", 0)
		w.work()
	}
	if n := w.counter(ten); n != 0 {
		t.Errorf("given back %d of 50", 50-n)
	}
	w.used(ten, 50)
	w.later(20 * time.Second)
	w.work()
	if n := w.counter(ten); n != 50 {
		t.Errorf("taken again: %d", n)
	}
}

// TestQuotas_CrossingsAreToldOncePerPeriodAndPercent, whatever becomes of amount and use.
func TestQuotas_CrossingsAreToldOncePerPeriodAndPercent(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.firstMarks()
	see := func(n int64) {
		w.used(ten, n)
		w.later(20 * time.Second)
		w.work()
	}
	var ids []int64
	told := func() (out []int) {
		ids = nil
		all, err := w.quotas.Crossings(w.ctx, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range all {
			if out = append(out, c.Percent); i > 0 && c.ID <= all[i-1].ID {
				t.Error("ids do not grow")
			}
			ids = append(ids, c.ID)
			if c.TenantID != ten.ID || c.Amount != 1000 || c.TenantName != ten.Name {
				t.Errorf("crossing %+v", c)
			}
		}
		return out
	}
	see(499)
	if got := told(); len(got) != 0 {
		t.Errorf("below half: %v", got)
	}
	see(500)
	see(790)
	see(800)
	see(700)
	see(810)
	if got := fmt.Sprint(told()); got != "[50 80]" {
		t.Errorf("told %s", got)
	}
	see(1200)
	if got := fmt.Sprint(told()); got != "[50 80 100 120]" {
		t.Errorf("told %s", got)
	}
	w.later(17 * 24 * time.Hour) // February
	see(500)
	if got := fmt.Sprint(told()); got != "[50 80 100 120 50]" {
		t.Errorf("in the next period: %s", got)
	}
	last, err := w.quotas.Crossings(w.ctx, ids[3], 1)
	if err != nil || len(last) != 1 || last[0].Percent != 50 || !last[0].Start.Equal(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("after the fourth: %+v, %v", last, err)
	}
}

// TestQuotas_R100_R102_R112_PeriodsAreThoseOfTheTenant.
func TestQuotas_R100_R102_R112_PeriodsAreThoseOfTheTenant(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	month := w.on("bill", console.NewTenant{QuotaAnchor: "2026-01-31"})
	berlin := w.on("day", console.NewTenant{TimeZone: "Europe/Berlin"})
	cairo := w.on("day", console.NewTenant{TimeZone: "Africa/Cairo"})
	shanghai := w.on("day", console.NewTenant{TimeZone: "Asia/Shanghai"})
	life := w.on("life", console.NewTenant{})
	for _, c := range []struct {
		ten            console.Tenant
		at, start, end string
		zone           string
	}{
		{month, "2026-02-27T23:59:59Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "UTC"},
		{month, "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z", "UTC"},
		{month, "2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z", "UTC"},
		{month, "2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z", "UTC"},
		{berlin, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "Europe/Berlin"},
		{berlin, "2026-10-24T22:30:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", "Europe/Berlin"},
		{cairo, "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", "Africa/Cairo"},
		{shanghai, "2026-01-15T15:59:59Z", "2026-01-14T16:00:00Z", "2026-01-15T16:00:00Z", "Asia/Shanghai"},
		{shanghai, "2026-01-15T16:00:00Z", "2026-01-15T16:00:00Z", "2026-01-16T16:00:00Z", "Asia/Shanghai"},
		{life, "2026-01-15T16:00:00Z", "1970-01-01T00:00:00Z", "", "UTC"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.quotas.PeriodOf(w.ctx, c.ten.ID, at)
		end := ""
		if p.End != nil {
			end = p.End.UTC().Format(time.RFC3339)
		}
		if err != nil || p.Start.UTC().Format(time.RFC3339) != c.start || end != c.end || p.Zone != c.zone {
			t.Errorf("%s at %s: %s to %s in %s, %v", c.ten.Plan, c.at, p.Start.UTC(), end, p.Zone, err)
		}
	}
	if _, err := w.quotas.PeriodOf(w.ctx, w.on("none", console.NewTenant{}).ID, january); console.CodeOf(err) != console.CodeNotFound {
		t.Errorf("without a quota: %v", err)
	}
}

// TestQuotas_AreOfThoseWhoHaveOne: an unlimited override and a plan without a quota have none.
func TestQuotas_AreOfThoseWhoHaveOne(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	with, without, unlimited, gone := w.on("month", console.NewTenant{}), w.on("none", console.NewTenant{}), w.on("month", console.NewTenant{}), w.on("month", console.NewTenant{})
	if _, err := console.NewOverrides(w.deps).Set(w.ctx, owner, unlimited.ID, console.NewOverride{Limit: policy.QuotaID, Rate: "unlimited", Reason: "partner"}); err != nil {
		t.Fatal(err)
	}
	w.firstMarks()
	w.later(20 * time.Second)
	w.work()
	if _, err := w.tenants.Delete(w.ctx, owner, gone.ID, "left"); err != nil {
		t.Fatal(err)
	}
	w.later(11 * time.Minute)
	w.work()
	all, err := w.quotas.Standings(w.ctx, []string{with.ID, without.ID, unlimited.ID, gone.ID})
	if err != nil || len(all) != 1 || all[with.ID].Amount != 1000 || all[with.ID].TenantName != with.Name {
		t.Errorf("%+v, %v", all, err)
	}
	page, err := w.quotas.Compared(w.ctx, owner, console.Page{})
	if err != nil || page.Drift.Tenants != 1 || page.Drift.Apart != 0 {
		t.Errorf("%+v, %v", page.Drift, err)
	}
}

// TestQuotas_ComparedListsTheFurthestApartFirst, page by page and each once.
func TestQuotas_ComparedListsTheFurthestApartFirst(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	for i := range int64(7) {
		w.count(w.on("month", console.NewTenant{}), []int64{0, 3, 3, 50, 1, 3, 9}[i])
	}
	w.firstMarks()
	w.later(20 * time.Second)
	w.work()
	var got []int64
	seen := map[string]bool{}
	for after := ""; ; {
		page, err := w.quotas.Compared(w.ctx, owner, console.Page{After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Items {
			got = append(got, s.Drift())
			seen[s.TenantID] = true
		}
		if page.Drift.Units != 69 || page.Drift.Apart != 6 {
			t.Errorf("together %+v", page.Drift)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[-50 -9 -3 -3 -3 -1 0]" || len(seen) != 7 {
		t.Errorf("%v of %d tenants", got, len(seen))
	}
}

// TestQuotas_SayWhenSomethingIsAway, and mark nothing then.
func TestQuotas_SayWhenSomethingIsAway(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	w.on("month", console.NewTenant{})
	w.work()
	w.later(4 * time.Second)
	w.ledger.down = errors.New("no ledger")
	if err := w.quotas.Work(w.ctx); !errors.Is(err, w.ledger.down) || w.marked() != 0 {
		t.Errorf("%v, %d lanes marked", err, w.marked())
	}
	w.ledger.down = nil
	w.redis.set(func() { w.redis.down = errors.New("no Redis") })
	if err := w.quotas.Work(w.ctx); !errors.Is(err, w.redis.down) {
		t.Errorf("%v", err)
	}
	w.redis.set(func() { w.redis.down = nil })
	w.work()
	if w.marked() != policy.TenantLanes {
		t.Error("not rebuilt when all are back")
	}
	w.later(25 * time.Hour)
	w.work()
	if w.redis.kept != 2*policy.TenantLanes && w.redis.kept != policy.TenantLanes {
		t.Errorf("%d marks were kept up in a day", w.redis.kept)
	}
}
