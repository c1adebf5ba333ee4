package suite

import (
	"context"

	"github.com/headgate/headgate/bench/internal/contend"
	"github.com/headgate/headgate/bench/internal/meas"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// spread has the callers go to all replicas in turn, about one subject.
func (b *bench) spread(requests []limiter.Request) meas.Op {
	ops := make([]meas.Op, len(b.replicas))
	for i, replica := range b.replicas {
		ops[i] = replica.Decide(requests).HotOp()
	}
	return func(ctx context.Context, caller int, i uint64) (meas.Tally, error) {
		return ops[caller%len(ops)](ctx, caller, i)
	}
}

// bounded names the case and holds its one limit to its promise. burst is what
// greedy callers can get of the limit at once.
func (b *bench) bounded(name string, n policy.Numbers, burst int64, c meas.Case) meas.Case {
	bound := &contend.Bound{Numbers: n, Burst: burst, Now: b.redis.Now}
	b.bounds[name] = bound
	c.Name, c.Before, c.After, c.Op = name, bound.Begin, bound.End, bound.Op(c.Op)
	return c
}
