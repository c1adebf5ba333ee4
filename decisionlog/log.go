package decisionlog

import (
	"context"
	"time"
)

// Log is a part of the decision log. Batches calls yield with each batch, ordered
// by their From, until yield fails; it returns what yield returned.
type Log interface {
	Batches(ctx context.Context, yield func(*Batch) error) error
	// Bounds is the time that the log covers and about how many entries it has.
	Bounds() (from, to time.Time, entries int64)
}
