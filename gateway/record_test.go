package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/limiter"
)

// loggingReporter is a fakeReporter that also takes the decision log.
type loggingReporter struct {
	*fakeReporter
	mu     sync.Mutex
	broken bool
	salt   []byte
	logged []*decisionlog.Batch
	sent   chan struct{}
}

func newLoggingReporter(f *fakeReporter) *loggingReporter {
	return &loggingReporter{fakeReporter: f, salt: bytes.Repeat([]byte{7}, 32), sent: make(chan struct{}, 100)}
}

func (l *loggingReporter) SendDecisions(_ context.Context, _ *decisionlog.Batch, body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return errors.New("away")
	}
	b, err := decisionlog.Decode(body)
	if err != nil {
		return err
	}
	l.logged = append(l.logged, b)
	select {
	case l.sent <- struct{}{}:
	default:
	}
	return nil
}

func (l *loggingReporter) DecisionSalt(context.Context) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return nil, errors.New("away")
	}
	return l.salt, nil
}

// recording makes a gateway keep a log of so many entries a second.
func recording(rate int64) func(*Config) {
	return func(c *Config) {
		c.Reporter, c.DecisionLogRate = newLoggingReporter(c.Reporter.(*fakeReporter)), rate
	}
}

// logOf cuts the log and returns its entries, in the order of the store.
func (f *fixture) logOf() (entries []decisionlog.Entry) {
	f.t.Helper()
	var unjudged int64
	for _, b := range f.g.recorder.log.Cut(f.clock()) {
		body, err := decisionlog.Encode(&b)
		if err != nil {
			f.t.Fatal(err)
		}
		back, err := decisionlog.Decode(body)
		if err != nil {
			f.t.Fatal(err)
		}
		entries, unjudged = append(entries, back.Entries...), unjudged+back.Unjudged
	}
	f.t.Logf("%d entries, %d not judged", len(entries), unjudged)
	return entries
}

func TestRecord_SaysWhatAReplayNeedsOfADecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil, recording(1000))
	key := f.key("ten_a", "free")
	for range 3 { // two may pass, and the third is refused
		f.do("GET", "http://api.example/search/x%20y?q=secret", append(bearer(key), "X-Client", "phone 7", "Peer", "10.0.0.1:1", "X-Forwarded-For", "198.51.100.7")...)
	}
	entries := f.logOf()
	if len(entries) != 3 {
		t.Fatalf("%d entries, want 3", len(entries))
	}
	at := f.clock().UnixMicro()
	for i, e := range entries {
		want := decisionlog.Entry{
			Kind: decisionlog.KindDecision, At: at, Seq: int64(i + 1), Tenant: "ten_a", Credential: "crd_ten_a", IP: "198.51.100.7", Method: "GET",
			Host: "api.example", Path: "/search/x y", Route: "search", Policy: 42, Cost: 1, Hits: 1, Allowed: true, Reason: "admitted", Values: e.Values,
		}
		if i == 2 {
			want.Allowed, want.Reason, want.Limit, want.Wait = false, "limit", "route:search.per-client", 30_000_000
			want.Cached, want.Order = true, afterAll // the second one told that the bucket is empty
		}
		want.Path = e.Path // canonical, whatever its spelling
		if fmt.Sprint(e) != fmt.Sprint(want) {
			t.Errorf("entry %d is\n%+v, want\n%+v", i, e, want)
		}
		if v := e.Values["header:X-Client"]; len(e.Values) != 1 || len(v) != 12 {
			t.Errorf("values are %q", e.Values)
		}
	}
	raw, _ := decisionlog.Encode(&decisionlog.Batch{Entries: entries})
	for _, secret := range []string{key, "phone 7", "secret"} {
		if text := fmt.Sprint(entries); strings.Contains(text, secret) || bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

func TestRecord_RefusalsThatAreRememberedAreNeverLaterThanTheStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil, recording(1000))
	for range 3 {
		f.do("GET", "/me/x", "X-User-Id", "anna@example.com", "Peer", "10.0.0.1:1")
	}
	f.advance(300 * time.Millisecond)
	f.do("GET", "/me/x", "X-User-Id", "anna@example.com", "Peer", "10.0.0.1:1")
	entries := f.logOf()
	if len(entries) != 4 || entries[1].Cached || !entries[2].Cached || !entries[3].Cached {
		t.Fatalf("entries are %+v", entries)
	}
	emptied := entries[1].At
	if e := entries[2]; e.At != emptied || e.Order <= entries[1].Order || e.Limit != "route:mine.per-user" {
		t.Errorf("a remembered refusal is %+v, after %+v", e, entries[1])
	}
	if e := entries[3]; e.At != emptied+300_000 || e.Wait != 29_700_000 {
		t.Errorf("0.3 s later it is %+v", e)
	}
	if e := entries[0]; !e.ByUser || len(e.User) != 12 || e.Subject() != "user:"+e.User {
		t.Errorf("the user is %q, the subject %q", e.User, e.Subject())
	}
}

// TestRecord_ValuesOfTheBodyAreHashedAlikeOnAllReplicas, and missing and unreadable ones
// are told apart.
func TestRecord_ValuesOfTheBodyAreHashedAlikeOnAllReplicas(t *testing.T) {
	t.Parallel()
	var seen []string
	for range 2 {
		f := newFixture(t, widePolicy, nil, recording(1000))
		if !f.g.recorder.fetchSalt(t.Context(), f.g.cfg.Reporter.(DecisionReporter)) {
			t.Fatal("no salt")
		}
		for _, body := range []string{`{"username": "anna"}`, `{"username": "bob"}`, `{}`, `{"username": `} {
			r := httptest.NewRequest("POST", "/login", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.RemoteAddr = "192.0.2.1:1"
			f.g.ProxyHandler().ServeHTTP(httptest.NewRecorder(), r)
		}
		for _, e := range f.logOf() {
			seen = append(seen, e.Values["body:username"])
		}
	}
	if len(seen) != 8 || fmt.Sprint(seen[:4]) != fmt.Sprint(seen[4:]) {
		t.Fatalf("values are %q", seen)
	}
	if seen[0] == seen[1] || len(seen[0]) != 12 || seen[2] != "" || seen[3] != decisionlog.Unreadable {
		t.Fatalf("values are %q", seen[:4])
	}
}

// TestRecord_EndsAndCostsFindTheirDecision, at doors that see the end and at those that
// give a token, on whichever replica it comes back.
func TestRecord_EndsAndCostsFindTheirDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, http.HandlerFunc(llm), recording(1000))
	key := f.key("ten_a", "free")
	f.do("GET", "/slots/x", bearer(key)...)
	f.do("POST", "/llm", append(bearer(key), "Cost", "70")...)
	f.do("POST", "/llm", append(bearer(key), "Cost", "50")...)
	v := f.g.Decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/slots/x", Tenant: "ten_a", Header: http.Header{}})
	f.directory.change(func(d *fakeDirectory) { r := d.tenants["ten_a"]; r.ID = "ten_b"; d.tenants["ten_b"] = r })
	w := f.g.Decide(t.Context(), &Inbound{Method: "POST", EscapedPath: "/llm", Tenant: "ten_b", Header: http.Header{}})
	exact := f.g.Decide(t.Context(), &Inbound{Method: "POST", EscapedPath: "/llm", Tenant: "ten_b", Header: http.Header{}})
	if err := f.g.Settle(t.Context(), exact.Lease, 50); err != nil {
		t.Fatal(err)
	}
	f.advance(time.Second)
	if err := errors.Join(f.g.Release(t.Context(), v.Lease), f.g.Settle(t.Context(), w.Lease, 9), f.g.Settle(t.Context(), w.Lease, 9)); err != nil {
		t.Fatal(err)
	}
	decided := map[uint64]decisionlog.Entry{}
	var after []decisionlog.Entry
	for _, e := range f.logOf() {
		switch {
		case e.Kind != decisionlog.KindDecision:
			after = append(after, e)
		case e.Ref != 0:
			decided[e.Ref] = e
		}
	}
	want := []struct {
		kind    decisionlog.Kind
		path    string
		tenant  string
		cost    int64
		renewed bool
		later   int64
	}{
		{decisionlog.KindEnd, "/slots/x", "ten_a", 0, true, 0}, {decisionlog.KindSettle, "/llm", "ten_a", 70, true, 0},
		{decisionlog.KindSettle, "/llm", "ten_b", 50, false, 1}, // as reserved: the store was not asked, and it comes after its decision
		{decisionlog.KindEnd, "/slots/x", "ten_a", 0, false, 1_000_000}, {decisionlog.KindSettle, "/llm", "ten_b", 9, false, 1_000_000},
		{decisionlog.KindSettle, "/llm", "ten_b", 9, false, 1_000_000}, // this store does not tell that it knew
	}
	if len(after) != len(want) {
		t.Fatalf("what came of them: %+v", after)
	}
	for i, e := range after {
		d := decided[e.Ref]
		if e.Kind != want[i].kind || e.Cost != want[i].cost || d.Path != want[i].path || d.Tenant != want[i].tenant || d.Renewed != want[i].renewed || e.At-d.At != want[i].later {
			t.Errorf("%d: %+v of %+v, want %+v", i, e, d, want[i])
		}
	}
}

func TestRecord_WithoutTheStoreEverythingIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, recording(2)) // the sample is full at once
	key := f.key("ten_a", "big")
	for range 40 {
		f.do("GET", "/api/x", bearer(key)...)
	}
	f.logOf()
	f.store.fail(true)
	f.do("GET", "/api/x", bearer(key)...)
	f.do("POST", "/login")
	entries := f.logOf()
	if len(entries) != 2 {
		t.Fatalf("entries are %+v", entries)
	}
	for i, want := range []limiter.Reason{limiter.ReasonOpen, limiter.ReasonClosed} {
		if e := entries[i]; !e.Degraded || e.Reason != string(want) || e.Allowed != (want == limiter.ReasonOpen) {
			t.Errorf("%+v, want %s", e, want)
		}
	}
}

// TestRecord_OnlyWhatWasChargedIsInTheLog: looks and preflights leave no trace, what no
// limiter saw is counted, and a caller that left was charged.
func TestRecord_OnlyWhatWasChargedIsInTheLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, recording(1000))
	key := f.key("ten_a", "none")
	f.do("GET", "/nowhere")
	f.do("GET", "/api/x")
	f.do("OPTIONS", "/api/x", "Origin", "https://a.example", "Access-Control-Request-Method", "GET")
	f.g.decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/public/x", Peer: netip.MustParseAddr("192.0.2.1"), Peek: true, Header: http.Header{}})
	gone, leave := context.WithCancel(t.Context())
	leave()
	f.g.decide(gone, &Inbound{Method: "GET", EscapedPath: "/public/x", Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{}})
	f.do("GET", "/api/x", bearer(key)...)
	cut := f.g.recorder.log.Cut(f.clock())
	if len(cut) != 1 || cut[0].Unjudged != 2 || len(cut[0].Entries) != 2 {
		t.Fatalf("log is %+v", cut)
	}
	if e := cut[0].Entries[0]; !e.Allowed || e.Path != "/public/x" || e.IP != "192.0.2.1" {
		t.Errorf("the caller that left is %+v", e)
	}
	if e := cut[0].Entries[1]; e.Reason != string(limiter.ReasonBlocked) || e.Limit != "plan.requests" || e.At != f.clock().UnixMicro() {
		t.Errorf("a plan that admits nothing is %+v", e)
	}
}

func TestRecord_ASampleHoldsSubjectsWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, recording(50))
	asked := map[string]int{}
	logged := map[string]int{}
	smallest := decisionlog.Whole
	for range 20 {
		for i := range 400 {
			tenant := fmt.Sprintf("ten_%d", i%40)
			if asked[tenant] == 0 {
				f.key(tenant, "big")
			}
			asked[tenant]++
			f.g.decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/api/x", Tenant: tenant, Header: http.Header{}})
		}
		f.advance(time.Second)
		for _, b := range f.g.recorder.log.Cut(f.clock()) {
			smallest = min(smallest, b.Sample)
			for _, e := range b.Entries {
				logged[e.Tenant]++
			}
		}
	}
	for tenant, n := range asked {
		if decisionlog.Bucket(tenant) < smallest && logged[tenant] != n {
			t.Errorf("%s is in the sample of %d and logged %d of %d times", tenant, smallest, logged[tenant], n)
		}
	}
	if smallest == decisionlog.Whole {
		t.Error("nothing was left out")
	}
	if share := counter(t, f.g, "headgate_decision_log_share"); share <= 0 || share >= 1 {
		t.Errorf("the share is told as %v", share)
	}
}

// TestRecord_BatchesWaitWhileRedisIsAway, within a bound, and the last ones are sent
// when the gateway ends.
func TestRecord_BatchesWaitWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, recording(1000))
	to := f.g.cfg.Reporter.(*loggingReporter)
	to.broken = true
	ask := func() { f.do("GET", "/public/x") }
	var waiting cargo
	for range 3 {
		ask()
		f.g.shipDecisions(t.Context(), to, &waiting)
	}
	if len(waiting.batches) != 3 || len(to.logged) != 0 {
		t.Fatalf("%d batches wait, %d were sent", len(waiting.batches), len(to.logged))
	}
	waiting.bytes += waitingDecisions - waiting.bytes // as if they were large
	ask()
	f.g.shipDecisions(t.Context(), to, &waiting)
	to.broken = false
	f.g.shipDecisions(t.Context(), to, &waiting)
	if len(waiting.batches) != 0 || len(to.logged) == 0 {
		t.Fatalf("%d batches wait, %d were sent", len(waiting.batches), len(to.logged))
	}
	got, dropped := int64(0), int64(0)
	for _, b := range to.logged {
		got, dropped = got+int64(len(b.Entries)), dropped+b.Dropped
	}
	if got+dropped != 4 || dropped == 0 {
		t.Fatalf("%d entries arrived and %d are told to be lost, of 4", got, dropped)
	}
	if lost := counter(t, f.g, "headgate_decisions_unlogged_total"); int64(lost) != dropped {
		t.Errorf("%v are told to be lost, want %d", lost, dropped)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.g.decisionLoop(ctx) }()
	for range 10 {
		ask()
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	more := int64(0)
	for _, b := range to.logged {
		more += int64(len(b.Entries))
	}
	if more != got+10 {
		t.Fatalf("%d entries arrived by the end, want %d", more, got+10)
	}
}

func TestRecord_WithoutARateOrACarrierThereIsNoLog(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no rate": recording(0), "nobody carries it": func(c *Config) { c.DecisionLogRate = 5 },
	} {
		f := newFixture(t, testPolicy, nil, change)
		if f.do("GET", "/public/x"); f.g.recorder != nil {
			t.Errorf("%s: there is a log", name)
		}
	}
	bad := Config{DecisionLogRate: -1}
	told := ""
	bad.Problems(func(setting, format string, args ...any) {
		if setting == "--decision-log-rate" {
			told = fmt.Sprintf(format, args...)
		}
	})
	if told != "-1 is not between 0 and 1000000" {
		t.Errorf("a rate of -1: %q", told)
	}
}

// BenchmarkRecord measures what the log adds to a decision: of a subject in the sample,
// and of one that is not.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name  string
		rate  int64
		warm  int
		wants bool
	}{{"sampled", 1_000_000, 0, true}, {"left out", 2, 100_000, false}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFixture(b, testPolicy, nil, recording(c.rate))
			key := f.key("ten_big", "big")
			in := Inbound{
				Method: "GET", Host: "api.example", EscapedPath: "/api/x", Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"Authorization": {"Bearer " + key}},
			}
			v := f.g.decide(b.Context(), &in)
			for i := range c.warm {
				if subject := fmt.Sprintf("ten_%d", i); f.g.recorder.log.Sampled(subject) {
					f.g.recorder.log.Add(&decisionlog.Entry{Tenant: subject}, false)
				}
			}
			if f.g.recorder.log.Sampled("ten_big") != c.wants {
				b.Fatal("it is not what the benchmark is about")
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%4000 == 0 && c.wants {
					f.g.recorder.log.Cut(f.clock())
				}
				f.g.record(&in, &v)
			}
		})
	}
}
