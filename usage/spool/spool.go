package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

const (
	// DefaultLimit bounds a spool, in bytes, unless it is told otherwise.
	DefaultLimit = 256 << 20
	// MinLimit is the smallest bound that leaves room to work in.
	MinLimit = 4 << 20
	// segmentBytes is the size at which a new file is begun; a small spool has smaller ones.
	segmentBytes = 4 << 20
	// maxCells bounds what is told apart between two cuts. Refusals beyond it are added
	// up under usage.Rest; what was admitted is always told apart.
	maxCells = 32 << 10
	// maxLag bounds how long requests without an outcome keep Through back, in seconds.
	maxLag = 5
)

var (
	// ErrFull says that the spool has no room, or that the disk takes nothing.
	ErrFull = errors.New("the spool takes nothing more")
	// ErrNewer says that a newer build wrote the spool.
	ErrNewer = errors.New("the spool was written by a newer build")
	// ErrForgotten says that a batch does not wait any more: the ledger has it.
	ErrForgotten = errors.New("the ledger has these events")
	errClosed    = errors.New("the spool is closed")
)

// Options are what a spool needs.
type Options struct {
	Dir     string // of this spool alone; whoever opens it holds a lock on it
	Replica string
	Boot    string // new at each start
	Limit   int64  // bytes on the disk; 0: DefaultLimit
	disk    disk
	segment int64
}

// Spool keeps what was admitted. It is safe for concurrent use.
type Spool struct {
	o    Options
	mu   sync.Mutex
	turn sync.Cond
	// raw has what requests were, cuts the events that were made of them: the first is
	// forgotten when it is cut, the second when the ledger has it.
	raw, cuts *journal
	open      tickets
	cells     map[cellKey]cell
	refusals  int   // of the cells
	next      int64 // number of this boot's next event
	through   int64
	waiting   []*Waiting // the oldest first
	left      *leftover
	clear     uint64 // all records with lower numbers are cut
	stuck     error  // the disk took nothing; until the next Cut
	closed    bool
	totals    Totals

	cutMu sync.Mutex
	room  sync.Pool // *[]byte
}

// Totals are counts since the start.
type Totals struct {
	Noted       int64 // requests admitted with a note
	Unnoted     int64 // requests admitted without one, because there was no room
	Interrupted int64 // requests of earlier boots whose end nobody saw
	Lost        int64 // records that could not be read when the spool was opened
	Failures    int64 // reads, writes and syncs that failed
	Uncounted   int64 // refusals that there was no room to tell of
}

type cellKey struct {
	second             int64
	tenant, kid, route string
	outcome            usage.Outcome
}

// cell is what an event will say; first is the lowest number of its records.
type cell struct {
	requests, cost int64
	first          uint64
}

// Standing is how a spool stands.
type Standing struct {
	Through, Committed int64 // seconds, as in policy.UsageStanding
	Waiting            int64 // events
	Bytes, Limit       int64
	Full               bool
	Totals             Totals
}

// Open opens a spool, or makes it, and brings into order what earlier boots left in it:
// their outcomes become events, and intents without an outcome are interrupted.
func Open(o Options) (*Spool, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Limit < MinLimit && o.segment == 0 {
		return nil, fmt.Errorf("--spool-bytes: %d is less than %d", o.Limit, MinLimit)
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	if o.segment == 0 {
		o.segment = min(segmentBytes, o.Limit/8)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	s := &Spool{o: o, cells: map[cellKey]cell{}, next: 1}
	s.turn.L = &s.mu
	s.room.New = func() any { return new([]byte) }
	s.open.init()
	head := func(b []byte) []byte { return appendHead(b, o.Boot, s.next) }
	s.raw = newJournal(&s.mu, &s.turn, o.disk, o.Dir, "raw", o.segment, head)
	s.cuts = newJournal(&s.mu, &s.turn, o.disk, o.Dir, "cut", o.segment, head)
	if err := s.recover(); err != nil {
		s.raw.close()
		s.cuts.close()
		return nil, fmt.Errorf("open spool: %w", err)
	}
	return s, nil
}

// bytes is what the spool takes on the disk. The caller holds mu.
func (s *Spool) bytes() int64 { return s.raw.bytes + s.cuts.bytes }

func (s *Spool) isFull() bool { return s.stuck != nil || s.bytes() >= s.o.Limit }

// Full reports whether the spool takes nothing more at the moment.
func (s *Spool) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isFull()
}

// Begin notes that a request is about to be forwarded. When it returns, the note
// outlives the process. An error wraps ErrFull; the request may not be noted then, and
// t is not to be ended.
func (s *Spool) Begin(t *Ticket, e *Entry) error {
	room := s.lend()
	defer s.giveBack(room)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayNote(); err != nil {
		return err
	}
	t.id, t.entry = s.raw.next, e.bounded()
	*room = appendIntent((*room)[:0], t.id, &t.entry)
	n, f := s.raw.put(*room)
	t.at = n
	s.open.push(t)
	if err := s.raw.wait(f); err != nil {
		s.open.remove(t)
		return s.failed(err)
	}
	s.totals.Noted++
	return nil
}

// mayNote refuses when there is no room.
func (s *Spool) mayNote() error {
	switch {
	case s.closed:
		return fmt.Errorf("%w: %w", ErrFull, errClosed)
	case s.stuck != nil:
		return fmt.Errorf("%w: %w", ErrFull, s.stuck)
	case s.isFull():
		return ErrFull
	}
	return nil
}

// failed keeps everyone from the disk until the next Cut tries it again.
func (s *Spool) failed(err error) error {
	s.totals.Failures++
	s.stuck = err
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// End notes what became of a request that was begun; only the first call counts. When
// it returns, the note outlives the process; where the disk takes none it is kept in
// memory, for the next Cut.
func (s *Spool) End(t *Ticket, outcome usage.Outcome) {
	room := s.lend()
	defer s.giveBack(room)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.next == nil { // not begun, or ended
		return
	}
	s.open.remove(t)
	if s.closed {
		return
	}
	*room = appendOutcome((*room)[:0], t.id, t.entry.Second, outcome)
	n, f := s.raw.put(*room)
	s.add(&t.entry, outcome, min(t.at, n), 1) // the outcome says nothing without its intent
	if err := s.raw.wait(f); err != nil {
		_ = s.failed(err)
	}
}

// Note notes a request whose end is never seen, before it is answered. Its error wraps
// ErrFull.
func (s *Spool) Note(e *Entry, outcome usage.Outcome) error {
	return s.note(e, outcome, 1)
}

// Settle notes that requests that were noted cost that much more, or less.
func (s *Spool) Settle(e *Entry) error {
	return s.note(e, ledger.OutcomeSettled, 0)
}

func (s *Spool) note(e *Entry, outcome usage.Outcome, requests int64) error {
	room := s.lend()
	defer s.giveBack(room)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayNote(); err != nil {
		return err
	}
	noted := e.bounded()
	*room = appendNote((*room)[:0], &noted, outcome)
	n, f := s.raw.put(*room)
	s.add(&noted, outcome, n, requests)
	if err := s.raw.wait(f); err != nil {
		s.take(&noted, outcome, n, requests)
		return s.failed(err)
	}
	s.totals.Noted += requests
	return nil
}

// take undoes add, unless a cut was quicker: then it is noted all the same.
func (s *Spool) take(e *Entry, outcome usage.Outcome, n uint64, requests int64) {
	k := cellKey{e.Second, e.Tenant, e.KID, e.Route, outcome}
	c, held := s.cells[k]
	if !held || c.first > n {
		return
	}
	if c.requests, c.cost = c.requests-requests, c.cost-e.Cost; c.requests == 0 && c.cost == 0 {
		delete(s.cells, k)
		return
	}
	s.cells[k] = c
}

// add adds to what is cut next; n is the lowest number of a record that it needs.
func (s *Spool) add(e *Entry, outcome usage.Outcome, n uint64, requests int64) {
	k := cellKey{e.Second, e.Tenant, e.KID, e.Route, outcome}
	c, held := s.cells[k]
	if !held || n < c.first {
		c.first = n
	}
	c.requests += requests
	c.cost += e.Cost
	s.cells[k] = c
}

// Count counts requests that were not admitted, or that are free: in memory alone, to be
// cut with the rest. A process that is killed loses them.
func (s *Spool) Count(e *Entry, outcome usage.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := cellKey{e.Second, e.Tenant, e.KID, e.Route, outcome}
	c, held := s.cells[k]
	if !held {
		if s.refusals >= maxCells {
			k = cellKey{second: e.Second, tenant: usage.Rest, route: usage.Rest, outcome: outcome}
			c, held = s.cells[k]
		}
		if !held && s.refusals >= 2*maxCells { // nothing can be cut for long
			s.totals.Uncounted++
			return
		}
		if !held {
			s.refusals++
			c.first = s.raw.next
		}
	}
	c.requests++
	s.cells[k] = c
}

// Unnoted counts a request that was admitted without a note.
func (s *Spool) Unnoted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.Unnoted++
}

// Standing says how the spool stands.
func (s *Spool) Standing() Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Standing{
		Through: s.through, Committed: s.through, Bytes: s.bytes(), Limit: s.o.Limit, Full: s.isFull(), Totals: s.totals,
	}
	for _, w := range s.waiting {
		st.Waiting += w.Last - w.First + 1
	}
	if len(s.waiting) > 0 {
		st.Committed = min(st.Committed, s.waiting[0].before)
	}
	return st
}

func (s *Spool) lend() *[]byte {
	room, _ := s.room.Get().(*[]byte)
	return room
}

func (s *Spool) giveBack(room *[]byte) { s.room.Put(room) }

// Close gives the files back. What is still open is interrupted when the spool is
// opened again.
func (s *Spool) Close() error {
	s.cutMu.Lock()
	defer s.cutMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.raw.finish()
	s.cuts.finish()
	err := errors.Join(s.raw.sync(), s.cuts.sync())
	s.raw.close()
	s.cuts.close()
	return err
}
