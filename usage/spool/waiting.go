package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Waiting returns what the ledger is not known to have, the oldest first.
func (s *Spool) Waiting() []*Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waiting)
}

// Body reads the encoded batch. One that cannot be read any more is given up: its events
// are lost, and the gap in their numbers tells how many. The error is ErrForgotten when
// the ledger has it.
func (s *Spool) Body(w *Waiting) ([]byte, error) {
	body := make([]byte, w.size)
	_, err := w.seg.f.ReadAt(body, w.at)
	switch {
	case err != nil:
	case crc32.Checksum(body, castagnoli()) == w.sum:
		return body, nil
	default:
		err = errors.New("its bytes have changed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return nil, ErrForgotten
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.totals.Lost += w.Last - w.First + 1
	s.totals.Failures++
	s.dropCuts()
	return nil, fmt.Errorf("read events %d to %d: %w", w.First, w.Last, err)
}

// Sent notes that a batch has been on its way.
func (s *Spool) Sent(w *Waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.sent = true
}

// Committed takes in that the ledger has a boot's events up to a number, and forgets
// them. A batch without events is forgotten when it was sent. It reports whether that can
// be: a number that was not cut yet is believed by nobody.
func (s *Spool) Committed(boot string, seq int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.next - 1
	if boot != s.o.Boot {
		most = 0
		for _, w := range s.waiting {
			if w.Boot == boot {
				most = max(most, w.Last)
			}
		}
	}
	if seq > most {
		return !slices.ContainsFunc(s.waiting, func(w *Waiting) bool { return w.Boot == boot })
	}
	had := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(w *Waiting) bool {
		return w.Boot == boot && w.Last <= seq && (w.sent || w.Last >= w.First)
	})
	if s.closed || len(s.waiting) == had {
		return true
	}
	if _, f := s.cuts.put(appendMark(nil, boot, seq)); s.cuts.wait(f) != nil {
		_ = s.failed(f.err) // it is sent again, and the ledger takes it once
	}
	s.dropCuts()
	return true
}

// dropCuts forgets segments of which the ledger has everything.
func (s *Spool) dropCuts() {
	for len(s.cuts.segs) > 1 {
		front := s.cuts.segs[0]
		if slices.ContainsFunc(s.waiting, func(w *Waiting) bool { return w.seg == front }) {
			return
		}
		s.cuts.dropFront()
	}
}
