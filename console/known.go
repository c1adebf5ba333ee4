package console

import (
	"context"
	"time"
)

// feedTimeout bounds what publishing asks of Redis before its transaction.
const feedTimeout = 400 * time.Millisecond

// plausibleJump is how far above the version in force a gateway's word may lie.
// Gateways only report; one that has been taken over must not use up the numbers.
const plausibleJump = 1_000_000

// highestKnown is the highest version that Redis or a replica speaks of, so
// that a restored database reuses none; 0 when Redis cannot be asked. Above what
// is stored Redis is believed with a good signature only: else whoever writes to
// it could use up the numbers.
func (d Deps) highestKnown(ctx context.Context) known {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	var k known
	if st, err := d.Feed.State(ctx); err == nil {
		k.redis = d.believed(ctx, st.Version)
	}
	replicas, _, _ := d.roster(ctx, nil, true) // without Redis those that told a console themselves
	for _, r := range replicas {
		k.replicas = append(k.replicas, r.Version)
	}
	return k
}

// known are versions that others speak of.
type known struct {
	redis    int64
	replicas []int64
}

// next is the number after the highest that is stored and all that is known.
func (k known) next(stored int64) int64 {
	highest := max(stored, k.redis)
	limit := highest + plausibleJump
	for _, v := range k.replicas {
		if v <= limit {
			highest = max(highest, v)
		}
	}
	return highest + 1
}
