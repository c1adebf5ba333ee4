package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

const withQuota = `
apiVersion: headgate/v1
plans:
  pro:
    limits: [{name: requests, per: tenant, rate: 6000/minute, burst: 500}]
    quota: {amount: 1000, period: month, alignment: anniversary, time_zone: Europe/Berlin, over: block}
routes:
  - {name: all, match: [/], concurrency: {per: tenant, max: 4, lease: 30s}, on_store_failure: {mode: closed}}
`

func compiled(src string) *policy.Compiled {
	d, report := policy.Parse([]byte(src))
	if !report.OK() {
		panic(report)
	}
	c, err := policy.Compile(d)
	if err != nil {
		panic(err)
	}
	return c
}

func ExampleCompileOverrides() {
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	end := now.Add(time.Hour)
	overrides, err := policy.CompileOverrides([]policy.Override{
		{Limit: "plan.requests", Rate: "12000/minute", Reason: "contract"},
		{Limit: "plan.requests", FactorMilli: 1500, ExpiresAt: &end, Reason: "launch"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit := &compiled(withQuota).Plans["pro"][0]
	for _, at := range []time.Time{now, end} {
		n, from := overrides.Limit(limit, at.UnixMicro())
		fmt.Printf("%d tokens in %v, burst %d: %s, %s\n", n.Tokens, time.Duration(n.Period)*time.Microsecond, n.Burst, from.Source, from.Reason)
	}
	// Output:
	// 3 tokens in 10ms, burst 18000: boost, launch
	// 1 tokens in 5ms, burst 12000: override, contract
}

func ExampleCompiledQuota_PeriodAt() {
	quota := compiled(withQuota).Quotas["pro"]
	began := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, now := range []time.Time{time.Date(2027, 2, 10, 0, 0, 0, 0, time.UTC), time.Date(2027, 3, 30, 0, 0, 0, 0, time.UTC)} {
		start, end := quota.PeriodAt(now, began, nil)
		fmt.Println(start.Format(time.RFC3339), "to", end.Format(time.RFC3339))
	}
	// Output:
	// 2027-01-31T00:00:00+01:00 to 2027-02-28T00:00:00+01:00
	// 2027-02-28T00:00:00+01:00 to 2027-03-31T00:00:00+02:00
}

func ExampleCompiled_CheckOverrides() {
	burst := int64(2)
	c := compiled(strings.Replace(withQuota, "match: [/]", "match: [/], cost: 20", 1))
	fmt.Println(c.CheckOverrides("pro", []policy.Override{
		{Limit: "plan.requests", Burst: &burst},
		{Limit: "plan.calls", Rate: "5/minute"},
	}).Error())
	// Output:
	// overrides[0].burst: 2 is below what a request of route all may cost, 20: it could never pass
	// overrides[1].limit: plan.calls counts nothing of a tenant on plan pro
}

// A leased limit keeps a part of its burst back, and that is the part that an
// override is held against.
func TestCheckOverrides_LeasedLimitsFitLess(t *testing.T) {
	t.Parallel()
	c := compiled(strings.NewReplacer("burst: 500", "burst: 500, sync: leased", "match: [/]", "match: [/], cost: 20").Replace(withQuota))
	for burst, want := range map[int64]bool{25: true, 24: false} { // 100 a second: 5 in 50 ms
		r := c.CheckOverrides("pro", []policy.Override{{Limit: "plan.requests", Burst: &burst}})
		if r.OK() != want {
			t.Errorf("burst %d: %v", burst, r)
		}
	}
}

// A boost of each kind of thing that is counted, told in whole numbers.
func TestOverrides_BoostsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	end := now.Add(time.Hour)
	boost := func(limit string, factor int64) policy.Override {
		return policy.Override{Limit: limit, FactorMilli: factor, ExpiresAt: &end}
	}
	c := compiled(withQuota)
	for _, x := range []struct {
		factor                int64
		tokens, period, burst int64 // of 1 in 10 ms, burst 500
		amount, slots         int64 // of 1000 and 4
	}{
		{1001, 1001, 10_000_000, 500, 1001, 4},
		{1250, 1, 8_000, 625, 1250, 5},
		{1333, 1333, 10_000_000, 666, 1333, 5},
		{2000, 1, 5_000, 1000, 2000, 8},
		{10_000, 1, 1_000, 5_000, 10_000, 40},
		{1_000_000, 1, 10, 500_000, 1_000_000, 4_000},
	} {
		o, err := policy.CompileOverrides([]policy.Override{boost("plan.requests", x.factor), boost(policy.QuotaID, x.factor), boost("route:all.concurrency", x.factor)})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := o.Limit(&c.Plans["pro"][0], now.UnixMicro())
		amount, _, _ := o.Quota(c.Quotas["pro"], now.UnixMicro())
		slots, _ := o.Slots(c.Routes[0].Concurrency, now.UnixMicro())
		if (n != policy.Numbers{Tokens: x.tokens, Period: x.period, Burst: x.burst}) || amount != x.amount || slots != x.slots {
			t.Errorf("× %d/1000: %+v, %d, %d", x.factor, n, amount, slots)
		}
	}
}

func BenchmarkOverrides(b *testing.B) {
	c := compiled(withQuota)
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	o, err := policy.CompileOverrides([]policy.Override{
		{Limit: "plan.requests", Rate: "5/minute"}, {Limit: "plan.requests", FactorMilli: 1500, ExpiresAt: &end}, {Limit: policy.QuotaID, FactorMilli: 1500, ExpiresAt: &end},
	})
	if err != nil {
		b.Fatal(err)
	}
	for name, overrides := range map[string]*policy.Overrides{"none": nil, "an override and a boost": o} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				overrides.Limit(&c.Plans["pro"][0], 5)
				overrides.Quota(c.Quotas["pro"], 5)
				overrides.Slots(c.Routes[0].Concurrency, 5)
			}
		})
	}
}

func BenchmarkPeriodAt(b *testing.B) {
	quota := compiled(withQuota).Quotas["pro"]
	now, anchor := time.Date(2027, 3, 30, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		quota.PeriodAt(now, anchor, nil)
	}
}
