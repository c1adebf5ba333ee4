package envoy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer_OnlyThoseWhoMayAsk(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	decider := &fakeDecider{mayAsk: func(peer netip.Addr, got string) bool { return peer.IsLoopback() && got == token }}
	_, addr := serve(t, decider, Config{})
	conn := dial(t, addr)
	for name, c := range map[string]struct {
		pairs []string
		want  codes.Code
	}{
		"no token":   {nil, codes.PermissionDenied},
		"wrong":      {[]string{tokenField, "0123456789abcdeX"}, codes.PermissionDenied},
		"two":        {[]string{tokenField, token, tokenField, token}, codes.PermissionDenied},
		"right":      {[]string{tokenField, token}, codes.OK},
		"other name": {[]string{tokenAlias, token}, codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), c.pairs...)
		_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, call(about("GET", "/ten")))
		if status.Code(err) != c.want {
			t.Errorf("%s, rate limits: %v", name, err)
		}
		_, err = authv3.NewAuthorizationClient(conn).Check(ctx, checkRequest("192.0.2.1", "GET", "/ten", nil))
		if status.Code(err) != c.want {
			t.Errorf("%s, authorization: %v", name, err)
		}
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if status.Code(err) != c.want {
			t.Errorf("%s, watch: %v", name, err)
		}
	}
	// A probe has no token, and learns nothing but whether to send traffic.
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
}

func TestServer_HealthIsTheGatewaysReadiness(t *testing.T) {
	t.Parallel()
	reasons := make(chan []string, 10)
	now := []string{"no-policy"}
	decider := &fakeDecider{unready: func() []string {
		select {
		case now = <-reasons:
		default:
		}
		return now
	}}
	s, err := New(decider, Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
		r, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetStatus()
	}
	services := []string{"", "envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization"}
	for _, service := range services {
		if ask(service) != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q serves without a policy", service)
		}
	}
	reasons <- nil
	for _, service := range services {
		if ask(service) != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q does not serve", service)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ask("") != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error("serves while it drains")
	}
	if _, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
}

func TestServer_WatchersDoNotHoldUpTheShutdown(t *testing.T) {
	t.Parallel()
	s, addr := serve(t, &fakeDecider{}, Config{})
	health := grpc_health_v1.NewHealthClient(dial(t, addr))
	for service, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{"": serving, "other": unknown} {
		watch, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := watch.Recv(); err != nil || r.GetStatus() != want {
			t.Fatalf("%q: %v, %v", service, r, err)
		}
		defer func() {
			r, err := watch.Recv()
			if service == "" && r.GetStatus() != notServing {
				t.Errorf("the last word is %v, %v", r, err)
			}
			if _, err = watch.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("%q: the watch ends with %v", service, err)
			}
		}()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServer_WatchersLearnThatItGotReady(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	_, addr := serve(t, &fakeDecider{unready: func() []string {
		select {
		case <-ready:
			return nil
		default:
			return []string{"no-policy"}
		}
	}}, Config{})
	watch, err := grpc_health_v1.NewHealthClient(dial(t, addr)).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{grpc_health_v1.HealthCheckResponse_NOT_SERVING, grpc_health_v1.HealthCheckResponse_SERVING} {
		r, err := watch.Recv()
		if err != nil || r.GetStatus() != want {
			t.Fatalf("%v, %v; want %v", r, err, want)
		}
		if want == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			close(ready)
		}
	}
}

func TestServer_ReflectionIsOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	err := f.conn.Invoke(t.Context(), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", call(), &ratelimitv3.RateLimitResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func TestServer_B4_HugeMessagesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fails(codes.ResourceExhausted, call(descriptor(keyTenant, "ten_a", keyMethod, "GET", keyPath, "/"+strings.Repeat("a", 10<<20))))
	// As much as Envoy takes in header fields by default is decided.
	r := f.ask(descriptor(keyTenant, "ten_a", keyMethod, "GET", keyPath, "/ten", "header:a", strings.Repeat("a", 60<<10), "header:b", strings.Repeat("a", 60<<10)))
	if r.GetOverallCode() != okay {
		t.Errorf("%v", r)
	}
}

// rawCall sends one call with the given fields and returns what the server does
// first: the fields of its answer, or the reset of the stream.
func rawCall(t *testing.T, addr string, fields ...string) (http.Header, bool) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, []byte{0, 0, 0, 0, 0}),
	); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil, true
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			h := http.Header{}
			for _, field := range frame.Fields {
				h.Add(field.Name, field.Value)
			}
			if h.Get("grpc-status") != "" || h.Get(":status") != "200" {
				return h, false
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return nil, true
		}
	}
}

func TestServer_B4_MissingAuthorityIsNoPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	usual := []string{":method", "POST", ":scheme", "http", ":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "content-type", "application/grpc", "te", "trailers"}
	h, reset := rawCall(t, f.addr, usual...)
	if !reset && h.Get("grpc-status") == "0" {
		t.Errorf("a call without an authority was answered: %v", h)
	}
	h, reset = rawCall(t, f.addr, append([]string{":authority", "x"}, usual...)...)
	if reset || h.Get("grpc-status") != "3" { // the empty request is understood, and has no domain
		t.Errorf("the same with one: %v, %v", h, reset)
	}
	if r := f.ask(about("GET", "/ten")); r.GetOverallCode() != okay {
		t.Errorf("afterwards: %v", r)
	}
}

func TestServer_APanicEndsTheCallAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	decider := &fakeDecider{decide: func(_ context.Context, in *gateway.Inbound) gateway.Verdict {
		if in.EscapedPath == "/panic" {
			panic("a fault")
		}
		return gateway.Verdict{Allowed: true, Status: http.StatusOK, Deciding: -1}
	}}
	s, err := New(decider, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	info := &grpc.UnaryServerInfo{Server: s.health, FullMethod: "/m"}
	_, err = s.guard(t.Context(), nil, info, func(context.Context, any) (any, error) { panic("a fault") })
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a fault") || !strings.Contains(log.String(), "a fault") {
		t.Errorf("%v; log %s", err, log.String())
	}
	_, addr := serve(t, decider, Config{})
	limits := ratelimitv3.NewRateLimitServiceClient(dial(t, addr))
	if _, err := limits.ShouldRateLimit(t.Context(), call(about("GET", "/panic"))); status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
	if _, err := limits.ShouldRateLimit(t.Context(), call(about("GET", "/"))); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestServer_ShutdownFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wait := make(chan struct{})
	f.store.set(func(s *testStore) { s.wait = wait })
	answered := make(chan error, 1)
	go func() {
		_, err := f.limits.ShouldRateLimit(context.WithoutCancel(t.Context()), call(about("GET", "/ten")))
		answered <- err
	}()
	<-f.store.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end of the grace: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- f.server.Shutdown(t.Context()) }()
	close(wait)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	f.fails(codes.Unavailable, call(about("GET", "/ten")))
}

func TestServer_CloseCutsOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wait := make(chan struct{})
	defer close(wait)
	f.store.set(func(s *testStore) { s.wait = wait })
	answered := make(chan error, 1)
	go func() {
		_, err := f.limits.ShouldRateLimit(context.WithoutCancel(t.Context()), call(about("GET", "/ten")))
		answered <- err
	}()
	<-f.store.begun
	go func() { _ = f.server.Close() }() // returns when the call has
	if err := <-answered; err == nil {
		t.Error("the call went on")
	}
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", raw)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, raw []byte) {
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes NAME.pem and NAME.key and returns the paths.
func (a *authority) issue(name string, serial int64) (cert, key string) {
	a.t.Helper()
	private := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", raw)
	if raw, err = x509.MarshalECPrivateKey(private); err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "EC PRIVATE KEY", raw)
	return filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
}

// client is how a client of the authority dials a server of another one; without
// a name it has no certificate of its own.
func (a *authority) client(name string, server *authority) grpc.DialOption {
	a.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	c.RootCAs.AddCert(server.cert)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.issue(name, 7))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(c))
}

func TestServer_B4_MutualTLSKnowsClientsByTheirCertificates(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	cert, key := ours.issue("server", 2)
	c := Config{CertFile: cert, KeyFile: key, ClientCAFile: filepath.Join(ours.dir, "ca.pem")}
	if !c.MutualTLS() {
		t.Error("it does not say so")
	}
	_, addr := serve(t, &fakeDecider{mayAsk: func(netip.Addr, string) bool { return false }}, c)
	for name, option := range map[string]grpc.DialOption{
		"no certificate": ours.client("", ours), "another authority's": others.client("stranger", ours), "no TLS": grpc.WithUserAgent("plain"),
	} {
		_, err := ratelimitv3.NewRateLimitServiceClient(dial(t, addr, option)).ShouldRateLimit(t.Context(), call(about("GET", "/ten")))
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	known := dial(t, addr, ours.client("envoy", ours))
	if _, err := ratelimitv3.NewRateLimitServiceClient(known).ShouldRateLimit(t.Context(), call(about("GET", "/ten"))); err != nil {
		t.Errorf("a known client: %v", err)
	}
}

func TestServer_RenewedCertificatesAreUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("server", 2)
	_, addr := serve(t, &fakeDecider{}, Config{CertFile: cert, KeyFile: key})
	serial := func() int64 {
		t.Helper()
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Fatalf("serial %d", got)
	}
	a.issue("server", 3)
	if got := serial(); got != 3 {
		t.Errorf("after the renewal: serial %d", got)
	}
	if err := os.WriteFile(cert, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 3 {
		t.Errorf("in the middle of the next one: serial %d", got)
	}
}

func TestConfig_AllProblemsAreNamed(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("server", 2)
	for want, c := range map[string]Config{
		"--grpc-domain: is longer":                        {Domain: strings.Repeat("a", 257)},
		"--grpc-budget: -1ns":                             {Budget: -1},
		"--grpc-budget: 1m0s":                             {Budget: time.Minute},
		"--grpc-cert-file: and --grpc-key-file":           {CertFile: cert},
		"--grpc-client-ca-file: needs":                    {ClientCAFile: cert},
		"--grpc-cert-file: load certificate":              {CertFile: cert, KeyFile: cert},
		"holds no certificate":                            {CertFile: cert, KeyFile: key, ClientCAFile: key},
		"--grpc-cert-file: load authority of clients":     {CertFile: cert, KeyFile: key, ClientCAFile: key + "x"},
		"--grpc-budget: -1ns is not between 0 and 5s\n--": {Budget: -1, ClientCAFile: cert},
	} {
		if _, err := New(&fakeDecider{}, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// bytesCodec sends and receives bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// A caller that puts bytes of no UTF-8 into a field must not make the call fail.
func TestServer_B4_TextThatIsNotUTF8IsDecided(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		d    *commonv3.RateLimitDescriptor
		want ratelimitv3.RateLimitResponse_Code
	}{
		"path":   {about("GET", "/ten/@"), over},
		"method": {about("GE@T", "/ten"), over},
		"tenant": {descriptor(keyTenant, "ten_a@", keyMethod, "GET", keyPath, "/ten"), over},
		"key":    {descriptor(keyAPIKey, "@", keyMethod, "GET", keyPath, "/ten"), over},
		"field":  {descriptor(keyTenant, "ten_a", keyMethod, "GET", keyPath, "/ten", "header:user-agent", "@"), okay},
	} {
		raw, err := proto.Marshal(call(c.d))
		if err != nil {
			t.Fatal(err)
		}
		raw, out := bytes.ReplaceAll(raw, []byte("@"), []byte{0xff}), []byte{}
		err = f.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &raw, &out, grpc.ForceCodecV2(bytesCodec{}))
		var answer ratelimitv3.RateLimitResponse
		if err := errors.Join(err, proto.Unmarshal(out, &answer)); err != nil || answer.GetOverallCode() != c.want {
			t.Errorf("%s: %v, %v", name, &answer, err)
		}
	}
}
