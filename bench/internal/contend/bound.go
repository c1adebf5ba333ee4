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
	// Burst is what greedy callers can get at once: Numbers.Burst, or less when
	// replicas take slices.
	Burst int64
	Now   func(context.Context) (time.Time, error) // Redis' clock

	admitted    atomic.Uint64
	began       time.Time // by Redis' clock
	base        time.Time // by this process'
	first, last atomic.Int64
	shares      []float64
}

// Begin starts a stretch. The bucket must be fresh.
func (b *Bound) Begin(ctx context.Context) error {
	now, err := b.Now(ctx)
	b.began, b.base = now, time.Now()
	b.admitted.Store(0)
	b.first.Store(0)
	return err
}

// Op counts what op admits, also while it warms up.
func (b *Bound) Op(op meas.Op) meas.Op {
	return func(ctx context.Context, caller int, i uint64) (meas.Tally, error) {
		t, err := op(ctx, caller, i)
		if t.Admitted > 0 {
			b.admitted.Add(t.Admitted)
			now := int64(time.Since(b.base))
			b.last.Store(now)
			if b.first.Load() == 0 {
				b.first.CompareAndSwap(0, now)
			}
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
	admitted := float64(b.admitted.Load())
	if most := b.most(b.Numbers.Burst, now.Sub(b.began)); admitted > most {
		return fmt.Errorf("admitted %.0f in %v, but burst + rate × time is %.0f", admitted, now.Sub(b.began), most)
	}
	asked := time.Duration(b.last.Load() - b.first.Load())
	b.shares = append(b.shares, min(1, admitted/b.most(b.Burst, asked)))
	return nil
}

// most is what burst and rate allow in a time.
func (b *Bound) most(burst int64, t time.Duration) float64 {
	return float64(burst) + float64(b.Numbers.Tokens)*float64(t)/float64(time.Microsecond)/float64(b.Numbers.Period)
}

// Share is how much of what greedy callers can get was admitted, from the first
// admission to the last: the median over all stretches, and never above 1.
func (b *Bound) Share() float64 { return meas.Median(b.shares) }
