package usage

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	kidBytes  = 12
	keyShards = 16
	// SourcesPerKey is how many sources of one key version a replica tells apart
	// between two batches; the others are its rest.
	SourcesPerKey = 32
	// cellsPerShard's sibling for keys: 16 × 4096 cells and as many places in the
	// index of user agents as they are sent, 24 MiB at the very most.
	keyCellsPerShard = 4096
	// keySourcesPerShard leaves room for the rest of further keys.
	keySourcesPerShard = keyCellsPerShard * 3 / 4
	keyIndexPerShard   = 4096
	// keyCellsKept is how many batches long a source that fell silent stays known,
	// so that a slow caller costs nothing to recognise.
	keyCellsKept = 12
	// keyMargin is how long before a cut its Through lies: a request whose time was
	// taken just before is on its way into the counter.
	keyMargin = 2
)

// KeyOutcome says what became of a request that carried a key's right secret.
type KeyOutcome uint8

// Outcomes for a key.
const (
	KeyAdmitted KeyOutcome = iota // the key was accepted, and the request admitted
	KeyLimited                    // the key was accepted, and the request refused for another reason
	KeyRefused                    // the key was not accepted: revoked, expired, suspended, brown-out
)

// KeyCounter counts who uses which key on one replica. It is safe for concurrent
// use. Its memory is bounded whatever callers send: a key has SourcesPerKey sources
// and a rest; when there is no room for a further source it counts into its key's
// rest, and when there is none for a further key, the request is counted as lost,
// which the next batch says. Cut has to be called every few seconds.
type KeyCounter struct {
	replica, boot string
	seed          maphash.Seed
	shards        [keyShards]keyShard
	lost          atomic.Int64
	everLost      atomic.Int64
	crowded       chan struct{}

	cutMu   sync.Mutex
	seq     int64
	through int64
}

type keyShard struct {
	mu    sync.Mutex
	index map[sentKey]*keyCell // sources by what was sent
	cells map[sourceKey]*keyCell
	of    map[[kidBytes]byte]int // sources of a key
}

// sentKey is a source as a request shows it. It has no padding, which makes it fast
// to look up.
type sentKey struct {
	kid   [kidBytes]byte
	from  network
	_     [5]byte
	agent uint64 // hash of the User-Agent as it was sent
}

// sourceKey is a source as it is told. The rest of a key has neither network nor agent.
type sourceKey struct {
	kid   [kidBytes]byte
	from  network
	agent string
}

type keyCell struct {
	key                       sourceKey
	firstUsed, lastUsed       int64
	firstRefused, lastRefused int64
	requests, limited         int64
	refused                   int64
	idle                      int // cuts since it counted anything
	gone                      bool
}

// NewKeyCounter counts for one replica and boot.
func NewKeyCounter(replica, boot string) *KeyCounter {
	c := &KeyCounter{replica: replica, boot: boot, seed: maphash.MakeSeed(), crowded: make(chan struct{}, 1)}
	for i := range c.shards {
		c.shards[i] = keyShard{index: map[sentKey]*keyCell{}, cells: map[sourceKey]*keyCell{}, of: map[[kidBytes]byte]int{}}
	}
	return c
}

// Add counts one request that carried the right secret of a key. agent is the
// User-Agent as it was sent. What is no kid is not counted.
func (c *KeyCounter) Add(now time.Time, kid string, from netip.Addr, agent string, outcome KeyOutcome) {
	if len(kid) != kidBytes {
		return
	}
	k := sentKey{from: networkOf(from), agent: maphash.String(c.seed, agent)}
	copy(k.kid[:], kid)
	// A kid is random: its last characters spread keys evenly.
	s := &c.shards[(kid[kidBytes-1]*7+kid[kidBytes-2])%keyShards]
	second := now.Unix()
	s.mu.Lock()
	cell := s.index[k]
	if cell == nil {
		if cell = c.find(s, &k, agent); cell == nil {
			s.mu.Unlock()
			c.lost.Add(1)
			return
		}
	}
	cell.count(second, outcome)
	s.mu.Unlock()
}

func (c *keyCell) count(second int64, outcome KeyOutcome) {
	c.requests++
	if outcome == KeyRefused {
		if c.refused++; c.firstRefused == 0 || second < c.firstRefused {
			c.firstRefused = second
		}
		c.lastRefused = max(c.lastRefused, second)
		return
	}
	if outcome == KeyLimited {
		c.limited++
	}
	if c.firstUsed == 0 || second < c.firstUsed {
		c.firstUsed = second
	}
	c.lastUsed = max(c.lastUsed, second)
}

// find finds or makes the cell of what was sent, and remembers it. nil: there is no
// room. The caller holds the shard's lock.
func (c *KeyCounter) find(s *keyShard, k *sentKey, agent string) *keyCell {
	source := sourceKey{k.kid, k.from, AgentOf(agent)}
	rest := sourceKey{kid: k.kid}
	cell := s.cells[source]
	if cell == nil && source != rest && (s.of[k.kid] >= SourcesPerKey || len(s.cells) >= keySourcesPerShard) {
		source = rest
		cell = s.cells[rest]
	}
	if cell == nil {
		if len(s.cells) >= keyCellsPerShard/2 {
			c.hurry()
		}
		if len(s.cells) >= keyCellsPerShard {
			return nil
		}
		cell = &keyCell{key: source}
		s.cells[source] = cell
		if source != rest {
			s.of[k.kid]++
		}
	}
	if len(s.index) >= keyIndexPerShard {
		clear(s.index) // a flood of user agents; whoever is known is found again
	}
	s.index[*k] = cell
	return cell
}

// hurry asks for a cut before its time.
func (c *KeyCounter) hurry() {
	select {
	case c.crowded <- struct{}{}:
	default:
	}
}

// Crowded rings when the counter is half full: cut then, before there is no room.
func (c *KeyCounter) Crowded() <-chan struct{} { return c.crowded }

// Totals tells how many sources are known at the moment, and how many requests there
// was no room for since the start.
func (c *KeyCounter) Totals() (sources int, lost int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		sources += len(s.cells)
		s.mu.Unlock()
	}
	return sources, c.everLost.Load() + c.lost.Load()
}

// Cut takes out everything that was counted, as batches of at most MaxKeyRows rows.
// There is always one, also when it is empty: send it all the same, so that the
// console knows how current it is. The last one carries Through; a final one ends the
// counting. started is when counting began, by the clock of now.
func (c *KeyCounter) Cut(started, now time.Time, final bool) []KeyBatch {
	c.cutMu.Lock()
	defer c.cutMu.Unlock()
	lost := c.lost.Swap(0) // before the rows: what is lost from now on is the next batch's
	c.everLost.Add(lost)
	var rows []KeyRow
	for i := range c.shards {
		rows = c.shards[i].take(rows)
	}
	slices.SortFunc(rows, func(a, b KeyRow) int {
		return cmp.Or(cmp.Compare(a.KID, b.KID), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Agent, b.Agent))
	})
	from, through := max(c.through+1, started.Unix()), now.Unix()-keyMargin
	if final {
		through = now.Unix()
	}
	through = max(through, from-1)
	batches := make([]KeyBatch, 0, len(rows)/MaxKeyRows+1)
	for {
		n := min(len(rows), MaxKeyRows)
		c.seq++
		b := KeyBatch{Replica: c.replica, Boot: c.boot, Seq: c.seq, From: from, Through: from - 1, Started: started.Unix(), Rows: rows[:n:n]}
		if rows = rows[n:]; len(rows) == 0 {
			b.Through, b.Final, b.Lost = through, final, lost
			c.through = through
			return append(batches, b)
		}
		batches = append(batches, b)
	}
}

// take appends what a shard has counted, and lets go of what has been silent.
func (s *keyShard) take(rows []KeyRow) []KeyRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	crowded := len(s.cells) >= keyCellsPerShard/2
	dropped := false
	for key, cell := range s.cells {
		if cell.requests > 0 {
			rows = append(rows, cell.row())
			*cell = keyCell{key: key}
		} else {
			cell.idle++
		}
		if crowded || cell.idle > keyCellsKept {
			cell.gone, dropped = true, true
			delete(s.cells, key)
			if key != (sourceKey{kid: key.kid}) {
				if s.of[key.kid]--; s.of[key.kid] == 0 {
					delete(s.of, key.kid)
				}
			}
		}
	}
	if dropped {
		for k, cell := range s.index {
			if cell.gone {
				delete(s.index, k)
			}
		}
	}
	return rows
}

func (c *keyCell) row() KeyRow {
	return KeyRow{
		KID: string(c.key.kid[:]), Network: c.key.from.String(), Agent: c.key.agent,
		FirstUsed: c.firstUsed, LastUsed: c.lastUsed, FirstRefused: c.firstRefused, LastRefused: c.lastRefused,
		Requests: c.requests, Limited: c.limited, Refused: c.refused,
	}
}
