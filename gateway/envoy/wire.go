package envoy

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

var errWire = errors.New("not in protobuf's wire format")

// message is a RateLimitRequest, as far as it is read. Text in it need not be UTF-8 and
// lies in the bytes that it was read from. It is used again for other messages.
type message struct {
	domain      []byte
	hits        uint32
	count       int         // of descriptors
	descriptors []described // at most maxDescriptors
	entries     []entry     // of all descriptors
}

// described is one of a message's.
type described struct {
	count     int  // of entries
	from, to  int  // the entries that are kept, at most maxEntries
	limit     bool // there is one
	negative  bool
	hits      uint64
	hitsGiven bool
}

type entry struct{ key, value []byte }

func (m *message) reset() {
	clear(m.entries) // they point into other bytes
	*m = message{descriptors: m.descriptors[:0], entries: m.entries[:0]}
}

// of is the entries of a descriptor.
func (m *message) of(d *described) []entry { return m.entries[d.from:d.to] }

// read reads a message that stays in b. More descriptors and entries than are answered
// are counted only.
func (m *message) read(b []byte) error {
	m.reset()
	in := fields{rest: b}
	for in.next() {
		switch {
		case in.number == 1 && in.text != nil:
			m.domain = in.text
		case in.number == 2 && in.text != nil:
			if err := m.descriptor(in.text); err != nil {
				return err
			}
		case in.number == 3 && in.text == nil:
			m.hits = uint32(in.value)
		}
	}
	return in.err
}

func (m *message) descriptor(b []byte) error {
	d := described{from: len(m.entries), to: len(m.entries)}
	m.count++
	in := fields{rest: b}
	for in.next() {
		switch {
		case in.number == 1 && in.text != nil:
			var e entry
			if err := e.read(in.text); err != nil {
				return err
			}
			if d.count++; d.count <= maxEntries && m.count <= maxDescriptors {
				m.entries, d.to = append(m.entries, e), d.to+1
			}
		case in.number == 2 && in.text != nil:
			d.limit = true // that it is there is all that is asked
		case in.number == 3 && in.text != nil: // one that stands twice is merged
			d.hitsGiven = true
			if err := readNumber(in.text, &d.hits); err != nil {
				return err
			}
		case in.number == 4 && in.text == nil:
			d.negative = protowire.DecodeBool(in.value)
		}
	}
	if m.count <= maxDescriptors {
		m.descriptors = append(m.descriptors, d)
	}
	return in.err
}

func (e *entry) read(b []byte) error {
	in := fields{rest: b}
	for in.next() {
		switch {
		case in.number == 1 && in.text != nil:
			e.key = in.text
		case in.number == 2 && in.text != nil:
			e.value = in.text
		}
	}
	return in.err
}

// readNumber reads a message whose first field is a number.
func readNumber(b []byte, to *uint64) error {
	in := fields{rest: b}
	for in.next() {
		if in.number == 1 && in.text == nil {
			*to = in.value
		}
	}
	return in.err
}

// fields reads a message field by field: text for those of bytes (never nil), a value
// for varints. Fields of other types have the number 0: they are passed over, as unknown
// ones are.
type fields struct {
	rest   []byte
	number protowire.Number
	text   []byte
	value  uint64
	err    error
}

func (f *fields) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	n, kind, size := protowire.ConsumeTag(f.rest)
	if size < 0 {
		return f.fail(size)
	}
	f.rest, f.number, f.text, f.value = f.rest[size:], n, nil, 0
	switch kind {
	case protowire.BytesType:
		if f.text, size = protowire.ConsumeBytes(f.rest); f.text == nil {
			f.text = []byte{}
		}
	case protowire.VarintType:
		f.value, size = protowire.ConsumeVarint(f.rest)
	default:
		f.number, size = 0, protowire.ConsumeFieldValue(n, kind, f.rest)
	}
	if size < 0 {
		return f.fail(size)
	}
	f.rest = f.rest[size:]
	return true
}

func (f *fields) fail(size int) bool {
	f.err = fmt.Errorf("%w: %w", errWire, protowire.ParseError(size))
	return false
}
