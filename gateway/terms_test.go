package gateway

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// limitOf is what a decision tells of one limit.
func limitOf(t *testing.T, d decision, id string) limitAnswer {
	t.Helper()
	for _, l := range d.Limits {
		if l.ID == id {
			return l
		}
	}
	t.Fatalf("no word of %s in %+v", id, d)
	return limitAnswer{}
}

func (f *fixture) decision(key, path string) decision {
	f.t.Helper()
	_, d, _ := f.ask(fmt.Sprintf(`{"key": %q, "method": "GET", "path": %q}`, key, path))
	return d
}

// Boost over override over plan, each with its source and its end, by the
// store's clock; what is used stays used.
func TestTerms_PrecedenceAndProvenance(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	const id = "plan.requests"
	if l := limitOf(t, f.decision(key, "/x"), id); l.Source != "plan free" || l.Limit != 6000 || l.Remaining != 599 || l.Until != nil {
		t.Errorf("plan: %+v", l)
	}
	soon, later := f.clock().Add(time.Minute), f.clock().Add(time.Hour)
	override := policy.Override{Limit: id, Rate: "1200/minute", Burst: ptr(int64(300)), ExpiresAt: &later, Reason: "migration", Author: "ann"}
	f.override("ten_a", override)
	if l := limitOf(t, f.decision(key, "/x"), id); l.Source != "override" || l.Limit != 1200 || l.Remaining != 299 || !l.Until.Equal(later) {
		t.Errorf("override: %+v", l) // clamped to the burst, not refilled
	}
	f.override("ten_a", override, policy.Override{Limit: id, FactorMilli: 2000, ExpiresAt: &soon, Reason: "launch"})
	if l := limitOf(t, f.decision(key, "/x"), id); l.Source != "boost" || l.Limit != 2400 || l.Remaining != 298 || !l.Until.Equal(soon) {
		t.Errorf("boost: %+v", l)
	}
	f.advance(time.Minute) // no word from the console
	if l := limitOf(t, f.decision(key, "/x"), id); l.Source != "override" || l.Limit != 1200 {
		t.Errorf("after the boost: %+v", l)
	}
	f.advance(time.Hour)
	if l := limitOf(t, f.decision(key, "/x"), id); l.Source != "plan free" || l.Limit != 6000 {
		t.Errorf("after the override: %+v", l)
	}
}

func ptr[T any](v T) *T { return &v }

// 0, a word and nothing are three things.
func TestTerms_R020_ZeroBlocksAndUnlimitedCountsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	f.override("ten_a", policy.Override{Limit: "plan.requests", Rate: "0"})
	for range 2 {
		res := f.do("GET", "/x", bearer(key)...)
		p := wantRefusal(t, res, 429, CodeQuotaExceeded)
		if p.Reason != "blocked" || res.Header.Get("Retry-After") != "" || len(p.Violated) != 1 {
			t.Errorf("an override of 0: %+v %v", p, res.Header)
		}
	}
	f.override("ten_a", policy.Override{Limit: "plan.requests", Rate: "unlimited"})
	for range 700 {
		if res := f.do("GET", "/slots/x", bearer(key)...); res.StatusCode != 204 || strings.Contains(res.Header.Get("RateLimit"), "plan.requests") {
			t.Fatalf("unlimited: %d %v", res.StatusCode, res.Header)
		}
	}
	if l := limitOf(t, f.decision(key, "/x"), "plan.requests"); !l.Unlimited || l.Source != "override" || l.Limit != 0 {
		t.Errorf("unlimited is told as %+v", l)
	}
	f.override("ten_a")
	if l := limitOf(t, f.decision(key, "/x"), "plan.requests"); l.Remaining != 599 || l.Source != "plan free" {
		t.Errorf("the plan again: %+v", l)
	}
}

// A bucket that all tenants share has one size: an override of one tenant's does
// not reach it. What a tenant shares among its own routes it reaches.
func TestTerms_OverridesHoldWithinTheTenantOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	f.override("ten_a", policy.Override{Limit: "shared:search", Rate: "60/minute"}, policy.Override{Limit: "plan.requests", Rate: "nonsense"},
		policy.Override{Limit: "route:search.per-ip", Rate: "7/minute"})
	d := f.decision(key, "/x")
	if l := limitOf(t, d, "shared:search"); l.Source != "override" || l.Limit != 60 || l.Remaining != 50 {
		t.Errorf("shared within the tenant: %+v", l)
	}
	if l := limitOf(t, d, "plan.requests"); l.Source != "plan free" {
		t.Errorf("an override that cannot be read holds: %+v", l)
	}
	if l := limitOf(t, f.decision(key, "/search/x"), "route:search.per-ip"); l.Source != "route search" || l.Limit != 1000 {
		t.Errorf("what is the address', whoever calls: %+v", l)
	}
	if l := limitOf(t, d, "global.all"); l.Source != "global" || l.Limit != 50_000 {
		t.Errorf("global: %+v", l)
	}
	if l := limitOf(t, f.decision(f.key("ten_b", "free"), "/x"), "shared:search"); l.Source != "shared search" {
		t.Errorf("another tenant: %+v", l)
	}
}

// What was refused under the old record is not refused under the new one.
func TestTerms_ARaisedLimitHoldsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	for range 3 {
		f.do("GET", "/v1/reports/1", bearer(key)...)
	}
	if d := f.decision(key, "/v1/reports/1"); d.Allowed {
		t.Fatalf("not over the limit: %+v", d)
	}
	f.override("ten_a", policy.Override{Limit: "route:report.reports", Rate: "unlimited"})
	if d := f.decision(key, "/v1/reports/1"); !d.Allowed {
		t.Errorf("refused from memory: %+v", d)
	}
	f.g.DirectoryReset()
	f.override("ten_a")
	if d := f.decision(key, "/v1/reports/1"); d.Allowed {
		t.Errorf("the old limit again: %+v", d)
	}
	f.g.RecordChanged(policy.RecordKey, "ten_a") // a key's change says nothing of limits
	asked := f.store.asked()
	if d := f.decision(key, "/v1/reports/1"); d.Allowed || f.store.asked() != asked {
		t.Errorf("%+v, asked again: %t", d, f.store.asked() != asked)
	}
}

// An unlock changes no number: only the word of the directory's stream says that
// what is remembered no longer holds.
func TestTerms_AnUnlockReachesWhatIsRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	for range 3 {
		f.decision(key, "/v1/reports/1")
	}
	l := &f.policies.Current().Compiled.Routes[0].Limits[0]
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}
	if err := f.store.Amend(t.Context(), "", []limiter.Amendment{{Row: row, Hash: l.Hash, Numbers: l.Numbers, Tokens: 10}}); err != nil {
		t.Fatal(err)
	}
	if d := f.decision(key, "/v1/reports/1"); d.Allowed {
		t.Fatalf("nothing was remembered: %+v", d)
	}
	f.g.RecordChanged(policy.RecordTenant, "ten_a")
	if d := f.decision(key, "/v1/reports/1"); !d.Allowed {
		t.Errorf("after the unlock: %+v", d)
	}
}

func TestTerms_AreBoundedAndSayWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newTermsBook(slog.New(slog.NewTextHandler(&log, nil)))
	r := policy.TenantRecord{ID: "ten_a", TimeZone: "Mars/Olympus", QuotaAnchor: "31.1.2026", Overrides: []policy.Override{{Limit: "plan.x", Rate: "?"}}}
	for range 3 {
		if got := b.of(&r); got.zone != nil || !got.anchor.IsZero() {
			t.Errorf("terms %+v", got)
		}
	}
	if n := strings.Count(log.String(), "tenant=ten_a"); n != 3 {
		t.Errorf("%d lines for three faults, read three times:\n%s", n, log.String())
	}
	for i := range maxTerms + 100 {
		b.of(&policy.TenantRecord{ID: fmt.Sprint("ten_", i), TimeZone: "UTC"})
	}
	if len(b.entries) > maxTerms {
		t.Errorf("%d terms are kept", len(b.entries))
	}
	if got := b.of(&policy.TenantRecord{ID: "ten_z"}); got.overrides != nil || got.grants != nil || got.zone != nil || !got.anchor.IsZero() {
		t.Errorf("terms of a plain record: %+v", got)
	}
}

// After its expires_at a limit is none, on every replica and without a word.
func TestDrawing_LimitsEndByTheStoresClock(t *testing.T) {
	t.Parallel()
	const source = `
apiVersion: headgate/v1
plans: {free: {limits: []}}
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    limits:
      - {name: short, per: tenant, rate: 1/hour, burst: 1, expires_at: "2026-01-15T12:10:00Z"}
      - {name: long, per: tenant, rate: 100/hour, burst: 100}
    on_store_failure: {mode: closed}
`
	f := newFixture(t, source, nil)
	key := f.key("ten_a", "free")
	if d := f.decision(key, "/"); !d.Allowed || limitOf(t, d, "route:all.short").Until == nil {
		t.Errorf("first: %+v", d)
	}
	if d := f.decision(key, "/"); d.Allowed {
		t.Errorf("second: %+v", d)
	}
	f.advance(10*time.Minute - time.Microsecond)
	if d := f.decision(key, "/"); d.Allowed {
		t.Errorf("1 µs before the end: %+v", d)
	}
	f.advance(time.Microsecond)
	d := f.decision(key, "/")
	if !d.Allowed || len(d.Limits) != 1 {
		t.Errorf("after the end: %+v", d)
	}
}

// I06: each replica admits its share, of the larger of the live replicas and
// those that are expected; the number is remembered over a start without Redis.
func TestFallback_I06_ReplicasShareTheLimitsInForce(t *testing.T) {
	t.Parallel()
	const source = `
apiVersion: headgate/v1
replicas_expected: 2
plans: {free: {limits: [{name: requests, per: tenant, rate: 60/minute, burst: 60}]}}
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: share}
`
	admitted := func(f *fixture, key string) (n int) {
		for range 100 {
			if f.do("GET", "/", bearer(key)...).StatusCode == 204 {
				n++
			}
		}
		return n
	}
	dir := t.TempDir()
	keeps := func(c *Config) { c.StateDir = dir }
	f := newFixture(t, source, nil, keeps)
	key := f.key("ten_a", "free")
	f.store.fail(true)
	if got := admitted(f, key); got != 30 {
		t.Errorf("one of two that are expected admits %d of 60", got)
	}
	f.reporter.live = 5
	f.g.beat(t.Context(), policy.Heartbeat{})
	if err := writeLive(dir, f.g.live.Load()); err != nil {
		t.Fatal(err)
	}
	again := newFixture(t, source, nil, keeps)
	key = again.key("ten_a", "free")
	again.store.fail(true)
	if got := admitted(again, key); got != 12 {
		t.Errorf("one of five that are live admits %d of 60", got)
	}
	if got := readLive(filepath.Join(dir, "nothing")); got != 1 {
		t.Errorf("without a word there are %d replicas", got)
	}
}

// A leased limit admits no more than it says, and is told as any other.
func TestDrawing_LeasedLimitsAreExactInSum(t *testing.T) {
	t.Parallel()
	source := strings.Replace(testPolicy, "{name: per-ip, per: ip, rate: 5/minute, burst: 5}]\n    on_store_failure: {mode: open, fallback: unlimited}",
		"{name: per-ip, per: ip, rate: 1000/second, burst: 1000, sync: leased}]\n    on_store_failure: {mode: open, fallback: unlimited}", 1)
	if source == testPolicy {
		t.Fatal("nothing was replaced")
	}
	f := newFixture(t, source, nil)
	admitted := 0
	for range 3000 {
		res := f.do("GET", "/public/x")
		checkFields(t, res.Header)
		if res.StatusCode == http.StatusNoContent {
			admitted++
		}
	}
	if admitted > 1000 || admitted < 900 {
		t.Errorf("a burst of 1000 admitted %d", admitted)
	}
}
