// Package httpdoor has what a gateway's proxy door is measured beside and with: a bare
// reverse proxy in a process of its own, an upstream, and callers in closed loops.
//
// It imports meas, and of headgate internal/child.
package httpdoor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/child"
)

// The environment of a process that is to be the bare proxy: where it forwards to, and
// the file that it writes its address to.
const (
	upstreamEnv = "HEADGATE_BENCH_UPSTREAM"
	addressEnv  = "HEADGATE_BENCH_ADDRESS_FILE"
)

// Paths of the calls.
const (
	Admitted = "/one"
	Refused  = "/refused"
)

const (
	startWithin = 30 * time.Second
	bufferBytes = 32 << 10
)

// IsBare reports whether this process was started by StartBare: then main calls Serve
// and does nothing else.
func IsBare() bool { return os.Getenv(upstreamEnv) != "" }

// Serve is the bare proxy, tuned as well as a gateway's, until ctx ends: httputil's for
// all paths but Refused, where a bare handler answers 429.
func Serve(ctx context.Context) error {
	upstream, err := url.Parse(os.Getenv(upstreamEnv))
	if err != nil {
		return fmt.Errorf("upstream of the bare proxy: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the bare proxy: %w", err)
	}
	file := os.Getenv(addressEnv)
	if err := os.WriteFile(file+".new", []byte(l.Addr().String()), 0o600); err != nil {
		return fmt.Errorf("tell the bare proxy's address: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("tell the bare proxy's address: %w", err)
	}
	return serve(ctx, l, bare(upstream))
}

func bare(upstream *url.URL) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.Transport = &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true}
	proxy.BufferPool = &buffers{}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc(Refused, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
	})
	return mux
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: startWithin}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// buffers lends copy buffers, as a gateway does.
type buffers struct{ pool sync.Pool }

// Get lends a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, bufferBytes)
}

// Put takes a buffer back.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// Upstream answers every request with two bytes, on a loopback port.
type Upstream struct {
	URL  string
	stop context.CancelFunc
	done chan struct{}
}

// StartUpstream starts an upstream in this process. Stop ends it.
func StartUpstream() (*Upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the upstream: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	u := &Upstream{URL: "http://" + l.Addr().String(), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		_ = serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	}()
	return u, nil
}

// Stop ends the upstream.
func (u *Upstream) Stop() {
	u.stop()
	<-u.done
}

// Bare is the bare proxy under load.
type Bare struct {
	Address string
	process *child.Process
}

// StartBare starts this executable again, as the bare proxy, with the garbage
// collection of a gateway. Stop ends it.
func StartBare(ctx context.Context, dir, upstream string) (*Bare, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	file := filepath.Join(dir, "bare.addr")
	p, err := child.Start(child.Spec{
		Argv: []string{self}, Dir: dir, LogFile: filepath.Join(dir, "bare.log"), DeathSignal: syscall.SIGKILL,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "GOGC=400", upstreamEnv + "=" + upstream, addressEnv + "=" + file},
	})
	if err != nil {
		return nil, fmt.Errorf("start the bare proxy: %w", err)
	}
	b := &Bare{process: p}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if address, err := os.ReadFile(file); err == nil { //nolint:gosec // a file of ours
			b.Address = string(address)
			return b, nil
		}
		select {
		case <-tick.C:
			continue
		case <-p.Done():
		case <-ctx.Done():
		}
		b.Stop()
		return nil, fmt.Errorf("start the bare proxy: it does not listen: %w", errors.Join(p.Err(), ctx.Err()))
	}
}

// PID is its process id.
func (b *Bare) PID() int { return b.process.PID() }

// Stop ends it.
func (b *Bare) Stop() { b.process.Stop(syscall.SIGTERM, 5*time.Second) }
