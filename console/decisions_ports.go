package console

import (
	"context"
	"time"
)

// DecisionFeed is a Feed that also carries what gateways log of their decisions.
type DecisionFeed interface {
	// Decisions returns the batches after a place ("": from the beginning), as
	// decisionlog.Encode wrote them, and the place after them. It does not wait, and
	// begins anew by itself when the stream was lost.
	Decisions(ctx context.Context, after string) (batches [][]byte, next string, err error)
}

// DecisionBatch is a row of the decision log.
type DecisionBatch struct {
	ID            int64
	Replica, Boot string
	Seq           int64
	From, To      time.Time
	Entries       int
	Sample        uint32
	Dropped       int64
	Unjudged      int64
	ReceivedAt    time.Time
	Body          []byte
}

// DecisionSpan is a stretch of time, both ends included.
type DecisionSpan struct{ From, To time.Time }

// DecisionTotals is what the log has of a span.
type DecisionTotals struct {
	Batches, Entries, Dropped, Unjudged, Bytes int64
	Sample                                     uint32    // the smallest of the batches'; decisionlog.Whole for none
	First, Last                                time.Time // of the batches' entries
}

// DecisionRows keeps the decision log.
type DecisionRows interface {
	// InsertDecisionBatch reports false when the batch of that replica, boot and seq is
	// there already.
	InsertDecisionBatch(ctx context.Context, b DecisionBatch) (bool, error)
	// DecisionBatches lists a page of the batches that touch a span, by From and ID,
	// without ReceivedAt. The zero afterAt and afterID are the beginning.
	DecisionBatches(ctx context.Context, in DecisionSpan, afterAt time.Time, afterID int64, limit int) ([]DecisionBatch, error)
	DecisionTotals(ctx context.Context, in DecisionSpan) (DecisionTotals, error)
	DecisionUpkeep
}

// DecisionUpkeep moves the log on.
type DecisionUpkeep interface {
	// DecisionPlace is the place in the feed up to which everything is kept; "" at first.
	DecisionPlace(ctx context.Context) (string, error)
	SetDecisionPlace(ctx context.Context, place string, now time.Time) error
	// DeleteOldDecisions drops what was received before a time, the oldest first and at
	// most limit batches; it returns how many.
	DeleteOldDecisions(ctx context.Context, before time.Time, limit int) (int64, error)
	// TrimDecisions drops the oldest batches, at most limit of them, as long as all have
	// more than so many bytes; it returns how many.
	TrimDecisions(ctx context.Context, bytes int64, limit int) (int64, error)
}
