package spool

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// found is what lies in a spool that is opened.
type found struct {
	boot    string           // of the segment that is read
	next    map[string]int64 // number of each boot's next event
	intents map[uint64]foundRecord
	ended   []foundRecord // outcomes and notes
	orphans []foundRecord // outcomes whose intents are not there
	covers  []cover
	marks   map[string]int64
	lost    int64 // records that cannot be read
}

// foundRecord is a request.
type foundRecord struct {
	number  uint64
	boot    string
	entry   Entry
	outcome usage.Outcome
}

// recover reads what earlier boots left and makes events of it.
func (s *Spool) recover() error {
	f := &found{next: map[string]int64{}, intents: map[uint64]foundRecord{}, marks: map[string]int64{}}
	if err := s.read(s.cuts, f, s.readCut); err != nil {
		return err
	}
	if err := s.read(s.raw, f, readRaw); err != nil {
		return err
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(w *Waiting) bool {
		mark, known := f.marks[w.Boot]
		return known && w.Last <= mark
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = &leftover{f.pieces(&s.totals, s.o.Boot), cover{s.raw.next, allEnded}}
	s.totals.Lost = f.lost
	if err := s.cutLeft(); err != nil {
		_ = s.failed(err) // a full disk keeps no gateway from its work; the next Cut tries again
	}
	s.dropCuts()
	return nil
}

// leftover is what an earlier boot left uncut.
type leftover struct {
	pieces []piece
	cover  cover
}

// cutLeft cuts what earlier boots left.
func (s *Spool) cutLeft() error {
	if s.left == nil {
		return nil
	}
	if err := s.writeCut(s.left.pieces, s.left.cover, s.left.cover.upto); err != nil {
		return fmt.Errorf("cut events of earlier boots: %w", err)
	}
	s.left = nil
	return nil
}

// pieces are the events of what no cut has.
// Requests whose boot is not known become those of the boot that finds them.
func (f *found) pieces(totals *Totals, own string) []piece {
	cells := map[string]map[cellKey]cell{}
	boots := []string{}
	add := func(r *foundRecord, outcome usage.Outcome) {
		if !ledger.ValidName(r.boot) {
			r.boot = own
		}
		if cells[r.boot] == nil {
			cells[r.boot] = map[cellKey]cell{}
			boots = append(boots, r.boot)
		}
		k := cellKey{r.entry.Second, r.entry.Tenant, r.entry.KID, r.entry.Route, outcome}
		c := cells[r.boot][k]
		if outcome != ledger.OutcomeSettled {
			c.requests++
		}
		c.cost += r.entry.Cost
		cells[r.boot][k] = c
	}
	slices.SortFunc(f.covers, func(a, b cover) int { return cmp.Compare(b.upto, a.upto) })
	for i := range f.orphans {
		if !f.covered(&f.orphans[i]) {
			f.lost++
		}
	}
	for i := range f.ended {
		if r := &f.ended[i]; !f.covered(r) {
			add(r, r.outcome)
		}
	}
	for _, r := range f.intents {
		if f.over(&r) {
			continue
		}
		add(&r, ledger.OutcomeInterrupted)
		totals.Interrupted++
	}
	slices.Sort(boots)
	pieces := make([]piece, 0, len(boots))
	for _, boot := range boots {
		pieces = append(pieces, piece{span{boot: boot, first: max(f.next[boot], 1), final: boot != own}, eventsOf(cells[boot])})
	}
	return pieces
}

// over reports whether an intent was interrupted before: a later boot has cut it.
func (f *found) over(r *foundRecord) bool {
	return slices.ContainsFunc(f.covers, func(c cover) bool { return c.held == allEnded && r.number < c.upto })
}

// covered reports whether a cut has a record. The highest covers come first.
func (f *found) covered(r *foundRecord) bool {
	for _, c := range f.covers {
		if r.number >= c.upto {
			return false
		}
		if c.has(r.number, r.entry.Second) {
			return true
		}
	}
	return false
}

// read reads all segments of a journal, the oldest first, and leaves them open.
func (s *Spool) read(j *journal, f *found, each func(f *found, seg *segment, at int64, number uint64, c *cursor, kind byte) bool) error {
	paths, err := filepath.Glob(filepath.Join(j.dir, j.name+"-*.log"))
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	slices.Sort(paths) // numbers of one width
	after, skipped := uint64(0), uint64(0)
	for i, path := range paths {
		first, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), j.name+"-"), ".log"), 16, 64)
		if err != nil {
			return fmt.Errorf("%s is no segment of a spool: move it away", path)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read segment: %w", err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("read segment: %w", err)
		}
		seg := &segment{path: path, f: file, size: int64(len(raw)), first: first}
		j.segs = append(j.segs, seg)
		j.bytes += seg.size
		size, err := f.readHead(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if i == 0 {
			after = first - 1
		}
		gap := func(number uint64) {
			if missing := int64(number - after - 1 - skipped); missing > 0 { //nolint:gosec // numbers of one spool
				f.lost += missing
			}
			after, skipped = number, 0
		}
		// A segment whose last write was cut short ends in a tail; of others nothing may be missing.
		higher := after
		if i == 0 {
			higher = 0
		}
		_, _ = scan(raw[size:], higher, func(at int, number uint64, payload []byte) {
			c := &cursor{b: payload[1:]}
			if payload[0] == kindSkip {
				skipped = c.number() - 1
				gap(number)
				return
			}
			gap(number)
			if !each(f, seg, int64(size+at), number, c, payload[0]) || !c.done() {
				f.lost++
			}
		})
		seg.last = after
		j.next = max(j.next, after+1, first)
		if after < first { // nothing in it can be read, and the next segment may get its name
			j.bytes -= seg.size
			j.segs = j.segs[:len(j.segs)-1]
			if err := errors.Join(file.Close(), j.disk.Remove(path)); err != nil {
				return fmt.Errorf("remove empty segment: %w", err)
			}
		}
	}
	if n := len(j.segs); n > 0 {
		j.segs[n-1].sealed = true // this boot begins a segment of its own
	}
	return nil
}

// readHead reads the beginning of a segment; it returns the size of the head. Without a
// head that can be read, the segment's records are those of the boot before.
func (f *found) readHead(raw []byte) (int, error) {
	_, payload, size := readFrame(raw)
	if size == 0 || payload[0] != kindHead {
		return 0, nil
	}
	c := &cursor{b: payload[1:]}
	if v := c.number(); v > format {
		return 0, fmt.Errorf("%w (format %d, this one reads up to %d): run that build, or move the folder away", ErrNewer, v, format)
	}
	boot, next := c.text(), c.signed()
	if !c.done() {
		return 0, errors.New("its head is none")
	}
	f.boot = boot
	f.next[boot] = max(f.next[boot], next)
	return size, nil
}

// readCut reads a record of the cuts.
func (s *Spool) readCut(f *found, seg *segment, at int64, _ uint64, c *cursor, kind byte) bool {
	switch kind {
	case kindMark:
		boot, seq := c.text(), c.signed()
		f.marks[boot] = max(f.marks[boot], seq)
		f.next[boot] = max(f.next[boot], seq+1)
		return true
	case kindCut:
		whole := len(c.b)
		f.covers = append(f.covers, c.cover())
		for len(c.b) > 0 && !c.bad {
			sp := c.span()
			body := c.bytes()
			if c.bad {
				return false
			}
			begin := at + frameHead + 1 + int64(whole-len(c.b)-len(body))
			s.waiting = append(s.waiting, &Waiting{
				Boot: sp.boot, First: sp.first, Last: sp.last, seg: seg, at: begin, size: int64(len(body)),
				sum: crc32.Checksum(body, castagnoli()),
			})
			f.next[sp.boot] = max(f.next[sp.boot], sp.last+1)
		}
		return !c.bad
	}
	return false
}

// readRaw reads a record of a request.
func readRaw(f *found, _ *segment, _ int64, number uint64, c *cursor, kind byte) bool {
	switch kind {
	case kindIntent:
		id := c.number()
		r := foundRecord{number: number, boot: f.boot, entry: c.entry()}
		if c.bad {
			return false
		}
		f.intents[id] = r
	case kindOutcome:
		id, second, outcome := c.number(), c.signed(), usage.Outcome(c.text())
		r, known := f.intents[id]
		if !known { // its intent went with a segment of which everything is cut
			f.orphans = append(f.orphans, foundRecord{number: number, entry: Entry{Second: second}})
			return true
		}
		delete(f.intents, id)
		if r.number, r.outcome = number, outcome; c.bad || !ledger.Known(outcome) {
			return false
		}
		f.ended = append(f.ended, r)
	case kindNote:
		r := foundRecord{number: number, boot: f.boot, outcome: usage.Outcome(c.text())}
		if r.entry = c.entry(); c.bad || !ledger.Known(r.outcome) {
			return false
		}
		f.ended = append(f.ended, r)
	case kindClaim:
		cov, sp := c.cover(), c.span()
		f.covers = append(f.covers, cov)
		f.next[sp.boot] = max(f.next[sp.boot], sp.last+1)
	default:
		return false
	}
	return true
}
