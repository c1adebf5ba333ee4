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
	// timesPerShard bounds the routes whose deciding times are told apart; of further
	// ones they are not known.
	timesPerShard = 1000
)

// Counter counts decisions on one replica. It is safe for concurrent use. Its
// memory is bounded whatever the number of tenants: when it is full, further
// ones are added up under Rest. Cut has to be called about once a second.
type Counter struct {
	replica, boot string
	seed          maphash.Seed
	shards        [counterShards]counterShard
	paths         pathCounter

	cutMu    sync.Mutex
	seq      int64
	through  int64
	detailed int64 // through of the last batch with a Detail
}

type counterShard struct {
	mu    sync.Mutex
	cells map[cellKey]cell
	rest  map[cellKey]cell // tenant and route are Rest
	times map[string]*buckets
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
	c := &Counter{replica: replica, boot: boot, seed: maphash.MakeSeed(), paths: pathCounter{cells: map[pathKey]*pathCell{}}}
	for i := range c.shards {
		c.shards[i].cells = map[cellKey]cell{}
		c.shards[i].rest = map[cellKey]cell{}
		c.shards[i].times = map[string]*buckets{}
	}
	return c
}

// Add counts one request. Limit is the id of the deciding limit of a refusal
// and "" otherwise; cost is in tokens.
func (c *Counter) Add(now time.Time, tenant, route string, outcome Outcome, limit string, cost int64) {
	c.add(now, tenant, route, outcome, limit, cost, -1)
}

// AddDecision is Add that also counts how long the decision took.
func (c *Counter) AddDecision(now time.Time, tenant, route string, outcome Outcome, limit string, cost int64, took time.Duration) {
	c.add(now, tenant, route, outcome, limit, cost, max(took, 0))
}

func (c *Counter) add(now time.Time, tenant, route string, outcome Outcome, limit string, cost int64, took time.Duration) {
	if !outcome.known() {
		outcome = OutcomeInvalid
	}
	k := cellKey{second: now.Unix(), tenant: tenant, route: route, outcome: outcome, limit: limit}
	s := &c.shards[c.shardOf(tenant, route)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if took >= 0 && route != "" {
		s.timed(route, took)
	}
	if v, held := s.cells[k]; held || len(s.cells) < cellsPerShard {
		s.cells[k] = cell{v.requests + 1, v.cost + cost}
		return
	}
	k.tenant, k.route, k.limit = Rest, Rest, ""
	v := s.rest[k]
	s.rest[k] = cell{v.requests + 1, v.cost + cost}
}

// timed counts how long a decision took. The caller holds the lock.
func (s *counterShard) timed(route string, took time.Duration) {
	b := s.times[route]
	if b == nil {
		if len(s.times) >= timesPerShard {
			return
		}
		b = &buckets{}
		s.times[route] = b
	}
	b.count(took)
}

func (c *Counter) shardOf(tenant, route string) uint64 {
	h := maphash.String(c.seed, tenant) ^ maphash.String(c.seed, route)<<1
	return h % counterShards
}

// Cut takes out everything of the seconds before now's. The batch has a number
// of its own also when it is empty: send it all the same, so that the console
// knows how old its newest counts are. Every ten seconds it has a Detail.
func (c *Counter) Cut(now time.Time) Batch { return c.cut(now, false) }

// CutLast is the Cut that ends the counting: it always has a Detail.
func (c *Counter) CutLast(now time.Time) Batch { return c.cut(now, true) }

func (c *Counter) cut(now time.Time, last bool) Batch {
	c.cutMu.Lock()
	defer c.cutMu.Unlock()
	before := now.Unix()
	sum := map[cellKey]cell{}
	for i := range c.shards {
		c.shards[i].takeBefore(before, sum)
	}
	c.seq++
	c.through = max(c.through, before-1)
	return Batch{Replica: c.replica, Boot: c.boot, Seq: c.seq, Through: c.through, Rows: rowsOf(sum), Detail: c.detail(c.through, last)}
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
