// Package redislocal runs a private redis-server or valkey-server as a child
// process, on a loopback TCP port or a Unix socket, without persistence.
//
// It imports internal/child and nothing else of this module. Neither plane may
// import it.
package redislocal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/child"
)

// ErrNoBinary means that no server was found.
var ErrNoBinary = errors.New("no redis-server or valkey-server found: run `make deps`, or set HEADGATE_REDIS_BIN")

// FindBin returns the server binary: $HEADGATE_REDIS_BIN, or the one on PATH.
func FindBin() (string, error) {
	for _, name := range []string{os.Getenv("HEADGATE_REDIS_BIN"), "redis-server", "valkey-server"} {
		if name == "" {
			continue
		}
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", ErrNoBinary
}

// Options say where the server runs.
type Options struct {
	Dir      string   // its folder, made if absent; holds configuration, log and pid file
	Port     int      // loopback port
	Password string   // "" for none
	Users    []string // further users, as "user …" lines of the configuration
	Lines    []string // further lines of the configuration
	Sentinel bool     // a Sentinel: Lines say whom it watches. A configuration that is in Dir is kept, the Sentinel's own notes with it
	Log      string   // the server's log file; "" is redis.log in Dir
}

// Server is a running server.
type Server struct {
	Addr     string // host:port
	Password string
	Process  *child.Process
}

// URL is the connection URL, with the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr, Path: "/0"}
	if s.Password != "" {
		u.User = url.UserPassword("default", s.Password) // redis-cli refuses an empty name
	}
	return u.String()
}

// Start writes the configuration (0600, it holds the password), starts the
// server and returns when it answers. The server dies with its parent.
func Start(ctx context.Context, o Options) (*Server, error) {
	bin, err := FindBin()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for Redis: %w", err)
	}
	if o.Log == "" {
		o.Log = filepath.Join(o.Dir, "redis.log")
	}
	argv, err := command(bin, o)
	if err != nil {
		return nil, err
	}
	p, err := child.Start(child.Spec{
		Argv: argv, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"},
		Dir: o.Dir, LogFile: o.Log, DeathSignal: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)), Password: o.Password, Process: p}
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// command writes the configuration and returns what to run with it.
func command(bin string, o Options) ([]string, error) {
	conf := filepath.Join(o.Dir, "redis.conf")
	argv := []string{bin, conf}
	if o.Sentinel {
		argv = append(argv, "--sentinel")
		if _, err := os.Stat(conf); err == nil {
			return argv, nil
		}
	}
	if err := os.WriteFile(conf, []byte(config(o)), 0o600); err != nil {
		return nil, fmt.Errorf("write Redis configuration: %w", err)
	}
	return argv, nil
}

func config(o Options) string {
	lines := []string{
		"bind 127.0.0.1", "port " + strconv.Itoa(o.Port), "protected-mode yes", "daemonize no",
		"dir " + strconv.Quote(o.Dir), "pidfile " + strconv.Quote(filepath.Join(o.Dir, "redis.pid")), `logfile ""`,
	}
	if !o.Sentinel {
		lines = append(lines, `save ""`, "appendonly no", "maxmemory-policy noeviction")
	}
	if o.Password != "" {
		lines = append(lines, "requirepass "+o.Password)
	}
	lines = append(lines, o.Users...)
	return strings.Join(append(lines, o.Lines...), "\n") + "\n"
}

// wait returns when this very process answers: on a port that somebody else
// took in between, somebody else does.
func (s *Server) wait(ctx context.Context) error {
	want := fmt.Sprintf("process_id:%d\r\n", s.Process.PID())
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := s.info(ctx)
		if err == nil && strings.Contains(info, want) {
			return nil
		}
		select {
		case <-s.Process.Done():
			b, _ := os.ReadFile(s.Process.Spec.LogFile)
			return fmt.Errorf("redis ended at start: %w\n%s", s.Process.Err(), b[max(0, len(b)-1000):])
		case <-ctx.Done():
			s.Process.Kill()
			return fmt.Errorf("wait for redis on %s (%w): %w", s.Addr, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// info asks the server about itself, in a conversation of its own: a client
// library would log and remember the refusals that are normal here.
func (s *Server) info(ctx context.Context) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	ask := "INFO server\r\n"
	if s.Password != "" {
		ask = "AUTH " + s.Password + "\r\n" + ask
	}
	if _, err := io.WriteString(c, ask); err != nil {
		return "", err
	}
	// A Sentinel knows no QUIT: the answer is read as far as it is wanted.
	var answer strings.Builder
	lines := bufio.NewReader(io.LimitReader(c, 64<<10))
	for {
		line, err := lines.ReadString('\n')
		answer.WriteString(line)
		if err != nil || strings.HasPrefix(line, "process_id:") || strings.HasPrefix(line, "-") {
			return answer.String(), err
		}
	}
}

// Stop shuts down in order.
func (s *Server) Stop() { s.Process.Stop(syscall.SIGTERM, 5*time.Second) }
