package pglocal_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/pglocal"
)

// folder is short (Unix sockets) and open to the server's user.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(pglocal.FastTemp(), "hgpgt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "pg")
}

func start(t *testing.T, o pglocal.Options) *pglocal.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := pglocal.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func value(t *testing.T, url, sql string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	var v string
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func fill(t *testing.T, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestStart_ListensOnASocketOfItsOwnOnly(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, pglocal.Options{Dir: dir, Extra: []string{"autovacuum=off"}})
	url := s.URL("postgres")
	for setting, want := range map[string]string{
		"listen_addresses": "", "unix_socket_directories": dir, "TimeZone": "UTC", "fsync": "off", "autovacuum": "off",
		"server_encoding": "UTF8",
	} {
		if got := value(t, url, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder's mode %v, %v", st.Mode(), err)
	}
}

func TestStart_KeepsDataAcrossStopAndKill(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Dir: folder(t), Durable: true}
	s := start(t, o)
	if err := s.Create(t.Context(), "kept", ""); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s = start(t, o)
	const there = "SELECT count(*)::text FROM pg_database WHERE datname = 'kept'"
	if got := value(t, s.URL("postgres"), there); got != "1" {
		t.Fatalf("after a stop: %s", got)
	}
	if got := value(t, s.URL("postgres"), "SELECT current_setting('fsync')"); got != "on" {
		t.Errorf("a durable server has fsync %s", got)
	}
	s.Process.Kill()
	s = start(t, o)
	if got := value(t, s.URL("kept"), "SELECT current_database()::text"); got != "kept" {
		t.Errorf("after a kill: %s", got)
	}
}

func TestClone_IsACopyThatCanBeDropped(t *testing.T) {
	t.Parallel()
	s := start(t, pglocal.Options{Dir: folder(t)})
	ctx := t.Context()
	if err := s.Create(ctx, "tmpl", ""); err != nil {
		t.Fatal(err)
	}
	fill(t, s.URL("tmpl"), "CREATE TABLE a AS SELECT 'seed'::text AS v")
	name, err := s.Clone(ctx, "tmpl")
	if err != nil {
		t.Fatal(err)
	}
	if got := value(t, s.URL(name), "SELECT v FROM a"); got != "seed" {
		t.Errorf("copy holds %q", got)
	}
	held, err := pgx.Connect(ctx, s.URL(name)) // dropping cuts this connection
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close(context.WithoutCancel(ctx)) }()
	if err := s.Drop(ctx, name); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(ctx, s.URL(name)); err == nil {
		t.Error("a dropped database can be connected to")
	}
}

func TestStart_TellsWhyItCannot(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if _, err := pglocal.Start(ctx, pglocal.Options{Dir: folder(t), BinDir: "/nonexistent"}); err == nil || !strings.Contains(err.Error(), "initdb") {
		t.Errorf("no binaries: %v", err)
	}
	_, err := pglocal.Start(ctx, pglocal.Options{Dir: folder(t), Extra: []string{"no_such_setting=1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("a setting that is none: %v", err)
	}
}

func TestFindBin_PrefersWhatIsConfigured(t *testing.T) {
	dir := fakeServer(t, "16.4")
	t.Setenv("HEADGATE_PG_BIN", dir)
	if got, err := pglocal.FindBin(); err != nil || got != dir {
		t.Errorf("FindBin() = %q, %v, want %q", got, err, dir)
	}
	for why, useless := range map[string]string{"no binaries": t.TempDir(), "too old": fakeServer(t, "13.2")} {
		t.Setenv("HEADGATE_PG_BIN", useless)
		if got, err := pglocal.FindBin(); err != nil || got == useless {
			t.Errorf("%s: FindBin() = %q, %v", why, got, err)
		}
	}
}

// fakeServer is a folder with binaries that only tell a version.
func fakeServer(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFastTemp_IsAFolderThatOthersCanEnter(t *testing.T) {
	t.Parallel()
	dir := pglocal.FastTemp()
	if dir != "/dev/shm" && dir != child.TempParent() {
		t.Errorf("FastTemp() = %q", dir)
	}
}
