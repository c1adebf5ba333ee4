package gateway

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// The fixture's clock stands at 15 January 2026, 12:00 UTC: 16.5 days before the
// month's end.
const untilFebruary = 16*86400 + 12*3600

func TestQuota_BlockRefusesUntilThePeriodEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := bearer(f.key("ten_a", "capped"))
	for i := range 10 { // a cost of 10 each, of 100
		res := f.do("GET", "/x", key...)
		checkQuota(t, res, 90-10*int64(i))
		if res.StatusCode != 204 {
			t.Fatalf("request %d: %d", i, res.StatusCode)
		}
	}
	for range 2 { // asked, and remembered
		res := f.do("GET", "/x", key...)
		p := wantRefusal(t, res, 429, CodeQuotaExceeded)
		if p.Reason != "quota" || len(p.Violated) != 1 || p.Violated[0] != policy.QuotaID || p.RetryAfterMS != untilFebruary*1000 {
			t.Errorf("problem %+v", p)
		}
		if res.Header.Get("Retry-After") != strconv.Itoa(untilFebruary) || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("header %v", res.Header)
		}
		checkFields(t, res.Header)
		checkQuota(t, res, 0)
		if res.Header.Get("RateLimit-Limit") != "100" || res.Header.Get("RateLimit-Remaining") != "0" {
			t.Errorf("older fields %v", res.Header)
		}
	}
	f.advance(untilFebruary*time.Second - time.Millisecond)
	if res := f.do("GET", "/x", key...); res.StatusCode != 429 {
		t.Errorf("1 ms before the month ends: %d", res.StatusCode)
	}
	f.advance(time.Millisecond)
	if res := f.do("GET", "/x", key...); res.StatusCode != 204 {
		t.Errorf("in the new month: %d", res.StatusCode)
	}
}

// checkQuota holds what is told of a monthly quota of 100 to the rules: H01, and
// H09 with a hint that is at most 5 % late and never early.
func checkQuota(t *testing.T, res *http.Response, left int64) {
	t.Helper()
	policies, _ := fields(t, res.Header, "RateLimit-Policy")
	limits, _ := fields(t, res.Header, "RateLimit")
	if policies[policy.QuotaID] == nil {
		t.Fatalf("no word of the quota: %v", res.Header)
	}
	q, _ := number(t, policies[policy.QuotaID], "q")
	w, _ := number(t, policies[policy.QuotaID], "w")
	r, _ := number(t, limits[policy.QuotaID], "r")
	next, ok := number(t, limits[policy.QuotaID], "t")
	if q != 100 || w != 31*86400 || r != left || !ok || next < untilFebruary || next > untilFebruary*105/100 {
		t.Errorf("quota: q %d, w %d, r %d (want %d), t %d", q, w, r, left, next)
	}
	if retry, _ := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 64); retry > 0 && next > retry {
		t.Errorf("t %d is after Retry-After %d", next, retry)
	}
}

// Over with bill admits beyond the amount, says so where bills are made and not
// to the caller, and refuses at the max.
func TestQuota_BillAdmitsAndMarksUpToTheMax(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "billed")
	f.directory.change(func(d *fakeDirectory) {
		r := d.tenants["ten_a"]
		r.QuotaAnchor = "2025-03-31"
		d.tenants["ten_a"] = r
	})
	for i := 1; i <= 6; i++ {
		_, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/x"}`)
		last := d.Limits[len(d.Limits)-1]
		if want := i <= 5; d.Allowed != want || last.ID != policy.QuotaID || last.Kind != LimitQuota {
			t.Fatalf("request %d: %+v", i, d)
		}
		if want := i > 3 && i <= 5; last.Overage != want || last.Remaining != max(int64(3-i), 0) {
			t.Errorf("request %d: %+v", i, last)
		}
		if i == 6 && (d.Reason != "quota" || d.RetryAfterMS != untilFebruary*1000-24*3600*1000) { // the 31st
			t.Errorf("beyond the max: %+v", d)
		}
	}
	if n := counter(t, f.g, "headgate_overage_total", "rest"); n != 2 {
		t.Errorf("%v requests are counted as overage", n)
	}
}

// Two plans' quotas are one counter, and a tenant's own zone says when a day ends.
func TestQuota_FollowsTheTenant(t *testing.T) {
	t.Parallel()
	const source = `
apiVersion: headgate/v1
plans:
  a: {limits: [], quota: {amount: 10, counts: requests, period: day, alignment: calendar, time_zone: UTC, over: block}}
  b: {limits: [], quota: {amount: 3, counts: requests, period: day, alignment: calendar, time_zone: UTC, over: block}}
  life: {limits: [], quota: {amount: 1, counts: requests, period: lifetime, over: block}}
  zero: {limits: [], quota: {amount: 0, counts: requests, period: day, over: block}}
  shade: {limits: [], quota: {amount: 1, counts: requests, period: day, over: block, mode: shadow}}
routes:
  - {name: all, match: ["/"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}
`
	f := newFixture(t, source, nil)
	set := func(tenant, plan, zone string) {
		f.directory.change(func(d *fakeDirectory) {
			d.tenants[tenant] = policy.TenantRecord{ID: tenant, Plan: plan, State: policy.TenantActive, TimeZone: zone}
		})
	}
	get := func(tenant string) *http.Response {
		v := f.g.Decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/", Tenant: tenant, Header: http.Header{}})
		a := f.g.Answer(&v, "", false)
		return &http.Response{StatusCode: a.Status, Header: a.Header}
	}
	set("ten_a", "a", "")
	for range 3 {
		if res := get("ten_a"); res.StatusCode != 200 {
			t.Fatalf("plan a: %d", res.StatusCode)
		}
	}
	set("ten_a", "b", "")
	if res := get("ten_a"); res.StatusCode != 429 || res.Header.Get("Retry-After") != "43200" {
		t.Errorf("a smaller plan with as much used: %d %v", res.StatusCode, res.Header)
	}
	set("ten_b", "b", "Asia/Tokyo") // 21:00 there
	for range 3 {
		get("ten_b")
	}
	if res := get("ten_b"); res.StatusCode != 429 || res.Header.Get("Retry-After") != "10800" {
		t.Errorf("until midnight in Tokyo: %d %v", res.StatusCode, res.Header)
	}
	set("ten_c", "life", "")
	get("ten_c")
	res := get("ten_c")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "" || res.Header.Get("RateLimit-Policy") != `"plan.quota";q=1` {
		t.Errorf("a lifetime that is used up: %d %v", res.StatusCode, res.Header)
	}
	set("ten_d", "zero", "")
	if res := get("ten_d"); res.StatusCode != 429 || res.Header.Get("Retry-After") != "" {
		t.Errorf("an amount of 0: %d %v", res.StatusCode, res.Header)
	}
	set("ten_e", "shade", "")
	for range 3 {
		if res := get("ten_e"); res.StatusCode != 200 || res.Header.Get("RateLimit") != "" {
			t.Errorf("a quota in shadow mode: %d %v", res.StatusCode, res.Header)
		}
	}
	if n := counter(t, f.g, "headgate_shadow_refusals_total", "all", "quota"); n != 2 {
		t.Errorf("%v shadow refusals are counted, want 2", n)
	}
}

// H09: near the end of a period no more is told than could be used until then.
func TestHeaders_H09_AQuotaTellsWhatCanBeUsed(t *testing.T) {
	t.Parallel()
	v := &Verdict{Allowed: true, Tenant: "ten_a", Limits: []LimitState{
		{Kind: LimitRate, ID: "plan.requests", Quota: 60, Window: 60, Burst: 10, Remaining: 7},
		{Kind: LimitQuota, ID: "plan.quota", Quota: 1_000_000, Window: 86400, Remaining: 900_000, NextMicros: 3_000_000},
	}}
	if left, next := v.hint(&v.Limits[1]); left != 10 || next != 3 {
		t.Errorf("3 s before the end: %d left, t %d; at one a second and 7 in the bucket 10 can be used", left, next)
	}
	v.Limits[1].NextMicros = 80_000e6
	if left, next := v.hint(&v.Limits[1]); left != 80_007 || next < 80_000 || next > 84_000 {
		t.Errorf("80 000 s before the end: %d left, t %d", left, next)
	}
	told := map[int64]bool{}
	for i := range 300 { // not all callers come back in one second, and none is told a time before the end
		v.Tenant = "ten_" + strconv.Itoa(i)
		_, next := v.hint(&v.Limits[1])
		if told[next] = true; next < 80_000 || next > 84_000 {
			t.Fatalf("%s is told %d s of 80 000", v.Tenant, next)
		}
		if _, again := v.hint(&v.Limits[1]); again != next {
			t.Fatalf("%s is told %d and %d", v.Tenant, next, again)
		}
	}
	if len(told) < 50 {
		t.Errorf("300 tenants are told %d moments", len(told))
	}
	v.Allowed, v.RetryAfterMicros = false, 80_000e6
	if _, next := v.hint(&v.Limits[1]); next != 80_000 {
		t.Errorf("of a refusal t is %d", next)
	}
}

func TestPeriods_AreFoundOnceAndAgainWhenTheyEnd(t *testing.T) {
	t.Parallel()
	compiled := snapshot(t, 1, widePolicy).Compiled
	q := compiled.Quotas["capped"]
	var p periods
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for now := time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC); now.Month() < 4; now = now.Add(7 * time.Hour) {
		for _, at := range []time.Time{now, now.Add(-40 * 24 * time.Hour)} { // clocks step back
			for _, who := range []terms{{}, {zone: zone}, {anchor: time.Date(2025, 5, 31, 0, 0, 0, 0, time.UTC)}} {
				start, end := p.at(q, &who, at)
				if a, b := q.PeriodAt(at, who.anchor, who.zone); !a.Equal(start) || !b.Equal(end) {
					t.Fatalf("at %v for %+v: %v to %v, want %v to %v", at, who, start, end, a, b)
				}
			}
		}
	}
	if len(p.spans) != 3 {
		t.Errorf("%d periods are kept", len(p.spans))
	}
	for i := range maxSpans + 10 {
		p.at(q, &terms{anchor: time.Unix(int64(i), 0)}, time.Unix(0, 0))
	}
	if len(p.spans) > maxSpans {
		t.Errorf("%d periods are kept", len(p.spans))
	}
}
