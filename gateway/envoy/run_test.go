package envoy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/gateway"
)

// grpcAddress waits for the address that a gateway writes once it listens.
func grpcAddress(t *testing.T, file string, failed <-chan error) string {
	t.Helper()
	until := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var bound gateway.Bound
		if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, &bound) == nil && bound.GRPC != "" {
			return bound.GRPC
		}
		select {
		case err := <-failed:
			t.Fatalf("the gateway ended: %v", err)
		case <-until:
			t.Fatal("no address was written")
		case <-tick.C:
		}
	}
}

func TestDoor_RunsAndDrainsWithItsGateway(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "addresses.json")
	f := newFixture(t, func(s *setup) {
		s.gateway.DecideListen, s.gateway.GRPCListen, s.gateway.AddrFile = "", "127.0.0.1:0", file
		s.gateway.GRPCDoor = Door(Config{Budget: 5 * time.Second})
	})
	wait := make(chan struct{})
	f.store.set(func(s *testStore) { s.wait = wait })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.g.Run(ctx) }()
	conn := dial(t, grpcAddress(t, file, ended))
	limits := ratelimitv3.NewRateLimitServiceClient(conn)
	answered := make(chan error, 1)
	go func() {
		_, err := limits.ShouldRateLimit(context.WithoutCancel(t.Context()), request(about("GET", "/ten")))
		answered <- err
	}()
	<-f.store.begun
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	stop()
	// The watcher is told, and the call in flight is finished, before the end.
	for {
		r, err := watch.Recv()
		if err != nil || r.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			break
		}
	}
	close(wait)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if _, err := limits.ShouldRateLimit(t.Context(), request(about("GET", "/ten"))); status.Code(err) != codes.Unavailable {
		t.Errorf("afterwards: %v", err)
	}
}

func TestDoor_ConfigurationErrorsEndTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *setup) {
		s.gateway.GRPCListen, s.gateway.GRPCDoor = "127.0.0.1:0", Door(Config{CertFile: "absent.pem", KeyFile: "absent.key"})
	})
	if err := f.g.Run(t.Context()); err == nil {
		t.Error("it runs without its certificate")
	}
}
