package notify

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Limits of one webhook call.
const (
	callTimeout = 5 * time.Second
	answerBytes = 64 << 10
	headerBytes = 16 << 10
)

// Config is where mail goes through and where webhooks may go.
type Config struct {
	// SMTP is smtp://[USER:PASSWORD@]HOST[:PORT] (STARTTLS; without it on loopback
	// alone) or smtps:// (TLS from the start); "" sends no mail.
	SMTP string
	// From is the sender's address, with a name or without; needed with SMTP.
	From string
	// Allow lists networks that webhooks may go to although they are private, on any
	// port and by plain HTTP, too.
	Allow []netip.Prefix
	// Resolver resolves receivers' names; nil is Go's own.
	Resolver *net.Resolver
	// RootCAs and the like for receivers and mail servers; nil is the system's.
	TLS *tls.Config
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Sender sends mail and webhooks. It may be used by several goroutines.
type Sender struct {
	mail *mailer // nil: none is sent
	hook *http.Client
	gate guard
	conf Config
}

// New checks the configuration and returns a Sender. It connects to nothing.
func New(c Config) (*Sender, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Resolver == nil {
		c.Resolver = &net.Resolver{PreferGo: true}
	}
	s := &Sender{gate: newGuard(c.Allow), conf: c}
	var errs []error
	if c.SMTP != "" {
		m, err := newMailer(c)
		errs, s.mail = append(errs, err), m
	}
	for _, p := range c.Allow {
		if !p.IsValid() || p.Masked() != p {
			errs = append(errs, fmt.Errorf("notify: %s is not a network", p))
		}
	}
	s.hook = newHook(s.gate, c)
	return s, errors.Join(errs...)
}

// Outward is the same sender without the networks that were allowed by name: they are
// the deployment's own, and not for addresses that its tenants type.
func (s *Sender) Outward() *Sender {
	out := &Sender{mail: s.mail, gate: newGuard(nil)}
	out.hook = newHook(out.gate, s.conf)
	return out
}

// CanMail reports whether there is a way to send mail.
func (s *Sender) CanMail() bool { return s.mail != nil }

// CheckURL says what is wrong with a webhook's address as it was typed; "" when it
// may be tried. Names are resolved, and judged again, when something is sent.
func (s *Sender) CheckURL(raw string) string {
	_, problem := s.gate.parse(raw)
	return problem
}

// failure is an error with words for the user; its cause is for the log alone.
type failure struct {
	public string
	cause  error
}

// Error is the text for the user.
func (f *failure) Error() string { return f.public }

// Unwrap is the cause.
func (f *failure) Unwrap() error { return f.cause }

// Cause is what really happened, for logs of the deployment's own people.
func Cause(err error) error {
	if f, ok := errors.AsType[*failure](err); ok && f.cause != nil {
		return f.cause
	}
	return err
}
