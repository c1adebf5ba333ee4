package feed

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/headgate/headgate/policy"
)

// recordID names a record.
type recordID struct {
	kind policy.RecordKind
	id   string
}

// record is a record that was verified. It is immutable.
type record struct {
	signed policy.SignedRecord
	key    policy.KeyRecord    // of kind key
	tenant policy.TenantRecord // of kind tenant
}

// entry is what a cache holds of one id.
type entry struct {
	rec *record              // nil: dropped, or not verified yet
	raw *policy.SignedRecord // from disk, verified when first asked for
	// floor is the highest sequence seen in this epoch: a lower one is a replay.
	floor int64
}

func (e entry) live() bool { return e.rec != nil || e.raw != nil }

func (e entry) signed() policy.SignedRecord {
	if e.rec != nil {
		return e.rec.signed
	}
	return *e.raw
}

// cache is a bounded table of records and of ids that do not exist. Everything
// that changes it is told to the journal in the same order. It is safe for
// concurrent use.
type cache struct {
	mu       sync.Mutex
	records  *simplelru.LRU[recordID, entry]
	unknown  *simplelru.LRU[recordID, struct{}]
	flights  map[recordID]*flight
	changes  uint64 // counts drops
	live     int    // entries that are live
	journal  *journal
	verify   func(recordID, policy.SignedRecord) (*record, error)
	badFound func(recordID, error)
}

// flight is one lookup under way, which all callers with the same id share.
type flight struct {
	done  chan struct{}
	dirty bool // the id was dropped since the lookup asked
	rec   *record
	err   error
}

func newCache(entries int, j *journal) (*cache, error) {
	c := &cache{flights: map[recordID]*flight{}, journal: j}
	var err error
	if c.records, err = simplelru.NewLRU(entries, func(_ recordID, e entry) {
		if e.live() {
			c.live--
		}
	}); err != nil {
		return nil, err
	}
	// A stranger can make up ids at will: remembered misses have a table of
	// their own and push no record out.
	c.unknown, err = simplelru.NewLRU[recordID, struct{}](max(entries/10, 1), nil)
	return c, err
}

// get finds a record, or that there is none.
func (c *cache) get(id recordID) (rec *record, unknown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, held := c.records.Get(id)
	if !held || !e.live() {
		_, unknown = c.unknown.Get(id)
		return nil, unknown
	}
	if e.rec == nil {
		if e.rec = c.fromDisk(id, *e.raw); e.rec == nil {
			c.records.Remove(id) // its floor is worth no more than the rest of it
			return nil, false
		}
		e.raw = nil
		c.records.Add(id, e)
	}
	return e.rec, false
}

func (c *cache) fromDisk(id recordID, raw policy.SignedRecord) *record {
	rec, err := c.verify(id, raw)
	if err != nil {
		c.badFound(id, err)
		return nil
	}
	return rec
}

// set replaces an entry and keeps count of the live ones.
func (c *cache) set(id recordID, e entry) {
	if old, held := c.records.Peek(id); held && old.live() {
		c.live--
	}
	if e.live() {
		c.live++
	}
	c.records.Add(id, e)
}

// join finds the lookup under way for an id or, as its leader, begins one.
func (c *cache) join(id recordID) (f *flight, leader bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, under := c.flights[id]; under {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	c.flights[id] = f
	return f, true
}

// asking marks the moment a flight's question goes out. What is dropped from
// now on makes its answer worthless.
func (c *cache) asking(f *flight) (changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.dirty = false
	return c.changes
}

// outcome of a lookup, before it counts.
type outcome struct {
	rec     *record
	unknown bool // Redis says that there is none
}

// settle ends a flight with an outcome. It returns false, and has done nothing,
// when the id was dropped meanwhile: the answer may be older than the change.
func (c *cache) settle(id recordID, f *flight, o outcome) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.dirty {
		return false
	}
	switch {
	case o.unknown:
		c.unknown.Add(id, struct{}{})
		f.err = ErrUnknown
	case o.rec.signed.Seq < c.floorOf(id):
		c.badFound(id, errReplay)
		f.err = ErrUnavailable
	default:
		c.put(id, o.rec)
		f.rec = o.rec
	}
	c.land(id, f)
	return true
}

// fail ends a flight without an answer. Nothing is remembered.
func (c *cache) fail(id recordID, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.err = ErrUnavailable
	c.land(id, f)
}

func (c *cache) land(id recordID, f *flight) {
	if c.flights[id] == f {
		delete(c.flights, id)
	}
	close(f.done)
}

// offer takes a record that came along with another one's answer, if nothing
// at all was dropped since the question went out.
func (c *cache) offer(id recordID, rec *record, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := c.records.Peek(id)
	known := e.live() && e.floor == rec.signed.Seq
	if c.changes == changes && rec.signed.Seq >= e.floor && !known {
		c.put(id, rec)
	}
}

func (c *cache) floorOf(id recordID) int64 {
	e, _ := c.records.Peek(id)
	return e.floor
}

func (c *cache) put(id recordID, rec *record) {
	c.unknown.Remove(id)
	c.set(id, entry{rec: rec, floor: rec.signed.Seq})
	c.journal.put(rec.signed)
}

// drop forgets what was known of an id, except how far its sequence had come.
func (c *cache) drop(id recordID, change int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(id, change)
}

func (c *cache) dropLocked(id recordID, change int64) {
	c.changes++
	c.unknown.Remove(id)
	if f, under := c.flights[id]; under {
		f.dirty = true
	}
	if e, held := c.records.Peek(id); held && e.live() {
		c.set(id, entry{floor: e.floor})
		c.journal.drop(id, change)
	}
}

// dropAll forgets everything; the floors too when a new epoch begins.
func (c *cache) dropAll(place policy.Place, newEpoch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.unknown.Purge()
	for _, f := range c.flights {
		f.dirty = true
	}
	if newEpoch {
		c.records.Purge()
	} else {
		for _, id := range c.records.Keys() {
			e, _ := c.records.Peek(id)
			c.set(id, entry{floor: e.floor})
		}
	}
	c.live = 0
	c.journal.reset(place)
}

// restore takes an entry from disk.
func (c *cache) restore(signed policy.SignedRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(recordID{signed.Kind, signed.ID}, entry{raw: &signed, floor: signed.Seq})
}

// all lists the live records, the longest unused first, and empties the
// journal: what is told to it from now on comes after them. Place is that of a
// reset that was not written yet, or nil.
func (c *cache) all() (records []policy.SignedRecord, place *policy.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place = c.journal.take()
	out := make([]policy.SignedRecord, 0, c.live)
	for _, e := range c.records.Values() {
		if e.live() {
			out = append(out, e.signed())
		}
	}
	return out, place
}

func (c *cache) sizes() (records, unknown int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, c.unknown.Len()
}
