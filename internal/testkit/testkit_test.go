package testkit_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
)

func query(t *testing.T, url, sql string) string {
	t.Helper()
	ctx := t.Context()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var v string
	if err := c.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestPostgres_EachTestHasItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	a, b := testkit.Postgres(t), testkit.Postgres(t)
	if query(t, a, "SELECT current_database()") == query(t, b, "SELECT current_database()") {
		t.Error("two calls gave the same database")
	}
	const tables = "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"
	if got := query(t, a, tables); got == "0" || got == "1" {
		t.Errorf("tables in a migrated database: %s", got)
	}
	if got := query(t, testkit.PostgresEmpty(t), tables); got != "0" {
		t.Errorf("tables in an empty database: %s", got)
	}
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRedis_KilledServerComesBackEmptyOnItsPort(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t)
	c := redisClient(t, srv.URL)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	if conn, err := net.Dial("tcp", srv.Addr); err == nil {
		_ = conn.Close()
		t.Fatal("the killed server still accepts connections")
	}
	srv.Start()
	if n, err := redisClient(t, srv.URL).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Fatalf("after the restart: %d keys, %v", n, err)
	}
}

func TestRedis_PausedServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t)
	c := redisClient(t, srv.URL)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a paused server answered")
	}
	srv.Resume()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestRedis_TwoServersShareNothing(t *testing.T) {
	t.Parallel()
	a, b := testkit.Redis(t), testkit.Redis(t)
	if a.Addr == b.Addr || a.PID() == b.PID() {
		t.Fatalf("two servers are one: %s, %s", a.Addr, b.Addr)
	}
	if err := redisClient(t, a.URL).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := redisClient(t, b.URL).Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("a key of one server is in the other")
	}
}

func TestBrowser_RendersAPage(t *testing.T) {
	t.Parallel()
	ctx := testkit.Browser(t)
	if err := chromedp.Do(ctx, chromedp.Navigate("data:text/html,<title>hello</title>")); err != nil {
		t.Fatal(err)
	}
	if title, err := chromedp.Run(ctx, chromedp.Title()); err != nil || title != "hello" {
		t.Errorf("title %q, %v", title, err)
	}
}

func TestBrowser_LeavesNoFilesBehind(t *testing.T) {
	parent, err := os.MkdirTemp("/tmp", "hgt-") // not t.TempDir: the browser's socket wants a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil { // so that it is taken when tests run as root, too
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", parent)
	var during []os.DirEntry
	t.Run("browser", func(t *testing.T) {
		testkit.Browser(t)
		during, _ = os.ReadDir(parent)
	})
	after, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(during) == 0 || len(after) > 0 {
		t.Errorf("%d files while it ran, and after it: %v", len(during), after)
	}
}
