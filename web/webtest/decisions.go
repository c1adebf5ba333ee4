package webtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
)

// Decisions is a decision log in memory.
type Decisions struct {
	mu      sync.Mutex
	batches []*decisionlog.Batch
	held    chan struct{} // while it is open, reading waits
}

// Add puts a batch into the log.
func (d *Decisions) Add(b *decisionlog.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batches = append(d.batches, b)
}

// Hold makes reading wait until release is called.
func (d *Decisions) Hold() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held = held
	return sync.OnceFunc(func() { close(held) })
}

// Range implements console.DecisionSource.
func (d *Decisions) Range(_ context.Context, from, to time.Time) (console.Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	part := slices.DeleteFunc(slices.Clone(d.batches), func(b *decisionlog.Batch) bool {
		return b.To < from.UnixMicro() || b.From > to.UnixMicro()
	})
	return &logged{part, d.held}, nil
}

type logged struct {
	batches []*decisionlog.Batch
	held    chan struct{}
}

// Batches implements console.Log.
func (l *logged) Batches(ctx context.Context, yield func(*decisionlog.Batch) error) error {
	for _, b := range l.batches {
		if l.held != nil {
			select {
			case <-l.held:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

// Bounds implements console.Log.
func (l *logged) Bounds() (from, to time.Time, entries int64) {
	for i, b := range l.batches {
		if i == 0 || b.From < from.UnixMicro() {
			from = time.UnixMicro(b.From)
		}
		if to.IsZero() || b.To > to.UnixMicro() {
			to = time.UnixMicro(b.To)
		}
		entries += int64(len(b.Entries))
	}
	return from, to, entries
}
