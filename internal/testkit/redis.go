package testkit

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/redislocal"
)

// startTimeout is generous: test machines are busy.
const startTimeout = 60 * time.Second

// RedisServer is a redis-server of one test's own. Its methods fail the test
// when they cannot do what they say; they are not for concurrent use.
type RedisServer struct {
	URL  string // redis://127.0.0.1:port/0
	Addr string // 127.0.0.1:port; the same after Start

	t    testing.TB
	opts redislocal.Options
	srv  *redislocal.Server
}

// Redis starts a fresh, empty redis-server for the test and stops it at the end.
// Further lines of its configuration may be given.
func Redis(t testing.TB, lines ...string) *RedisServer {
	t.Helper()
	r := &RedisServer{t: t, opts: redislocal.Options{Dir: tempDir(t, "hgredis-"), Lines: lines}}
	var err error
	for range 5 { // another test may take the port between finding and binding it
		if r.opts.Port, err = child.FreePort(); err != nil {
			break
		}
		if err = r.start(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("testkit: start redis: %v", err)
	}
	r.URL, r.Addr = r.srv.URL(), r.srv.Addr
	t.Cleanup(func() { r.srv.Process.Kill() })
	return r
}

// RedisURL starts a fresh redis-server and returns its URL.
func RedisURL(t testing.TB) string {
	t.Helper()
	return Redis(t).URL
}

func (r *RedisServer) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	srv, err := redislocal.Start(ctx, r.opts)
	if err == nil {
		r.srv = srv
	}
	return err
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
