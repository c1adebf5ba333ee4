package envoy

import (
	"context"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// followEvery is how late a watcher learns at most that the gateway got ready.
const followEvery = 500 * time.Millisecond

// healthService is grpc.health.v1: what the gateway's readiness says, for the
// door as a whole ("") and for each service.
type healthService struct {
	*health.Server
	decide decider
}

func newHealthService(g decider) *healthService {
	h := &healthService{health.NewServer(), g}
	h.refresh()
	return h
}

// Check answers with the readiness of now.
func (h *healthService) Check(ctx context.Context, in *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, in)
}

func (h *healthService) refresh() {
	is := grpc_health_v1.HealthCheckResponse_SERVING
	if len(h.decide.Unready()) > 0 {
		is = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range []string{"", ratelimitv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName} {
		h.SetServingStatus(name, is)
	}
}

// follow keeps those who watch up to date until done.
func (h *healthService) follow(done <-chan struct{}) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			h.refresh()
		}
	}
}
