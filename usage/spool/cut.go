package spool

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/headgate/headgate/usage/ledger"
)

// Waiting is events that the ledger is not known to have.
type Waiting struct {
	Boot        string
	First, Last int64 // First-1 when it has none, and says only that the boot has ended
	sent        bool
	before      int64 // Through before it
	seg         *segment
	at, size    int64  // of the encoded batch in it
	sum         uint32 // CRC-32C of it
}

// Cut makes events of what is complete: of the seconds before now, a Unix second by
// Redis' clock. It is called about once a second, and tries a disk again that took
// nothing. Everything that was noted before is on the disk when it returns nil.
func (s *Spool) Cut(now int64) error { return s.cut(now, false) }

// Finish is the last Cut of a boot: nothing is held back.
func (s *Spool) Finish() error { return s.cut(0, true) }

func (s *Spool) cut(now int64, last bool) error {
	s.cutMu.Lock()
	defer s.cutMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.stuck = nil
	if err := s.cutLeft(); err != nil {
		return s.failed(err)
	}
	held := now
	if last {
		held = noSecond
	}
	p := s.takeOut(held)
	through := s.through // all of one moment
	if !last {
		through = max(through, s.throughAt(now))
	}
	final := last && s.open.front() == nil
	s.mu.Unlock() // requests need not wait while this is sorted
	p.events = eventsOf(p.cells)
	s.mu.Lock()
	if s.bytes() > s.o.Limit+s.o.Limit/8 {
		s.forgetRefusals(&p)
	}
	err := s.writeCut([]piece{{span{boot: s.o.Boot, first: s.next, through: through, final: final}, p.events}}, p.cover, p.clear)
	if err != nil {
		s.putBack(p)
		return s.failed(err)
	}
	s.through = through
	s.dropRaw()
	if err := s.raw.sync(); err != nil {
		return s.failed(err)
	}
	return nil
}

// throughAt is the second up to which everything is cut at a moment. A request whose end
// is long in coming keeps it back a few seconds at most.
func (s *Spool) throughAt(now int64) int64 {
	through := now - 2 // a decision may still be on its way to its note
	if oldest := s.open.oldest(); oldest > 0 {
		through = max(min(through, oldest-1), now-maxLag)
	}
	return through
}

// taken is what a cut takes out of memory.
type taken struct {
	cover    cover
	clear    uint64
	cells    map[cellKey]cell
	refusals int
	events   []ledger.Event
}

// takeOut takes out the cells that are old enough, and leaves the others.
func (s *Spool) takeOut(held int64) taken {
	p := taken{cover: cover{s.raw.next, held}, clear: s.raw.next, cells: s.cells, refusals: s.refusals}
	s.cells, s.refusals = map[cellKey]cell{}, 0
	for k, c := range p.cells {
		if holds(held, k.second) {
			s.cells[k] = c
			delete(p.cells, k)
			p.clear = min(p.clear, c.first)
		}
	}
	return p
}

// forgetRefusals leaves out what nobody is billed for, because not even that has room.
func (s *Spool) forgetRefusals(p *taken) {
	p.events = slices.DeleteFunc(p.events, func(e ledger.Event) bool {
		unbilled := !e.Outcome.Admitted() && e.Outcome != ledger.OutcomeSettled
		if unbilled {
			s.totals.Uncounted += e.Requests
		}
		return unbilled
	})
}

// putBack undoes takeOut.
func (s *Spool) putBack(p taken) {
	for k, c := range p.cells {
		now, held := s.cells[k]
		if !held {
			now.first = c.first
		}
		s.cells[k] = cell{now.requests + c.requests, now.cost + c.cost, min(now.first, c.first)}
	}
	s.refusals += p.refusals
}

func eventsOf(cells map[cellKey]cell) []ledger.Event {
	events := make([]ledger.Event, 0, len(cells))
	for k, c := range cells {
		for c.requests != 0 || c.cost != 0 {
			cost := max(min(c.cost, ledger.MaxCost), -ledger.MaxCost) // more takes more events
			events = append(events, ledger.Event{
				Second: k.second, Tenant: k.tenant, KID: k.kid, Route: k.route, Outcome: k.outcome, Requests: c.requests, Cost: cost,
			})
			c.requests, c.cost = 0, c.cost-cost
		}
	}
	slices.SortFunc(events, func(a, b ledger.Event) int {
		return cmp.Or(cmp.Compare(a.Second, b.Second), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Route, b.Route),
			cmp.Compare(a.KID, b.KID), cmp.Compare(a.Outcome, b.Outcome))
	})
	return events
}

// piece is what a cut has of one boot.
type piece struct {
	span
	events []ledger.Event
}

// writeCut makes batches of pieces and brings them onto the disk as one record: they
// are there whole or not at all. Then they wait for the ledger. The caller holds cutMu
// and mu, which is given up meanwhile.
func (s *Spool) writeCut(pieces []piece, c cover, clear uint64) error {
	s.mu.Unlock()
	payload, spans, err := encodeCut(s.o.Replica, pieces, c)
	s.mu.Lock()
	if err != nil {
		return err
	}
	if len(spans) > 0 {
		if err := s.keep(payload, spans, c); err != nil {
			return err
		}
	}
	s.clear = clear // may be less than before: an outcome needs its intent, however old
	return nil
}

// keep writes a cut, and the claim that it was made.
func (s *Spool) keep(payload []byte, spans []placed, c cover) error {
	at := int64(len(s.cuts.buf)) + frameHead
	_, f := s.cuts.put(payload)
	if err := s.cuts.wait(f); err != nil {
		return err
	}
	// From here on the cut is the truth, whatever becomes of the sync: the process that
	// goes on has it, and one that comes after a power cut takes what it finds.
	if err := s.cuts.sync(); err != nil {
		_ = s.failed(err)
	}
	for i := range spans {
		sp := &spans[i]
		s.waiting = append(s.waiting, &Waiting{
			Boot: sp.boot, First: sp.first, Last: sp.last, before: s.through, seg: f.seg, at: f.base + at + sp.at, size: sp.size,
			sum: crc32.Checksum(payload[sp.at:sp.at+sp.size], castagnoli()),
		})
		if sp.boot == s.o.Boot {
			s.next = sp.last + 1
		}
		claim := appendSpan(appendCover([]byte{kindClaim}, c), &sp.span)
		if _, f := s.raw.put(claim); s.raw.wait(f) != nil {
			_ = s.failed(f.err)
		}
	}
	return nil
}

// placed is a batch in the payload of a cut.
type placed struct {
	span
	at, size int64
}

// encodeCut encodes batches: none when there is nothing to tell.
func encodeCut(replica string, pieces []piece, c cover) ([]byte, []placed, error) {
	payload := appendCover([]byte{kindCut}, c)
	var spans []placed
	for i := range pieces {
		p := &pieces[i]
		next, rest := p.first, p.events
		for len(rest) > 0 || p.final {
			n := min(len(rest), ledger.MaxEvents)
			sp := span{boot: p.boot, first: next, last: next + int64(n) - 1, through: p.through, final: p.final && n == len(rest)}
			if n < len(rest) {
				sp.through = 0 // known with the last one
			}
			body, err := ledger.Encode(&ledger.Batch{
				Replica: replica, Boot: sp.boot, First: sp.first, Events: rest[:n], Through: sp.through, Final: sp.final,
			})
			if err != nil {
				return nil, nil, fmt.Errorf("cut events: %w", err)
			}
			payload = appendSpan(payload, &sp)
			payload = binary.AppendUvarint(payload, uint64(len(body)))
			spans = append(spans, placed{sp, int64(len(payload)), int64(len(body))})
			payload = append(payload, body...)
			next, rest = sp.last+1, rest[n:]
			if len(rest) == 0 {
				break
			}
		}
	}
	return payload, spans, nil
}

// dropRaw forgets segments of which everything is cut. Intents of requests that are
// still under way are written anew.
func (s *Spool) dropRaw() {
	for len(s.raw.segs) > 1 {
		last := s.raw.segs[1].first - 1
		if last >= s.clear || !s.carry(last) {
			return
		}
		s.raw.dropFront()
	}
}

// carry writes intents anew that have numbers up to last.
func (s *Spool) carry(last uint64) bool {
	for t := s.open.front(); t != nil && t.at <= last; t = s.open.front() {
		n, f := s.raw.put(appendIntent(nil, t.id, &t.entry))
		was := t.at
		s.open.remove(t)
		t.at = n
		s.open.push(t)
		if err := s.raw.wait(f); err != nil {
			if t.next != nil { // it has not ended meanwhile
				s.open.remove(t)
				t.at = was
				s.open.pushFront(t)
			}
			_ = s.failed(err)
			return false
		}
	}
	return true
}
