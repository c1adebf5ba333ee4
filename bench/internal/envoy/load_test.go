package envoy

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/bench/internal/lab"
	"github.com/headgate/headgate/bench/internal/meas"
	"github.com/headgate/headgate/policy/feed"
)

// fake is a service that answers by the tenant and fails after a while.
type fake struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	calls, now atomic.Int64
	failAfter  int64
	together   chan struct{} // closed when a connection's calls are all there; the first waits for it
}

func (f *fake) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if f.now.Add(1) == InFlight/Conns && f.together != nil {
		close(f.together)
	}
	if f.together != nil {
		<-f.together
	}
	if n := f.calls.Add(1); f.failAfter > 0 && n > f.failAfter {
		return nil, status.Error(codes.Unavailable, "away")
	}
	code := ratelimitv3.RateLimitResponse_OK
	if strings.HasSuffix(r.GetDescriptors()[0].GetEntries()[0].GetValue(), "7") {
		code = ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: code}, nil
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func TestLoad_KeepsCallsInFlightAndReadsTheirVerdicts(t *testing.T) {
	t.Parallel()
	load := &Load{Address: serve(t, &fake{together: make(chan struct{})}), Messages: Ours(One)}
	if err := load.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	admitted, n := 0, 5000
	for i := range n {
		tally, err := load.Op(t.Context(), 1, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if tally.Decisions != 1 || tally.Took <= 0 {
			t.Fatalf("call %d: %+v", i, tally)
		}
		admitted += int(tally.Admitted)
	}
	if share := float64(admitted) / float64(n); share < .89 || share > .91 {
		t.Errorf("%v were admitted, want nine of ten", share)
	}
	if err := load.Close(); err != nil {
		t.Error(err)
	}
}

func TestLoad_AFailedCallIsAFailure(t *testing.T) {
	t.Parallel()
	load := &Load{Address: serve(t, &fake{failAfter: 10}), Messages: Ours(One)}
	if err := load.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = load.Close() })
	for i := range uint64(1000) {
		_, err := load.Op(t.Context(), 0, i)
		if errors.Is(err, errNoMessage) {
			if !strings.Contains(err.Error(), "grpc-status 14, grpc-message away") {
				t.Errorf("the failure does not say why: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("no call failed")
}

func TestLoad_ALostServiceIsAFailure(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	load := &Load{Address: l.Addr().String(), Messages: Ours(One)}
	if err := load.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Op(t.Context(), 0, 0); err == nil {
		t.Error("a service that hangs up answered")
	}
	_ = load.Close()
	_ = l.Close()
	if err := load.Open(t.Context()); err == nil {
		t.Error("a service that is not there was reached")
	}
}

func TestLoad_IsACase(t *testing.T) {
	t.Parallel()
	load := &Load{Address: serve(t, &fake{}), Messages: Ours(Four)}
	plan := meas.Plan{Callers: Conns, Rounds: 2, Warm: time.Millisecond, Length: 50 * time.Millisecond, Progress: func(string, ...any) {}}
	results, err := plan.Run(t.Context(), []meas.Case{{
		Name: "x", Op: load.Op, Before: load.Open, After: func(context.Context, *meas.Round) error { return load.Close() },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n, first := results["x"].Failed(); n > 0 || results["x"].PerSecond() == 0 {
		t.Errorf("%v/s, %d failed, %v", results["x"].PerSecond(), n, first)
	}
}

func TestPublish_IsWhatAGatewayAccepts(t *testing.T) {
	t.Parallel()
	r, err := lab.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	key := filepath.Join(t.TempDir(), "key.pem")
	keys, err := Publish(t.Context(), r.Client, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != Subjects || keys[0] == keys[1] {
		t.Errorf("there are %d keys for %d tenants", len(keys), Subjects)
	}
	if b, err := os.ReadFile(key); err != nil || !strings.Contains(string(b), "PUBLIC KEY") {
		t.Errorf("the key is %q, %v", b, err)
	}
	publisher, err := feed.NewPublisher(feed.Config{Client: r.Client, Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	state, err := publisher.State(t.Context())
	if err != nil || state.Version != 1 {
		t.Errorf("the published state is %+v, %v", state, err)
	}
}

func TestService_TellsWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "service")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho no Redis here >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := StartPeer(t.Context(), script, t.TempDir(), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "no Redis here") {
		t.Errorf("peer: %v", err)
	}
	if _, err := StartGateway(t.Context(), script, t.TempDir(), "redis://127.0.0.1:1", "key", "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "no Redis here") {
		t.Errorf("gateway: %v", err)
	}
}
