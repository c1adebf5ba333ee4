package envoy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/gateway"
)

// directly makes one call without a transport.
func directly(ctx context.Context, s *rateLimits, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	c := s.calls.get()
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(pack(r))}, c); err != nil {
		return nil, err
	}
	if err := s.shouldRateLimit(ctx, c); err != nil {
		return nil, err
	}
	raw, err := newCodec().Marshal(c)
	var out ratelimitv3.RateLimitResponse
	return &out, errors.Join(err, proto.Unmarshal(raw.Materialize(), &out))
}

// release gives a lease back at the HTTP door.
func (f *fixture) release(token string) int {
	f.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/release", strings.NewReader(`{"lease": `+strconv.Quote(token)+`}`))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	f.g.DecideHandler().ServeHTTP(w, r)
	return w.Code
}

func leaseIn(r *ratelimitv3.RateLimitResponse) string {
	for _, h := range r.GetRequestHeadersToAdd() {
		if h.GetKey() == fieldLease {
			return h.GetValue()
		}
	}
	return ""
}

func TestRateLimit_PlacesAreHeldUntilReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.ask(about("POST", "/jobs"))
	f.ask(about("POST", "/jobs"))
	token := leaseIn(first)
	if token == "" {
		t.Fatalf("no lease: %v", first)
	}
	full := f.ask(about("POST", "/jobs"))
	if h := headers(full); full.GetOverallCode() != over || h.Get("Retry-After") != "1" || leaseIn(full) != "" {
		t.Errorf("full: %v", full)
	}
	if code := f.release(token); code/100 != 2 {
		t.Fatalf("release: %d", code)
	}
	if r := f.ask(about("POST", "/jobs")); r.GetOverallCode() != okay {
		t.Errorf("after the release: %v", r)
	}
}

func TestRateLimit_ARefusedCallHoldsNoPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// The look finds a place for each of the three; there are two.
	r := f.ask(about("POST", "/jobs"), about("POST", "/jobs"), about("POST", "/jobs"))
	if r.GetOverallCode() != over || leaseIn(r) != "" {
		t.Fatalf("%v", r)
	}
	if a, b := f.ask(about("POST", "/jobs")), f.ask(about("POST", "/jobs")); a.GetOverallCode() != okay || b.GetOverallCode() != okay {
		t.Errorf("places are still held: %v %v", a, b)
	}
}

func TestRateLimit_TheBudgetIsEnvoysAndTheFailModeAnswersWithinIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *setup) { s.envoy.Budget = DefaultBudget })
	f.store.set(func(s *testStore) { s.wait = make(chan struct{}) })
	r := f.ask(descriptor(keyMethod, "GET", keyPath, "/public/x", keyAddress, "192.0.2.1"))
	if r.GetOverallCode() != okay || headers(r).Get("RateLimit") != "" {
		t.Errorf("%v", r)
	}
	f.store.set(func(s *testStore) {
		if s.deadline <= 0 || s.deadline > DefaultBudget {
			t.Errorf("the store had %v, the budget is %v", s.deadline, DefaultBudget)
		}
	})
	f.fails(codes.Unavailable, request(about("GET", "/ten")))
}

func TestRateLimit_DescriptorsOfOneCallShareTheBudget(t *testing.T) {
	t.Parallel()
	now := newClock()
	var budgets []time.Duration
	s, err := New(&fakeDecider{decide: func(_ context.Context, in *gateway.Inbound) gateway.Verdict {
		budgets = append(budgets, in.Budget)
		now.advance(6 * time.Millisecond)
		return gateway.Verdict{Allowed: true, Status: http.StatusOK, Deciding: -1}
	}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.now = now.Now
	if _, err := directly(t.Context(), newRateLimits(s), request(about("GET", "/ten"), about("GET", "/ten"))); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{15e6, 9e6, 3e6, leastBudget}; !slices.Equal(budgets, want) {
		t.Errorf("budgets %v, want %v", budgets, want)
	}
}

func TestRateLimit_ACallerThatLeftHoldsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wait := make(chan struct{})
	f.store.set(func(s *testStore) { s.wait = wait })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := directly(ctx, newRateLimits(f.server), request(about("POST", "/jobs")))
		left <- err
	}()
	<-f.store.begun
	cancel()
	close(wait)
	if err := <-left; status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	f.store.set(func(s *testStore) { s.wait = nil })
	if a, b := f.ask(about("POST", "/jobs")), f.ask(about("POST", "/jobs")); a.GetOverallCode() != okay || b.GetOverallCode() != okay {
		t.Errorf("the place is still held: %v %v", a, b)
	}
}

// Envoy waits 20 ms by default. A caller that gives up learns so, and a store that
// hangs does not hold it longer than the door's budget.
func TestRateLimit_TwentyMillisecondsOfEnvoy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *setup) { s.envoy.Budget = 200 * time.Millisecond })
	f.store.set(func(s *testStore) { s.wait = make(chan struct{}) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := f.limits.ShouldRateLimit(ctx, request(about("GET", "/ten"))); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}
