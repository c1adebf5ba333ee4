package envoy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// handshake reads the files as they are now.
func (c *Config) handshake() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
	if c.ClientCAFile == "" {
		return out, nil
	}
	raw, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("load authority of clients: %w", err)
	}
	out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !out.ClientCAs.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("load authority of clients: %s holds no certificate in PEM form: %w", c.ClientCAFile, errNoCertificate)
	}
	return out, nil
}

var errNoCertificate = errors.New("no certificate")

// tls is the configuration of the listener. When the files cannot be read in the
// middle of a renewal, the last good ones serve on.
func (c *Config) tls() (*tls.Config, error) {
	first, err := c.handshake()
	if err != nil {
		return nil, err
	}
	var good atomic.Pointer[tls.Config]
	good.Store(first)
	outer := first.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := c.handshake()
		if err != nil {
			c.Log.Error("certificates of the grpc listener cannot be read; the last good ones serve on", "error", err.Error())
			return good.Load(), nil
		}
		good.Store(now)
		return now, nil
	}
	return outer, nil
}
