package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

const monthlyPolicy = `
apiVersion: headgate/v1
plans:
  m: {limits: [], quota: {amount: 1000, counts: requests, period: month, over: block}}
  life: {limits: [], quota: {amount: 5, counts: requests, period: lifetime, over: block}}
routes:
  - {name: all, match: ["/"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}
`

// admitted is how many of n requests of a tenant pass, and the last answer.
func (f *fixture) admitted(tenant string, n int) (passed int, last Verdict) {
	f.t.Helper()
	for range n {
		if last = f.g.Decide(f.t.Context(), &Inbound{Method: "GET", EscapedPath: "/", Tenant: tenant, Header: http.Header{}}); last.Allowed {
			passed++
		}
	}
	return passed, last
}

func (f *fixture) tenant(r policy.TenantRecord) {
	f.t.Helper()
	r.State = policy.TenantActive
	f.directory.change(func(d *fakeDirectory) { d.tenants[r.ID] = r })
	f.g.limiter.Forget(r.ID)
}

// TestQuota_R111_AChangeInThePeriodMeetsWhatWasUsed: used is what is stored, so no change of the
// amount shows an impossible remainder, and a grant is on top of whatever holds.
func TestQuota_R111_AChangeInThePeriodMeetsWhatWasUsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, monthlyPolicy, nil)
	r := policy.TenantRecord{ID: "ten_a", Plan: "m"}
	f.tenant(r)
	if n, _ := f.admitted("ten_a", 400); n != 400 {
		t.Fatalf("%d of 400", n)
	}
	amount := func(n int64) {
		r.Overrides = []policy.Override{{Limit: policy.QuotaID, Amount: &n, Reason: "contract"}}
		f.tenant(r)
	}
	amount(300)
	if n, v := f.admitted("ten_a", 1); n != 0 || v.Limits[0].Remaining != 0 || v.Limits[0].Quota != 300 {
		t.Errorf("300 of which 400 are used: %d admitted, %+v", n, v.Limits)
	}
	amount(500)
	if n, v := f.admitted("ten_a", 101); n != 100 || v.Limits[0].Remaining != 0 {
		t.Errorf("500: %d of 101 admitted, %+v", n, v.Limits)
	}
	r.Grants = []policy.Grant{{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Amount: 50}}
	f.tenant(r)
	n, v := f.admitted("ten_a", 60)
	if state := v.Limits[0]; n != 50 || state.Quota != 550 || state.From.Granted != 50 || state.From.Source != "override" {
		t.Errorf("50 granted: %d of 60 admitted, %+v", n, v.Limits)
	}
	amount(700)
	if n, v := f.admitted("ten_a", 1); n != 1 || v.Limits[0].Quota != 750 || v.Limits[0].Remaining != 199 {
		t.Errorf("a raise beside a grant: %d, %+v", n, v.Limits)
	}
	amount(500)
	f.advance(17 * 24 * time.Hour) // February
	if n, v := f.admitted("ten_a", 501); n != 500 || v.Limits[0].Quota != 500 || v.Limits[0].From.Granted != 0 {
		t.Errorf("the next month: %d of 501 admitted, %+v", n, v.Limits)
	}
}

// TestQuota_R111_GrantsThatCannotBeReadTakeNothingAway.
func TestQuota_R111_GrantsThatCannotBeReadTakeNothingAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, monthlyPolicy, nil)
	f.tenant(policy.TenantRecord{ID: "ten_a", Plan: "life", Grants: []policy.Grant{{Start: time.Unix(0, 0), Amount: -5}}})
	if n, v := f.admitted("ten_a", 6); n != 5 || v.Limits[0].From.Granted != 0 {
		t.Errorf("%d of 6 admitted, %+v", n, v.Limits)
	}
}

// TestQuota_R106_ALifetimeQuotaEndsNeverAndSaysNoTime, and a grant prolongs it.
func TestQuota_R106_ALifetimeQuotaEndsNeverAndSaysNoTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, monthlyPolicy, nil)
	r := policy.TenantRecord{ID: "ten_a", Plan: "life"}
	f.tenant(r)
	if n, _ := f.admitted("ten_a", 6); n != 5 {
		t.Fatalf("%d of 6 admitted", n)
	}
	for _, later := range []time.Duration{time.Hour, 399 * 24 * time.Hour} {
		f.advance(later)
		if n, v := f.admitted("ten_a", 1); n != 0 || v.RetryAfterMicros != 0 || v.RetryAfterSecs != 0 {
			t.Errorf("%v later: %d admitted, wait %d µs, %d s", later, n, v.RetryAfterMicros, v.RetryAfterSecs)
		}
	}
	r.Grants = []policy.Grant{{Start: time.Unix(0, 0), Amount: 2}}
	f.tenant(r)
	if n, _ := f.admitted("ten_a", 5); n != 2 {
		t.Errorf("2 granted: %d of 5 admitted", n)
	}
}

// TestQuota_R105_ANewDayIsAFreshCounterOnce, however often it is asked for, and not
// before it is that day where the tenant is.
func TestQuota_R105_R112_ANewDayIsAFreshCounterOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `
apiVersion: headgate/v1
plans: {d: {limits: [], quota: {amount: 100, counts: requests, period: day, over: block}}}
routes:
  - {name: all, match: ["/"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}
`, nil)
	f.tenant(policy.TenantRecord{ID: "ten_a", Plan: "d", TimeZone: "Asia/Shanghai"})
	f.admitted("ten_a", 150)
	f.advance(4*time.Hour - time.Second) // 15:59:59Z, which is 23:59:59 there
	if n, _ := f.admitted("ten_a", 1); n != 0 {
		t.Error("admitted in the last second of the day")
	}
	f.advance(time.Second)
	if n, _ := f.admitted("ten_a", 300); n != 100 {
		t.Errorf("%d of 300 admitted in the new day", n)
	}
	f.advance(6 * time.Hour)
	if n, v := f.admitted("ten_a", 50); n != 0 || v.RetryAfterMicros != (18*time.Hour).Microseconds() {
		t.Errorf("%d of 50 admitted six hours later; wait %d", n, v.RetryAfterMicros)
	}
}
