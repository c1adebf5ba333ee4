package console_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// quotaRedis is a Redis with counters of quotas, as the console sees it.
type quotaRedis struct {
	*fakeFeed
	counters map[string]int64
	marks    map[int]string
	notes    map[int]string
	began    func() // called in the middle of a rebuilding
	kept     int
}

func counterKey(tenant string, start time.Time) string {
	return fmt.Sprint(tenant, " ", start.UnixMicro())
}

func (f *quotaRedis) QuotaMarks(context.Context) ([]string, error) {
	defer f.lock()()
	out := make([]string, policy.TenantLanes)
	for lane, mark := range f.marks {
		out[lane] = mark
	}
	return out, f.down
}

func (f *quotaRedis) BeginQuotas(_ context.Context, lanes []int, name string) error {
	defer f.lock()()
	for _, lane := range lanes {
		f.notes[lane] = name
	}
	return f.down
}

func (f *quotaRedis) MarkQuotas(_ context.Context, lanes []int, name, word string) (lost []int, err error) {
	defer f.lock()()
	for _, lane := range lanes {
		if f.notes[lane] != name {
			lost = append(lost, lane)
			continue
		}
		f.marks[lane] = word
	}
	return lost, f.down
}

func (f *quotaRedis) KeepQuotas(_ context.Context, lanes []int) error {
	defer f.lock()()
	f.kept += len(lanes)
	return f.down
}

func (f *quotaRedis) QuotaUnits(_ context.Context, of []policy.QuotaCounter) ([]int64, error) {
	return f.correct(of, func(have int64, _ policy.QuotaCounter) int64 { return have })
}

func (f *quotaRedis) RaiseQuotas(_ context.Context, to []policy.QuotaCounter) ([]int64, error) {
	if f.began != nil {
		f.began()
	}
	return f.correct(to, func(have int64, c policy.QuotaCounter) int64 { return max(have, c.Units, 0) })
}

func (f *quotaRedis) LowerQuotas(_ context.Context, by []policy.QuotaCounter) ([]int64, error) {
	return f.correct(by, func(have int64, c policy.QuotaCounter) int64 {
		if have < 0 {
			return have
		}
		return max(0, have-c.Units)
	})
}

func (f *quotaRedis) correct(of []policy.QuotaCounter, to func(int64, policy.QuotaCounter) int64) ([]int64, error) {
	defer f.lock()()
	out := make([]int64, len(of))
	for i, c := range of {
		have, ok := f.counters[counterKey(c.Tenant, c.Start)]
		if !ok {
			have = policy.AbsentUnits
		}
		if out[i] = to(have, c); out[i] >= 0 {
			f.counters[counterKey(c.Tenant, c.Start)] = out[i]
		}
	}
	return out, f.down
}

// flush loses all that is counted.
func (f *quotaRedis) flush() {
	defer f.lock()()
	clear(f.counters)
	clear(f.marks)
	clear(f.notes)
	f.beats = nil
}

// quotaLedger is a ledger that says what a test tells it.
type quotaLedger struct {
	used   map[string]console.UsageSums // by tenant, for whatever period
	asks   []console.LedgerAsk
	report console.UsageReport
	since  time.Time
	down   error
}

func (l *quotaLedger) Since(context.Context) (time.Time, error) { return l.since, l.down }

func (l *quotaLedger) Sums(_ context.Context, asks []console.LedgerAsk) ([]console.UsageSums, error) {
	out := make([]console.UsageSums, len(asks))
	for i, ask := range asks {
		out[i] = l.used[ask.TenantID]
	}
	l.asks = append(l.asks, asks...)
	return out, l.down
}

func (l *quotaLedger) Report(context.Context, console.Actor, console.UsageQuery) (console.UsageReport, error) {
	return l.report, l.down
}

// quotaWorld is a console with a policy with quotas, and tenants.
type quotaWorld struct {
	*env
	t      *testing.T
	redis  *quotaRedis
	ledger *quotaLedger
	quotas *console.Quotas
}

const quotaPlans = `apiVersion: headgate/v1
plans:
  month: {limits: [], quota: {amount: 1000, counts: cost, period: month, over: block}}
  bill: {limits: [], quota: {amount: 100, max: 200, counts: requests, period: month, alignment: anniversary, over: bill}}
  day: {limits: [], quota: {amount: 10, period: day, over: block}}
  life: {limits: [], quota: {amount: 5, counts: requests, period: lifetime, over: block}}
  none: {limits: [{name: requests, per: tenant, rate: 60/minute, burst: 60}]}
routes:
  - name: everything
    match: ["/"]
    identity: api_key
    motive: quota
    on_store_failure: {mode: closed}
`

// january is where the clocks of Redis and the console stand.
var january = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

func newQuotaWorld(t *testing.T) *quotaWorld {
	t.Helper()
	w := &quotaWorld{env: newEnv(t), t: t, ledger: &quotaLedger{used: map[string]console.UsageSums{}}}
	w.redis = &quotaRedis{fakeFeed: w.feed, counters: map[string]int64{}, marks: map[int]string{}, notes: map[int]string{}}
	w.clock.add(january.Sub(w.clock.now()))
	w.feed.now = january
	w.deps.Feed = w.redis
	w.quotas = console.NewQuotas(w.deps, w.ledger)
	if _, err := w.policies.Publish(w.ctx, owner, []byte(quotaPlans), nil, 0, console.PublishOptions{Note: "quotas"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *quotaWorld) on(plan string, patch console.NewTenant) console.Tenant {
	w.t.Helper()
	patch.Name, patch.Plan = "tenant on "+plan, plan
	ten, err := w.tenants.Create(w.ctx, owner, patch)
	if err != nil {
		w.t.Fatal(err)
	}
	return ten
}

// used tells the ledger that a tenant's cost and requests are that many.
func (w *quotaWorld) used(ten console.Tenant, n int64) {
	w.ledger.used[ten.ID] = console.UsageSums{Admitted: n, Cost: n}
}

// later lets time go by on both clocks.
func (w *quotaWorld) later(d time.Duration) {
	w.clock.add(d)
	w.redis.set(func() { w.redis.now = w.redis.now.Add(d) })
}

// beat is a heartbeat of now whose replica knows that the ledger has all up to some time ago.
func (w *quotaWorld) beat(id string, lag time.Duration) {
	w.beatOf(policy.Heartbeat{ID: id, Usage: &policy.UsageStanding{Committed: w.redis.now.Add(-lag).Unix()}})
}

// beatOf is any heartbeat, of now.
func (w *quotaWorld) beatOf(h policy.Heartbeat) {
	w.redis.set(func() {
		h.At = w.redis.now
		for i := range w.redis.beats {
			if w.redis.beats[i].ID == h.ID {
				w.redis.beats[i] = h
				return
			}
		}
		w.redis.beats = append(w.redis.beats, h)
	})
}

func (w *quotaWorld) work() {
	w.t.Helper()
	if err := w.quotas.Work(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

func (w *quotaWorld) marked() int {
	defer w.redis.lock()()
	return len(w.redis.marks)
}

// firstMarks lets a fresh Redis be marked.
func (w *quotaWorld) firstMarks() {
	w.t.Helper()
	w.work()
	w.later(4 * time.Second)
	w.work()
	if n := w.marked(); n != policy.TenantLanes {
		w.t.Fatalf("%d lanes are marked", n)
	}
}

// counter is what Redis counts of a tenant; -1 for nothing.
func (w *quotaWorld) counter(ten console.Tenant) int64 {
	w.t.Helper()
	p, err := w.quotas.PeriodOf(w.ctx, ten.ID, w.redis.now)
	if err != nil {
		w.t.Fatal(err)
	}
	units, err := w.redis.QuotaUnits(w.ctx, []policy.QuotaCounter{{Tenant: ten.ID, Start: p.Start}})
	if err != nil {
		w.t.Fatal(err)
	}
	return units[0]
}

// count has gateways count that much.
func (w *quotaWorld) count(ten console.Tenant, units int64) {
	w.t.Helper()
	p, err := w.quotas.PeriodOf(w.ctx, ten.ID, w.redis.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.redis.set(func() { w.redis.counters[counterKey(ten.ID, p.Start)] += units })
}

func (w *quotaWorld) standing(ten console.Tenant) console.QuotaStanding {
	w.t.Helper()
	s, err := w.quotas.Standing(w.ctx, owner, ten.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *quotaWorld) losses() []console.QuotaLoss {
	w.t.Helper()
	page, err := w.quotas.Compared(w.ctx, owner, console.Page{})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Losses
}
