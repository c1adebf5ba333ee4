package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// upload sends a file as a stream. A file that can be opened again is sent again
// while the console is busy or away; the job is made once.
func (c *apiClient) upload(ctx context.Context, path, kind, file string, out any) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	for wait, left := 250*time.Millisecond, c.patience; ; wait *= 2 {
		after, err := c.uploadOnce(ctx, path, kind, key, file, out)
		if err == nil || file == standardInput || after < 0 || left <= 0 {
			return err
		}
		pause := min(max(wait, after), left)
		left -= pause
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// uploadOnce sends it once. after is when it may be sent again, negative for never.
func (c *apiClient) uploadOnce(ctx context.Context, path, kind, key, file string, out any) (after time.Duration, err error) {
	f, err := openInput(file)
	if err != nil {
		return -1, err
	}
	defer func() { _ = f.Close() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, io.NopCloser(f))
	if err != nil {
		return -1, fmt.Errorf("upload: %w", err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Authorization", "Bearer "+c.token)
	long := *c.http
	long.Timeout = 0 // a large file takes what it takes; ctx ends it
	res, err := long.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(res.Body, maxAPIAnswer))
	if err != nil {
		return 0, errors.Join(errors.New("the answer to the upload broke off"), err)
	}
	if res.StatusCode != http.StatusCreated {
		return retryAfter(res), refusedCall(apiCall{method: http.MethodPost, path: path}, res.StatusCode, got)
	}
	if err := json.Unmarshal(got, out); err != nil {
		return -1, fmt.Errorf("decode answer to the upload: %w", err)
	}
	return -1, nil
}
