package testkit

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/headgate/headgate/internal/pglocal"
)

// template is the migrated database that tests' databases are copies of.
const template = "headgate_template"

// cluster is the one PostgreSQL of this test binary, started by the first test
// that asks. It is removed by a reaper when the binary ends, however it ends.
//
//nolint:gochecknoglobals // one per process is what it is for
var cluster = sync.OnceValues(startCluster)

// instance is the cluster and what keeps its reaper waiting.
type instance struct {
	*pglocal.Server
	alive io.Closer // must stay reachable: collected, it would be closed and the reaper would act
}

// migrated makes the template once.
//
//nolint:gochecknoglobals // as above
var migrated = sync.OnceValue(func() error {
	s, err := cluster()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.Create(ctx, template, ""); err != nil {
		return err
	}
	return migrate(ctx, s.URL(template))
})

// Postgres makes a fresh database with the schema of migrations/ and returns its
// URL. It is dropped at the end of the test. The user is a superuser.
func Postgres(t testing.TB) string {
	t.Helper()
	if err := migrated(); err != nil {
		t.Fatalf("testkit: migrate template: %v", err)
	}
	return database(t, template)
}

// PostgresEmpty makes a fresh database without a schema and returns its URL.
func PostgresEmpty(t testing.TB) string {
	t.Helper()
	return database(t, "")
}

func database(t testing.TB, from string) string {
	t.Helper()
	s, err := cluster()
	if err != nil {
		t.Fatalf("testkit: start PostgreSQL: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	name, err := s.Clone(ctx, from)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := s.Drop(ctx, name); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	return s.URL(name)
}

func startCluster() (*instance, error) {
	dir, err := os.MkdirTemp(pglocal.FastTemp(), "hgpg-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := pglocal.Start(ctx, pglocal.Options{Dir: dir, Extra: []string{"autovacuum=off"}})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	alive, err := reap(s.Process.PID(), dir)
	if err != nil {
		s.Stop()
		return nil, err
	}
	return &instance{s, alive}, nil
}

// reap leaves a small process behind that notices our end (its input is a pipe
// that only we hold), stops the server and removes its folder. A test binary
// has no moment of its own for that, least of all when it is killed.
func reap(pid int, dir string) (io.Closer, error) {
	const script = `cat >/dev/null; kill -INT "$1" 2>/dev/null
		for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -0 "$1" 2>/dev/null || break; sleep 0.1; done
		kill -KILL "$1" 2>/dev/null; rm -rf "$2"`
	c := exec.Command("/bin/sh", "-c", script, "testkit-reaper", strconv.Itoa(pid), dir) //nolint:noctx // it outlives us: that is what it is for
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the tests
	alive, err := c.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to reaper: %w", err)
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start reaper: %w", err)
	}
	return alive, nil
}

// migrate applies migrations/ as it lies in the source tree. It does not go
// through package db, so that db's own tests can use testkit.
func migrate(ctx context.Context, url string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("parse URL: %w", err)
	}
	conn := stdlib.OpenDB(*cfg)
	defer func() { _ = conn.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, conn, os.DirFS(filepath.Join(root, "migrations")))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	return nil
}
