package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

// spooled gives a gateway a spool in a folder of its own.
func spooled(t testing.TB, dir string, limit int64) func(*Config) {
	return func(c *Config) {
		c.Identity.Boot = "b1"
		s, err := spool.Open(spool.Options{Dir: dir, Replica: c.Identity.ID, Boot: c.Identity.Boot, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		c.Spool = s
	}
}

// eventsIn sums what the events of a spool say, by "route tenant outcome".
func eventsIn(t testing.TB, s *spool.Spool) map[string][2]int64 {
	t.Helper()
	out := map[string][2]int64{}
	for _, w := range s.Waiting() {
		body, err := s.Body(w)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ledger.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			k := strings.Join([]string{e.Route, e.Tenant, string(e.Outcome)}, " ")
			out[k] = [2]int64{out[k][0] + e.Requests, out[k][1] + e.Cost}
		}
	}
	return out
}

// afterKill is what would come into the ledger if the gateway were killed now.
func afterKill(t testing.TB, dir string) map[string][2]int64 {
	t.Helper()
	to := t.TempDir()
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := spool.Open(spool.Options{Dir: to, Replica: "gw_aaaaaaaaaaaaaaaa", Boot: "b2"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	return eventsIn(t, s)
}

// firstByte looks when anything is about to reach the caller.
type firstByte struct {
	http.ResponseWriter
	look func(status int)
}

func (w *firstByte) WriteHeader(status int) {
	w.look(status)
	w.ResponseWriter.WriteHeader(status)
}

// TestLedger_U01_IntentBeforeForwardingOutcomeBeforeTheFirstByte looks at the disk at
// these very moments, whatever the upstream does.
func TestLedger_U01_IntentBeforeForwardingOutcomeBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers  http.HandlerFunc
		statuses []int
	}{
		"an answer":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, []int{204}},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, []int{500}},
		"no answer":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []int{502}},
		"early hint": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(200) }, []int{103, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var mu sync.Mutex
			var atUpstream, atCaller []string
			f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				atUpstream = append(atUpstream, fmt.Sprint(afterKill(t, dir)))
				mu.Unlock()
				c.answers(w, r)
			}), spooled(t, dir, 0))
			r := httptest.NewRequest("GET", "/v1/reports/1", nil)
			r.Header.Set("Authorization", "Bearer "+f.key("ten_a", "free"))
			var statuses []int
			f.g.ProxyHandler().ServeHTTP(&firstByte{httptest.NewRecorder(), func(status int) {
				statuses = append(statuses, status)
				atCaller = append(atCaller, fmt.Sprint(afterKill(t, dir)))
			}}, r)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(statuses, c.statuses) {
				t.Errorf("statuses are %v, want %v", statuses, c.statuses)
			}
			for _, seen := range atUpstream {
				if seen != "map[report ten_a interrupted:[1 5]]" {
					t.Errorf("when the upstream has the request, the disk says %s", seen)
				}
			}
			for _, seen := range atCaller {
				if seen != "map[report ten_a admitted:[1 5]]" {
					t.Errorf("when the caller gets something, the disk says %s", seen)
				}
			}
			if len(atUpstream) == 0 || len(atCaller) == 0 {
				t.Error("nobody looked")
			}
		})
	}
}

func TestLedger_ACallerThatLeavesWhileTheUpstreamWorksIsCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, leave := context.WithCancel(t.Context())
	f := newFixture(t, testPolicy, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	}), spooled(t, dir, 0))
	r := httptest.NewRequestWithContext(ctx, "GET", "/v1/reports/1", nil)
	r.Header.Set("Authorization", "Bearer "+f.key("ten_a", "free"))
	f.g.ProxyHandler().ServeHTTP(httptest.NewRecorder(), r)
	if got := fmt.Sprint(afterKill(t, dir)); got != "map[report ten_a admitted:[1 5]]" {
		t.Fatalf("the disk says %s", got)
	}
}

func TestLedger_ACopyThatPanicsIsCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), spooled(t, dir, 0))
	s := f.live()
	defer s.Close()
	raw(t, s, "GET /v1/reports/1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.key("ten_a", "free")+"\r\nConnection: close\r\n\r\n")
	if got := fmt.Sprint(afterKill(t, dir)); got != "map[report ten_a admitted:[1 5]]" {
		t.Fatalf("the disk says %s", got)
	}
}

// TestLedger_DoorsThatNeverSeeTheEndNoteBeforeTheyAnswer covers forward-auth and JSON;
// package envoy covers its own.
func TestLedger_DoorsThatNeverSeeTheEndNoteBeforeTheyAnswer(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(f *fixture, key string, w http.ResponseWriter){
		"forward-auth": func(f *fixture, key string, w http.ResponseWriter) {
			r := httptest.NewRequest("GET", "/v1/check", nil)
			r.RemoteAddr = "127.0.0.1:4711"
			for _, h := range [][2]string{{"X-Forwarded-Method", "GET"}, {"X-Forwarded-Uri", "/v1/reports/1"}, {"Authorization", "Bearer " + key}} {
				r.Header.Set(h[0], h[1])
			}
			f.g.DecideHandler().ServeHTTP(w, r)
		},
		"decide": func(f *fixture, key string, w http.ResponseWriter) {
			r := httptest.NewRequest("POST", "/v1/decide", strings.NewReader(`{"key":"`+key+`","method":"GET","path":"/v1/reports/1"}`))
			r.RemoteAddr = "127.0.0.1:4711"
			f.g.DecideHandler().ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := newFixture(t, testPolicy, nil, spooled(t, dir, 0))
			key, looked := f.key("ten_a", "free"), 0
			ask(f, key, &firstByte{httptest.NewRecorder(), func(int) {
				looked++
				if got := fmt.Sprint(afterKill(t, dir)); got != "map[report ten_a admitted:[1 5]]" {
					t.Errorf("before it is answered, the disk says %s", got)
				}
			}})
			if looked != 1 {
				t.Fatalf("answered %d times", looked)
			}
		})
	}
}

// TestLedger_I07_EventsMetricsAndCallersAgree sends requests of all kinds: each is
// received once, has one class, and is in one event.
func TestLedger_I07_EventsMetricsAndCallersAgree(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, spooled(t, t.TempDir(), 0))
	key, none := f.key("ten_a", "free"), f.key("ten_none", "none")
	sent := int64(0)
	send := func(n int, want int, method, target string, headers ...string) {
		t.Helper()
		for range n {
			sent++
			if res := f.do(method, target, headers...); res.StatusCode != want {
				t.Fatalf("%s %s is %d, want %d", method, target, res.StatusCode, want)
			}
		}
	}
	send(2, 204, "GET", "/v1/reports/1", bearer(key)...)
	send(3, 429, "GET", "/v1/reports/1", bearer(key)...)
	send(4, 204, "GET", "/api/x", bearer(key)...)
	send(2, 429, "GET", "/api/x", bearer(none)...)
	send(3, 401, "GET", "/api/x", bearer(unknownKey(t))...)
	send(2, 404, "GET", "/nowhere")
	send(5, 204, "GET", "/public/x")
	send(1, 429, "GET", "/public/x")
	send(1, 204, "OPTIONS", "/api/x", "Origin", "https://a.example", "Access-Control-Request-Method", "GET")
	f.store.fail(true)
	send(2, 204, "GET", "/public/x", "Peer", "192.0.2.9:1")
	send(3, 503, "POST", "/login")
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, "GET", "/api/x", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	f.g.ProxyHandler().ServeHTTP(httptest.NewRecorder(), r)
	sent++

	if err := f.g.cfg.Spool.Finish(); err != nil {
		t.Fatal(err)
	}
	got := eventsIn(t, f.g.cfg.Spool)
	want := map[string][2]int64{
		"report ten_a admitted": {2, 10}, "report ten_a limited": {3, 0}, "rest ten_a admitted": {4, 4}, "rest ten_none blocked": {2, 0},
		"rest  unauthorized": {3, 0}, "  no-route": {2, 0}, "public  admitted": {5, 5}, "public  limited": {1, 0}, "rest  admitted": {1, 0},
		"public  fallback-admitted": {2, 2}, "login  closed": {3, 0}, "rest ten_a aborted": {1, 0},
	}
	if !maps.Equal(got, want) {
		t.Errorf("events say\n%v\nwant\n%v", got, want)
	}
	var events int64
	for _, v := range got {
		events += v[0]
	}
	received, classes := counter(t, f.g, "headgate_received_total"), counter(t, f.g, "headgate_decisions_total")
	if events != sent || received != float64(sent) || classes != float64(sent) {
		t.Errorf("sent %d, received %v, of a class %v, in events %d", sent, received, classes, events)
	}
	var sum float64
	for _, class := range []Class{ClassAdmitted, ClassRejected, ClassFailOpen, ClassFailClosed, ClassInvalid, ClassAborted} {
		sum += counter(t, f.g, "headgate_decisions_total", string(class))
	}
	if sum != received {
		t.Errorf("classes add up to %v of %v", sum, received)
	}
}

func TestLedger_ALookLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, spooled(t, t.TempDir(), 0))
	f.key("ten_a", "free")
	f.g.Decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/api/x", Tenant: "ten_a", Peek: true, Header: http.Header{}})
	if err := f.g.cfg.Spool.Finish(); err != nil {
		t.Fatal(err)
	}
	if got := eventsIn(t, f.g.cfg.Spool); len(got) != 0 {
		t.Fatalf("events say %v", got)
	}
}

const settledPolicy = `
apiVersion: headgate/v1
credentials: {headers: [{name: Authorization, scheme: Bearer}]}
plans: {free: {limits: [{name: requests, per: tenant, rate: 10000/minute, burst: 10000}]}}
routes:
  - name: llm
    match: ["POST /llm"]
    identity: api_key
    motive: fairness
    cost: {reserve: 500, settle_header: X-Cost}
    limits: [{name: tokens, per: tenant, rate: 10000/minute, burst: 10000}]
    on_store_failure: {mode: closed}
`

// onceStore says, as Redis does, that it knows a settlement already.
type onceStore struct {
	limiter.Store
	known map[string]bool
}

func (s onceStore) AmendAt(ctx context.Context, id string, corrections []limiter.Amendment) (int64, error) {
	if id != "" && s.known[id] {
		return 0, nil
	}
	s.known[id] = true
	return 1, s.Amend(ctx, id, corrections)
}

func (s onceStore) ReleaseAt(ctx context.Context, leases []limiter.Lease) (int64, error) {
	return 1, s.Release(ctx, leases)
}

func TestLedger_SettlementsCorrectWhatWasNoted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settledPolicy, http.HandlerFunc(llm), spooled(t, t.TempDir(), 0), func(c *Config) {
		c.Store = onceStore{c.Store, map[string]bool{}}
	})
	key := f.key("ten_a", "free")
	for _, cost := range []string{"700", "100", "500"} {
		f.do("POST", "/llm", append(bearer(key), "Cost", cost)...)
	}
	f.do("POST", "/llm", append(bearer(key), "Cost", "650", "Want", "trailer")...)
	v := f.g.Decide(t.Context(), &Inbound{Method: "POST", EscapedPath: "/llm", Tenant: "ten_a", Header: http.Header{}})
	for range 3 { // it takes effect once
		if err := f.g.Settle(t.Context(), v.Lease, 510); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.g.cfg.Spool.Finish(); err != nil {
		t.Fatal(err)
	}
	got := eventsIn(t, f.g.cfg.Spool)
	if got["llm ten_a admitted"] != [2]int64{5, 2500} || got["llm ten_a settled"] != [2]int64{0, 200 - 400 + 150 + 10} {
		t.Fatalf("events say %v", got)
	}
}

const quotaMotive = `
apiVersion: headgate/v1
credentials: {headers: [{name: Authorization, scheme: Bearer}]}
plans: {free: {limits: [{name: requests, per: tenant, rate: 100/minute, burst: 100}]}}
routes:
  - name: billed
    match: ["GET /billed"]
    identity: api_key
    motive: quota
    on_store_failure: {mode: open, fallback: unlimited}
  - name: free
    match: ["GET /free"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: unlimited}
`

// TestLedger_U07_AFullSpoolClosesBilledRoutesAndCountsTheOthers also holds that a billed
// request which is refused for it was not charged.
func TestLedger_U07_AFullSpoolClosesBilledRoutesAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, quotaMotive, nil, spooled(t, t.TempDir(), spool.MinLimit))
	key := f.key("ten_a", "free")
	s := f.g.cfg.Spool
	for !errors.Is(s.Note(&spool.Entry{Second: 1, Tenant: "ten_b", Route: strings.Repeat("r", 200)}, usage.OutcomeAdmitted), spool.ErrFull) {
	}
	asked := f.store.asked()
	p := wantRefusal(t, f.do("GET", "/billed", bearer(key)...), 503, CodeReducedCapacity)
	if p.Detail != unnotable || f.store.asked() != asked {
		t.Errorf("refused with %q after %d calls of the store", p.Detail, f.store.asked()-asked)
	}
	if res := f.do("GET", "/free", bearer(key)...); res.StatusCode != 204 {
		t.Errorf("a route that is not billed is %d", res.StatusCode)
	}
	if u := f.g.heartbeat(ratesOf(totals{}, totals{}, time.Second)).Usage; u == nil || !u.Full || u.Unnoted != 1 || u.SpoolLimit != spool.MinLimit {
		t.Errorf("the heartbeat says %+v", u)
	}
	if n := counter(t, f.g, "headgate_usage_unnoted_total"); n != 1 || counter(t, f.g, "headgate_spool_full") != 1 {
		t.Errorf("unnoted by the metrics: %v", n)
	}
	if n := counter(t, f.g, "headgate_decisions_total", "billed", string(ClassFailClosed)); n != 1 {
		t.Errorf("the refusal has another class")
	}
	// What is cut and committed makes room again.
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.Waiting() {
		s.Sent(w)
		s.Committed(w.Boot, w.Last)
	}
	if res := f.do("GET", "/billed", bearer(key)...); res.StatusCode != 204 {
		t.Errorf("with room again it is %d", res.StatusCode)
	}
}

func TestLedger_WithoutASpoolNothingChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, quotaMotive, nil)
	if res := f.do("GET", "/billed", bearer(f.key("ten_a", "free"))...); res.StatusCode != 204 {
		t.Errorf("status is %d", res.StatusCode)
	}
	if f.g.recordsUsage() || f.g.heartbeat(ratesOf(totals{}, totals{}, time.Second)).Usage != nil {
		t.Error("it says that it has a spool")
	}
}
