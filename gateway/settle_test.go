package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
)

// llm answers with a cost in the way that the request asks for.
func llm(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Want") {
	case "":
		w.Header().Set("X-Cost", r.Header.Get("Cost"))
	case "none":
	case "two":
		w.Header()["X-Cost"] = []string{"1", "2"}
	case "trailer":
		w.Header().Set("Trailer", "X-Cost, X-Other")
		_, _ = w.Write([]byte("body"))
		w.Header().Set("X-Cost", r.Header.Get("Cost"))
		w.Header().Set("X-Other", "kept")
		return
	case "broken":
		w.Header().Set("X-Cost", r.Header.Get("Cost"))
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write([]byte("body"))
}

// tokens is what is left of the route's limit.
func (f *fixture) tokens(tenant, id string) int64 {
	f.t.Helper()
	f.g.limiter.ForgetAll()
	v := f.g.Decide(f.t.Context(), &Inbound{Method: "POST", EscapedPath: "/llm", Tenant: tenant, Peek: true, Header: http.Header{}, Cost: 1})
	if v.Lease != "" {
		f.t.Error("a look can be settled")
	}
	for i := range v.Limits {
		if v.Limits[i].ID == id {
			return v.Limits[i].Remaining
		}
	}
	f.t.Fatalf("no word of %s: %+v", id, v)
	return 0
}

// counter sums what /metrics tells under a name and with all those label values.
func counter(t testing.TB, g *Gateway, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := g.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]bool{}
			for _, l := range m.GetLabel() {
				has[l.GetValue()] = true
			}
			all := true
			for _, l := range labels {
				all = all && has[l]
			}
			if all {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestSettle_TheUpstreamSaysWhatARequestCost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want, cost string
		left       int64
		result     string
	}{
		"less":                {"", "10", 90, "refunded"},
		"nothing":             {"", "0", 100, "refunded"},
		"as reserved":         {"", "50", 50, "exact"},
		"more":                {"", "90", 10, "charged"},
		"in a trailer":        {"trailer", "20", 80, "refunded"},
		"before it broke off": {"broken", "70", 30, "charged"},
		"not at all":          {"none", "", 50, "missing"},
		"twice":               {"two", "", 50, "malformed"},
		"negative":            {"", "-5", 50, "malformed"},
		"not in digits":       {"", "1e3", 50, "malformed"},
		"with a sign":         {"", "+5", 50, "malformed"},
		"with a zero before":  {"", "05", 50, "malformed"},
		"huge":                {"", "99999999999999999999", 50, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, widePolicy, http.HandlerFunc(llm))
			s := f.live()
			r, _ := http.NewRequest("POST", s.URL+"/llm", nil)
			for name, value := range map[string]string{"Authorization": "Bearer " + f.key("ten_a", "free"), "Want": c.want, "Cost": c.cost} {
				r.Header.Set(name, value)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				if c.want != "broken" {
					t.Fatal(err)
				}
				res = &http.Response{StatusCode: 200, Body: http.NoBody}
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode != 200 || res.Header.Get("X-Cost") != "" || res.Trailer.Get("X-Cost") != "" {
				t.Errorf("%d, header %v, trailer %v", res.StatusCode, res.Header, res.Trailer)
			}
			if c.want == "trailer" && res.Trailer.Get("X-Other") != "kept" {
				t.Errorf("trailer %v", res.Trailer)
			}
			eventually(t, patience, "a settlement is counted as "+c.result, func() bool {
				return counter(t, f.g, "headgate_settles_total", c.result) == 1
			})
			if got := f.tokens("ten_a", "route:llm.tokens"); got != c.left {
				t.Errorf("%d of 100 tokens are left, want %d", got, c.left)
			}
			if got := f.tokens("ten_a", "plan.requests"); got != 599 {
				t.Errorf("a limit that counts requests has %d left of 600 after one", got)
			}
		})
	}
}

// What cost more than there was delays the next requests, exactly.
// namesStore notes the ids of corrections: a store remembers each for an hour.
type namesStore struct {
	limiter.Store
	names chan string
}

func (s namesStore) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	s.names <- id
	return s.Store.Amend(ctx, id, corrections)
}

// TestSettle_B2_WhatIsSaidOnceIsNotRemembered: only tokens may come back twice.
func TestSettle_B2_WhatIsSaidOnceIsNotRemembered(t *testing.T) {
	t.Parallel()
	names := make(chan string, 2)
	f := newFixture(t, widePolicy, http.HandlerFunc(llm), func(c *Config) { c.Store = namesStore{c.Store, names} })
	res := f.do("POST", "/llm", append(bearer(f.key("ten_a", "free")), "Cost", "10")...)
	if id := <-names; res.StatusCode != 200 || id != "" {
		t.Errorf("%d, settled under the name %q", res.StatusCode, id)
	}
	_, d, _ := f.ask(`{"tenant": "ten_a", "method": "POST", "path": "/llm"}`)
	if code, p := f.after("/v1/settle", `{"lease": "`+d.Lease+`", "cost": 10}`); code != 204 {
		t.Fatalf("%d %+v", code, p)
	}
	if id := <-names; id == "" {
		t.Error("a token can be settled twice")
	}
}

func TestSettle_ADebtDelaysLaterRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, http.HandlerFunc(llm))
	key := bearer(f.key("ten_a", "free"))
	if res := f.do("POST", "/llm", append(key, "Cost", "200")...); res.StatusCode != 200 {
		t.Fatalf("first: %d", res.StatusCode)
	}
	res := f.do("POST", "/llm", append(key, "Cost", "1")...) // 100 in debt, 50 to reserve: 150 tokens at 100 a minute
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	if res.Header.Get("Retry-After") != "90" || p.RetryAfterMS != 90_000 {
		t.Fatalf("Retry-After %s, %d ms", res.Header.Get("Retry-After"), p.RetryAfterMS)
	}
	checkFields(t, res.Header)
	f.advance(90*time.Second - time.Millisecond)
	if res := f.do("POST", "/llm", append(key, "Cost", "1")...); res.StatusCode != 429 {
		t.Errorf("1 ms early: %d", res.StatusCode)
	}
	f.advance(time.Millisecond)
	if res := f.do("POST", "/llm", append(key, "Cost", "1")...); res.StatusCode != 200 {
		t.Errorf("in time: %d", res.StatusCode)
	}
}

// A cost that an upstream got wrong does not close what all tenants share, and a
// tenant's own limit for two days at most.
func TestSettle_AMistakenCostDoesNotCloseALimitForYears(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, http.HandlerFunc(llm))
	if res := f.do("POST", "/llm", append(bearer(f.key("ten_a", "free")), "Cost", "281474976710655")...); res.StatusCode != 200 {
		t.Fatalf("first: %d", res.StatusCode)
	}
	f.advance(time.Second) // 50 000 tokens for all
	if res := f.do("POST", "/llm", append(bearer(f.key("ten_b", "free")), "Cost", "50")...); res.StatusCode != 200 {
		t.Errorf("another tenant: %d %s", res.StatusCode, res.Header.Get("Retry-After"))
	}
	f.advance(48 * time.Hour)
	if got := f.tokens("ten_a", "route:llm.tokens"); got == 0 {
		t.Error("the tenant's own limit is still closed after two days")
	}
}

func TestSettle_AnUpstreamThatFailsCostsWhatWasReserved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := bearer(f.key("ten_a", "free"))
	f.upstream.Close()
	wantRefusal(t, f.do("POST", "/llm", key...), 502, CodeUpstreamUnavailable)
	if got := f.tokens("ten_a", "route:llm.tokens"); got != 50 {
		t.Errorf("%d tokens are left of 100", got)
	}
}

// Without the store nothing was charged, so nothing is corrected; the header
// stays ours all the same.
func TestSettle_NothingIsCorrectedThatWasNotCharged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, http.HandlerFunc(llm))
	key := bearer(f.key("ten_a", "free"))
	f.store.fail(true)
	if res := f.do("POST", "/llm", append(key, "Cost", "7")...); res.StatusCode != 200 || res.Header.Get("X-Cost") != "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	f.store.fail(false)
	if res := f.do("POST", "/x", append(key, "Cost", "7")...); res.Header.Get("X-Cost") != "7" {
		t.Errorf("a route that does not settle: %v", res.Header)
	}
	for _, result := range []string{"exact", "charged", "refunded", "failed", "missing"} {
		if n := counter(t, f.g, "headgate_settles_total", result); n != 0 {
			t.Errorf("%v corrections %s", n, result)
		}
	}
}

func TestSettle_TokensSettleOnceOnAnyReplica(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	other := f.second()
	key := f.key("ten_a", "free")
	decide := func() string {
		_, d, _ := f.ask(`{"key": "` + key + `", "method": "POST", "path": "/llm"}`)
		return d.Lease
	}
	token := decide()
	settle := func(g *fixture, token, cost string, want int) {
		t.Helper()
		if status, p := g.after("/v1/settle", fmt.Sprintf(`{"lease": %q, "cost": %s}`, token, cost)); status != want {
			t.Errorf("settle at %s: %d %+v", cost, status, p)
		}
	}
	settle(other, token, "10", 204)
	settle(f, token, "10", 204)
	settle(other, token, "0", 204)
	if got := f.tokens("ten_a", "route:llm.tokens"); got != 90 {
		t.Errorf("settled at 10, three times: %d of 100 are left", got)
	}
	for _, cost := range []string{"-1", "1.5", `"7"`, "null", "99999999999999999999"} {
		status, p := f.after("/v1/settle", fmt.Sprintf(`{"lease": %q, "cost": %s}`, token, cost))
		if status != 400 || p.Code != CodeBadCost {
			t.Errorf("cost %s: %d %+v", cost, status, p)
		}
	}
	late := decide()
	f.advance(time.Hour + time.Second)
	status, p := f.after("/v1/settle", fmt.Sprintf(`{"lease": %q, "cost": 1}`, late))
	if status != 400 || !strings.Contains(p.Detail, "more than an hour") {
		t.Errorf("too late: %d %+v", status, p)
	}
	if status, p := f.after("/v1/release", lease(token)); status != 204 {
		t.Errorf("release of what holds nothing: %d %+v", status, p)
	}
}
