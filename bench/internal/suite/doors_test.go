package suite

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

type admitting struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit admits.
func (admitting) ShouldRateLimit(context.Context, *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

func TestMeasureDoors_AnyServiceAtAnAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(s, admitting{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	o := Options{
		Rounds: 1, Warm: 50 * time.Millisecond, Length: 300 * time.Millisecond, Progress: io.Discard,
		Doors: Doors{Peer: l.Addr().String(), PeerPID: os.Getpid()},
	}
	var report Report
	if err := measureDoors(t.Context(), o, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Doors) != 3 || len(report.Targets) != 0 {
		t.Fatalf("%d services, %d targets", len(report.Doors), len(report.Targets))
	}
	for _, d := range report.Doors {
		if d.PerSecond() == 0 || d.Admitted() != 1 || len(doorCells(d)) != 9 {
			t.Errorf("%s: %v", d.Case.Name, doorCells(d))
		}
	}
}

func TestMeasureDoors_NoneIsNoProblem(t *testing.T) {
	t.Parallel()
	var report Report
	if err := measureDoors(t.Context(), Options{}, &report); err != nil || report.Doors != nil {
		t.Errorf("%v, %v", report.Doors, err)
	}
}

func TestMeasureDoors_TellsWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]Doors{"gateway": {Gateway: "/nonexistent"}, "peer": {PeerBinary: "/nonexistent"}} {
		if err := measureDoors(t.Context(), Options{Rounds: 1, Doors: d, Progress: io.Discard}, &Report{}); err == nil {
			t.Errorf("%s: something was started", name)
		}
	}
}
