package envoy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer_OnlyThoseWhoMayAsk(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	decider := &fakeDecider{mayAsk: func(peer netip.Addr, got string) bool { return peer.IsLoopback() && got == token }}
	_, addr := serve(t, decider, Config{})
	conn := dial(t, addr)
	for name, c := range map[string]struct {
		pairs []string
		want  codes.Code
	}{
		"no token":   {nil, codes.PermissionDenied},
		"wrong":      {[]string{tokenField, "0123456789abcdeX"}, codes.PermissionDenied},
		"two":        {[]string{tokenField, token, tokenField, token}, codes.PermissionDenied},
		"right":      {[]string{tokenField, token}, codes.OK},
		"other name": {[]string{tokenAlias, token}, codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), c.pairs...)
		_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request(about("GET", "/ten")))
		if status.Code(err) != c.want {
			t.Errorf("%s, rate limits: %v", name, err)
		}
		_, err = authv3.NewAuthorizationClient(conn).Check(ctx, checkRequest("192.0.2.1", "GET", "/ten", nil))
		if status.Code(err) != c.want {
			t.Errorf("%s, authorization: %v", name, err)
		}
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if status.Code(err) != c.want {
			t.Errorf("%s, watch: %v", name, err)
		}
	}
	// A probe has no token, and learns nothing but whether to send traffic.
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
}

func TestServer_ReflectionIsOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	err := f.conn.Invoke(t.Context(), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", request(), &ratelimitv3.RateLimitResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func TestServer_APanicEndsTheCallAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	decider := &fakeDecider{decide: func(_ context.Context, in *gateway.Inbound) gateway.Verdict {
		if in.EscapedPath == "/panic" {
			panic("a fault")
		}
		return gateway.Verdict{Allowed: true, Status: http.StatusOK, Deciding: -1}
	}}
	s, err := New(decider, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	info := &grpc.UnaryServerInfo{Server: s.health, FullMethod: "/m"}
	_, err = s.guard(t.Context(), nil, info, func(context.Context, any) (any, error) { panic("a fault") })
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a fault") || !strings.Contains(log.String(), "a fault") {
		t.Errorf("%v; log %s", err, log.String())
	}
	_, addr := serve(t, decider, Config{})
	limits := ratelimitv3.NewRateLimitServiceClient(dial(t, addr))
	if _, err := limits.ShouldRateLimit(t.Context(), request(about("GET", "/panic"))); status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
	if _, err := limits.ShouldRateLimit(t.Context(), request(about("GET", "/"))); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestServer_ShutdownFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wait := make(chan struct{})
	f.store.set(func(s *testStore) { s.wait = wait })
	answered := make(chan error, 1)
	go func() {
		_, err := f.limits.ShouldRateLimit(context.WithoutCancel(t.Context()), request(about("GET", "/ten")))
		answered <- err
	}()
	<-f.store.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end of the grace: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- f.server.Shutdown(t.Context()) }()
	close(wait)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	f.fails(codes.Unavailable, request(about("GET", "/ten")))
}

func TestServer_CloseCutsOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wait := make(chan struct{})
	defer close(wait)
	f.store.set(func(s *testStore) { s.wait = wait })
	answered := make(chan error, 1)
	go func() {
		_, err := f.limits.ShouldRateLimit(context.WithoutCancel(t.Context()), request(about("GET", "/ten")))
		answered <- err
	}()
	<-f.store.begun
	go func() { _ = f.server.Close() }() // returns when the call has
	if err := <-answered; err == nil {
		t.Error("the call went on")
	}
}
