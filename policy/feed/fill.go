package feed

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

// BeginDirectory starts a full refill: the epoch goes, and with it every record
// that Redis holds, so that nothing is left in it that the console does not
// know. Gateways keep what they have cached and call everything else unavailable
// until FinishDirectory; changes put meanwhile reach them as usual.
func (p *Publisher) BeginDirectory(ctx context.Context) error {
	token := rand.Text()
	k := []string{p.keys.directoryHead(), p.keys.bell(), p.keys.directoryChanges()}
	if err := beginScript.Run(ctx, p.cfg.Client, k, token).Err(); err != nil {
		return fmt.Errorf("begin directory: %w", err)
	}
	p.filling.Store(&token)
	if err := p.dropRecords(ctx); err != nil {
		return fmt.Errorf("begin directory: %w", err)
	}
	return nil
}

// dropRecords removes all records, on each master of a Cluster.
func (p *Publisher) dropRecords(ctx context.Context) error {
	if c, ok := p.cfg.Client.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return p.dropRecordsOn(ctx, node)
		})
	}
	return p.dropRecordsOn(ctx, p.cfg.Client)
}

func (p *Publisher) dropRecordsOn(ctx context.Context, node redis.Cmdable) error {
	for _, kind := range []policy.RecordKind{policy.RecordKey, policy.RecordTenant} {
		for cursor := uint64(0); ; {
			found, next, err := node.Scan(ctx, cursor, p.keys.record(kind, "*"), 1000).Result()
			if err != nil {
				return fmt.Errorf("scan records of kind %s: %w", kind, err)
			}
			pipe := node.Pipeline()
			for _, k := range found {
				pipe.Unlink(ctx, k)
			}
			if len(found) > 0 {
				if _, err := pipe.Exec(ctx); err != nil {
					return fmt.Errorf("remove records of kind %s: %w", kind, err)
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// FinishDirectory names the full copy that was put since BeginDirectory. It
// fails with ErrFillLost when Redis lost part of it meanwhile.
func (p *Publisher) FinishDirectory(ctx context.Context, epoch string) (policy.Place, error) {
	token := p.filling.Load()
	if token == nil || epoch == "" {
		return policy.Place{}, fmt.Errorf("finish directory %q that was not begun: %w", epoch, ErrFillLost)
	}
	k := []string{p.keys.directoryHead(), p.keys.bell()}
	reply, err := finishScript.Run(ctx, p.cfg.Client, k, *token, epoch).Text()
	if err != nil {
		return policy.Place{}, fmt.Errorf("finish directory: %w", err)
	}
	seq, err := strconv.ParseInt(reply, 10, 64)
	if err != nil {
		return policy.Place{}, fmt.Errorf("finish directory: read change number: %w", err)
	}
	if seq < 0 {
		return policy.Place{}, fmt.Errorf("finish directory: %w", ErrFillLost)
	}
	p.filling.CompareAndSwap(token, nil)
	return policy.Place{Epoch: epoch, Seq: seq}, nil
}
