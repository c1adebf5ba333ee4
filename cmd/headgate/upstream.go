package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/service"
)

// upstreamCmd is the demo's API behind the gateways: it answers every request
// with what it saw of it.
type upstreamCmd struct {
	Listen string `help:"Address to listen on." default:"127.0.0.1:0"`
}

// maxUpstreamDelay bounds what a request may ask for.
const maxUpstreamDelay = time.Minute

// Run serves until told to stop.
func (c *upstreamCmd) Run(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	return service.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), 5*time.Second, service.HTTP("upstream", srv, l, 2*time.Second))
}

// echo answers 200, or ?status=; after ?delay=. Credentials are not echoed.
func echo(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, "read body", http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	if d, err := time.ParseDuration(q.Get("delay")); err == nil && d > 0 {
		select {
		case <-time.After(min(d, maxUpstreamDelay)):
		case <-r.Context().Done():
			return
		}
	}
	status, err := strconv.Atoi(q.Get("status"))
	if err != nil || status < 200 || status > 599 {
		status = http.StatusOK
	}
	headers := r.Header.Clone()
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
		if headers.Get(name) != "" {
			headers.Set(name, "(given)")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "host": r.Host, "path": r.URL.EscapedPath(), "query": r.URL.RawQuery,
		"headers": headers, "body_bytes": n,
	})
}
