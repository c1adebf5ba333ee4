package envoy

import (
	"context"
	"slices"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// lookEvery is how late a watcher learns at most that the gateway got ready.
const lookEvery = 500 * time.Millisecond

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	unknown    = grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
)

// health is grpc.health.v1: what the gateway's readiness says, for the door as a
// whole ("") and for each service. It asks when it is asked, which the library's
// server, that is told, cannot; and it ends watches when the door shuts down,
// which would hold it up until the end of the grace.
type health struct {
	grpc_health_v1.UnimplementedHealthServer

	unready func() []string
	done    <-chan struct{} // closed when the door shuts down
}

// Check answers with the readiness of now.
func (h *health) Check(_ context.Context, in *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	is := h.status(in.GetService())
	if is == unknown {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: is}, nil
}

// Watch tells each change until the caller leaves or the door shuts down.
func (h *health) Watch(in *grpc_health_v1.HealthCheckRequest, to grpc_health_v1.Health_WatchServer) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for last := grpc_health_v1.HealthCheckResponse_UNKNOWN; ; {
		if is := h.status(in.GetService()); is != last {
			last = is
			if err := to.Send(&grpc_health_v1.HealthCheckResponse{Status: is}); err != nil {
				return err //nolint:wrapcheck // a status already
			}
		}
		if h.ended() {
			return status.Error(codes.Unavailable, "shutting down")
		}
		select {
		case <-tick.C:
		case <-h.done:
		case <-to.Context().Done():
			return status.FromContextError(to.Context().Err()).Err()
		}
	}
}

func (h *health) status(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	known := []string{"", ratelimitv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName}
	switch {
	case !slices.Contains(known, service):
		return unknown
	case h.ended() || len(h.unready()) > 0:
		return notServing
	}
	return serving
}

func (h *health) ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}
