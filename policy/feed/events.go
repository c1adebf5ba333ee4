package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/usage/ledger"
)

const (
	// eventsPerRequest is how many batches of events are read at once.
	eventsPerRequest = 32 // each may be 1 MiB
	eventsBytes      = 64 << 20
	eventsTTL        = 7 * 24 * time.Hour
	// maxMarks bounds the boots whose marks are kept, at about 100 bytes each.
	maxMarks = 20_000
)

// ErrEventsFull says that Redis holds as many events as it may: the replica keeps
// its own until the ledger has taken some.
var ErrEventsFull = errors.New("the stream of events is full")

// Both have the hash tag {ledger}: one script touches both.
func (k keys) usageEvents() string    { return k.ns + ":usage:{ledger}:events" }
func (k keys) usageCommitted() string { return k.ns + ":usage:{ledger}:committed" }

// events is the stream of events.
func (k keys) events() batchStream {
	return batchStream{what: "events", key: k.usageEvents(), perRequest: eventsPerRequest, most: ledger.MaxBody}
}

// EventBatch is a batch as ledger.Encode wrote it. Without a Body it only asks.
type EventBatch struct {
	Replica, Boot string
	First, Last   int64
	Body          []byte
	Entry         string // that the batch had in the stream when it was sent before; "": none
}

// Shipped is what Redis knows of a batch.
type Shipped struct {
	Committed int64  // the ledger has the boot's events up to this number; 0: not known
	Entry     string // of the batch in the stream
}

// ShipEvents adds a batch to the stream of events unless the ledger has it, or it is
// still where it was. The same batch may be sent again: the ledger takes it once. When
// the stream is full, the error is ErrEventsFull, and Committed is told all the same.
func (r *Reporter) ShipEvents(ctx context.Context, b *EventBatch) (Shipped, error) {
	if len(b.Body) > ledger.MaxBody {
		return Shipped{}, fmt.Errorf("send events: batch of %d bytes", len(b.Body))
	}
	reply, err := eventsScript.Run(ctx, r.cfg.Client, []string{r.keys.usageEvents(), r.keys.usageCommitted()},
		b.Replica, b.Boot, b.First, b.Last, b.Body, eventsBytes, eventsTTL.Milliseconds(), b.Entry).StringSlice()
	if err != nil {
		return Shipped{}, fmt.Errorf("send events %d to %d: %w", b.First, b.Last, err)
	}
	if len(reply) != 3 {
		return Shipped{}, fmt.Errorf("send events: script answered %d values, not 3", len(reply))
	}
	committed, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return Shipped{}, fmt.Errorf("send events: read mark: %w", err)
	}
	if reply[0] != "ok" {
		return Shipped{Committed: committed}, fmt.Errorf("send events %d to %d: %w", b.First, b.Last, ErrEventsFull)
	}
	return Shipped{Committed: committed, Entry: reply[2]}, nil
}

// SendEvents is ShipEvents of a batch that was not sent before.
func (r *Reporter) SendEvents(ctx context.Context, replica, boot string, first, last int64, body []byte) (committed int64, err error) {
	s, err := r.ShipEvents(ctx, &EventBatch{Replica: replica, Boot: boot, First: first, Last: last, Body: body})
	return s.Committed, err
}

// Events returns the batches of events after a place ("" for all that are held) and the
// place after them, some dozens a call: call again until the place stays. It does not
// wait. After Redis lost the stream it begins anew by itself: a reader has to take an
// event once however often it is read.
func (p *Publisher) Events(ctx context.Context, after string) ([][]byte, string, error) {
	return p.readStream(ctx, p.keys.events(), after)
}

// SetCommitted tells replicas how far the ledger has their boots, and drops from the
// front of the stream what it has. Say the mark also of a boot whose batch brought
// nothing new: its replica may have missed it.
func (p *Publisher) SetCommitted(ctx context.Context, marks []ledger.Mark) error {
	args := make([]any, 0, 2+2*len(marks))
	args = append(args, eventsTTL.Milliseconds(), maxMarks)
	for _, m := range marks {
		args = append(args, m.Replica+" "+m.Boot, m.Seq)
	}
	err := committedScript.Run(ctx, p.cfg.Client, []string{p.keys.usageEvents(), p.keys.usageCommitted()}, args...).Err()
	if err != nil {
		return fmt.Errorf("tell what the ledger has: %w", err)
	}
	return nil
}
