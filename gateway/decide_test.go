package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
)

// body reads a problem document.
func body(t *testing.T, res *http.Response) problem {
	t.Helper()
	var p problem
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("%d with content type %q and body %q", res.StatusCode, got, raw)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatalf("body %q: %v", raw, err)
	}
	return p
}

// wantRefusal checks what every refusal with a body has in common.
func wantRefusal(t *testing.T, res *http.Response, status int, code Code) problem {
	t.Helper()
	p := body(t, res)
	if res.StatusCode != status || p.Status != status || p.Code != code {
		t.Fatalf("answer %d, body %+v; want %d %s", res.StatusCode, p, status, code)
	}
	if !strings.HasSuffix(p.Type, string(code)) || p.Title == "" || p.Detail == "" {
		t.Errorf("body %+v lacks type, title or detail", p)
	}
	if p.RequestID == "" || p.RequestID != res.Header.Get(headerRequestID) {
		t.Errorf("request id %q in the body, %q in the header", p.RequestID, res.Header.Get(headerRequestID))
	}
	if status == http.StatusServiceUnavailable {
		if !regexp.MustCompile(`^[1-3]$`).MatchString(res.Header.Get("Retry-After")) || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("503 with Retry-After %q, Cache-Control %q", res.Header.Get("Retry-After"), res.Header.Get("Cache-Control"))
		}
	}
	return p
}

// wantNoQuota checks that an answer tells nothing about limits.
func wantNoQuota(t *testing.T, res *http.Response) {
	t.Helper()
	for _, name := range rateLimitFields() {
		if v := res.Header.Get(name); v != "" {
			t.Errorf("%s: %s on a %d", name, v, res.StatusCode)
		}
	}
}

func TestDecide_WithoutPolicyNothingIsAdmitted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", nil)
	wantRefusal(t, f.do("GET", "/v1/reports/1"), 503, CodeNoPolicy)
}

func TestDecide_NoRouteAndAmbiguousPathsNeverReachTheUpstream(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the upstream got %s", r.URL)
	}))
	wantRefusal(t, f.do("GET", "/nowhere"), 404, CodeNoRoute)
	wantRefusal(t, f.do("DELETE", "/login"), 404, CodeNoRoute)
	for _, path := range []string{"/public/..%2flogin", "/public/%2e%2e/login", "/public//x", "/public/a%5cb", "/public/%00", "/public/a;b"} {
		wantRefusal(t, f.do("GET", path), 400, CodeAmbiguousPath)
	}
}

func TestIdentity_RefusalsOfEveryKindOfKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	past := f.clock().Add(-time.Second)
	good := f.key("ten_good", "free")
	suspended, deleted := f.key("ten_suspended", "free"), f.key("ten_deleted", "free")
	f.directory.change(func(d *fakeDirectory) {
		d.tenants["ten_suspended"] = policy.TenantRecord{ID: "ten_suspended", Plan: "free", State: policy.TenantSuspended}
		d.tenants["ten_deleted"] = policy.TenantRecord{ID: "ten_deleted", Plan: "free", State: policy.TenantDeleted}
	})
	state := func(s policy.KeyState) func(*policy.KeyRecord) { return func(r *policy.KeyRecord) { r.State = s } }
	for _, c := range []struct {
		name, key string
		status    int
		code      Code
	}{
		{"good", good, 204, ""},
		{"unknown", unknownKey(t), 401, CodeInvalidCredential},
		{"wrong secret", f.key("ten_x", "free", func(r *policy.KeyRecord) { r.Digest = apikey.DummyDigest }), 401, CodeInvalidCredential},
		{"revoked", f.key("ten_x", "free", state(policy.KeyRevoked)), 401, CodeInvalidCredential},
		{"expired", f.key("ten_x", "free", state(policy.KeyExpired)), 401, CodeInvalidCredential},
		{"key suspended", f.key("ten_x", "free", state(policy.KeySuspended)), 401, CodeInvalidCredential},
		{"unknown state", f.key("ten_x", "free", state("")), 401, CodeInvalidCredential},
		{"after its end", f.key("ten_x", "free", func(r *policy.KeyRecord) { r.NotAfter = &past }), 401, CodeInvalidCredential},
		{"other environment", f.key("ten_x", "free", func(r *policy.KeyRecord) { r.Environment = "test" }), 401, CodeInvalidCredential},
		{"tenant deleted", deleted, 401, CodeInvalidCredential},
		{"tenant suspended", suspended, 403, CodeTenantSuspended},
		{"plan unknown", f.key("ten_p", "gold"), 503, CodePlanUnknown},
		{"bad checksum", good[:len(good)-1] + "!", 401, CodeMalformedCredential},
		{"no key of ours", "abc", 401, CodeMalformedCredential},
	} {
		res := f.do("GET", "/api/x", bearer(c.key)...)
		if c.code == "" {
			if res.StatusCode != c.status {
				t.Errorf("%s: %d", c.name, res.StatusCode)
			}
			continue
		}
		wantRefusal(t, res, c.status, c.code)
		wantNoQuota(t, res)
		if c.status == 401 && res.Header.Get("WWW-Authenticate") != `Bearer realm="headgate"` {
			t.Errorf("%s: WWW-Authenticate %q", c.name, res.Header.Get("WWW-Authenticate"))
		}
	}
	wantRefusal(t, f.do("GET", "/api/x"), 401, CodeMissingCredential)
	wantRefusal(t, f.do("GET", "/api/x", "X-API-Key", good, "Authorization", "Bearer "+unknownKey(t)), 400, CodeAmbiguousCredential)
}

func TestIdentity_A02_RefusedKeysAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	answers := map[string]bool{}
	for _, key := range []string{
		unknownKey(t),
		f.key("ten_x", "free", func(r *policy.KeyRecord) { r.State = policy.KeyRevoked }),
		f.key("ten_x", "free", func(r *policy.KeyRecord) { r.State = policy.KeyExpired }),
		f.key("ten_x", "free", func(r *policy.KeyRecord) { r.Digest = apikey.DummyDigest }),
	} {
		res := f.do("GET", "/api/x", bearer(key)...)
		raw, _ := io.ReadAll(res.Body)
		id := res.Header.Get(headerRequestID)
		res.Header.Set(headerRequestID, "")
		header, _ := json.Marshal(res.Header)
		answers[strings.ReplaceAll(string(raw), id, "")+string(header)] = true
	}
	if len(answers) != 1 {
		t.Errorf("%d different answers: %v", len(answers), answers)
	}
}

func TestIdentity_R060_UnverifiableKeyIs503AndNotRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	f.directory.change(func(d *fakeDirectory) { d.err = feed.ErrUnavailable })
	for range 40 { // more than the limit of refused credentials
		wantRefusal(t, f.do("GET", "/api/x", bearer(key)...), 503, CodeIdentityUnavailable)
	}
	f.directory.change(func(d *fakeDirectory) { d.err = errors.New("anything else") })
	wantRefusal(t, f.do("GET", "/api/x", bearer(key)...), 503, CodeIdentityUnavailable)
	f.directory.change(func(d *fakeDirectory) { d.err = nil })
	if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != 204 {
		t.Errorf("after the outage: %d", res.StatusCode)
	}
}

func TestIdentity_R056_DeadlineHoldsWithoutAPush(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	end := f.clock().Add(24 * time.Hour)
	since := f.clock()
	retiring := func(r *policy.KeyRecord) { r.State, r.RetiringAt, r.NotAfter = policy.KeyRetiring, &since, &end }
	old := f.key("ten_a", "free", retiring)
	res := f.do("GET", "/api/x", bearer(old)...)
	if res.StatusCode != 204 || res.Header.Get("Deprecation") != "@1768478400" || res.Header.Get("Sunset") != "Fri, 16 Jan 2026 12:00:00 GMT" {
		t.Fatalf("%d, Deprecation %q, Sunset %q", res.StatusCode, res.Header.Get("Deprecation"), res.Header.Get("Sunset"))
	}
	f.advance(24*time.Hour - time.Microsecond)
	if res := f.do("GET", "/api/x", bearer(old)...); res.StatusCode != 204 {
		t.Fatalf("just before its end: %d", res.StatusCode)
	}
	f.advance(time.Microsecond)
	wantRefusal(t, f.do("GET", "/api/x", bearer(old)...), 401, CodeInvalidCredential)
}

func TestIdentity_KeysEndByRedisClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	end := f.clock().Add(-time.Minute)
	key := f.key("ten_a", "free", func(r *policy.KeyRecord) { r.NotAfter = &end })
	f.g.clockOffset.Store(int64(2 * time.Minute)) // our clock is two minutes fast
	if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != 204 {
		t.Errorf("a key that has a minute left by Redis' clock: %d", res.StatusCode)
	}
}

func TestIdentity_R062_GuessingIsBoundedPerAddressBeforeAnyLookup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	f.g.rescued.charge("", policy.InvalidLimit{Rate: policy.Rate{Tokens: 1, Period: time.Hour}, Burst: 1}, f.clock())
	good := f.key("ten_a", "free")
	counts := map[int]int{}
	for range 1000 {
		res := f.do("GET", "/api/x", "X-API-Key", unknownKey(t), "X-Tenant-Id", unknownKey(t))
		counts[res.StatusCode]++
		if res.StatusCode == 429 {
			wantBare(t, res)
		}
	}
	if counts[401] != 30 || counts[429] != 970 {
		t.Errorf("answers %v, want 30 of 401 and 970 of 429", counts)
	}
	if f.directory.asked > 40 {
		t.Errorf("%d lookups", f.directory.asked)
	}
	if f.store.calls != 0 {
		t.Errorf("%d calls to the store", f.store.calls)
	}
	f.directory.change(func(d *fakeDirectory) { d.cached = true })
	if res := f.do("GET", "/api/x", bearer(good)...); res.StatusCode != 204 {
		t.Errorf("a known key from the same address: %d", res.StatusCode)
	}
	if res := f.do("GET", "/api/x", "Peer", "192.0.2.2:1", "X-API-Key", unknownKey(t)); res.StatusCode != 401 {
		t.Errorf("another address: %d", res.StatusCode)
	}
	f.advance(2 * time.Second) // one refusal is back
	if res := f.do("GET", "/api/x", "X-API-Key", "malformed"); res.StatusCode != 401 {
		t.Errorf("after the wait: %d", res.StatusCode)
	}
}

func TestIdentity_R062_GoodColdKeyGetsThroughAtTheRescueRate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	for range 30 {
		f.do("GET", "/api/x", "X-API-Key", "malformed")
	}
	if res := f.do("GET", "/api/x", "X-API-Key", "malformed"); res.StatusCode != 429 {
		t.Fatalf("over the limit: %d", res.StatusCode)
	}
	if res := f.do("GET", "/api/x", bearer(f.key("ten_a", "free"))...); res.StatusCode != 204 {
		t.Errorf("a good key from that address: %d", res.StatusCode)
	}
	// A bad one learns nothing by it.
	wantBare(t, f.do("GET", "/api/x", bearer(unknownKey(t))...))
}

// wantBare checks a 429 that tells no cause.
func wantBare(t *testing.T, res *http.Response) {
	t.Helper()
	raw, _ := io.ReadAll(res.Body)
	if res.StatusCode != 429 || string(raw) != bareBody || res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %q, Cache-Control %q", res.StatusCode, raw, res.Header.Get("Cache-Control"))
	}
	if !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(res.Header.Get("Retry-After")) {
		t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
	}
	wantNoQuota(t, res)
}

func TestDecide_AbuseLimitTellsNothingButWhen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	for range 5 {
		res := f.do("POST", "/login")
		if res.StatusCode != 204 {
			t.Fatalf("within the limit: %d", res.StatusCode)
		}
		wantNoQuota(t, res)
	}
	wantBare(t, f.do("POST", "/login"))
	if res := f.do("POST", "/login", "Peer", "192.0.2.9:1"); res.StatusCode != 204 {
		t.Errorf("another address: %d", res.StatusCode)
	}
}

func TestDecide_R070_InventedAddressesShareThePeersLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	admitted := 0
	for i := range 100 {
		res := f.do("POST", "/login", "X-Forwarded-For", subject("10.0.0.1", 64)+", 203.0.113."+string(rune('0'+i%10)), "X-Real-IP", "9.9.9.9")
		if res.StatusCode == 204 {
			admitted++
		}
	}
	if admitted != 5 {
		t.Errorf("%d admitted from one untrusted peer, want 5", admitted)
	}
}

func TestDecide_R069_PlanOfTheKeyApplies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_big", "big")
	for i := range 100 {
		res := f.do("GET", "/api/x", bearer(key)...)
		if res.StatusCode != 204 || res.Header.Get("RateLimit-Limit") != "1000" {
			t.Fatalf("call %d: %d, limit %q", i, res.StatusCode, res.Header.Get("RateLimit-Limit"))
		}
	}
}

func TestDecide_LimitOfZeroIsBlockedWithoutRetryAfter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	res := f.do("GET", "/api/x", bearer(f.key("ten_none", "none"))...)
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	if res.Header.Get("Retry-After") != "" || p.RetryAfterMS != 0 || p.Reason != "blocked" || len(p.Violated) != 1 || p.Violated[0] != "plan.requests" {
		t.Errorf("Retry-After %q, body %+v", res.Header.Get("Retry-After"), p)
	}
	if f.store.calls != 0 {
		t.Error("the store was asked")
	}
}

func TestDecide_R075_PreflightIsFreeAndRefusalsAreReadable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	preflight := func(path, method string) int {
		return f.do("OPTIONS", path, "Origin", "https://app.example", "Access-Control-Request-Method", method).StatusCode
	}
	for range 5 {
		if got := preflight("/public/x", "GET"); got != 204 {
			t.Fatalf("preflight: %d", got)
		}
		if res := f.do("GET", "/public/x", "Origin", "https://app.example"); res.StatusCode != 204 {
			t.Fatalf("GET: %d", res.StatusCode)
		}
	}
	if got := preflight("/public/x", "GET"); got != 204 {
		t.Errorf("preflight over the limit: %d", got)
	}
	if got := preflight("/v1/reports/1", "GET"); got != 204 {
		t.Errorf("preflight of a route with keys: %d", got)
	}
	if got := preflight("/v1/reports/1", "DELETE"); got != 404 {
		t.Errorf("preflight of a method without a route: %d", got)
	}
	res := f.do("GET", "/public/x", "Origin", "https://app.example")
	wantRefusal(t, res, 429, CodeQuotaExceeded)
	exposed := res.Header.Get("Access-Control-Expose-Headers")
	if res.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(exposed, "Retry-After") || !strings.Contains(exposed, "RateLimit") {
		t.Errorf("CORS fields %q, %q", res.Header.Get("Access-Control-Allow-Origin"), exposed)
	}
	wantRefusal(t, f.do("OPTIONS", "/api/x"), 401, CodeMissingCredential) // a plain OPTIONS is no preflight
}

func TestDecide_I07_EveryRequestIsCountedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	gone, leave := context.WithCancel(context.Background())
	leave()
	for i := range 70 {
		f.do("GET", "/api/x", bearer(key)...)
		f.do("GET", "/v1/reports/1", bearer(key)...)
		f.do("GET", "/nowhere")
		f.do("GET", "/api/x")
		if i%10 == 0 {
			f.g.decide(gone, &Inbound{Method: "GET", EscapedPath: "/public/x"})
		}
	}
	other := f.key("ten_b", "free") // whose refusals nobody remembers
	f.store.fail(true)
	for range 20 {
		f.do("GET", "/v1/reports/1", bearer(other)...)
		f.do("POST", "/login")
	}
	received, classes := counted(t, f.g)
	want := map[string]float64{"admitted": 60, "rejected": 80 + 18, "invalid": 140, "aborted": 7, "failopen": 2, "failclosed": 20}
	sum := 0.0
	for class, n := range classes {
		sum += n
		if n != want[class] {
			t.Errorf("%s: %v, want %v", class, n, want[class])
		}
	}
	if received != sum || received != 4*70+7+40 {
		t.Errorf("received %v, sum of the classes %v", received, sum)
	}
}

// counted reads the accounts off the metrics.
func counted(t *testing.T, g *Gateway) (received float64, classes map[string]float64) {
	t.Helper()
	families, err := g.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	classes = map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "headgate_received_total":
				received = m.GetCounter().GetValue()
			case "headgate_decisions_total":
				for _, l := range m.GetLabel() {
					if l.GetName() == "outcome" {
						classes[l.GetValue()] += m.GetCounter().GetValue()
					}
				}
			}
		}
	}
	return received, classes
}

// Hits of one call are charged together: all of them pass, or none, and counted
// requests count each.
func TestDecide_R016_HitsAreChargedTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	f.key("ten_a", "capped")
	ask := func(hits int64, peek bool) Verdict {
		return f.g.Decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/x", Tenant: "ten_a", Header: http.Header{}, Hits: hits, Peek: peek, Budget: time.Second})
	}
	left := func(v Verdict, id string) int64 {
		for i := range v.Limits {
			if v.Limits[i].ID == id {
				return v.Limits[i].Remaining
			}
		}
		return -1
	}
	if v := ask(7, false); !v.Allowed || v.Cost != 70 || left(v, "plan.requests") != 593 || left(v, policy.QuotaID) != 30 || left(v, "shared:search") != 530 {
		t.Errorf("seven: %+v", v)
	}
	if v := ask(4, false); v.Allowed || v.Reason != limiter.ReasonQuota {
		t.Errorf("four more, with 30 of the quota left: %+v", v)
	}
	if v := ask(0, true); !v.Allowed || left(v, policy.QuotaID) != 30 || left(v, "plan.requests") != 593 {
		t.Errorf("a look: %+v", v)
	}
	for _, hits := range []int64{61, 1<<32 - 1, 1<<63 - 1} {
		if v := ask(hits, false); v.Allowed || v.Status != 422 {
			t.Errorf("%d: %+v", hits, v)
		}
	}
	if n := counter(t, f.g, "headgate_received_total"); n != 6 {
		t.Errorf("%v are counted", n)
	}
}

func TestDecide_ARouteCanBeNamedByATrustedCaller(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	f.key("ten_a", "free")
	v := f.g.Decide(t.Context(), &Inbound{Method: "GET", RouteName: "llm", Tenant: "ten_a", Header: http.Header{}})
	if !v.Allowed || v.Route.Name != "llm" || v.Cost != 50 || v.Lease == "" {
		t.Errorf("%+v", v)
	}
	if v := f.g.Decide(t.Context(), &Inbound{Method: "GET", RouteName: "nothing", Tenant: "ten_a", Header: http.Header{}}); v.Code != CodeNoRoute {
		t.Errorf("%+v", v)
	}
}
