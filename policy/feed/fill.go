package feed

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

// filling is a full refill under way.
type filling struct {
	token   string // names it
	servers string // that held the data at its begin
}

// BeginDirectory starts a full refill: the epoch goes, and with it every record
// that Redis holds, so that nothing is left in it that the console does not
// know. Gateways keep what they have cached and call everything else unavailable
// until FinishDirectory; changes put meanwhile reach them as usual.
func (p *Publisher) BeginDirectory(ctx context.Context) error {
	token := rand.Text()
	servers := p.servers(ctx)
	k := []string{p.keys.directoryHead(), p.keys.directoryChanges()}
	if err := beginScript.Run(ctx, p.cfg.Client, k, p.keys.bell(), token).Err(); err != nil {
		return fmt.Errorf("begin directory: %w", err)
	}
	p.filling.Store(&filling{token, servers})
	if err := p.dropRecords(ctx); err != nil {
		return fmt.Errorf("begin directory: %w", err)
	}
	return nil
}

// dropRecords removes all records, on each primary of a Cluster.
func (p *Publisher) dropRecords(ctx context.Context) error {
	return EachServer(ctx, p.cfg.Client, p.dropRecordsOn)
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
	begun := p.filling.Load()
	if begun == nil || epoch == "" {
		return policy.Place{}, fmt.Errorf("finish directory %q that was not begun: %w", epoch, ErrFillLost)
	}
	reply, err := finishScript.Run(ctx, p.cfg.Client, []string{p.keys.directoryHead()},
		p.keys.bell(), begun.token, epoch, begun.servers).Text()
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
	p.filling.CompareAndSwap(begun, nil)
	return policy.Place{Epoch: epoch, Seq: seq}, nil
}
