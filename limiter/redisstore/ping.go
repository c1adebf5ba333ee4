package redisstore

import (
	"context"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// probeLanes are the lanes that a probe of a Cluster may try: the shards are
// hardly ever fewer than a third of the slots, so that these reach them all.
const probeLanes = 8

// probeNumbers never refuse a prober and are full again within 2 s.
func probeNumbers() policy.Numbers { return policy.Numbers{Tokens: 1, Period: 1, Burst: 1_000_000} }

// Ping draws from a bucket of its own, because only a write shows that Redis
// can serve: a read-only replica or a full memory answers a PING. A Cluster
// serves when some shard does: what fails on the others is theirs alone
// (limiter.ErrShard), and none of them may use up the time of those that live.
func (s *Store) Ping(ctx context.Context) error {
	if s.shards == nil {
		if err := s.probe(ctx, globalLane); err != nil {
			return storeError("ping", err)
		}
		return nil
	}
	answers := make(chan error, probeLanes)
	for i := range probeLanes {
		go func() { answers <- s.probe(ctx, i*hashLanes/probeLanes) }()
	}
	var errs [probeLanes]error
	for i := range errs {
		if errs[i] = <-answers; errs[i] == nil {
			return nil
		}
	}
	return storeError("ping", errs[0])
}

// secondOpinion asks all shards in the background. What they say is noted with
// every call (shards.leave).
func (s *Store) secondOpinion() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), opinionTimeout)
		defer cancel()
		_ = s.Ping(ctx) // its answer is not what is asked for
	}()
}

func (s *Store) probe(ctx context.Context, lane int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := request{shape: shape{charges: 1}, arg: []byte{1}}
	r.key(rowKeys, func(b []byte) []byte { return s.keys.appendProbe(b, lane) })
	r.arg = appendCharge(r.arg, &limiter.Charge{Numbers: probeNumbers(), Cost: 1})
	c := newCall()
	c.add(&r)
	answer, err := s.sender(lane%len(s.lanes))(ctx, c)
	if err == nil {
		_, err = answer.next(r.shape)
	}
	return err
}
