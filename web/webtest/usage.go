package webtest

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate/usage/ledger"
)

// UsageGateway is the replica that UsageFeed's events come from.
const UsageGateway = "gw_usageusageusage0"

// UsageFeed is a Feed that also carries events to the ledger, as gateways tell them.
type UsageFeed struct {
	*Feed
	mu     sync.Mutex
	bodies [][]byte
	next   int64
}

// Events implements console.LedgerFeed.
func (f *UsageFeed) Events(_ context.Context, after string) (bodies [][]byte, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _ := strconv.Atoi(after) // "" is the beginning
	return f.bodies[n:], strconv.Itoa(len(f.bodies)), nil
}

// SetCommitted implements console.LedgerFeed.
func (f *UsageFeed) SetCommitted(context.Context, []ledger.Mark) error { return nil }

// DropEvents implements console.LedgerFeed.
func (f *UsageFeed) DropEvents(context.Context, string) error { return nil }

// Use tells the ledger of events, in as many batches as they need, and has it take
// them in.
func (w *World) Use(t testing.TB, events ...ledger.Event) {
	t.Helper()
	w.Usage.mu.Lock()
	for len(events) > 0 {
		n := min(len(events), ledger.MaxEvents)
		body, err := ledger.Encode(&ledger.Batch{Replica: UsageGateway, Boot: "b1", First: w.Usage.next + 1, Events: events[:n], Through: w.Now().Unix()})
		must(t, err)
		w.Usage.bodies, w.Usage.next, events = append(w.Usage.bodies, body), w.Usage.next+int64(n), events[n:]
	}
	w.Usage.mu.Unlock()
	must(t, w.Web.Ledger.Collect(t.Context()))
}
