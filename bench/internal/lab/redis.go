// Package lab has what measurements run on: a private Redis on a loopback port,
// and what it says of itself.
//
// It imports internal/redislocal and internal/child of headgate.
package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/redislocal"
)

// startTimeout is generous: the machine may be busy.
const startTimeout = 30 * time.Second

// patience is the time limit of single calls, far above what a loaded machine
// needs: a benchmark counts no time-outs.
const patience = 5 * time.Second

// Redis is a private server that keeps nothing.
type Redis struct {
	URL    string
	Client *redis.Client // for questions beside the measurement
	server *redislocal.Server
	dir    string
}

// Start starts a server. Stop ends it.
func Start(ctx context.Context) (*Redis, error) {
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder for Redis: %w", err)
	}
	server, err := startAnywhere(ctx, dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	r := &Redis{URL: server.URL(), server: server, dir: dir}
	if r.Client, err = r.NewClient(2); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// startAnywhere tries again when somebody took the port in between.
func startAnywhere(ctx context.Context, dir string) (*redislocal.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	for range 5 {
		port, err := child.FreePort()
		if err != nil {
			return nil, fmt.Errorf("find a port for Redis: %w", err)
		}
		server, err := redislocal.Start(ctx, redislocal.Options{Dir: filepath.Join(dir, "redis"), Port: port})
		if err == nil {
			return server, nil
		}
		last = err
	}
	return nil, last
}

// Stop ends the server and removes its folder.
func (r *Redis) Stop() {
	if r.Client != nil {
		_ = r.Client.Close()
	}
	r.server.Stop()
	_ = os.RemoveAll(r.dir)
}

// PID is the server's process id.
func (r *Redis) PID() int { return r.server.Process.PID() }

// NewClient is a client with pool connections and the options of a gateway's:
// nothing is sent twice and a call ends with its context. Only its patience is its
// own.
func (r *Redis) NewClient(pool int) (*redis.Client, error) {
	opts, err := redis.ParseURL(r.URL)
	if err != nil {
		return nil, fmt.Errorf("the private Redis: %w", err)
	}
	opts.PoolSize, opts.MaxActiveConns, opts.MinIdleConns = pool, pool, pool
	opts.PipelinePoolSize = -1
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// Flush removes everything from the server.
func (r *Redis) Flush(ctx context.Context) error {
	if err := r.Client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("empty Redis: %w", err)
	}
	return nil
}

// ScriptCalls is how many scripts have been called since the server started or
// its statistics were reset.
func (r *Redis) ScriptCalls(ctx context.Context) (int64, error) {
	text, err := r.Client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its command statistics: %w", err)
	}
	var calls int64
	for _, command := range []string{"eval", "evalsha", "fcall"} {
		n, err := field(text, "cmdstat_"+command+":calls=")
		if err != nil {
			return 0, err
		}
		calls += n
	}
	return calls, nil
}

// Memory is what the server's data takes, in bytes.
func (r *Redis) Memory(ctx context.Context) (int64, error) {
	text, err := r.Client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}
	return field(text, "used_memory:")
}

// Version is the server's version.
func (r *Redis) Version(ctx context.Context) string {
	_, rest, _ := strings.Cut(r.Client.Info(ctx, "server").Val(), "redis_version:")
	version, _, _ := strings.Cut(rest, "\r\n")
	return version
}

// Now is the server's clock.
func (r *Redis) Now(ctx context.Context) (time.Time, error) {
	now, err := r.Client.Time(ctx).Result()
	if err != nil {
		return now, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return now, nil
}

// field is the number after the name in one of INFO's answers; 0 when the name is
// not there.
func field(text, name string) (int64, error) {
	_, rest, found := strings.Cut(text, "\n"+name)
	if !found {
		return 0, nil
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.ParseInt(rest[:end], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %q of Redis: %w", name, err)
	}
	return n, nil
}
