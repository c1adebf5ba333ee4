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

// SendEvents adds a batch, as ledger.Encode wrote it, to the stream of events, and
// returns up to which number the ledger has the events of that boot as far as Redis
// knows: 0 when it does not. A batch that the ledger has is not added. The same batch may be sent
// again: the ledger takes it once. Without a body it only asks. When the stream is
// full, the error is ErrEventsFull, and committed is told all the same.
func (r *Reporter) SendEvents(ctx context.Context, replica, boot string, first, last int64, body []byte) (committed int64, err error) {
	if len(body) > ledger.MaxBody {
		return 0, fmt.Errorf("send events: batch of %d bytes", len(body))
	}
	reply, err := eventsScript.Run(ctx, r.cfg.Client, []string{r.keys.usageEvents(), r.keys.usageCommitted()},
		replica, boot, first, last, body, eventsBytes, eventsTTL.Milliseconds()).StringSlice()
	if err != nil {
		return 0, fmt.Errorf("send events %d to %d: %w", first, last, err)
	}
	if len(reply) != 2 {
		return 0, fmt.Errorf("send events: script answered %d values, not 2", len(reply))
	}
	committed, err = strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("send events: read mark: %w", err)
	}
	if reply[0] != "ok" {
		return committed, fmt.Errorf("send events %d to %d: %w", first, last, ErrEventsFull)
	}
	return committed, nil
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
