package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gateway is a program that says it listens at the address, as a gateway does, and
// keeps running.
func gateway(t *testing.T, address string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "gateway")
	text := fmt.Sprintf(`#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = --addr-file ] && file=$2
  shift
done
echo '{"proxy":"","grpc":"%s"}' >"$file"
exec sleep 600
`, address)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

func TestStartGateway_WaitsUntilARequestIsAdmitted(t *testing.T) {
	t.Parallel()
	address := serve(t, &fake{})
	s, err := StartGateway(t.Context(), gateway(t, address), t.TempDir(), "redis://127.0.0.1:1", "key", "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if s.Address != address || s.PID() == 0 {
		t.Errorf("it is process %d at %s", s.PID(), s.Address)
	}
	s.Stop()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", s.PID())); err == nil {
		t.Error("it still runs")
	}
}

func TestAt_IsNotOursToStop(t *testing.T) {
	t.Parallel()
	s := At("h:1", os.Getpid())
	s.Stop()
	if s.Address != "h:1" || s.PID() != os.Getpid() {
		t.Errorf("got %+v", s)
	}
}

func TestStatusOf_ReadsWhatStandsThere(t *testing.T) {
	t.Parallel()
	// Literal fields without indexing: grpc-status 14, x 1.
	trailers := append([]byte{0, 11}, "grpc-status"...)
	trailers = append(trailers, 2, '1', '4', 0, 1, 'x', 1, '1')
	if got := statusOf(trailers); got != "grpc-status 14" {
		t.Errorf("got %q", got)
	}
	if got := statusOf([]byte{0xff}); !strings.Contains(got, "cannot be read") {
		t.Errorf("got %q", got)
	}
}

func FuzzStatusOf(f *testing.F) {
	f.Add([]byte{0, 1, 'x', 1, '1'})
	f.Fuzz(func(_ *testing.T, trailers []byte) {
		_ = statusOf(trailers)
		_ = admits(trailers)
	})
}
