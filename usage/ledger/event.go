package ledger

import "github.com/headgate/headgate/usage"

// Outcome says what became of the requests of an Event: one of usage's outcomes, or
// one of those below.
type Outcome = usage.Outcome

const (
	// OutcomeInterrupted is of requests that were admitted and forwarded, and whose
	// replica was killed before it knew how they ended. They are not billed by default.
	OutcomeInterrupted Outcome = "interrupted"
	// OutcomeSettled corrects the cost of requests that were told before: Requests is 0,
	// Cost the difference, which may be negative.
	OutcomeSettled Outcome = "settled"
	// OutcomeAborted is of requests whose callers left before they were answered: they
	// were not forwarded, and cost nothing.
	OutcomeAborted Outcome = "aborted"
)

// Event counts requests of one second, tenant, key version, route and outcome. Replica
// and boot of its batch, its number and its second name it for ever.
type Event struct {
	Second   int64  // Unix, by Redis' clock; the second by which its quota period was chosen
	Tenant   string // id; "" on routes that know callers by address
	KID      string // of the key version; "" without one
	Route    string // name; "" when none matched
	Outcome  Outcome
	Requests int64 // 0 for settlements
	Cost     int64 // admitted cost; 0 for refusals; signed for settlements
}

// Batch is events of one boot of one replica, with numbers First, First+1, …
type Batch struct {
	Replica string
	Boot    string
	First   int64 // at least 1; numbers of a boot have no gaps
	Events  []Event
	// Through says that everything of this boot up to and including this Unix second is
	// in this batch or before it.
	Through int64
	// Final says that the boot has ended and has no further events.
	Final bool
}

// Last is the number of the last event; First-1 when there is none.
func (b *Batch) Last() int64 { return b.First + int64(len(b.Events)) - 1 }

// Mark is how far the ledger has a boot's events: all up to and including Seq are
// committed.
type Mark struct {
	Replica, Boot string
	Seq           int64
}
