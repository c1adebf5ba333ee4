package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

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
		_, err := ratelimitv3.NewRateLimitServiceClient(dial(t, addr, option)).ShouldRateLimit(t.Context(), request(about("GET", "/ten")))
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	known := dial(t, addr, ours.client("envoy", ours))
	if _, err := ratelimitv3.NewRateLimitServiceClient(known).ShouldRateLimit(t.Context(), request(about("GET", "/ten"))); err != nil {
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
