package e2e_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// envoyDoor is a connection to a gateway's door for Envoy.
func envoyDoor(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask asks as Envoy does for one request of the API.
func askAsEnvoy(t *testing.T, conn *grpc.ClientConn, key string) ratelimitv3.RateLimitResponse_Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var entries []*commonv3.RateLimitDescriptor_Entry
	for _, e := range [][2]string{{"api_key", key}, {"method", "GET"}, {"path", "/v1/items"}, {"remote_address", "203.0.113.9"}} {
		entries = append(entries, &commonv3.RateLimitDescriptor_Entry{Key: e[0], Value: e[1]})
	}
	res, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain: "headgate", Descriptors: []*commonv3.RateLimitDescriptor{{Entries: entries}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetOverallCode()
}

func TestEnvoyDoor_SpendsFromTheSameBucketsAsTheProxy(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=2", exact)
	key := quiet(t, d, "free").Key
	doors := []*grpc.ClientConn{envoyDoor(t, d.GRPC[0]), envoyDoor(t, d.GRPC[1])}
	well, err := grpc_health_v1.NewHealthClient(doors[0]).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || well.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", well, err)
	}
	c := tally{from: time.Now()}
	refused := 0
	for i := 0; refused < 4; i++ {
		c.lastAsked = time.Now()
		var admitted bool
		if i%2 == 0 {
			admitted = askAsEnvoy(t, doors[i/2%2], key) == ratelimitv3.RateLimitResponse_OK
		} else {
			admitted = d.Hit(i/2%2, key, "/v1/items").Status == http.StatusOK
		}
		c.lastAnswered = time.Now()
		if c.begun.IsZero() {
			c.begun = c.lastAnswered
		}
		if refused++; admitted {
			c.admitted++
			refused = 0
		}
	}
	c.check(t, "through both doors of both gateways")
}
