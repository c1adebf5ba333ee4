package usage

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	counterShards = 16
	// cellsPerShard bounds a replica's memory: about 16 × 2048 cells of 150 bytes.
	cellsPerShard = 2048
)

// Counter counts decisions on one replica. It is safe for concurrent use. Its
// memory is bounded whatever the number of tenants: when it is full, further
// ones are added up under Rest. Cut has to be called about once a second.
type Counter struct {
	replica, boot string
	seed          maphash.Seed
	shards        [counterShards]counterShard

	cutMu   sync.Mutex
	seq     int64
	through int64
}

type counterShard struct {
	mu    sync.Mutex
	cells map[cellKey]cell
	rest  map[cellKey]cell // tenant and route are Rest
}

type cellKey struct {
	second        int64
	tenant, route string
	outcome       Outcome
	limit         string
}

type cell struct{ requests, cost int64 }

// NewCounter counts for one replica and boot.
func NewCounter(replica, boot string) *Counter {
	c := &Counter{replica: replica, boot: boot, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].cells = map[cellKey]cell{}
		c.shards[i].rest = map[cellKey]cell{}
	}
	return c
}

// Add counts one request. Limit is the id of the deciding limit of a refusal
// and "" otherwise; cost is in tokens.
func (c *Counter) Add(now time.Time, tenant, route string, outcome Outcome, limit string, cost int64) {
	if !outcome.known() {
		outcome = OutcomeInvalid
	}
	k := cellKey{second: now.Unix(), tenant: tenant, route: route, outcome: outcome, limit: limit}
	s := &c.shards[c.shardOf(tenant, route)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, held := s.cells[k]; held || len(s.cells) < cellsPerShard {
		s.cells[k] = cell{v.requests + 1, v.cost + cost}
		return
	}
	k.tenant, k.route, k.limit = Rest, Rest, ""
	v := s.rest[k]
	s.rest[k] = cell{v.requests + 1, v.cost + cost}
}

func (c *Counter) shardOf(tenant, route string) uint64 {
	h := maphash.String(c.seed, tenant) ^ maphash.String(c.seed, route)<<1
	return h % counterShards
}

// Cut takes out everything of the seconds before now's. The batch has a number
// of its own also when it is empty: send it all the same, so that the console
// knows how old its newest counts are.
func (c *Counter) Cut(now time.Time) Batch {
	c.cutMu.Lock()
	defer c.cutMu.Unlock()
	before := now.Unix()
	sum := map[cellKey]cell{}
	for i := range c.shards {
		c.shards[i].takeBefore(before, sum)
	}
	c.seq++
	c.through = max(c.through, before-1)
	return Batch{Replica: c.replica, Boot: c.boot, Seq: c.seq, Through: c.through, Rows: rowsOf(sum)}
}

func (s *counterShard) takeBefore(second int64, into map[cellKey]cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []map[cellKey]cell{s.cells, s.rest} {
		for k, v := range m {
			if k.second >= second {
				continue
			}
			w := into[k]
			into[k] = cell{w.requests + v.requests, w.cost + v.cost}
			delete(m, k)
		}
	}
}
