package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy/feed"
)

// borrowTimeout bounds what the demo itself asks of a Redis that is not its own.
const borrowTimeout = 5 * time.Second

// borrowRedis takes the Redis that --redis-url names. It may be anybody's: a
// namespace that a deployment is in is left alone.
func (d *demo) borrowRedis(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, borrowTimeout)
	defer cancel()
	client, err := d.borrowed()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	for _, part := range []string{"policy", "directory"} {
		n, err := client.Exists(ctx, d.opts.RedisNamespace+":{"+part+"}:head").Result()
		if err != nil {
			return fmt.Errorf("--redis-url: %w", err)
		}
		if n > 0 {
			return fmt.Errorf("--redis-namespace: %q is in use in that Redis; choose another", d.opts.RedisNamespace)
		}
	}
	d.secrets.redisURL, d.returns = d.opts.RedisURL, true
	_, err1 := d.dir.writeSecret("redis-url", d.opts.RedisURL)
	_, err2 := d.dir.writeSecret("gateway-redis-url", d.opts.RedisURL)
	return errors.Join(err1, err2)
}

func (d *demo) borrowed() (redis.UniversalClient, error) {
	var p config.Problems
	_, o := redisURL(&p, d.opts.RedisURL, "")
	if o == nil {
		return nil, p.Err()
	}
	return wireClient(o, ""), nil
}

// returnRedis removes what the demo has left in a Redis that is not its own.
func (d *demo) returnRedis() {
	if !d.returns {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), borrowTimeout)
	defer cancel()
	client, err := d.borrowed()
	if err == nil {
		defer func() { _ = client.Close() }()
		err = feed.EachServer(ctx, client, func(ctx context.Context, node redis.Cmdable) error {
			return removeKeys(ctx, node, d.opts.RedisNamespace+":*")
		})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "headgate: keys of the demo are left in Redis under %s: %v\n", d.opts.RedisNamespace, err)
	}
}

// removeKeys removes a server's keys that match a pattern.
func removeKeys(ctx context.Context, node redis.Cmdable, pattern string) error {
	for cursor := uint64(0); ; {
		found, next, err := node.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return err
		}
		pipe := node.Pipeline()
		for _, k := range found {
			pipe.Unlink(ctx, k)
		}
		if _, err := pipe.Exec(ctx); len(found) > 0 && err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
