package redislocal_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/redislocal"
)

func freePort(t *testing.T) int {
	t.Helper()
	p, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStart_NeedsThePasswordAndKeepsNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "redis")
	s, err := redislocal.Start(t.Context(), redislocal.Options{Dir: dir, Port: freePort(t), Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Process.Kill)
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	for setting, want := range map[string]string{"save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"} {
		if got := c.ConfigGet(t.Context(), setting).Val()[setting]; got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	bare := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = bare.Close() }()
	if err := bare.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
	if st, err := os.Stat(filepath.Join(dir, "redis.conf")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file with the password: %v, %v", st, err)
	}
	s.Stop()
	if err := s.Process.Err(); err != nil {
		t.Errorf("ended by Stop: %v", err)
	}
}

func TestStart_RefusesATakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := redislocal.Start(ctx, redislocal.Options{Dir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil {
		s.Process.Kill()
		t.Fatal("started on a port that is taken")
	}
	if !strings.Contains(err.Error(), "in use") {
		t.Errorf("the error does not say why: %v", err)
	}
}

func TestFindBin_PrefersWhatIsConfigured(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "my-redis")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HEADGATE_REDIS_BIN", bin)
	if got, err := redislocal.FindBin(); err != nil || got != bin {
		t.Errorf("FindBin() = %q, %v", got, err)
	}
	t.Setenv("HEADGATE_REDIS_BIN", "")
	t.Setenv("PATH", t.TempDir())
	if got, err := redislocal.FindBin(); err == nil {
		t.Errorf("FindBin() = %q on an empty PATH", got)
	}
}
