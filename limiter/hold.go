package limiter

import (
	"context"
	"fmt"
	"sync"
)

// Hold keeps the leases of one request alive until Release. While the store cannot be
// asked they are not renewed; the next renewal takes their places again, if there
// are some. A process that is killed leaks nothing beyond the hold of its leases.
type Hold struct {
	limiter *Limiter
	leases  []Lease
	once    sync.Once
}

// Hold renews the leases in the background, at a third of their hold, as long as Run
// is running. Of no leases it makes a Hold that does nothing.
func (l *Limiter) Hold(leases []Lease) *Hold {
	l.keeper.add(leases, l.clock.micros())
	return &Hold{limiter: l, leases: leases}
}

// Release ends the leases: it waits for the store at most for the limiter's budget,
// and if it does not answer, Run goes on trying until the leases have ended by
// themselves. Calls after the first do nothing. Nil may be released.
func (h *Hold) Release() {
	if h == nil || len(h.leases) == 0 {
		return
	}
	h.once.Do(func() {
		l := h.limiter
		leases := l.keeper.remove(h.leases)
		if len(leases) == 0 {
			return
		}
		if err := l.ReleaseLeases(context.Background(), leases); err != nil {
			l.keeper.later(leases, l.clock.micros())
		}
	})
}

// ReleaseLeases ends leases that no Hold keeps, for doors that do not see the
// end of a request. One that is unknown or has ended changes nothing, so a call
// may be repeated. It takes no longer than the limiter's budget. Its error wraps
// ErrStore.
func (l *Limiter) ReleaseLeases(ctx context.Context, leases []Lease) error {
	if len(leases) == 0 {
		return nil
	}
	if l.Degraded() {
		return fmt.Errorf("release: %w: it is not being asked", ErrStore)
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Budget)
	defer cancel()
	if err := l.release(ctx, leases); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// LeasesHeld is the number of leases that are being renewed.
func (l *Limiter) LeasesHeld() int64 { return l.keeper.size() }
