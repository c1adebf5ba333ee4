package feed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

// serversTimeout bounds the question who holds the data: a server that hangs
// must not hold up the rest of State.
const serversTimeout = 150 * time.Millisecond

// MendDirectory compares every record with what Redis has and puts back what
// differs, without taking the directory away meanwhile. It is for the time after
// a server restarted or a replica took over: in a Cluster the last records of one
// server may be lost while the changes, on another one, say that all is well.
//
// Records calls put with all records, some hundreds a call. Servers is
// State.Servers from before. When something was put back, every gateway drops
// its whole cache. It may be repeated after an error.
func (p *Publisher) MendDirectory(ctx context.Context, servers string, records func(put func(context.Context, []policy.SignedRecord) error) error) (policy.Place, error) {
	// A mending that was cut off may have put records back and told nobody.
	first, err := p.cfg.Client.HSetNX(ctx, p.keys.directoryHead(), "mending", servers).Result()
	if err != nil {
		return policy.Place{}, fmt.Errorf("mend directory: %w", err)
	}
	drop := !first
	err = records(func(ctx context.Context, batch []policy.SignedRecord) error {
		for part := range slices.Chunk(batch, recordsPerCall) {
			w, err := p.write(ctx, part)
			if err != nil {
				return fmt.Errorf("mend directory: %w", err)
			}
			drop = drop || w.written > 0
		}
		return nil
	})
	if err != nil {
		return policy.Place{}, err
	}
	reply, err := mendedScript.Run(ctx, p.cfg.Client, []string{p.keys.directoryHead(), p.keys.directoryChanges()},
		p.keys.bell(), servers, drop).StringSlice()
	if err != nil {
		return policy.Place{}, fmt.Errorf("mend directory: %w", err)
	}
	return placeOf(reply)
}

// servers names the histories of all servers that hold a part of the data: a
// history begins anew when a server starts and when a replica takes over. It is
// "" when one of them does not say.
func (p *Publisher) servers(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, serversTimeout)
	defer cancel()
	var mu sync.Mutex
	var ids []string
	err := EachServer(ctx, p.cfg.Client, func(ctx context.Context, node redis.Cmdable) error {
		info, err := node.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, infoField(info, "master_replid"))
		return nil
	})
	if err != nil || slices.Contains(ids, "") {
		return ""
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, " ")))
	return hex.EncodeToString(sum[:8])
}

// EachServer calls do for each server that takes writes: each primary of a
// Cluster, at once, or the one that there is. It returns the first error.
func EachServer(ctx context.Context, client redis.UniversalClient, do func(context.Context, redis.Cmdable) error) error {
	if c, ok := client.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, client)
}

// infoField is one line of an answer to INFO, "" when there is none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
