package spool

import (
	"encoding/binary"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// Kinds of records, the first byte of a payload.
const (
	kindHead    = 'H' // begins a segment: format, boot, number of the boot's next event
	kindIntent  = 'I' // id, entry
	kindOutcome = 'O' // id of the intent, outcome, its entry's second
	kindNote    = 'N' // outcome, entry
	kindCut     = 'C' // events, encoded, and what they cover
	kindClaim   = 'K' // that a cut was made: what it covers, boot, numbers
	kindMark    = 'M' // boot, number: the ledger has that much
	kindSkip    = 'S' // numbers before this one's that were never written
)

// format is what this build writes and the newest that it reads.
const format = 1

// Entry is what is noted of a request.
type Entry struct {
	Second int64 // Unix, by Redis' clock
	Tenant string
	KID    string
	Route  string
	Cost   int64
}

// bounded is the entry within what an event may have.
func (e *Entry) bounded() Entry {
	return Entry{
		Second: ledger.Second(e.Second), Cost: e.Cost,
		Tenant: ledger.Name(e.Tenant), KID: ledger.Name(e.KID), Route: ledger.Name(e.Route),
	}
}

func appendEntry(b []byte, e *Entry) []byte {
	b = appendSigned(b, e.Second)
	b = appendSigned(b, e.Cost)
	b = appendText(b, e.Tenant)
	b = appendText(b, e.KID)
	return appendText(b, e.Route)
}

func (c *cursor) entry() Entry {
	return Entry{Second: c.signed(), Cost: c.signed(), Tenant: c.text(), KID: c.text(), Route: c.text()}
}

func appendHead(b []byte, boot string, next int64) []byte {
	b = append(b, kindHead, format)
	b = appendText(b, boot)
	return appendSigned(b, next)
}

func appendIntent(b []byte, id uint64, e *Entry) []byte {
	return appendEntry(binary.AppendUvarint(append(b, kindIntent), id), e)
}

func appendOutcome(b []byte, id uint64, second int64, outcome usage.Outcome) []byte {
	b = binary.AppendUvarint(append(b, kindOutcome), id)
	return appendText(appendSigned(b, second), outcome)
}

func appendNote(b []byte, e *Entry, outcome usage.Outcome) []byte {
	return appendEntry(appendText(append(b, kindNote), outcome), e)
}

// cover says which records a cut has in its events: those with numbers below upto whose
// seconds were not held back.
type cover struct {
	upto uint64
	held int64 // this second and the one after it; noSecond: none
}

const (
	// noSecond holds nothing back.
	noSecond = -10
	// allEnded holds nothing back, and says that no intent before it can still end.
	allEnded = -20
)

// holds reports whether a second was too young to be cut.
func holds(held, second int64) bool { return second == held || second == held+1 }

// has reports whether a record is in the cut.
func (c cover) has(number uint64, second int64) bool {
	return number < c.upto && !holds(c.held, second)
}

func appendCover(b []byte, c cover) []byte {
	return appendSigned(binary.AppendUvarint(b, c.upto), c.held)
}

func (c *cursor) cover() cover { return cover{c.number(), c.signed()} }

// span names events of a boot.
type span struct {
	boot        string
	first, last int64 // last is first-1 when there is none
	through     int64
	final       bool
}

func appendSpan(b []byte, s *span) []byte {
	b = appendText(b, s.boot)
	b = appendSigned(appendSigned(appendSigned(b, s.first), s.last), s.through)
	if s.final {
		return append(b, 1)
	}
	return append(b, 0)
}

func (c *cursor) span() span {
	return span{boot: c.text(), first: c.signed(), last: c.signed(), through: c.signed(), final: c.number() == 1}
}

func appendMark(b []byte, boot string, seq int64) []byte {
	return appendSigned(appendText(append(b, kindMark), boot), seq)
}
