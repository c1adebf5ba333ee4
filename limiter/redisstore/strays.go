package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
)

//go:embed repair.lua
var repairSource string

const (
	scanCount    = 500
	counterKept  = 367 * 24 * time.Hour // beyond the start of a period, which is a year at most
	lifetimeKept = 400 * 24 * time.Hour
	markLasts    = time.Hour
	keptLasts    = 60 * 24 * time.Hour // of a lane's mark, unless whoever left it keeps it up
)

// Strays reads on for limiter state that has no TTL, some steps of 500 key names on
// each server, and returns what it found. whole says that a round has ended: every key
// that was there all the time has been looked at since the one before did.
func (a *Admin) Strays(ctx context.Context, at *limiter.ScanPlace, steps int) (found []limiter.Stray, whole bool, err error) {
	if at.Cursors == nil {
		at.Cursors = map[string]uint64{}
	}
	var mu sync.Mutex
	pending := false
	err = a.everyPrimary(ctx, func(ctx context.Context, node *redis.Client) error {
		name := node.Options().Addr
		mu.Lock()
		cursor, begun := at.Cursors[name]
		mu.Unlock()
		if begun && cursor == 0 { // it waits for the others
			return nil
		}
		some, cursor, err := a.scanOn(ctx, node, cursor, steps)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found, at.Cursors[name] = append(found, some...), cursor
		pending = pending || cursor != 0
		return nil
	})
	if err != nil {
		return nil, false, storeError("look for keys without a TTL", err)
	}
	if !pending {
		at.Cursors = nil
	}
	return found, !pending, nil
}

func (a *Admin) everyPrimary(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch c := a.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, c)
	}
	return fmt.Errorf("client of type %T", a.client)
}

func (a *Admin) scanOn(ctx context.Context, node *redis.Client, cursor uint64, steps int) (found []limiter.Stray, next uint64, err error) {
	for range steps {
		var names []string
		if names, cursor, err = node.Scan(ctx, cursor, a.namespace+":l:*", scanCount).Result(); err != nil {
			return nil, 0, err
		}
		some, err := strayOf(ctx, node, names)
		if err != nil {
			return nil, 0, err
		}
		if found = append(found, some...); cursor == 0 {
			break
		}
	}
	return found, cursor, nil
}

func strayOf(ctx context.Context, node *redis.Client, names []string) ([]limiter.Stray, error) {
	if len(names) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	ttls := make([]*redis.DurationCmd, len(names))
	for i, name := range names {
		ttls[i] = pipe.PTTL(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var found []limiter.Stray
	for i, ttl := range ttls {
		if ttl.Val() != -1 {
			continue
		}
		kind, err := node.Type(ctx, names[i]).Result()
		if err != nil {
			return nil, err
		}
		found = append(found, limiter.Stray{Key: names[i], Type: kind})
	}
	return found, nil
}

// kindOf is what follows the lane in a key: the first word, or "".
func kindOf(key string) string {
	_, rest, _ := strings.Cut(key, "}:")
	kind, _, _ := strings.Cut(rest, ":")
	return kind
}

// Repair gives keys that have no TTL the one that they should have, and returns how
// many it did. Keys that have one, or are gone, stay as they are; a key outside the
// limiter's state is an error.
func (a *Admin) Repair(ctx context.Context, keys []string) (int, error) {
	repaired := 0
	var failed []error
	for _, key := range keys {
		if !strings.HasPrefix(key, a.namespace+":l:{") {
			failed = append(failed, fmt.Errorf("key %.80q is no limiter state", key))
			continue
		}
		what, ttl := mends(key)
		args := []any{what, ttl.Milliseconds()}
		text, err := a.repair.run(ctx, a.client, [][]string{{key}, nil, nil}, args...)
		if err != nil {
			failed = append(failed, err)
			break
		}
		if words := strings.Split(text, " "); len(words) == 3 && words[1] == "1" {
			repaired++
		}
	}
	if err := errors.Join(failed...); err != nil {
		return repaired, storeError("repair", err)
	}
	return repaired, nil
}

// mends says what a key is, and how long it may last where its value does not tell: a
// counter's period is not known, so it lasts as long as any can. The next request that
// counts on it sets its right time.
func mends(key string) (what string, ttl time.Duration) {
	kind := kindOf(key)
	switch kind {
	case "t", "c", "d", "i", "g", "o":
		return "row", 0
	case "z":
		return "leases", 0
	case "q":
		return "other", counterLasts(key)
	case "m":
		return "other", markLasts
	case "k":
		return "other", keptLasts
	default:
		return "unknown", 0
	}
}

func counterLasts(key string) time.Duration {
	_, rest, _ := strings.Cut(key, "}:q:")
	words := strings.SplitN(rest, ":", 3)
	if len(words) < 3 {
		return time.Hour
	}
	start, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return time.Hour
	}
	left := time.Until(time.UnixMicro(start).Add(counterKept)) // an hour more or less does not matter
	if left < time.Hour || left > counterKept {                // of a lifetime, or nonsense
		return lifetimeKept
	}
	return left
}
