package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// places answers requests of /slots/ as the last part of the path says, and holds
// those of /slots/hold until they are let go.
type places struct {
	entered chan struct{}
	leave   chan struct{}
}

func newPlaces() *places {
	return &places{entered: make(chan struct{}, 100), leave: make(chan struct{})}
}

func (p *places) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/slots/hold":
		p.entered <- struct{}{}
		select {
		case <-p.leave:
		case <-r.Context().Done():
		}
	case "/slots/broken": // breaks off in the middle of the body
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "/slots/upgrade":
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = buf.Flush()
		p.entered <- struct{}{}
		_, _ = io.Copy(io.Discard, buf)
	}
}

// active is the number of places that the tenant holds, as the store knows it.
func (f *fixture) active(tenant string) int64 {
	f.t.Helper()
	f.g.limiter.ForgetAll() // a refusal that is remembered knows nothing of places
	c := f.policies.Current().Compiled
	route, _ := c.Match("GET", "", "/slots/x")
	v := f.g.decide(context.Background(), &Inbound{Method: "GET", EscapedPath: "/slots/x", Tenant: tenant, Peek: true, Header: http.Header{}})
	for _, l := range v.Limits {
		if l.ID == route.Concurrency.ID && !l.Unknown {
			return l.Quota - l.Remaining
		}
	}
	f.t.Fatalf("no word of the places: %+v", v)
	return 0
}

// settled waits until the tenant holds so many places: what ends a request in a
// server is a moment behind what its caller sees.
func (f *fixture) settled(t *testing.T, tenant string, want int64) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("%d places are held", want), func() bool { return f.active(tenant) == want })
}

func TestConcurrency_R027_RefusalsTakeAndFreeNothing(t *testing.T) {
	t.Parallel()
	up := newPlaces()
	f := newFixture(t, widePolicy, up)
	s := f.live()
	key := f.key("ten_a", "free")
	done := make(chan int, 10)
	hold := func() {
		r, _ := http.NewRequest("GET", s.URL+"/slots/hold", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			done <- 0
			return
		}
		_ = res.Body.Close()
		done <- res.StatusCode
	}
	for range 2 {
		go hold()
		<-up.entered
	}
	for range 10 {
		res := f.do("GET", "/slots/x", bearer(key)...)
		checkPlaces(t, res)
	}
	if got := f.active("ten_a"); got != 2 {
		t.Fatalf("after ten refusals %d places are held", got)
	}
	close(up.leave)
	for range 2 {
		if got := <-done; got != 200 {
			t.Errorf("held request: %d", got)
		}
	}
	f.settled(t, "ten_a", 0)
	// the refusals have spent nothing of the plan: 600 less the two.
	res := f.do("GET", "/slots/x", bearer(key)...)
	params, _ := fields(t, res.Header, "RateLimit")
	if left, _ := params["plan.requests"].Get("r"); left != int64(597) {
		t.Errorf("%v requests are left of 600 after three", left)
	}
}

// checkPlaces holds a refusal for concurrency to what is promised of it.
func checkPlaces(t *testing.T, res *http.Response) {
	t.Helper()
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	if p.Reason != "concurrency" || p.RetryAfterMS != 0 || len(p.Violated) != 1 || p.Violated[0] != "route:slots.concurrency" {
		t.Errorf("problem %+v", p)
	}
	if res.Header.Get("Retry-After") != "1" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", res.Header)
	}
	policies, _ := fields(t, res.Header, "RateLimit-Policy")
	limits, _ := fields(t, res.Header, "RateLimit")
	own, left := policies["route:slots.concurrency"], limits["route:slots.concurrency"]
	if own == nil || left == nil {
		t.Fatalf("H03: %v", res.Header)
	}
	q, _ := own.Get("q")
	unit, _ := own.Get("qu")
	_, window := own.Get("w")
	r, _ := left.Get("r")
	if _, next := left.Get("t"); q != int64(2) || unit != "concurrent-requests" || window || next || r != int64(0) {
		t.Errorf("H03: %v, %v", res.Header["Ratelimit-Policy"], res.Header["Ratelimit"])
	}
}

// however a request ends, its place is free again.
func TestConcurrency_R026_EveryEndFreesThePlace(t *testing.T) {
	t.Parallel()
	up := newPlaces()
	f := newFixture(t, widePolicy, up)
	s := f.live()
	key := f.key("ten_a", "free")
	get := func(ctx context.Context, path string) error {
		r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	ends := map[string]func(){
		"answered": func() { _ = get(t.Context(), "/slots/x") },
		"broken off by the upstream": func() {
			if get(t.Context(), "/slots/broken") == nil {
				t.Error("a broken answer looks whole")
			}
		},
		"left by the caller": func() {
			ctx, leave := context.WithCancel(t.Context())
			go func() { <-up.entered; leave() }()
			_ = get(ctx, "/slots/hold")
		},
		"upgraded and closed": func() {
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = fmt.Fprintf(conn, "GET /slots/upgrade HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", key)
			<-up.entered
			if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "101") {
				t.Errorf("upgrade: %q", line)
			}
			f.settled(t, "ten_a", 1) // as long as the connection lasts
			_ = conn.Close()
		},
	}
	for name, end := range ends {
		for range 5 {
			end()
		}
		f.settled(t, "ten_a", 0)
		if t.Failed() {
			t.Fatalf("it was %s", name)
		}
	}
	f.upstream.Close()
	wantRefusal(t, f.do("GET", "/slots/x", bearer(key)...), 502, CodeUpstreamUnavailable)
	f.settled(t, "ten_a", 0)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if v := f.g.decide(gone, &Inbound{Method: "GET", EscapedPath: "/slots/x", Tenant: "ten_a", Header: http.Header{}}); !v.Aborted || v.Lease != "" {
		t.Errorf("a request whose caller has left: %+v", v)
	}
	f.settled(t, "ten_a", 0)
}

// after asks /v1/release or /v1/settle.
func (f *fixture) after(path, body string, headers ...string) (int, problem) {
	f.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:4711"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.g.DecideHandler().ServeHTTP(w, r)
	var p problem
	if w.Code >= 400 {
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			f.t.Fatalf("answer %q: %v", w.Body, err)
		}
	}
	return w.Code, p
}

func lease(token string) string { return fmt.Sprintf(`{"lease": %q}`, token) }

// second is another replica on the same store, with the same clock.
func (f *fixture) second(changes ...func(*Config)) *fixture {
	other := newFixture(f.t, "", nil, append([]func(*Config){func(c *Config) {
		c.Store, c.Now, c.Policies, c.Directory = f.store, f.clock, f.policies, f.directory
	}}, changes...)...)
	other.policies, other.directory, other.store = f.policies, f.directory, f.store
	return other
}

func TestConcurrency_R027_DoorsWithoutAnEndGiveAToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	other := f.second()
	key := f.key("ten_a", "free")
	check := func() *http.Response {
		return f.check("", append(bearer(key), "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/slots/x")...)
	}
	first := check().Header.Get(headerLease)
	_, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/slots/x"}`)
	if first == "" || d.Lease == "" || first == d.Lease {
		t.Fatalf("leases %q and %q", first, d.Lease)
	}
	if strings.Contains(first+d.Lease, "ten_a") || len(first) > 1024 {
		t.Errorf("token %q", first)
	}
	res := check()
	checkPlaces(t, res)
	if res.Header.Get(headerLease) != "" {
		t.Error("a refusal carries a lease")
	}
	for i := range 3 { // on another replica, and again and again
		if status, p := other.after("/v1/release", lease(first)); status != 204 {
			t.Errorf("release %d: %d %+v", i, status, p)
		}
	}
	if got := f.active("ten_a"); got != 1 {
		t.Errorf("after one release, three times, %d places are held", got)
	}
	if status, p := f.after("/v1/release", "", headerLease, d.Lease); status != 204 {
		t.Errorf("release by header: %d %+v", status, p)
	}
	f.settled(t, "ten_a", 0)
	if res := f.do("GET", "/slots/x", bearer(key)...); res.Header.Get(headerLease) != "" {
		t.Error("the proxy tells its caller the lease")
	}
}

// a place whose holder was never heard of again is free when its
// lease is over, and its late release frees nobody else's.
func TestConcurrency_R028_ALateReleaseFreesNobodysPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	take := func() string {
		_, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/slots/x"}`)
		return d.Lease
	}
	lost := []string{take(), take()}
	if take() != "" {
		t.Fatal("a third one got a place")
	}
	f.advance(9 * time.Second)
	if take() != "" {
		t.Fatal("a lease of 10 s was over after 9")
	}
	f.advance(time.Second)
	now := []string{take(), take()}
	if now[0] == "" || now[1] == "" {
		t.Fatal("the places of the lost are not free")
	}
	for _, token := range lost {
		if status, _ := f.after("/v1/release", lease(token)); status != 204 {
			t.Errorf("late release: %d", status)
		}
	}
	if got := f.active("ten_a"); got != 2 {
		t.Errorf("late releases left %d of 2 places held", got)
	}
}

func TestAfterwards_WhatIsNoTokenIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	_, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/slots/x"}`)
	foreign := f.second(func(c *Config) { c.DecideToken = "another token of theirs" })
	for name, c := range map[string]struct{ path, body, want string }{
		"nothing":         {"/v1/release", `{}`, "lease: is needed"},
		"empty":           {"/v1/release", ``, "lease: is needed"},
		"a number":        {"/v1/release", `{"lease": 7}`, "lease"},
		"no token":        {"/v1/release", `{"lease": "x"}`, "no lease token"},
		"cut":             {"/v1/release", lease(d.Lease[:len(d.Lease)-1]), "no lease token"},
		"longer":          {"/v1/release", lease(d.Lease + "AA"), "no lease token"},
		"of another kind": {"/v1/release", lease("hgl2." + d.Lease[5:]), "no lease token"},
		"huge":            {"/v1/release", lease(tokenMark + strings.Repeat("A", 2*maxToken)), "no lease token"},
		"unknown member":  {"/v1/release", `{"lease": "x", "cost": 1}`, `"cost" is unknown`},
		"twice":           {"/v1/release", `{"lease": "x", "lease": "y"}`, "stands twice"},
		"two values":      {"/v1/release", lease(d.Lease) + "{}", "more than one"},
		"not reserved":    {"/v1/settle", `{"lease": "` + d.Lease + `", "cost": 1}`, "reserves no cost"},
		"settle nothing":  {"/v1/settle", ``, "EOF"},
	} {
		if status, p := f.after(c.path, c.body); status != 400 || p.Code != CodeBadRequest || !strings.Contains(p.Detail, c.want) {
			t.Errorf("%s: %d %+v", name, status, p)
		}
	}
	if status, p := foreign.after("/v1/release", lease(d.Lease)); status != 400 {
		t.Errorf("a token under another decide token: %d %+v", status, p)
	}
	if got := f.active("ten_a"); got != 1 {
		t.Errorf("%d places are held", got)
	}
	res := serve(f.g.DecideHandler(), "POST", "/v1/release", "Peer", "203.0.113.1:1")
	wantRefusal(t, res, 403, CodeForbiddenCaller)
	if res := serve(f.g.DecideHandler(), "GET", "/v1/release", "Peer", "127.0.0.1:1"); res.StatusCode != 405 {
		t.Errorf("GET: %d", res.StatusCode)
	}
	f.store.fail(true)
	if status, p := f.after("/v1/release", lease(d.Lease)); status != 503 || p.Code != CodeReducedCapacity {
		t.Errorf("release while the store is away: %d %+v", status, p)
	}
}

// A place is not asked of anybody who was told to wait for something else, and
// not by who looks only.
func TestConcurrency_PeeksAndOtherRefusalsHoldNothing(t *testing.T) {
	t.Parallel()
	const source = `
apiVersion: headgate/v1
plans: {free: {limits: []}}
routes:
  - name: slots
    match: ["/"]
    identity: api_key
    motive: fairness
    limits: [{name: few, per: tenant, rate: 1/hour, burst: 1}]
    concurrency: {per: tenant, max: 5, lease: 1h}
    on_store_failure: {mode: closed}
`
	f := newFixture(t, source, nil)
	f.key("ten_a", "free")
	in := func(peek bool) *Inbound {
		return &Inbound{Method: "GET", EscapedPath: "/slots/x", Tenant: "ten_a", Header: http.Header{}, Peek: peek}
	}
	for range 3 {
		if v := f.g.Decide(t.Context(), in(true)); !v.Allowed || v.Lease != "" {
			t.Fatalf("peek: %+v", v)
		}
	}
	if v := f.g.Decide(t.Context(), in(false)); !v.Allowed || v.Lease == "" {
		t.Fatalf("first: %+v", v)
	}
	for range 3 {
		if v := f.g.Decide(t.Context(), in(false)); v.Allowed || v.Reason != "limit" || v.Lease != "" {
			t.Fatalf("over the limit: %+v", v)
		}
	}
	if got := f.active("ten_a"); got != 1 {
		t.Errorf("%d places are held", got)
	}
}

// A tenant's own number of places holds, "unlimited" is the word and counts
// nothing, and what cannot be read lifts nothing.
func TestConcurrency_R020_OverridesOfPlaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	held := func(o policy.Override) (n int, last decision) {
		o.Limit = "route:slots.concurrency"
		f.override("ten_a", o)
		var tokens []string
		for range 6 {
			_, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/slots/x"}`)
			if last = d; d.Allowed {
				n++
			}
			tokens = append(tokens, d.Lease)
		}
		for _, token := range tokens {
			if token != "" {
				f.after("/v1/release", lease(token))
			}
		}
		return n, last
	}
	three := int64(3)
	if n, last := held(policy.Override{Max: &three}); n != 3 || last.Reason != "concurrency" {
		t.Errorf("three places: %d, %+v", n, last)
	}
	if n, last := held(policy.Override{Rate: "0"}); n != 2 || last.Reason != "concurrency" {
		t.Errorf("an override that cannot be read: %d, %+v", n, last)
	}
	if n, last := held(policy.Override{Rate: "unlimited"}); n != 6 || last.Lease != "" {
		t.Errorf("no limit: %d, %+v", n, last)
	}
}

// override gives a tenant one override, as a change of its record does.
func (f *fixture) override(tenant string, list ...policy.Override) {
	f.directory.change(func(d *fakeDirectory) {
		r := d.tenants[tenant]
		r.Overrides = list
		d.tenants[tenant] = r
	})
	f.g.RecordChanged(policy.RecordTenant, tenant)
}
