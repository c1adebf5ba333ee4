package pglocal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/internal/child"
)

// port names the socket file; nothing listens on TCP.
const port = "5432"

// stopGrace is how long a fast shutdown may take.
const stopGrace = 10 * time.Second

// Options say where and how the cluster runs.
type Options struct {
	Dir     string   // the cluster's folder, made if absent, ≤ 80 bytes (Unix sockets); the server's user must be able to walk to it
	Durable bool     // false: fsync off and the like, for data that may be lost
	BinDir  string   // "" asks FindBin
	Log     string   // the server's log file; "" is postgres.log in Dir
	Extra   []string // further settings, name=value
}

// Server is a running cluster. Its superuser is postgres, without a password.
type Server struct {
	Dir     string
	Process *child.Process
}

// Start makes the cluster if there is none in Dir, starts it, and returns when
// it accepts connections. A server that dies with its parent shuts down cleanly.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.BinDir == "" {
		var err error
		if o.BinDir, err = FindBin(); err != nil {
			return nil, err
		}
	}
	if o.Log == "" {
		o.Log = filepath.Join(o.Dir, "postgres.log")
	}
	cred, err := dropTo()
	if err != nil {
		return nil, err
	}
	if err := makeDir(o.Dir, cred); err != nil {
		return nil, err
	}
	if err := initdb(ctx, o, cred); err != nil {
		return nil, err
	}
	// What a killed server leaves behind for a moment would be in the way.
	child.WaitIdle(filepath.Join(o.Dir, "data"), stopGrace)
	p, err := child.Start(child.Spec{
		Argv: append([]string{filepath.Join(o.BinDir, "postgres")}, settings(o)...),
		Env:  env(o.Dir), Dir: o.Dir, LogFile: o.Log,
		Credential: cred, DeathSignal: syscall.SIGINT, // a fast and clean shutdown
	})
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: o.Dir, Process: p}
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// makeDir makes the cluster's folder, closed to all but its owner, below
// parents that everybody can walk through.
func makeDir(dir string, cred *syscall.Credential) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // as said above
		return fmt.Errorf("make parents of %s: %w", dir, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make folder for PostgreSQL: %w", err)
	}
	if cred == nil {
		return nil
	}
	if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
		return fmt.Errorf("give %s to PostgreSQL's user: %w", dir, err)
	}
	return nil
}

func initdb(ctx context.Context, o Options, cred *syscall.Credential) error {
	data := filepath.Join(o.Dir, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	args := []string{"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"}
	if !o.Durable {
		args = append(args, "--no-sync")
	}
	c := exec.CommandContext(ctx, filepath.Join(o.BinDir, "initdb"), args...)
	c.Env, c.Dir = env(o.Dir), o.Dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", data, err, out)
	}
	return nil
}

// env is all that initdb and postgres see: nothing that the caller has set for
// other PostgreSQL programs.
func env(dir string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + dir}
}

func settings(o Options) []string {
	set := []string{
		"listen_addresses=", "unix_socket_directories=" + o.Dir, "port=" + port, "max_connections=200",
		"shared_buffers=64MB", "log_min_messages=warning", "timezone=UTC",
		"dynamic_shared_memory_type=mmap", // not in /dev/shm, which may be tiny
	}
	if !o.Durable {
		set = append(set, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "max_wal_size=128MB", "min_wal_size=32MB")
	}
	args := []string{"-D", filepath.Join(o.Dir, "data")}
	for _, v := range append(set, o.Extra...) {
		args = append(args, "-c", v)
	}
	return args
}

// wait returns when the server accepts connections, and stops it if it cannot.
func (s *Server) wait(ctx context.Context) error {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-s.Process.Done():
			return fmt.Errorf("postgres ended at start: %w\n%s", s.Process.Err(), tail(s.Process.Spec.LogFile))
		case <-ctx.Done():
			s.Stop()
			return fmt.Errorf("wait for postgres (%w): %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// tail is the end of a log file, for an error message.
func tail(file string) []byte {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return b[max(0, len(b)-2000):]
}

// URL is the connection URL of a database of this server. Its form suits libpq
// and pgx alike: the socket's folder is a query argument.
func (s *Server) URL(database string) string {
	q := url.Values{"host": {s.Dir}, "port": {port}, "sslmode": {"disable"}}
	return "postgres://postgres@localhost/" + url.PathEscape(database) + "?" + q.Encode()
}

// Stop shuts down cleanly, cutting connections.
func (s *Server) Stop() {
	s.Process.Stop(syscall.SIGINT, stopGrace)
}
