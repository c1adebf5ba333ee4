package envoy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/policy/feed"
)

func TestRateLimit_H12_TellsTheLimitWhatIsLeftAndUntilWhen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.ask(about("GET", "/v1/reports/1?page=2"))
	st := first.GetStatuses()[0]
	if first.GetOverallCode() != okay || len(first.GetStatuses()) != 1 || st.GetCode() != okay {
		t.Fatalf("%v", first)
	}
	l := st.GetCurrentLimit()
	if l.GetName() != "route:report.reports" || l.GetRequestsPerUnit() != 10 || l.GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_MINUTE || l.GetUnitMultiplier() != nil {
		t.Errorf("limit %v", l)
	}
	if st.GetLimitRemaining() != 5 || st.GetDurationUntilReset().GetSeconds() != 6 {
		t.Errorf("status %v", st)
	}
	h := headers(first)
	if h.Get("RateLimit") == "" || h.Get("RateLimit-Policy") == "" || h.Get("RateLimit-Remaining") != "5" || h.Get("X-RateLimit-Limit") != "" {
		t.Errorf("fields %v", h)
	}
	if len(first.GetRequestHeadersToAdd()) != 0 || first.GetRawBody() != nil {
		t.Errorf("more than a caller's fields: %v", first)
	}
	f.ask(about("GET", "/v1/reports/1"))
	refused := f.ask(about("GET", "/v1/reports/1"))
	st = refused.GetStatuses()[0]
	if refused.GetOverallCode() != over || st.GetCode() != over || st.GetLimitRemaining() != 0 || st.GetDurationUntilReset().GetSeconds() != 30 {
		t.Errorf("refused %v", refused)
	}
	if h := headers(refused); h.Get("Retry-After") != "30" || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(refused.GetRawBody()), "route:report.reports") {
		t.Errorf("refused with %v %s", h, refused.GetRawBody())
	}
}

func TestRateLimit_XHeadersAreAnOption(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *setup) { s.envoy.XHeaders = true })
	h := headers(f.ask(about("GET", "/v1/reports/1")))
	if h.Get("X-RateLimit-Limit") != "10" || h.Get("X-RateLimit-Remaining") != "5" || h.Get("X-RateLimit-Reset") != "6" {
		t.Errorf("fields %v", h)
	}
	if h := headers(f.ask(descriptor(keyMethod, "POST", keyPath, "/login", keyAddress, "192.0.2.1"))); h.Get("X-RateLimit-Limit") != "" {
		t.Errorf("an abuse limit tells %v", h)
	}
}

func TestRateLimit_R016_ZeroHits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ten := func(hits *uint64) *commonv3.RateLimitDescriptor {
		d := about("GET", "/ten")
		if hits != nil {
			d.HitsAddend = wrapperspb.UInt64(*hits)
		}
		return d
	}
	zero, five, three := uint64(0), uint64(5), uint64(3)
	left := func(r *ratelimitv3.RateLimitResponse, want uint32) {
		t.Helper()
		if st := r.GetStatuses()[0]; r.GetOverallCode() != okay || st.GetCode() != okay || st.GetLimitRemaining() != want {
			t.Errorf("want OK and %d left: %v", want, r)
		}
	}
	left(f.ask(ten(&five)), 5)
	left(f.ask(ten(nil)), 4)       // unset
	left(f.askFor(0, ten(nil)), 3) // 0 of the call is unset
	for range 3 {
		left(f.ask(ten(&zero)), 3)
		left(f.askFor(7, ten(&zero)), 3) // the descriptor's counts before the call's
	}
	left(f.askFor(7, ten(&three)), 0)
	looked := f.ask(ten(&zero))
	left(looked, 0)
	if h := headers(looked); looked.GetRawBody() != nil || h.Get("Retry-After") != "" || h.Get("RateLimit-Remaining") != "0" {
		t.Errorf("a look at what is used up tells a refusal: %v %s", h, looked.GetRawBody())
	}
	if r := f.ask(ten(nil)); r.GetOverallCode() != over {
		t.Errorf("one more: %v", r)
	}
}

func TestRateLimit_HitsAreChargedTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if r := f.askFor(8, about("GET", "/ten")); r.GetStatuses()[0].GetLimitRemaining() != 2 {
		t.Errorf("eight: %v", r)
	}
	if r := f.askFor(3, about("GET", "/ten")); r.GetOverallCode() != over || r.GetStatuses()[0].GetLimitRemaining() != 2 {
		t.Errorf("three of two: %v", r)
	}
	if r := f.askFor(2, about("GET", "/ten")); r.GetOverallCode() != okay {
		t.Errorf("the rest: %v", r)
	}
}

func TestRateLimit_B4_HugeHitsAreOverLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, path := range map[string]string{"cost": "/ten", "requests alone": "/jobs"} {
		method := map[string]string{"/ten": "GET", "/jobs": "POST"}[path]
		if r := f.askFor(math.MaxUint32, about(method, path)); r.GetOverallCode() != over || r.GetStatuses()[0].GetCode() != over {
			t.Errorf("%s: %v", name, r)
		}
		d := about(method, path)
		d.HitsAddend = wrapperspb.UInt64(math.MaxUint64)
		if r := f.ask(d); r.GetOverallCode() != over {
			t.Errorf("%s, 2^64-1: %v", name, r)
		}
	}
	if r := f.ask(about("GET", "/ten")); r.GetStatuses()[0].GetLimitRemaining() != 9 {
		t.Errorf("refused ones have spent: %v", r)
	}
}

func TestRateLimit_H12_OneStatusPerDescriptorInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.tenant("ten_b")
	f.askFor(10, about("GET", "/ten"))
	other := descriptor(keyTenant, "ten_b", keyMethod, "GET", keyPath, "/ten")
	r := f.ask(other, about("GET", "/ten"), about("GET", "/v1/reports/1"))
	var got []ratelimitv3.RateLimitResponse_Code
	for _, st := range r.GetStatuses() {
		got = append(got, st.GetCode())
	}
	if r.GetOverallCode() != over || len(got) != 3 || got[0] != okay || got[1] != over || got[2] != okay {
		t.Fatalf("%v", r)
	}
	if h := headers(r); h.Get("Retry-After") != "360" || !strings.Contains(string(r.GetRawBody()), "route:ten.ten") {
		t.Errorf("the refusal is not the one that is told: %v %s", h, r.GetRawBody())
	}
	// A refused call has spent nothing.
	if r := f.ask(other); r.GetStatuses()[0].GetLimitRemaining() != 9 {
		t.Errorf("ten_b was charged: %v", r)
	}
	if r := f.ask(about("GET", "/v1/reports/1")); r.GetStatuses()[0].GetLimitRemaining() != 5 {
		t.Errorf("the report was charged: %v", r)
	}
	// One that passes is charged in each.
	r = f.ask(other, about("GET", "/v1/reports/1"))
	if r.GetOverallCode() != okay || r.GetStatuses()[0].GetLimitRemaining() != 8 || r.GetStatuses()[1].GetLimitRemaining() != 0 {
		t.Errorf("%v", r)
	}
	if h := headers(r); h.Get("RateLimit-Remaining") != "0" {
		t.Errorf("the limit that is met first is not the one that is told: %v", h)
	}
}

func TestRateLimit_H12_WhatNobodyCanDecideIsAnErrorAndNeverACode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.set(func(s *testStore) { s.broken = true })
	st := f.fails(codes.Unavailable, request(about("GET", "/ten")))
	if !strings.Contains(st.Message(), "temporary-reduced-capacity") {
		t.Errorf("message %q", st.Message())
	}
	var wait int64
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			wait = info.GetRetryDelay().GetSeconds()
		}
	}
	if wait != 2 {
		t.Errorf("details %v", st.Details())
	}
	r := f.ask(descriptor(keyMethod, "GET", keyPath, "/public/x", keyAddress, "192.0.2.1"))
	if h := headers(r); r.GetOverallCode() != okay || h.Get("RateLimit") != "" || r.GetStatuses()[0].GetCurrentLimit() != nil {
		t.Errorf("fail open: %v", r)
	}
	f.directory.fail(feed.ErrUnavailable)
	if st := f.fails(codes.Unavailable, request(about("GET", "/v1/reports/1"))); !strings.Contains(st.Message(), "identity-unavailable") {
		t.Errorf("message %q", st.Message())
	}
}

func TestRateLimit_ACertainRefusalGoesBeforeAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.set(func(s *testStore) { s.broken = true })
	r := f.ask(about("GET", "/ten"), about("GET", "/nowhere"))
	if r.GetOverallCode() != over || r.GetStatuses()[0].GetCode() != over || !strings.Contains(string(r.GetRawBody()), "no-route") {
		t.Errorf("%v", r)
	}
}

// What callers can put into a request must not make a call fail: Envoy may be
// told to let pass what fails.
func TestRateLimit_B4_NoValueMakesAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant("ten_k")
	for name, c := range map[string]struct {
		d    *commonv3.RateLimitDescriptor
		code string
	}{
		"unknown tenant":   {descriptor(keyTenant, "ten_zzz", keyMethod, "GET", keyPath, "/ten"), "invalid-credential"},
		"odd tenant":       {descriptor(keyTenant, "a{b}:*", keyMethod, "GET", keyPath, "/ten"), "malformed-credential"},
		"empty tenant":     {descriptor(keyTenant, "", keyMethod, "GET", keyPath, "/ten"), "malformed-credential"},
		"bad key":          {descriptor(keyAPIKey, "x", keyMethod, "GET", keyPath, "/ten"), "malformed-credential"},
		"empty key":        {descriptor(keyAPIKey, "", keyMethod, "GET", keyPath, "/ten"), "missing-credential"},
		"nobody":           {descriptor(keyMethod, "GET", keyPath, "/ten"), "missing-credential"},
		"no user":          {descriptor(keyUser, "", keyMethod, "GET", keyPath, "/mine"), "missing-credential"},
		"bad method":       {about("G T", "/ten"), "bad-request"},
		"empty method":     {about("", "/ten"), "bad-request"},
		"ambiguous path":   {about("GET", "/v1/../ten"), "ambiguous-path"},
		"star":             {about("OPTIONS", "*"), "ambiguous-path"},
		"fragment":         {about("GET", "/ten#/x"), "ambiguous-path"},
		"empty path":       {about("GET", ""), "ambiguous-path"},
		"no route":         {about("GET", "/nowhere"), "no-route"},
		"no route by name": {descriptor(keyTenant, "ten_a", keyRoute, "nope"), "no-route"},
		"empty name":       {descriptor(keyTenant, "ten_a", keyGeneric, ""), "no-route"},
		"key with scheme":  {descriptor("header:authorization", "Basic "+key, keyMethod, "GET", keyPath, "/ten"), "missing-credential"},
	} {
		r := f.ask(c.d)
		var p struct{ Code string }
		if err := json.Unmarshal(r.GetRawBody(), &p); err != nil || r.GetOverallCode() != over || p.Code != c.code {
			t.Errorf("%s: %v %s (%v)", name, r.GetOverallCode(), r.GetRawBody(), err)
		}
	}
	for name, d := range map[string]*commonv3.RateLimitDescriptor{
		"key":        descriptor(keyAPIKey, key, keyMethod, "GET", keyPath, "/ten"),
		"header":     descriptor("header:authorization", "Bearer "+key, keyMethod, "get", keyPath, "/ten"),
		"route":      descriptor(keyKey, key, keyRoute, "ten"),
		"no address": descriptor(keyMethod, "POST", keyPath, "/login", keyAddress, "somewhere"),
		"user":       descriptor(keyUser, "u1", keyMethod, "GET", keyPath, "/mine"),
		"its header": descriptor("header:x-user-id", "u1", keyMethod, "GET", keyPath, "/mine"),
	} {
		if r := f.ask(d); r.GetOverallCode() != okay {
			t.Errorf("%s: %v %s", name, r, r.GetRawBody())
		}
	}
}

func TestRateLimit_AddressAndUserAreCountedApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from := func(a string) ratelimitv3.RateLimitResponse_Code {
		return f.ask(descriptor(keyMethod, "GET", keyPath, "/public/x", keyAddress, a)).GetOverallCode()
	}
	for range 5 {
		if from("192.0.2.1") != okay {
			t.Fatal("within the limit")
		}
	}
	if from("192.0.2.1") != over || from("::ffff:192.0.2.1") != over || from("192.0.2.2") != okay {
		t.Error("addresses are not counted apart")
	}
	user := func(u string) ratelimitv3.RateLimitResponse_Code {
		return f.ask(descriptor(keyMethod, "GET", keyPath, "/mine", keyUser, u)).GetOverallCode()
	}
	for range 3 {
		if user("a") != okay {
			t.Fatal("within the user's limit")
		}
	}
	if user("a") != over || user("b") != okay {
		t.Error("users are not counted apart")
	}
}

func TestRateLimit_AbuseRefusalsTellNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var r *ratelimitv3.RateLimitResponse
	for range 6 {
		r = f.ask(descriptor(keyMethod, "POST", keyPath, "/login", keyAddress, "192.0.2.1"))
	}
	st, h := r.GetStatuses()[0], headers(r)
	if r.GetOverallCode() != over || st.GetCurrentLimit() != nil || st.GetLimitRemaining() != 0 || st.GetDurationUntilReset().GetSeconds() != 30 {
		t.Errorf("%v", r)
	}
	if h.Get("RateLimit") != "" || h.Get("Retry-After") != "30" || string(r.GetRawBody()) != "Too many requests\n" {
		t.Errorf("%v %s", h, r.GetRawBody())
	}
}

func TestRateLimit_BlockedStaysOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := descriptor(keyMethod, "GET", keyPath, "/stopped", keyAddress, "192.0.2.1")
	r := f.ask(d)
	if h := headers(r); r.GetOverallCode() != over || h.Get("Retry-After") != "" || r.GetStatuses()[0].GetDurationUntilReset() != nil {
		t.Errorf("%v", r)
	}
	d.HitsAddend = wrapperspb.UInt64(0)
	if r := f.ask(d); r.GetOverallCode() != over {
		t.Errorf("a look: %v", r)
	}
}

func TestRateLimit_ConfigurationErrorsAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	negative, limited := about("GET", "/ten"), about("GET", "/ten")
	negative.IsNegativeHits = true
	limited.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 1}
	many := make([]*commonv3.RateLimitDescriptor, maxDescriptors+1)
	for i := range many {
		many[i] = about("GET", "/ten")
	}
	for want, r := range map[string]*ratelimitv3.RateLimitRequest{
		`domain: is "other"`: {Domain: "other", Descriptors: many[:1]},
		`domain: is ""`:      {Descriptors: many[:1]},
		"there are 0":        request(),
		"there are 33":       request(many...),
		`descriptors[1].entries[2].key: "plan" is unknown`: request(many[0], descriptor(keyMethod, "GET", keyPath, "/", "plan", "x")),
		"entries: there are 0":                             request(descriptor()),
		"tenant and api_key":                               request(descriptor(keyTenant, "t", keyAPIKey, "k", keyMethod, "GET", keyPath, "/")),
		"route, or method and path":                        request(descriptor(keyRoute, "ten", keyMethod, "GET", keyPath, "/")),
		"method is needed":                                 request(descriptor(keyPath, "/")),
		"path is needed":                                   request(descriptor(keyMethod, "GET")),
		"says again":                                       request(descriptor(keyMethod, "GET", keyMethod, "GET")),
		`"generic_key" says again`:                         request(descriptor(keyRoute, "ten", keyGeneric, "ten")),
		`"header:a" says again`:                            request(descriptor("header:A", "1", "header:a", "1")),
		"names no header field":                            request(descriptor("header:a b", "1")),
		"is_negative_hits":                                 request(negative),
		"limit: is not taken":                              request(limited),
	} {
		if st := f.fails(codes.InvalidArgument, r); !strings.Contains(st.Message(), want) {
			t.Errorf("%q lacks %q", st.Message(), want)
		}
	}
}
