package decisionlog

import (
	"container/heap"
	"context"
	"slices"
)

// maxOpen bounds the batches that Merge reads at once. Replicas cut one about every
// second, so more than this many overlap only when their clocks or their senders are
// broken; then the oldest is given out although an earlier entry may follow.
const maxOpen = 4096

// Merge calls yield with the entries of a log in the order of the store, whatever
// replicas they come from, until yield fails. The entry is valid until yield returns;
// its texts and Values stay. b is what it lies in, for Replica, Boot and Sample.
func Merge(ctx context.Context, log Log, yield func(b *Batch, e *Entry) error) error {
	m := merger{yield: yield}
	if err := log.Batches(ctx, m.take); err != nil {
		return err
	}
	return m.drain(1<<63 - 1)
}

type merger struct {
	yield func(*Batch, *Entry) error
	texts Texts
	open  sources
}

// take gives out what comes before the batch and opens it.
func (m *merger) take(b *Batch) error {
	if err := m.drain(b.From); err != nil {
		return err
	}
	for len(m.open) >= maxOpen {
		if err := m.step(); err != nil {
			return err
		}
	}
	s := &source{batch: *b}
	if b.Entries == nil && b.Body != nil {
		r, err := m.texts.Open(b.Body)
		if err != nil {
			return err
		}
		s.reader, s.batch = r, r.Batch()
	} else {
		// They may be used again by who yields them, and need not be in order.
		s.entries = slices.Clone(b.Entries)
		slices.SortStableFunc(s.entries, compare)
	}
	s.batch.Body, s.batch.Entries = nil, nil
	more, err := s.next()
	if err != nil || !more {
		return err
	}
	heap.Push(&m.open, s)
	return nil
}

func compare(a, b Entry) int {
	switch {
	case a.Before(&b):
		return -1
	case b.Before(&a):
		return 1
	}
	return 0
}

// drain gives out what comes before a time.
func (m *merger) drain(before int64) error {
	for len(m.open) > 0 && m.open[0].head.At < before {
		if err := m.step(); err != nil {
			return err
		}
	}
	return nil
}

// step gives out the first entry of all.
func (m *merger) step() error {
	s := m.open[0]
	if err := m.yield(&s.batch, s.head); err != nil {
		return err
	}
	more, err := s.next()
	switch {
	case err != nil:
		return err
	case more:
		heap.Fix(&m.open, 0)
	default:
		heap.Pop(&m.open)
	}
	return nil
}

// source is an open batch: of one that was encoded the reader, else the entries.
type source struct {
	batch   Batch
	reader  *Reader
	entries []Entry
	head    *Entry
}

func (s *source) next() (bool, error) {
	if s.reader != nil {
		more := s.reader.Next()
		s.head = s.reader.Entry()
		return more, s.reader.Err()
	}
	if len(s.entries) == 0 {
		return false, nil
	}
	s.head, s.entries = &s.entries[0], s.entries[1:]
	return true, nil
}

// sources is a heap, the earliest entry first.
type sources []*source

func (s sources) Len() int { return len(s) }
func (s sources) Less(i, j int) bool {
	a, b := s[i], s[j]
	if a.head.At == b.head.At && a.batch.Boot != b.batch.Boot {
		return a.batch.Boot < b.batch.Boot // calls of different replicas: any order, but always the same
	}
	return a.head.Before(b.head)
}
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push adds a source; for package heap.
func (s *sources) Push(x any) { *s = append(*s, x.(*source)) }

// Pop takes the last one out; for package heap.
func (s *sources) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last], *s = nil, (*s)[:last]
	return x
}
