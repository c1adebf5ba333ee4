package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/web/api"
)

// maxAPIAnswer bounds what is read of an answer, in bytes. A draft of the largest
// size takes up to six times that as JSON.
const maxAPIAnswer = 64 << 20

// apiClient asks the console's JSON API.
type apiClient struct {
	base  string
	token string
	http  *http.Client
	// patience is for how long calls that may be repeated are, while the console
	// is busy or away; 0 not at all.
	patience time.Duration
}

// apiCall is one call of the API.
type apiCall struct {
	method, path string
	ifMatch      string // ETag, quoted; "" for none
	key          string // idempotency key; with one, a POST may be repeated
	body         any    // nil: none
}

// apiError is an answer outside 200–299.
type apiError struct {
	call    string // method and path
	status  int
	problem api.Problem // zero when the answer was none
	text    string
}

// Error is the problem's text, or the answer's beginning.
func (e *apiError) Error() string {
	if e.problem.Detail != "" {
		return e.problem.Detail
	}
	return fmt.Sprintf("%s: %d %s: %s", e.call, e.status, http.StatusText(e.status), e.text)
}

// answer is what a call got, besides its body.
type answer struct {
	status int
	etag   string // quoted
}

// do sends body (nil: none) as JSON and decodes the answer into out (nil: not).
// Any status outside 200–299 is an error with the problem's text.
func (c *apiClient) do(ctx context.Context, method, path string, body, out any) error {
	_, err := c.send(ctx, apiCall{method: method, path: path, body: body}, out)
	return err
}

// send makes a call. It is repeated for as long as the client's patience lasts
// when it may be and the console cannot answer now.
func (c *apiClient) send(ctx context.Context, in apiCall, out any) (answer, error) {
	var payload []byte
	if in.body != nil {
		b, err := json.Marshal(in.body)
		if err != nil {
			return answer{}, fmt.Errorf("encode %s %s: %w", in.method, in.path, err)
		}
		payload = b
	}
	repeatable := in.method == http.MethodGet || in.key != ""
	for wait, left := 250*time.Millisecond, c.patience; ; wait *= 2 {
		a, after, err := c.once(ctx, in, payload, out)
		if err == nil || !repeatable || after < 0 || left <= 0 {
			return a, err
		}
		pause := min(max(wait, after), left)
		left -= pause
		select {
		case <-ctx.Done():
			return a, err
		case <-time.After(pause):
		}
	}
}

// once makes a call once. after is when it may be repeated, negative for never.
func (c *apiClient) once(ctx context.Context, in apiCall, payload []byte, out any) (a answer, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, in.method, c.base+in.path, bytes.NewReader(payload))
	if err != nil {
		return a, -1, fmt.Errorf("%s %s: %w", in.method, in.path, err)
	}
	for name, value := range map[string]string{"If-Match": in.ifMatch, "Idempotency-Key": in.key} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return a, 0, err // names method and URL
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(res.Body, maxAPIAnswer))
	if err != nil {
		return a, 0, fmt.Errorf("%s %s: read answer: %w", in.method, in.path, err)
	}
	a = answer{status: res.StatusCode, etag: res.Header.Get("ETag")}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		refused := refusedCall(in, res.StatusCode, got)
		if refused.problem.Code == "idempotency-conflict" { // an earlier attempt of ours is still under way
			return a, time.Second, refused
		}
		return a, retryAfter(res), refused
	}
	if out == nil || len(got) == 0 {
		return a, -1, nil
	}
	if err := json.Unmarshal(got, out); err != nil {
		return a, -1, fmt.Errorf("%s %s: decode answer: %w", in.method, in.path, err)
	}
	return a, -1, nil
}

// retryAfter is when an answer says that a repeat may pass; negative for never.
func retryAfter(res *http.Response) time.Duration {
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return time.Duration(min(max(seconds, 0), 3600)) * time.Second
	}
	return -1
}

func refusedCall(in apiCall, status int, got []byte) *apiError {
	e := &apiError{call: in.method + " " + in.path, status: status}
	if json.Unmarshal(got, &e.problem) != nil || e.problem.Code == "" {
		e.problem = api.Problem{}
		e.text = string(bytes.TrimSpace(got[:min(len(got), 2000)]))
	}
	return e
}
