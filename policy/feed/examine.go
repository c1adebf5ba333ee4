package feed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

const (
	// examineLooks bounds how often a server is looked at until all of its keys were.
	examineLooks = 200
	// slowScript is how long a call of a script may take; everybody waits for it.
	slowScript = 20 * time.Millisecond
	// slowSeen is how many entries of the slow log are read.
	slowSeen = 128
	// foreignSeen is how many keys are drawn to see whose they are.
	foreignSeen = 200
)

// Examine is Inspect for somebody who waits: it looks until all keys were seen once, up
// to 800 000 of a server, and looks for slow scripts and keys of others besides.
func (p *Publisher) Examine(ctx context.Context) ([]policy.Hazard, error) {
	found, err := p.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	looks, more := 0, []policy.Hazard(nil)
	err = everyServer(ctx, p.cfg.Client, func(ctx context.Context, node *redis.Client) error {
		size, hazards, err := p.examineServer(ctx, node)
		p.inspecting.Lock()
		defer p.inspecting.Unlock()
		looks, more = max(looks, int(size/(scanSteps*scanCount))+2), append(more, hazards...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("examine Redis: %w", err)
	}
	for range min(looks, examineLooks) {
		if found, err = p.Inspect(ctx); err != nil {
			return nil, err
		}
	}
	return append(found, more...), nil
}

func (p *Publisher) examineServer(ctx context.Context, node *redis.Client) (size int64, _ []policy.Hazard, err error) {
	info, err := node.Info(ctx).Result()
	if err != nil {
		return 0, nil, err
	}
	l := &inspection{server: serverName(node, info), info: info}
	if size, err = node.DBSize(ctx).Result(); err != nil {
		return 0, nil, err
	}
	if err := l.slow(ctx, node); err != nil {
		return 0, nil, err
	}
	if l.text("role") == "master" {
		err = l.foreign(ctx, node, p.cfg.Namespace+":", size)
	}
	return size, l.found, err
}

// slow looks for scripts in the slow log.
func (l *inspection) slow(ctx context.Context, node *redis.Client) error {
	entries, err := node.SlowLogGet(ctx, slowSeen).Result()
	if err != nil {
		return err
	}
	count, longest, at := 0, time.Duration(0), time.Time{}
	for _, e := range entries {
		if len(e.Args) == 0 || !strings.HasPrefix(strings.ToUpper(e.Args[0]), "EVAL") && !strings.HasPrefix(strings.ToUpper(e.Args[0]), "FCALL") || e.Duration < slowScript {
			continue
		}
		if count++; e.Duration > longest {
			longest, at = e.Duration, e.Time
		}
	}
	if count > 0 {
		l.add(policy.HazardSlowScript, policy.SeverityAmber,
			fmt.Sprintf("%d calls of scripts took %s or more, the longest %s at %s; everybody waited for them.", count, slowScript, longest.Round(time.Millisecond), at.UTC().Format(time.RFC3339)),
			"See what else the machine does (swap, a save to disk, transparent huge pages), or give Redis a core of its own; SLOWLOG RESET forgets what was.")
	}
	return nil
}

// foreign draws some keys to see whether others keep theirs there, too.
func (l *inspection) foreign(ctx context.Context, node *redis.Client, ours string, size int64) error {
	if size == 0 {
		return nil
	}
	pipe := node.Pipeline()
	drawn := make([]*redis.StringCmd, foreignSeen)
	for i := range drawn {
		drawn[i] = pipe.RandomKey(ctx)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	others := 0
	for _, key := range drawn {
		if !strings.HasPrefix(key.Val(), ours) {
			others++
		}
	}
	if others > 0 {
		l.add(policy.HazardShared, policy.SeverityAmber,
			fmt.Sprintf("%d of %d draws met a key that does not begin with %s: somebody else uses this Redis, and can fill, slow or flush it.", others, len(drawn), ours),
			"Give the limiter a Redis of its own; another database number of the same server is none.")
	}
	return nil
}
