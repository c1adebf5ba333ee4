package limiter

import (
	"context"
	"sync"
	"time"
)

// budget is a context that ends at a deadline, for calls that mostly look at the
// deadline only: it makes a timer when somebody first asks for Done, and costs one
// allocation until then. A store that keeps time itself may wait on the Done of
// Caller instead.
type budget struct {
	caller   context.Context
	deadline time.Time
	length   time.Duration // of which it was made

	mu     sync.Mutex
	timed  context.Context // nil until Done is asked for
	cancel context.CancelFunc
	ended  bool
}

// WithBudget is a context that ends with ctx, at the latest after d, and that makes a
// timer only when its Done is asked for. Its method Caller returns ctx. The caller
// calls end when it is done with it. A budget that ends before d in any case is ctx
// itself.
func WithBudget(ctx context.Context, d time.Duration) (within context.Context, end func()) {
	b, own := innerBudget(ctx, d)
	if !own {
		return b, func() {}
	}
	return b, b.end
}

// innerBudget is WithBudget without the function, which would be an allocation
// in every decision: own says that the caller has to end it.
func innerBudget(ctx context.Context, d time.Duration) (b *budget, own bool) {
	if outer, ok := ctx.(*budget); ok && outer.length <= d {
		return outer, false
	}
	return newBudget(ctx, d), true
}

// newBudget within another one takes that one's place, so that nobody's timer is made
// by asking the caller's for Done.
func newBudget(caller context.Context, d time.Duration) *budget { //nolint:contextcheck // the outer budget's own caller
	deadline := time.Now().Add(d)
	if outer, ok := caller.(*budget); ok {
		caller = outer.caller
		if outer.deadline.Before(deadline) {
			deadline = outer.deadline
		}
	}
	if earlier, ok := caller.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	return &budget{caller: caller, deadline: deadline, length: d}
}

// Caller is the context of the request, which knows nothing of the budget.
func (b *budget) Caller() context.Context { return b.caller }

// Deadline is when the budget is spent.
func (b *budget) Deadline() (time.Time, bool) { return b.deadline, true }

// Done makes the timer.
func (b *budget) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timed == nil {
		b.timed, b.cancel = context.WithDeadline(b.caller, b.deadline)
		if b.ended {
			b.cancel()
		}
	}
	return b.timed.Done()
}

// Err says whether and why it has ended, also when nobody asked for Done.
func (b *budget) Err() error {
	b.mu.Lock()
	timed, ended := b.timed, b.ended
	b.mu.Unlock()
	switch {
	case timed != nil:
		return timed.Err()
	case b.caller.Err() != nil:
		return b.caller.Err()
	case ended:
		return context.Canceled
	case !time.Now().Before(b.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value is the caller's. Once there is a timer it is asked instead, so that contexts
// made of this one hang on it directly.
func (b *budget) Value(key any) any {
	b.mu.Lock()
	timed := b.timed
	b.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return b.caller.Value(key)
}

// end frees the timer, if there is one.
func (b *budget) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.cancel != nil {
		b.cancel()
	}
}
