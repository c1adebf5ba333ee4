package testkit

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redislocal"
)

// startTimeout is generous: test machines are busy.
const startTimeout = 60 * time.Second

// RedisServer is a redis-server of one test's own. Its methods fail the test
// when they cannot do what they say; they are not for concurrent use.
type RedisServer struct {
	URL  string // redis://127.0.0.1:port/0
	Addr string // 127.0.0.1:port; the same after Start

	t     testing.TB
	opts  redislocal.Options
	srv   *redislocal.Server
	ports []*port // its own until the end of the test
}

// Redis starts a fresh, empty redis-server for the test and stops it at the end.
// Further lines of its configuration may be given.
func Redis(t testing.TB, lines ...string) *RedisServer {
	t.Helper()
	r := &RedisServer{t: t, opts: redislocal.Options{Dir: tempDir(t, "hgredis-"), Lines: lines}}
	var err error
	for range 5 { // another process may take the port while it is lent
		var p *port
		if p, err = takePort(); err != nil {
			break
		}
		r.opts.Port, r.ports = p.number, []*port{p}
		if err = r.start(); err == nil {
			break
		}
		r.end()
	}
	if err != nil {
		t.Fatalf("testkit: start redis: %v", err)
	}
	r.URL, r.Addr = r.srv.URL(), r.srv.Addr
	t.Cleanup(r.end)
	return r
}

// RedisURL starts a fresh redis-server and returns its URL.
func RedisURL(t testing.TB) string {
	t.Helper()
	return Redis(t).URL
}

// start lends the server its ports for as long as it takes to listen on them.
func (r *RedisServer) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := r.lend(true); err != nil {
		return err
	}
	srv, err := redislocal.Start(ctx, r.opts)
	if err == nil {
		r.srv = srv
	}
	return errors.Join(err, r.lend(false))
}

func (r *RedisServer) lend(on bool) error {
	var errs []error
	for _, p := range r.ports {
		errs = append(errs, p.lend(on))
	}
	return errors.Join(errs...)
}

// end kills the server and gives its ports back.
func (r *RedisServer) end() {
	if r.srv != nil {
		r.srv.Process.Kill()
	}
	for _, p := range r.ports {
		p.letGo()
	}
	r.ports = nil
}

// PID is the process id of the server.
func (r *RedisServer) PID() int { return r.srv.Process.PID() }

// Kill ends the server as kill -9 does; what it held is lost.
func (r *RedisServer) Kill() { r.srv.Process.Kill() }

// Start starts the server again, empty, on the same port. A server that still
// runs is killed first.
func (r *RedisServer) Start() {
	r.t.Helper()
	r.srv.Process.Kill()
	if err := r.start(); err != nil {
		r.t.Fatalf("testkit: start redis again: %v", err)
	}
}

// Pause suspends the server: connections stay open and nothing answers.
func (r *RedisServer) Pause() { r.srv.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (r *RedisServer) Resume() { r.srv.Process.Signal(syscall.SIGCONT) }
