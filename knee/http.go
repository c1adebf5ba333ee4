package knee

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Target is what is asked over HTTP.
type Target struct {
	Method string // GET when empty
	URL    string
	Header http.Header
	Body   string
}

// maxBody is how much of an answer is read before its connection is given up.
const maxBody = 1 << 20

// Client returns a client with connections for a server that answers late, and no
// time limit of its own: a step ends its requests.
func Client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 4096, IdleConnTimeout: 30 * time.Second, DisableCompression: true},
		// A redirect is an answer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Call is what Plan.Run asks: one request and the whole of its answer. It fails for a
// target that cannot be asked.
func (t Target) Call(client *http.Client) (func(context.Context) Answer, error) {
	if _, err := t.request(context.Background()); err != nil {
		return nil, err
	}
	return func(ctx context.Context) Answer {
		req, err := t.request(ctx)
		if err != nil {
			return Answer{Err: err}
		}
		res, err := client.Do(req)
		if err != nil {
			return Answer{Err: err}
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.CopyN(io.Discard, res.Body, maxBody); err != nil && err != io.EOF { //nolint:errorlint // CopyN returns it bare
			return Answer{Err: err}
		}
		return Answer{Status: res.StatusCode}
	}, nil
}

func (t Target) request(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, t.Method, t.URL, strings.NewReader(t.Body))
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("target %s: must be http(s)://host/path", t.URL)
	}
	for name, values := range t.Header {
		req.Header[name] = values
	}
	if host := t.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}
