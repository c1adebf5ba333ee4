package feed

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// maxPulled is two bodies in base64 and some room.
	maxPulled = 24 << 20
	// maxAnswer is what a console says to a heartbeat, or of a failure.
	maxAnswer = 4 << 10
	// pullTimeout bounds one request; a policy of 8 MiB may come over a slow line.
	pullTimeout = 15 * time.Second
	// StampHeader carries a stamp as base64 of its JSON, also when the policy
	// itself has not changed.
	StampHeader = "Headgate-Stamp"
)

// ConsoleConfig is what a Console needs.
type ConsoleConfig struct {
	URL   string // https://console.example, without a path; http is for one machine
	Token string // that the console asks for, at least 16 characters
	CA    []byte // PEM of the authority to trust instead of the system's; nil: the system's
}

// Console is the way to a console over HTTPS for the time when Redis is away. It
// is safe for concurrent use.
type Console struct {
	base   *url.URL
	token  string
	client *http.Client
}

// NewConsole checks c and lists everything that is wrong with it.
func NewConsole(c ConsoleConfig) (*Console, error) {
	var bad []error
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" {
		bad = append(bad, errors.New("the console's URL must be http(s)://host[:port]"))
	}
	if len(c.Token) < 16 || strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad = append(bad, errors.New("the console's token must have 16 or more characters, and no spaces"))
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 5 * time.Second,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2, MaxConnsPerHost: 4, MaxResponseHeaderBytes: 32 << 10, ForceAttemptHTTP2: true,
	}
	if c.CA != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(c.CA) {
			bad = append(bad, errors.New("the console's authority is no PEM certificate"))
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return &Console{base: u, token: c.Token, client: &http.Client{
		Transport: transport, Timeout: pullTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token goes nowhere else
	}}, nil
}

// Close ends idle connections.
func (c *Console) Close() { c.client.CloseIdleConnections() }

// ask sends a request and returns the answer, whose body the caller closes.
func (c *Console) ask(ctx context.Context, method, path string, query url.Values, body []byte, etag string) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("User-Agent", "headgate-gateway")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	return c.client.Do(r)
}

// pulled is one answer of a console.
type pulled struct {
	offer *policy.Pulled // nil: as before
	etag  string
	stamp string        // JSON, "" for none
	seen  chan struct{} // closed when the Watcher has looked at it
}

// policy asks for what the given replica is to enforce. etag is that of the
// answer before, "" at first.
func (c *Console) policy(ctx context.Context, replica, etag string) (pulled, error) {
	resp, err := c.ask(ctx, http.MethodGet, "/gateway/v1/policy", url.Values{"replica": {replica}}, nil, etag)
	if err != nil {
		return pulled{}, fmt.Errorf("ask console for the policy: %w", err)
	}
	defer closeBody(resp)
	out := pulled{etag: resp.Header.Get("ETag")}
	if raw, err := base64.StdEncoding.DecodeString(resp.Header.Get(StampHeader)); err == nil {
		out.stamp = string(raw)
	}
	switch resp.StatusCode {
	case http.StatusNotModified:
		return out, nil
	case http.StatusOK:
	default:
		return pulled{}, refused("the policy", resp)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxPulled+1))
	if err != nil {
		return pulled{}, fmt.Errorf("read policy from console: %w", err)
	}
	if len(raw) > maxPulled {
		return pulled{}, fmt.Errorf("read policy from console: over %d bytes", maxPulled)
	}
	if out.offer, err = decodePulled(raw); err != nil {
		return pulled{}, err
	}
	return out, nil
}

// decodePulled reads an answer. It checks the shape alone.
func decodePulled(raw []byte) (*policy.Pulled, error) {
	var p policy.Pulled
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("read policy from console: %w", err)
	}
	if p.Policy.Version < 0 || p.Policy.Version > maxVersion {
		return nil, fmt.Errorf("read policy from console: version %d is not a number up to 2^53", p.Policy.Version)
	}
	return &p, nil
}

// Beat brings a heartbeat to the console. It returns the number of replicas that
// are not gone, as the console knows it.
func (c *Console) Beat(ctx context.Context, h policy.Heartbeat) (live int, err error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return 0, fmt.Errorf("encode heartbeat: %w", err)
	}
	resp, err := c.ask(ctx, http.MethodPost, "/gateway/v1/heartbeat", nil, raw, "")
	if err != nil {
		return 0, fmt.Errorf("bring heartbeat to console: %w", err)
	}
	defer closeBody(resp)
	if resp.StatusCode != http.StatusOK {
		return 0, refused("a heartbeat", resp)
	}
	var answer struct {
		Live int `json:"live"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return 0, fmt.Errorf("read the console's answer: %w", err)
	}
	return answer.Live, nil
}

// refused tells what a console answered instead, in its own words where it has some.
func refused(what string, resp *http.Response) error {
	var problem struct {
		Detail string `json:"detail"`
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		_ = json.Unmarshal(raw, &problem) // no problem document: the status has to do
	}
	return fmt.Errorf("console answers %d to %s: %s", resp.StatusCode, what, shorten(problem.Detail))
}

// closeBody leaves the connection usable when little of the answer is unread.
func closeBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	_ = resp.Body.Close()
}
