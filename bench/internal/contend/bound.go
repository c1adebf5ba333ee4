package contend

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/bench/internal/meas"
	"github.com/headgate/headgate/policy"
)

// Bound holds a limit to its promise: however many replicas draw from it, never
// more than burst + rate × time is admitted, by Redis' own clock.
type Bound struct {
	Numbers policy.Numbers
	Now     func(context.Context) (time.Time, error) // Redis' clock

	admitted atomic.Uint64
	began    time.Time
	shares   []float64
}

// Begin starts a stretch. The bucket must be fresh.
func (b *Bound) Begin(ctx context.Context) error {
	now, err := b.Now(ctx)
	b.began = now
	b.admitted.Store(0)
	return err
}

// Op counts what op admits, also while it warms up.
func (b *Bound) Op(op meas.Op) meas.Op {
	return func(ctx context.Context, caller int, i uint64) (meas.Tally, error) {
		t, err := op(ctx, caller, i)
		if t.Admitted > 0 {
			b.admitted.Add(t.Admitted)
		}
		return t, err
	}
}

// End checks the stretch.
func (b *Bound) End(ctx context.Context, _ *meas.Round) error {
	now, err := b.Now(ctx)
	if err != nil {
		return err
	}
	n := b.Numbers
	most := float64(n.Burst) + float64(n.Tokens)*float64(now.Sub(b.began).Microseconds())/float64(n.Period)
	share := float64(b.admitted.Load()) / most
	b.shares = append(b.shares, share)
	if share > 1 {
		return fmt.Errorf("admitted %d in %v, but %d + rate × time is %.0f", b.admitted.Load(), now.Sub(b.began), n.Burst, most)
	}
	return nil
}

// Share is the median share of what the limit allows that was admitted; never
// above 1.
func (b *Bound) Share() float64 { return meas.Median(b.shares) }
