package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/child"
)

// startWithin is how long a service may take until it listens.
const startWithin = 30 * time.Second

// Service is a rate-limit service under load.
type Service struct {
	Address string
	Proxy   string         // address of its reverse proxy; "": it has none
	process *child.Process // nil: not ours to stop
	pid     int
}

// At is a service that runs already. pid may be 0: then its processor time is not
// measured.
func At(address string, pid int) *Service { return &Service{Address: address, pid: pid} }

// PID is the service's process id, or 0.
func (s *Service) PID() int { return s.pid }

// Stop ends the service if Start began it.
func (s *Service) Stop() {
	if s.process != nil {
		s.process.Stop(syscall.SIGTERM, 5*time.Second)
	}
}

// environment is what every service sees besides its own settings.
func environment(gcPercent int) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "GOGC=" + strconv.Itoa(gcPercent)}
}

// StartPeer starts an envoyproxy/ratelimit binary on the Redis at the address, with
// its local cache, as it would be tuned: GOGC=400 and no logs of requests.
func StartPeer(ctx context.Context, binary, dir, redis string) (*Service, error) {
	config := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the peer: %w", err)
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(Config), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of the peer: %w", err)
	}
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = child.FreePort(); err != nil {
			return nil, fmt.Errorf("find ports for the peer: %w", err)
		}
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	p, err := child.Start(child.Spec{
		Argv: []string{binary}, Dir: dir, LogFile: filepath.Join(dir, "peer.log"), DeathSignal: syscall.SIGKILL,
		Env: append(environment(400),
			"GRPC_HOST=127.0.0.1", "GRPC_PORT="+strconv.Itoa(ports[0]), "HOST=127.0.0.1", "PORT="+strconv.Itoa(ports[1]),
			"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+strconv.Itoa(ports[2]), "USE_STATSD=false", "LOG_LEVEL=error",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis, "LOCAL_CACHE_SIZE_IN_BYTES=10485760",
			"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false"),
	})
	if err != nil {
		return nil, err
	}
	s := &Service{Address: address, process: p, pid: p.PID()}
	return s, s.listening(ctx)
}

// StartGateway starts a headgate binary on the Redis with the policy that Publish
// wrote, as a proxy of the upstream, too.
func StartGateway(ctx context.Context, binary, dir, redisURL, keyFile, upstream string) (*Service, error) {
	addresses := filepath.Join(dir, "addresses.json")
	p, err := child.Start(child.Spec{
		Argv: []string{
			binary, "gateway", "--redis-url", redisURL, "--deployment", deployment, "--policy-key-file", keyFile,
			"--state-dir", filepath.Join(dir, "state"), "--admin-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
			"--listen", "127.0.0.1:0", "--upstream", upstream, "--addr-file", addresses, "--budget", "1s", "--grpc-budget", "1s", "--log-level", "warn",
		},
		Dir: dir, LogFile: filepath.Join(dir, "gateway.log"), DeathSignal: syscall.SIGKILL, Env: environment(400),
	})
	if err != nil {
		return nil, err
	}
	s := &Service{process: p, pid: p.PID()}
	err = s.until(ctx, func() error {
		b, err := os.ReadFile(addresses)
		if err != nil {
			return err
		}
		var bound struct{ GRPC, Proxy string }
		if err := json.Unmarshal(b, &bound); err != nil {
			return err
		}
		s.Address, s.Proxy = bound.GRPC, bound.Proxy
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, s.answers(ctx)
}

// listening waits until the service accepts connections.
func (s *Service) listening(ctx context.Context) error {
	return s.until(ctx, func() error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", s.Address)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// answers waits until a request is admitted: until policy and tenants are there.
func (s *Service) answers(ctx context.Context) error {
	return s.until(ctx, func() error {
		c, err := dial(ctx, s.Address)
		if err != nil {
			return err
		}
		defer func() { _ = c.close() }()
		if err := c.send(Ours(One)[0]); err != nil {
			return err
		}
		admitted, _, err := c.receive()
		if err == nil && !admitted {
			err = errors.New("the first request was refused")
		}
		return err
	})
}

// until asks again and again; the last error says why it was in vain, as does the
// service's log.
func (s *Service) until(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-s.process.Done():
			err = fmt.Errorf("it ended: %w", s.process.Err())
		case <-ctx.Done():
		}
		log, _ := os.ReadFile(s.process.Spec.LogFile)
		s.Stop()
		return fmt.Errorf("start %s: %w\n%s", s.process.Spec.Argv[0], err, log[max(0, len(log)-2000):])
	}
}
