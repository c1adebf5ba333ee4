package envoy

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestServer_HealthIsTheGatewaysReadiness(t *testing.T) {
	t.Parallel()
	reasons := make(chan []string, 10)
	now := []string{"no-policy"}
	decider := &fakeDecider{unready: func() []string {
		select {
		case now = <-reasons:
		default:
		}
		return now
	}}
	s, err := New(decider, Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
		r, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetStatus()
	}
	services := []string{"", "envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization"}
	for _, service := range services {
		if ask(service) != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q serves without a policy", service)
		}
	}
	reasons <- nil
	for _, service := range services {
		if ask(service) != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q does not serve", service)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ask("") != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error("serves while it drains")
	}
	if _, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
}

func TestServer_WatchersDoNotHoldUpTheShutdown(t *testing.T) {
	t.Parallel()
	s, addr := serve(t, &fakeDecider{}, Config{})
	health := grpc_health_v1.NewHealthClient(dial(t, addr))
	for service, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{"": serving, "other": unknown} {
		watch, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := watch.Recv(); err != nil || r.GetStatus() != want {
			t.Fatalf("%q: %v, %v", service, r, err)
		}
		defer func() {
			r, err := watch.Recv()
			if service == "" && r.GetStatus() != notServing {
				t.Errorf("the last word is %v, %v", r, err)
			}
			if _, err = watch.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("%q: the watch ends with %v", service, err)
			}
		}()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServer_WatchersLearnThatItGotReady(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	_, addr := serve(t, &fakeDecider{unready: func() []string {
		select {
		case <-ready:
			return nil
		default:
			return []string{"no-policy"}
		}
	}}, Config{})
	watch, err := grpc_health_v1.NewHealthClient(dial(t, addr)).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{grpc_health_v1.HealthCheckResponse_NOT_SERVING, grpc_health_v1.HealthCheckResponse_SERVING} {
		r, err := watch.Recv()
		if err != nil || r.GetStatus() != want {
			t.Fatalf("%v, %v; want %v", r, err, want)
		}
		if want == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			close(ready)
		}
	}
}
