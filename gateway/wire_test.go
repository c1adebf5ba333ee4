package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// rateLimitFields are the fields that tell limits.
func rateLimitFields() []string {
	return []string{
		"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	}
}

// TestGateway_A12_AnotherSpellingOfTheMethodMeetsTheSameLimit: upstreams that fold
// the case of methods must not serve what was counted as something else.
func TestGateway_A12_AnotherSpellingOfTheMethodMeetsTheSameLimit(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 20)
	f := newFixture(t, testPolicy, recorded(seen))
	admitted := 0
	for _, method := range []string{"POST", "post", "Post", "pOST", "POST", "post", "Post"} {
		if f.do(method, "/login").StatusCode == http.StatusOK {
			admitted++
			if r := <-seen; r.Method != "POST" {
				t.Errorf("%s was forwarded as %s", method, r.Method)
			}
		}
	}
	if admitted != 5 {
		t.Errorf("%d admitted, want the burst of 5", admitted)
	}
}

func TestGateway_A12_WhatIsNoMethodIsRefusedAtTheDecisionsDoor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "big")
	for _, method := range []string{"GET ", "G\nT", "G\x00T", "CONNECT", "ＧET", strings.Repeat("A", 65)} {
		question, err := json.Marshal(map[string]string{"key": key, "method": method, "path": "/api/x"})
		if err != nil {
			t.Fatal(err)
		}
		_, d, _ := f.ask(string(question))
		if d.Allowed || d.Code != CodeBadRequest {
			t.Errorf("%q: %+v", method, d)
		}
	}
	if _, d, _ := f.ask(fmt.Sprintf(`{"key":%q,"method":"get","path":"/v1/reports/1"}`, key)); d.Route != "report" {
		t.Errorf("get is decided as %q, want the route of GET", d.Route)
	}
}

// TestGateway_A12_AHostThatCanBeReadInTwoWaysIsRefused: an upstream that finds the
// name of a limited host where no route's host was found serves it past the limit.
func TestGateway_A12_AHostThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "big")
	for host, status := range map[string]int{
		"": 200, "api.example": 200, "API.example.:443": 200, "a_b-c": 200, "a:": 200, "192.0.2.1:80": 200, "[2001:db8::1]": 200, "[::1]:80": 200,
		"a:80:80": 400, "a:b": 400, "a..": 400, ".a": 400, "a, b": 400, "a%2eb": 400, "a/b": 400, "u@a": 400, "::1": 400, "[::1": 400, "[::1]80": 400, "[1.2.3.4]": 400, "é": 400,
	} {
		if _, d, _ := f.ask(fmt.Sprintf(`{"key":%q,"method":"GET","path":"/api/x","host":%q}`, key, host)); d.Status != status {
			t.Errorf("%q: %d %s, want %d", host, d.Status, d.Code, status)
		}
	}
}

// TestGateway_B3_ABodyThatBreaksOffIsToldSo: its caller may have shut down its side
// alone, and a 499 means nothing to it.
func TestGateway_B3_ABodyThatBreaksOffIsToldSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	conn, err := net.Dial("tcp", f.live().Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"user")
	_ = conn.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // it was dialled as one
	answer, _ := io.ReadAll(conn)
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) || !bytes.Contains(answer, []byte("bad-request")) {
		t.Errorf("answer %.200q", answer)
	}
}

// TestGateway_A13_NoTunnelForRequestsThatNobodyCounts: whoever can make the upstream
// speak HTTP/2 or TLS inside the connection sends it requests past the limiter.
func TestGateway_A13_NoTunnelForRequestsThatNobodyCounts(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	f := newFixture(t, testPolicy, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	key := f.key("ten_a", "big")
	s := f.live()
	for _, upgrade := range []string{"h2c", "H2C", "websocket, h2c", "TLS/1.2", "HTTP/2.0", "websocket\r\nUpgrade: h2c"} {
		answer := raw(t, s, "GET /api/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+
			"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "+upgrade+"\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "Connection: close") {
			t.Errorf("Upgrade: %s: %.80q", upgrade, answer)
		}
	}
	for _, target := range []string{"/api/x", "x:443"} {
		answer := raw(t, s, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+"\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("CONNECT %s: %.80q", target, answer)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// TestGateway_A13_APreflightIsNoFreeTunnel: preflights are free, so they must not
// open a connection that lasts.
func TestGateway_A13_APreflightIsNoFreeTunnel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "GET"}
	if res := f.do("OPTIONS", "/api/x", preflight...); res.StatusCode != http.StatusNoContent {
		t.Errorf("preflight: %d", res.StatusCode)
	}
	res := f.do("OPTIONS", "/api/x", append(preflight, "Connection", "Upgrade", "Upgrade", "websocket")...)
	wantRefusal(t, res, 401, CodeMissingCredential)
}

// TestGateway_B3_ARefusalIsAnsweredThoughItsBodyNeverComes: neither the answer nor
// the connection may wait for a body that nobody reads.
func TestGateway_B3_ARefusalIsAnsweredThoughItsBodyNeverComes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	decisions := httptest.NewServer(f.g.DecideHandler())
	t.Cleanup(decisions.Close)
	for name, c := range map[string]struct {
		server *httptest.Server
		head   string
	}{
		"length":    {f.live(), "POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"},
		"chunked":   {f.live(), "POST /api/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"},
		"check":     {decisions, "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"},
		"decide":    {decisions, "POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"},
		"elsewhere": {decisions, "POST /v1/none HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", c.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(3 * refusedBodyTime))
			if _, err := io.WriteString(conn, c.head); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn) // to the end of the connection
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("%.60q, %v", answer, err)
			}
		})
	}
}

// TestGateway_B3_ARefusalWithAWholeBodyKeepsTheConnection and leaves nothing of the
// body to be read as a request.
func TestGateway_B3_ARefusalWithAWholeBodyKeepsTheConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	conn, err := net.Dial("tcp", f.live().Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(3 * refusedBodyTime))
	r := bufio.NewReader(conn)
	for range 3 {
		if _, err := io.WriteString(conn, "POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized || res.Close {
			t.Fatalf("%d, closes: %t", res.StatusCode, res.Close)
		}
	}
}

// TestGateway_R064_TwoSpellingsOfAHeaderAreTwoLines: which of two keys counts must
// not depend on the order of a map.
func TestGateway_R064_TwoSpellingsOfAHeaderAreTwoLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	a, b := f.key("ten_a", "big"), f.key("ten_b", "big")
	for range 20 {
		_, d, _ := f.ask(fmt.Sprintf(`{"method":"GET","path":"/api/x","headers":{"X-API-Key":%q,"x-api-key":%q}}`, a, b))
		if d.Allowed || d.Code != CodeAmbiguousCredential {
			t.Fatalf("%+v", d)
		}
	}
}

// TestGateway_R064_NoSecondKeyReachesTheUpstreamByUnderscores.
func TestGateway_R064_NoSecondKeyReachesTheUpstreamByUnderscores(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	f := newFixture(t, testPolicy, recorded(seen))
	a, b := f.key("ten_a", "big"), f.key("ten_b", "big")
	f.do("GET", "/api/x", "X-API-Key", a, "X_API_Key", b, "X_Api-Key", b, "X_Other", "kept")
	h := (<-seen).Header
	for name, values := range h {
		if strings.Contains(strings.Join(values, " "), b) {
			t.Errorf("%s carries a key that nobody checked", name)
		}
	}
	if h.Get("X-API-Key") != a || h.Get("X_Other") != "kept" {
		t.Errorf("forwarded %v", h)
	}
}

// TestGateway_R081_AFragmentIsNoPath: the proxy in front may forward what stands
// behind the # as path.
func TestGateway_R081_AFragmentIsNoPath(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "big")
	if status, _, p := f.ask(fmt.Sprintf(`{"key":%q,"method":"GET","path":"/api/x#/../../v1/reports/1"}`, key)); status != 400 || p.Code != CodeBadRequest {
		t.Errorf("decide: %d %s", status, p.Code)
	}
	res := f.check("", "X-Original-Method", "GET", "X-Original-URI", "/api/x#/../../v1/reports/1", "X-API-Key", key)
	wantRefusal(t, res, 400, CodeBadRequest)
}

// TestGateway_A15_NoCostAboveWhatAnyLimitCanHold keeps sums of costs in range.
func TestGateway_A15_NoCostAboveWhatAnyLimitCanHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	for _, cost := range []string{"281474976710656", "9007199254740993", "9223372036854775807", "9223372036854775808"} {
		if status, _, p := f.ask(fmt.Sprintf(`{"method":"GET","path":"/public/x","cost":%s}`, cost)); status != 400 || p.Code != CodeBadCost {
			t.Errorf("cost %s: %d %s", cost, status, p.Code)
		}
	}
}

// TestGateway_H08_NoLimitOfAnUpstreamIsPassedOn, whatever it is called.
func TestGateway_H08_NoLimitOfAnUpstreamIsPassedOn(t *testing.T) {
	t.Parallel()
	names := []string{"RateLimit-Used", "X-RateLimit-Used", "X-RateLimit-Limit-Minute", "X-RateLimit-Resource", "X-Ratelimit-Reset-After"}
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range names {
			w.Header().Set(name, "5")
		}
	}))
	res := f.do("GET", "/api/x", bearer(f.key("ten_a", "big"))...)
	for _, name := range names {
		if v := res.Header.Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// slowDirectory answers when all of a crowd have asked.
type slowDirectory struct {
	*fakeDirectory
	crowd *sync.WaitGroup
}

func (d slowDirectory) Key(_ context.Context, _ string) (policy.KeyRecord, error) {
	d.crowd.Done()
	d.crowd.Wait()
	return policy.KeyRecord{}, feed.ErrUnknown
}

// TestGateway_R062_ACrowdOfBadKeysAtOnceLearnsNoMore: the limit on refused keys holds
// for what is under way together, too.
func TestGateway_R062_ACrowdOfBadKeysAtOnceLearnsNoMore(t *testing.T) {
	t.Parallel()
	const crowd = 100
	var all, callers sync.WaitGroup
	all.Add(crowd)
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.Directory = slowDirectory{c.Directory.(*fakeDirectory), &all} })
	var unauthorized, refused atomic.Int64
	for range crowd {
		key := unknownKey(t)
		callers.Go(func() {
			switch f.do("GET", "/api/x", bearer(key)...).StatusCode {
			case http.StatusUnauthorized:
				unauthorized.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	callers.Wait()
	if unauthorized.Load() != 30 || refused.Load() != crowd-30 {
		t.Errorf("%d × 401 and %d × 429, want 30 and %d", unauthorized.Load(), refused.Load(), crowd-30)
	}
}

// TestGateway_R082_NoTrailerSpeaksAsUs: some upstreams merge trailers into headers.
func TestGateway_R082_NoTrailerSpeaksAsUs(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	f := newFixture(t, testPolicy, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r
	}))
	key := f.key("ten_a", "big")
	answer := raw(t, f.live(), "POST /api/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+key+
		"\r\nTransfer-Encoding: chunked\r\nTrailer: X-Headgate-Tenant, X-Forwarded-For, X-Sum\r\n\r\n"+
		"1\r\na\r\n0\r\nX-Headgate-Tenant: evil\r\nX-Forwarded-For: 6.6.6.6\r\nX-Sum: 7\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Fatalf("%.80q", answer)
	}
	r := <-seen
	for _, name := range []string{"X-Headgate-Tenant", "X-Forwarded-For"} {
		if _, announced := r.Trailer[name]; announced {
			t.Errorf("trailer %s: %q", name, r.Trailer.Values(name))
		}
	}
	if sum := r.Trailer.Get("X-Sum"); sum != "7" {
		t.Errorf("trailer X-Sum is %q, want what the caller sent", sum)
	}
}

// TestGateway_H08_NorInAnEarlyAnswer: 103 passes on without what only we may say.
func TestGateway_H08_NorInAnEarlyAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.Header().Set("X-Headgate-Tenant", "forged")
		w.Header().Set("RateLimit-Limit", "31337")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}))
	answer := raw(t, f.live(), "GET /api/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+f.key("ten_a", "big")+"\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 103 ") || !strings.Contains(answer, "Link:") || !strings.Contains(answer, "HTTP/1.1 200 ") {
		t.Fatalf("%q", answer)
	}
	if strings.Contains(answer, "forged") || strings.Contains(answer, "31337") {
		t.Errorf("%q", answer)
	}
}
