package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// unreachable is what is said of every call that got no answer: a refused
// connection, a closed port, a silent one, a name that leads nowhere and an address
// that is not allowed look alike.
const unreachable = "The receiver gave no answer."

// newHook is a client that follows no redirect, uses no proxy and keeps no
// connection, so that each call is judged anew.
func newHook(g guard, c Config) *http.Client {
	dial := func(plain bool) func(context.Context, string, string) (net.Conn, error) {
		d := &net.Dialer{Timeout: callTimeout, Resolver: c.Resolver, Control: g.control(plain)}
		return d.DialContext
	}
	secure := dial(false)
	var conf *tls.Config
	if c.TLS != nil {
		conf = c.TLS.Clone()
	}
	t := &http.Transport{
		DialContext: dial(true), DialTLSContext: tlsDialer(secure, conf), DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: headerBytes, ResponseHeaderTimeout: callTimeout,
	}
	return &http.Client{
		Transport: t, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tlsDialer makes TLS connections over those of dial.
func tlsDialer(dial func(context.Context, string, string) (net.Conn, error), conf *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		// net/http lets a dial go on when its call is over: it has to end by itself, or
		// receivers that say nothing would keep one connection a call.
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		own := conf.Clone()
		if own == nil {
			own = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(addr)
		}
		c := tls.Client(raw, own)
		if err := c.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
		return c, nil
	}
}

// Webhook posts a JSON body, signed with each of the secrets (whsec_…), the newest
// first. Id names the message for ever: it is the same at each repeat. The status is
// the receiver's, 0 when there was no answer; the wait is its Retry-After. The
// error's text is for the user; Cause has the rest.
func (s *Sender) Webhook(ctx context.Context, url string, secrets []string, id string, at time.Time, body []byte) (status int, wait time.Duration, err error) {
	u, problem := s.gate.parse(url)
	if problem != "" {
		return 0, 0, &failure{public: unreachable, cause: errors.New(problem)}
	}
	signature, err := sign(secrets, id, at, body)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, 0, &failure{public: unreachable, cause: err}
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Headgate-Webhook/1"},
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature},
	}
	res, err := s.hook.Do(r)
	if err != nil {
		return 0, 0, &failure{public: unreachable, cause: err}
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, answerBytes)); err != nil {
		return 0, 0, &failure{public: unreachable, cause: err}
	}
	return res.StatusCode, retryAfter(res.Header.Get("Retry-After"), at), answerError(res.StatusCode)
}

// answerError is nil for what says that the message was taken.
func answerError(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return &failure{public: fmt.Sprintf("The receiver answered %d: redirects are not followed.", status)}
	}
	return &failure{public: fmt.Sprintf("The receiver answered %d.", status)}
}

// sign makes the header of signatures, one a secret.
func sign(secrets []string, id string, at time.Time, body []byte) (string, error) {
	if len(secrets) == 0 {
		return "", &failure{public: "The webhook has no secret; make a new one."}
	}
	parts := make([]string, len(secrets))
	for i, secret := range secrets {
		w, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			parts[i], err = w.Sign(id, at, body)
		}
		if err != nil {
			return "", &failure{public: "The webhook's secret cannot be used; make a new one.", cause: errors.New("secret is not base64")}
		}
	}
	return strings.Join(parts, " "), nil
}

// maxWait bounds what a receiver can ask for.
const maxWait = 24 * time.Hour

// retryAfter reads seconds or a date (RFC 9110, 10.2.3); 0 is none.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	var wait time.Duration
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxWait)
}
