package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

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

// Both have the hash tag {ledger}: one script touches both. Marks lie where gateways may
// only read: whoever could write them would make replicas forget what no ledger has.
func (k keys) usageEvents() string { return k.ns + ":usage:{ledger}:events" }
func (k keys) ledgerMarks() string { return k.ns + ":{ledger}:marks" }

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
	committed, err := r.mark(ctx, b.Replica, b.Boot)
	if err != nil {
		return Shipped{}, fmt.Errorf("send events: %w", err)
	}
	if has := b.First <= b.Last && b.Last <= committed; len(b.Body) == 0 || has {
		return Shipped{Committed: committed, Entry: b.Entry}, nil
	}
	entry, err := eventsScript.Run(ctx, r.cfg.Client, []string{r.keys.usageEvents()},
		b.Replica, b.Boot, b.First, b.Last, b.Body, eventsBytes, eventsTTL.Milliseconds(), b.Entry).Text()
	switch {
	case err != nil:
		return Shipped{}, fmt.Errorf("send events %d to %d: %w", b.First, b.Last, err)
	case entry == "full":
		return Shipped{Committed: committed}, fmt.Errorf("send events %d to %d: %w", b.First, b.Last, ErrEventsFull)
	}
	return Shipped{Committed: committed, Entry: entry}, nil
}

// mark is how far the ledger has a boot; 0 when Redis does not know, or holds nonsense.
func (r *Reporter) mark(ctx context.Context, replica, boot string) (int64, error) {
	text, err := r.cfg.Client.HGet(ctx, r.keys.ledgerMarks(), replica+" "+boot).Result()
	switch {
	case errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "WRONGTYPE"):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read mark: %w", err)
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return 0, nil //nolint:nilerr // nonsense is nothing
	}
	return seq, nil
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
	err := committedScript.Run(ctx, p.cfg.Client, []string{p.keys.usageEvents(), p.keys.ledgerMarks()}, args...).Err()
	if err != nil {
		return fmt.Errorf("tell what the ledger has: %w", err)
	}
	return nil
}

// DropEvents drops all batches up to and including a place that Events returned, whatever
// they are. A replica sends again what is not committed of them.
func (p *Publisher) DropEvents(ctx context.Context, through string) error {
	ms, n, ok := parseStreamID(through)
	if !ok {
		return fmt.Errorf("drop events: place %q is none", through)
	}
	if n++; n == 0 {
		ms++
	}
	err := p.cfg.Client.XTrimMinID(ctx, p.keys.usageEvents(), fmt.Sprintf("%d-%d", ms, n)).Err()
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("drop events up to %s: %w", through, err)
	}
	return nil
}
