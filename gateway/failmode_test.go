package gateway

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestFailMode_OpenAdmitsWithinTheFallbackAndInventsNoNumbers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key, other := f.key("ten_a", "free"), f.key("ten_b", "free")
	f.store.fail(true)
	report := func(key string) int {
		res := f.do("GET", "/public/x", bearer(key)...)
		wantNoQuota(t, res)
		return res.StatusCode
	}
	for range 20 {
		if got := report(key); got != 204 {
			t.Fatalf("open and unlimited: %d", got)
		}
	}
	for range 2 { // cost 5 of 10
		if res := f.do("GET", "/v1/reports/1", bearer(other)...); res.StatusCode != 204 {
			t.Fatalf("within the fallback: %d", res.StatusCode)
		}
	}
	costly := f.do("GET", "/v1/reports/1", bearer(other)...)
	p := wantRefusal(t, costly, 429, CodeQuotaExceeded)
	if p.Reason != "fallback" || costly.Header.Get("Retry-After") != "30" || p.RetryAfterMS != 30_000 {
		t.Errorf("body %+v, Retry-After %q", p, costly.Header.Get("Retry-After"))
	}
	wantNoQuota(t, costly)
}

func TestFailMode_FallbackThatCanNeverPayStillNamesAWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t, strings.Replace(testPolicy, "fallback: {rate: 10/minute, burst: 10}", "fallback: {rate: 2/minute, burst: 2}", 1), nil)
	key := f.key("ten_a", "free")
	f.store.fail(true)
	res := f.do("GET", "/v1/reports/1", bearer(key)...)
	if p := wantRefusal(t, res, 429, CodeQuotaExceeded); res.Header.Get("Retry-After") != "2" || p.RetryAfterMS != 0 {
		t.Errorf("Retry-After %q, body %+v", res.Header.Get("Retry-After"), p)
	}
}

func TestFailMode_FallbackIsCountedPerTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	f.store.fail(true)
	for _, tenant := range []string{"ten_a", "ten_b"} {
		key, admitted := f.key(tenant, "free"), 0
		for range 400 {
			if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode == 204 {
				admitted++
			}
		}
		if admitted != 300 {
			t.Errorf("%s: %d admitted on the fallback, want 300", tenant, admitted)
		}
	}
}

func TestFailMode_R038_ClosedIs503AndNever429(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	f.store.fail(true)
	for range 20 {
		res := f.do("POST", "/login")
		p := wantRefusal(t, res, 503, CodeReducedCapacity)
		if p.Type != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
			t.Errorf("type %q", p.Type)
		}
		wantNoQuota(t, res)
	}
	if f.store.calls > 6 {
		t.Errorf("a broken store was asked %d times", f.store.calls)
	}
}

func TestFailMode_R040_DegradedDecisionsAreCountedAndShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	f.store.fail(true)
	for range 12 {
		f.do("GET", "/public/x")
	}
	_, classes := counted(t, f.g)
	if classes["failopen"] != 12 {
		t.Errorf("classes %v", classes)
	}
	if got := f.g.heartbeat(ratesOf(totals{}, f.g.tally.totals(), time.Second)); got.Mode != "degraded" || got.Breaker != "open" || got.FallbackPerS != 12 {
		t.Errorf("heartbeat %+v", got)
	}
}

func TestDecide_R085_HeadersDescribeTheLimitThatDecides(t *testing.T) {
	t.Parallel()
	const source = `
apiVersion: headgate/v1
plans: {}
routes:
  - name: a
    match: ["/"]
    identity: ip
    motive: fairness
    limits:
      - {name: minute, per: ip, rate: 10/minute, burst: 10}
      - {name: hour, per: ip, rate: 12/hour, burst: 12}
    on_store_failure: {mode: closed}
`
	f := newFixture(t, source, nil)
	for i := range 10 {
		res := f.do("GET", "/")
		if want := strconv.Itoa(9 - i); res.Header.Get("RateLimit-Remaining") != want || res.Header.Get("RateLimit-Limit") != "10" {
			t.Fatalf("call %d: %s left of %s", i, res.Header.Get("RateLimit-Remaining"), res.Header.Get("RateLimit-Limit"))
		}
	}
	if res := f.do("GET", "/"); res.Header.Get("Retry-After") != "6" || res.Header.Get("RateLimit-Limit") != "10" {
		t.Errorf("first limit over: Retry-After %s, limit %s", res.Header.Get("Retry-After"), res.Header.Get("RateLimit-Limit"))
	}
	f.advance(12 * time.Second)
	f.do("GET", "/")
	f.do("GET", "/")
	res := f.do("GET", "/")
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	if res.Header.Get("Retry-After") != "288" || res.Header.Get("RateLimit-Limit") != "12" || len(p.Violated) != 2 {
		t.Errorf("both over: Retry-After %s, limit %s, violated %v", res.Header.Get("Retry-After"), res.Header.Get("RateLimit-Limit"), p.Violated)
	}
}

func TestDecide_I13_RetryAfterIsExact(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	f.advance(123457 * time.Microsecond)
	f.do("GET", "/v1/reports/1", bearer(key)...)
	f.do("GET", "/v1/reports/1", bearer(key)...)
	f.advance(7654321 * time.Microsecond)
	res := f.do("GET", "/v1/reports/1", bearer(key)...)
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	seconds, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 64)
	if err != nil || seconds < 1 || seconds != (p.RetryAfterMS+999)/1000 {
		t.Fatalf("Retry-After %q with retry_after_ms %d", res.Header.Get("Retry-After"), p.RetryAfterMS)
	}
	f.advance(time.Duration(p.RetryAfterMS-1) * time.Millisecond)
	if res := f.do("GET", "/v1/reports/1", bearer(key)...); res.StatusCode != 429 {
		t.Errorf("1 ms before: %d", res.StatusCode)
	}
	f.advance(time.Millisecond)
	if res := f.do("GET", "/v1/reports/1", bearer(key)...); res.StatusCode != 204 {
		t.Errorf("after waiting: %d", res.StatusCode)
	}
}
