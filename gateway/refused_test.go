package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
)

// tellingReporter also carries whom limits refused.
type tellingReporter struct {
	*fakeReporter
	mu   sync.Mutex
	fail bool
	sent chan *usage.RefusedReport
}

func (r *tellingReporter) SendRefused(_ context.Context, replica string, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	report, err := usage.DecodeRefused(body)
	if err != nil || report.Replica != replica || r.fail {
		return errors.Join(err, errors.New("not taken"))
	}
	select {
	case r.sent <- report:
	default:
	}
	return nil
}

func newTelling(t *testing.T, source string) (*fixture, *tellingReporter) {
	t.Helper()
	var reporter *tellingReporter
	f := newFixture(t, source, nil, func(c *Config) {
		reporter = &tellingReporter{fakeReporter: c.Reporter.(*fakeReporter), sent: make(chan *usage.RefusedReport, 1)}
		c.Reporter = reporter
	})
	return f, reporter
}

// told is who was refused, by limit.
func (f *fixture) told() map[string][]usage.RefusedCount {
	out := map[string][]usage.RefusedCount{}
	for _, l := range f.g.refused.Report(f.clock().UnixMicro()).Limits {
		out[l.Limit] = l.Subjects
	}
	return out
}

func TestRefused_EachRefusalIsToldWithWhatIsNeededToLookItUp(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	key := f.key("ten_a", "free")
	for range 63 {
		f.do("GET", "/api/x", bearer(key)...)
	}
	for range 7 {
		f.do("POST", "/login")
	}
	blocked := f.key("ten_none", "none")
	f.do("GET", "/api/x", bearer(blocked)...)
	got := f.told()
	requests := got["plan.requests"]
	if len(requests) != 2 || requests[0].Count != 3 || requests[0].Row != (usage.RefusedRow{Kind: "t", Tenant: "ten_a"}) || requests[0].Part != "rate" ||
		requests[0].Cost != 1 || requests[0].Numbers != [3]int64{1, 1_000_000, 60} || requests[0].Until <= f.clock().UnixMicro() || requests[0].Route != "rest" {
		t.Errorf("plan: %+v", requests)
	}
	if len(requests) == 2 && (!requests[1].Blocked || requests[1].Row.Tenant != "ten_none" || requests[1].Until != 0) {
		t.Errorf("blocked: %+v", requests[1])
	}
	if login := got["route:login.per-ip"]; len(login) != 1 || login[0].Count != 2 || login[0].Row.Kind != "i" || login[0].Row.Subject == "" {
		t.Errorf("login: %+v", login)
	}
}

func TestRefused_AnswersFromTheDenyCacheCountAndPeeksDoNot(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	for range 5 {
		f.do("POST", "/login")
	}
	in := Inbound{Method: "POST", Host: "api.example", EscapedPath: "/login", Peer: netip.MustParseAddr("192.0.2.9"), Client: netip.MustParseAddr("192.0.2.1"), ClientKnown: true}
	cached := 0
	for range 3 {
		if v := f.g.Decide(context.Background(), &Inbound{Method: "POST", Host: "api.example", EscapedPath: "/login", Client: netip.MustParseAddr("192.0.2.1"), ClientKnown: true}); v.Cached {
			cached++
		}
	}
	in.Peek = true
	f.g.Decide(context.Background(), &in)
	if got := f.told()["route:login.per-ip"]; cached == 0 || len(got) != 1 || got[0].Count != 3 {
		t.Errorf("%d cached; told %+v", cached, got)
	}
}

func TestRefused_TooManyInvalidCredentialsAreTold(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	for range 35 {
		f.do("GET", "/api/x", bearer(unknownKey(t))...)
	}
	got := f.told()[invalidLimitID]
	if len(got) != 1 || got[0].Part != "credentials" || got[0].Row.Kind != "i" || got[0].Count < 4 || got[0].Until == 0 {
		t.Errorf("%+v", got)
	}
}

func TestRefused_WhatIsDecidedWithoutTheStoreConcernsNoLimit(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	f.store.fail(true)
	for range 20 {
		f.do("POST", "/login")
	}
	if got := f.told(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestRefused_AnUnlockedSubjectIsAskedForAnew: R-130. The cache of refusals knows better
// than to ask; the change in the directory has it ask.
func TestRefused_AnUnlockedSubjectIsAskedForAnew(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	ask := func() Verdict {
		return f.g.Decide(context.Background(), &Inbound{Method: "POST", Host: "api.example", EscapedPath: "/login", Client: netip.MustParseAddr("192.0.2.1"), ClientKnown: true})
	}
	for range 6 {
		ask()
	}
	if v := ask(); v.Allowed || !v.Cached {
		t.Fatalf("not refused from the cache: %+v", v)
	}
	row := limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	err := f.store.Amend(context.Background(), "", []limiter.Amendment{{Row: row, Hash: policy.LimitHash("route:login.per-ip"), Tokens: 5,
		Numbers: policy.Numbers{Tokens: 1, Period: 12_000_000, Burst: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := ask(); v.Allowed {
		t.Fatal("the cache was asked and let it through")
	}
	other := (limiter.DenyGroup(&row) + 1) % limiter.DenyGroups
	f.g.RecordChanged(feed.RecordRefusals, strconv.Itoa(other))
	if v := ask(); v.Allowed {
		t.Fatal("another group was forgotten, and this one with it")
	}
	f.g.RecordChanged(feed.RecordRefusals, strconv.Itoa(limiter.DenyGroup(&row)))
	if v := ask(); !v.Allowed {
		t.Errorf("still refused: %+v", v)
	}
}

func TestRefused_ForgottenRefusalsFreeAnAddressOfItsInvalidCredentials(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	last := 0
	for range 35 {
		last = f.do("GET", "/api/x", bearer(unknownKey(t))...).StatusCode
	}
	if last != http.StatusTooManyRequests {
		t.Fatalf("answered %d", last)
	}
	subject := string(f.told()[invalidLimitID][0].Row.Subject)
	f.g.RecordChanged(feed.RecordRefusals, strconv.Itoa(limiter.DenyGroup(&limiter.Row{Kind: limiter.RowIP, Subject: subject})))
	if got := f.do("GET", "/api/x", bearer(unknownKey(t))...).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("answered %d", got)
	}
}

func TestRefused_AChangeThatNobodyUnderstandsForgetsEverything(t *testing.T) {
	t.Parallel()
	f, _ := newTelling(t, testPolicy)
	f.g.invalid.charge("192.0.2.1", policy.InvalidLimit{Rate: policy.Rate{Tokens: 1, Period: time.Hour}, Burst: 1}, f.clock())
	f.g.RecordChanged(feed.RecordRefusals, "nonsense")
	if n := len(f.g.invalid.entries); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func TestRefused_LeasesAreNamedForTheReplicaAndTheSecond(t *testing.T) {
	t.Parallel()
	source := strings.Replace(testPolicy, "    limits: [{name: reports, per: tenant, rate: 10/minute, burst: 10}]\n",
		"    limits: [{name: reports, per: tenant, rate: 10/minute, burst: 10}]\n    concurrency: {per: tenant, max: 2, lease: 90s}\n", 1)
	f, _ := newTelling(t, source)
	key := f.key("ten_a", "free")
	v := f.g.Decide(context.Background(), &Inbound{Method: "GET", Host: "api.example", EscapedPath: "/v1/reports/1", Key: key, Client: netip.MustParseAddr("192.0.2.1"), ClientKnown: true, Ends: true})
	if !v.Allowed || len(v.leases) != 1 {
		t.Fatalf("%+v", v)
	}
	tag, second, ok := limiter.ReadLeaseName(v.leases[0].ID)
	if !ok || tag != limiter.LeaseTag(f.g.cfg.Identity.ID) || second > f.clock().Unix()+1 || second < f.clock().Unix()-5 {
		t.Errorf("%q: %s, %d, %t", v.leases[0].ID, tag, second, ok)
	}
}

func TestRefused_TheLoopTellsAndTellsAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	f, reporter := newTelling(t, testPolicy)
	for range 6 {
		f.do("POST", "/login")
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.g.refusedLoop(ctx) }()
	report := <-reporter.sent
	if len(report.Limits) != 1 || report.Limits[0].Limit != "route:login.per-ip" {
		t.Errorf("%+v", report)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
