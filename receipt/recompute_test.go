package receipt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/receipt"
)

const testPolicy = `
apiVersion: headgate/v1
credentials: {headers: [{name: X-API-Key}], invalid: {per: ip, rate: 30/minute, burst: 30}}
plans:
  free:
    limits: [{name: requests, per: tenant, rate: 60/minute, burst: 60}]
    quota: {amount: 1000, period: month, over: block}
  pro:
    limits: [{name: requests, per: tenant, rate: 600/minute, burst: 100}]
    quota: {amount: 5000, period: month, over: bill, max: 9000}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    limits: [{name: own, per: tenant, rate: 10/minute, burst: 5}]
    concurrency: {per: tenant, max: 2, lease: 30s}
    on_store_failure: {mode: open, fallback: {rate: 30/minute, burst: 10}}
  - name: rest
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: closed}
`

func compiled(t testing.TB) *policy.Compiled {
	t.Helper()
	doc, report := policy.Parse([]byte(testPolicy))
	if doc == nil {
		t.Fatalf("policy: %v", report.Problems)
	}
	c, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRecompute_AgreesWithWhatFollowsFromItsNumbers(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	free, own := policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 60}, policy.Numbers{Tokens: 1, Period: 6_000_000, Burst: 5}
	rate := func(id string, n policy.Numbers, units, cost int64) receipt.Receipt {
		r := sample()
		r.Limit, r.Numbers, r.Units, r.Cost, r.Route = policy.LimitHash(id), n, units, cost, 0
		if !n.Blocked() {
			r.WaitMicros = limiter.Wait(units, cost, n)
		}
		return r
	}
	other := func(kind receipt.Kind, id string, reason limiter.Reason, most, used, cost, wait int64) receipt.Receipt {
		r := sample()
		r.Kind, r.Limit, r.Reason, r.Cap, r.Used, r.Cost, r.WaitMicros, r.Route = kind, policy.LimitHash(id), reason, most, used, cost, wait, 0
		r.Numbers, r.Units = policy.Numbers{}, 0
		return r
	}
	boosted := rate("plan.requests", policy.Numbers{Tokens: 1, Period: 500_000, Burst: 120}, 100, 1)
	boosted.Source = receipt.SourceBoost
	remembered := rate("plan.requests", free, 250_000, 1)
	remembered.Remembered, remembered.WaitMicros = true, 760_000
	tooMuch := rate("route:report.own", own, 0, 6)
	tooMuch.Reason, tooMuch.WaitMicros = limiter.ReasonCostExceedsBurst, 0
	blocked := rate("plan.requests", policy.Numbers{Period: 1}, 0, 1)
	blocked.Source, blocked.Reason, blocked.WaitMicros = receipt.SourceOverride, limiter.ReasonBlocked, 0
	fallback := other(receipt.KindFallback, "", limiter.ReasonFallback, 0, 0, 1, 1_900_000)
	fallback.Limit, fallback.Numbers = 0, policy.Numbers{Tokens: 1, Period: 2_000_000, Burst: 10}
	for name, want := range map[string]struct {
		receipt   receipt.Receipt
		limit     string
		source    string
		remaining int64
	}{
		"a plan's limit":     {rate("plan.requests", free, 250_000, 1), "plan.requests", "plan free", 0},
		"a cost above":       {rate("plan.requests", free, 3_250_000, 5), "plan.requests", "plan free", 3},
		"a debt":             {rate("route:report.own", own, -9_000_000, 1), "route:report.own", "route report", 0},
		"a boosted limit":    {boosted, "plan.requests", "plan pro", 0},
		"a remembered one":   {remembered, "plan.requests", "plan free", 0},
		"a cost too large":   {tooMuch, "route:report.own", "route report", 0},
		"an override of 0":   {blocked, "plan.requests", "plan free", 0},
		"concurrency":        {other(receipt.KindConcurrency, "route:report.concurrency", limiter.ReasonConcurrency, 2, 2, 1, 0), "route:report.concurrency", "route report", 0},
		"a quota":            {other(receipt.KindQuota, "plan.quota", limiter.ReasonQuota, 1000, 998, 5, 86_400_000_000), "plan.quota", "plan free", 2},
		"a quota's maximum":  {other(receipt.KindQuota, "plan.quota", limiter.ReasonQuota, 9000, 9000, 1, 5), "plan.quota", "plan pro", 0},
		"a fallback":         {fallback, "", "route report", 0},
		"a quota never paid": {other(receipt.KindQuota, "plan.quota", limiter.ReasonCostExceedsBurst, 1000, 0, 2000, 0), "plan.quota", "plan free", 1000},
	} {
		r, err := opened(signed(t, want.receipt), public(testKey(1)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f, err := receipt.Recompute(c, &r)
		if err != nil || !f.Agrees() {
			t.Errorf("%s: %v, %q", name, err, f.Differences)
		}
		if f.LimitID != want.limit || !slices.Contains(f.Sources, want.source) || f.Remaining != want.remaining || f.Reason != r.Reason || f.Route != "report" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestRecompute_SaysWhereItDiffers(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	for name, want := range map[string]struct {
		change func(*receipt.Receipt)
		says   string
	}{
		"a bucket that could pay":     {func(r *receipt.Receipt) { r.Units, r.WaitMicros = 2_000_000, 0 }, "admitted"},
		"another wait":                {func(r *receipt.Receipt) { r.WaitMicros++ }, "750000"},
		"numbers of no plan":          {func(r *receipt.Receipt) { r.Numbers.Burst = 61 }, "other numbers"},
		"a remembered wait too short": {func(r *receipt.Receipt) { r.Remembered = true; r.WaitMicros-- }, "at least"},
		"places that are free": {func(r *receipt.Receipt) {
			r.Kind, r.Limit, r.Reason, r.Cap, r.Used, r.WaitMicros = receipt.KindConcurrency, policy.LimitHash("route:report.concurrency"), limiter.ReasonConcurrency, 2, 1, 0
		}, "admitted"},
		"a fallback of a closed route": {func(r *receipt.Receipt) { r.Kind, r.Reason = receipt.KindFallback, limiter.ReasonFallback }, "no fallback"},
		"a fallback's other numbers": {func(r *receipt.Receipt) {
			r.Kind, r.Reason, r.Route = receipt.KindFallback, limiter.ReasonFallback, 0
		}, "other numbers"},
	} {
		r := sample()
		want.change(&r)
		f, err := receipt.Recompute(c, &r)
		if err != nil || f.Agrees() || !strings.Contains(strings.Join(f.Differences, " "), want.says) {
			t.Errorf("%s: %v, %q; want %q", name, err, f.Differences, want.says)
		}
	}
}

func TestRecompute_KnowsWhatAVersionLacks(t *testing.T) {
	t.Parallel()
	c := compiled(t)
	for name, change := range map[string]func(*receipt.Receipt){
		"an unknown limit":     func(r *receipt.Receipt) { r.Limit = policy.LimitHash("plan.other") },
		"a limit of its kind":  func(r *receipt.Receipt) { r.Kind = receipt.KindQuota },
		"a route too many":     func(r *receipt.Receipt) { r.Route = 2 },
		"a fallback of nobody": func(r *receipt.Receipt) { r.Kind, r.Route = receipt.KindFallback, -1 },
	} {
		r := sample()
		change(&r)
		if _, err := receipt.Recompute(c, &r); !errors.Is(err, receipt.ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a receipt says comes from outside: whatever it is, it must not break the console.
func FuzzRecompute_AnyNumbersHaveAnAnswer(f *testing.F) {
	c := compiled(f)
	f.Add(int64(1), int64(1_000_000), int64(60), int64(250_000), int64(1), int64(750_000), byte(0), 0)
	f.Add(int64(0), int64(0), int64(0), int64(-1), int64(1<<53), int64(0), byte(0), 1)
	f.Fuzz(func(t *testing.T, tokens, period, burst, units, cost, wait int64, kind byte, route int) {
		r := sample()
		r.Numbers, r.Units, r.Cost, r.WaitMicros = policy.Numbers{Tokens: tokens, Period: period, Burst: burst}, units, cost, wait
		r.Kind, r.Route, r.Cap, r.Used = receipt.Kind(kind%4), route, burst, units
		text, err := receipt.Sign(&r, testKey(1))
		if err != nil {
			return // cannot be told
		}
		said, err := opened(text, public(testKey(1)))
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if found, err := receipt.Recompute(c, &said); err == nil && found.Reason == "" {
			t.Fatalf("%+v: no verdict", said)
		}
	})
}
