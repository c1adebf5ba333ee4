package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/headgate/headgate/gateway"
)

// Defaults of a Config.
const (
	DefaultDomain = "headgate"
	// DefaultBudget is the longest time for a decision. Envoy waits 20 ms by
	// default and throws away what comes later.
	DefaultBudget = 15 * time.Millisecond

	maxBudget = 5 * time.Second
	maxDomain = 256 // bytes
)

// Config is how the door is set up. The zero value serves without TLS, as it is
// right on loopback.
type Config struct {
	Domain string        // that rate limit requests must name; default DefaultDomain
	Budget time.Duration // of a decision; default DefaultBudget

	// Certificate, private key and authority of clients' certificates: PEM files,
	// read anew at each handshake, so that a renewed one is used without a restart.
	// With ClientCAFile only clients with a certificate of that authority are
	// heard, and those need no token.
	CertFile, KeyFile, ClientCAFile string

	// XHeaders sends X-RateLimit-Limit, -Remaining and -Reset of the tightest
	// limit, too, as users of Envoy's own rate limit service expect.
	XHeaders bool

	Log *slog.Logger // default: none
}

// Problems reports everything that is wrong with the plain values, each under
// the flag that sets it.
func (c *Config) Problems(add func(setting, format string, args ...any)) {
	if len(c.Domain) > maxDomain {
		add("--grpc-domain", "is longer than %d bytes", maxDomain)
	}
	if c.Budget < 0 || c.Budget > maxBudget {
		add("--grpc-budget", "%v is not between 0 and %v", c.Budget, maxBudget)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		add("--grpc-cert-file", "and --grpc-key-file: both are needed, or neither")
	}
	if c.ClientCAFile != "" && c.CertFile == "" {
		add("--grpc-client-ca-file", "needs --grpc-cert-file and --grpc-key-file")
	}
	if c.CertFile != "" && c.KeyFile != "" {
		if _, err := c.handshake(); err != nil {
			add("--grpc-cert-file", "%v", err)
		}
	}
}

func (c *Config) check() error {
	var bad []error
	c.Problems(func(setting, format string, args ...any) {
		bad = append(bad, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
	})
	return errors.Join(bad...)
}

func (c *Config) fillDefaults() {
	if c.Domain == "" {
		c.Domain = DefaultDomain
	}
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// MutualTLS reports whether clients are known by their certificates.
func (c *Config) MutualTLS() bool { return c.ClientCAFile != "" }

// decider is the gateway as this door sees it.
type decider interface {
	DecideInto(ctx context.Context, in *gateway.Inbound, v *gateway.Verdict)
	Answer(v *gateway.Verdict, origin string, debug bool) gateway.Answer
	WriteFields(to gateway.FieldSink, v *gateway.Verdict, origin string, debug bool)
	MayAsk(peer netip.Addr, token string) bool
	Unready() []string
}

// Door gives what gateway.Config.GRPCDoor wants.
func Door(c Config) func(*gateway.Gateway) (gateway.Door, error) {
	return func(g *gateway.Gateway) (gateway.Door, error) { return New(g, c) }
}
