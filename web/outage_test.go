package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func TestWeb_P01_WithoutDatabaseAnswersNameTheRequestAndWhenToTryAgain(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	browser, program := w.As(t, console.RoleOwner), w.API(t, console.RoleOwner)
	shutDatabase(t, w.DSN)
	for _, path := range []string{"/overview", "/tenants", "/policy", "/audit", "/strip"} {
		a := browser.Get(path)
		if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q", path, a.StatusCode, a.Header.Get("Retry-After"))
		}
		if !strings.Contains(a.Text, "PostgreSQL cannot be reached") || !strings.Contains(a.Text, `href="`+path+`">Try again`) {
			t.Errorf("%s says neither what is away nor how to try again", path)
		}
		if id := a.Header.Get("X-Request-Id"); id == "" || !strings.Contains(a.Text, id) {
			t.Errorf("%s does not name the request", path)
		}
	}
	if a := program.Get("/api/v1/tenants"); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("api: %d, Retry-After %q", a.StatusCode, a.Header.Get("Retry-After"))
	}
	for _, path := range []string{"/signin", "/healthz"} {
		if a := w.Anonymous(t).Get(path); a.StatusCode != 200 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

// shutDatabase lets nobody connect any more and ends all connections.
func shutDatabase(t *testing.T, dsn string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	name := cfg.Database
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH ALLOW_CONNECTIONS false"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name); err != nil {
		t.Fatal(err)
	}
}
