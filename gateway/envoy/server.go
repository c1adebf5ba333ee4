package envoy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// maxMessage bounds a call, in bytes. Envoy takes 60 KiB of header fields from
	// a caller by default, and a configuration may put one field into several
	// entries; authorization brings up to 64 KiB of body besides.
	maxMessage = 256 << 10
	maxHeaders = 16 << 10 // of a call: metadata, not the API's headers
	maxStreams = 1024     // calls in flight on one connection
	// workers are goroutines that answer calls: one that is used again has its stack
	// grown already, and growing it costs as much as deciding. More calls than that
	// get goroutines of their own.
	workers = 256
	// window is what a client may send unasked on one stream, in bytes. Being set,
	// it spares the connection the pings that would find one out.
	window            = maxMessage
	connectionTimeout = 10 * time.Second
	idleTimeout       = 10 * time.Minute
	minPing           = time.Second
	aliveTime         = 30 * time.Second // until a silent connection is asked whether it lives
)

// Server is the door. It is made for one gateway and serves once.
type Server struct {
	cfg    Config
	decide decider
	grpc   *grpc.Server
	health *health
	now    func() time.Time
	done   chan struct{}
	end    sync.Once
}

// New makes the door of a gateway, or returns an error that lists every problem
// of c.
func New(g decider, c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("envoy services: %w", err)
	}
	c.fillDefaults()
	s := &Server{cfg: c, decide: g, now: time.Now, done: make(chan struct{})}
	s.health = &health{unready: g.Unready, done: s.done}
	options, err := s.options()
	if err != nil {
		return nil, fmt.Errorf("envoy services: %w", err)
	}
	s.grpc = grpc.NewServer(options...)
	newRateLimits(s).register(s.grpc)
	authv3.RegisterAuthorizationServer(s.grpc, &authorization{s})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	return s, nil
}

func (s *Server) options() ([]grpc.ServerOption, error) {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.UnaryInterceptor(s.guard), grpc.StreamInterceptor(s.guardStream),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: aliveTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(workers), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(4 * window),
		grpc.WaitForHandlers(true),
	}
	if s.cfg.CertFile != "" {
		tls, err := s.cfg.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(tls)))
	}
	return options, nil
}

// Serve answers on l until Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve grpc: %w", err)
	}
	return nil
}

// Shutdown takes no new calls and waits for those in flight, until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping()
	finished := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(finished)
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("finish grpc calls: %w", ctx.Err())
	}
}

// Close cuts off what is in flight.
func (s *Server) Close() error {
	s.stopping()
	s.grpc.Stop()
	return nil
}

func (s *Server) stopping() {
	s.end.Do(func() { close(s.done) })
}

// Names of the metadata that the decide token travels in.
const (
	tokenField = "x-headgate-decide-token"
	tokenAlias = "x-headgate-token"
)

// guard lets only those ask who may, and keeps a fault in one call from ending
// the process.
func (s *Server) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.cfg.Log.Error("panic in a grpc call", "method", info.FullMethod, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			out, err = nil, status.Error(codes.Internal, "internal error")
		}
	}()
	if info.Server != any(s.health) && !s.mayAsk(ctx) { // a probe has no token, and learns little
		return nil, forbidden()
	}
	return next(ctx, req)
}

// guardStream lets only those watch who may ask: a watch costs as long as it lasts.
func (s *Server) guardStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !s.mayAsk(stream.Context()) {
		return forbidden()
	}
	return next(srv, stream)
}

func forbidden() error {
	return status.Error(codes.PermissionDenied,
		"decisions are given to callers on loopback, with a client certificate, or with the decide token in "+tokenField)
}

func (s *Server) mayAsk(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	if known, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(known.State.VerifiedChains) > 0 {
		return true
	}
	from := peerAddress(p)
	if s.decide.MayAsk(from, "") {
		return true
	}
	for _, name := range []string{tokenField, tokenAlias} {
		if token := metadata.ValueFromIncomingContext(ctx, name); len(token) == 1 && s.decide.MayAsk(from, token[0]) {
			return true
		}
	}
	return false
}

// peerAddress is the address of who speaks to us; the zero one if it has none.
func peerAddress(p *peer.Peer) netip.Addr {
	if a, ok := p.Addr.(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
