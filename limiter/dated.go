package limiter

import "context"

// Dated is a Store that says when, by its own clock, it made a change, in Unix µs.
// 0 with a nil error: nothing was changed, or not in one step.
type Dated interface {
	AmendAt(ctx context.Context, id string, corrections []Amendment) (at int64, err error)
	ReleaseAt(ctx context.Context, leases []Lease) (at int64, err error)
}

// AmendAt is Amend of any store: at is 0 where it does not tell.
func AmendAt(ctx context.Context, s Store, id string, corrections []Amendment) (at int64, err error) {
	if dated, is := s.(Dated); is {
		return dated.AmendAt(ctx, id, corrections)
	}
	return 0, s.Amend(ctx, id, corrections)
}

// ReleaseAt is Release of any store: at is 0 where it does not tell.
func ReleaseAt(ctx context.Context, s Store, leases []Lease) (at int64, err error) {
	if dated, is := s.(Dated); is {
		return dated.ReleaseAt(ctx, leases)
	}
	return 0, s.Release(ctx, leases)
}

// release ends leases and tells OnRelease when the store did.
func (l *Limiter) release(ctx context.Context, leases []Lease) error {
	before := l.StoreNow()
	at, err := ReleaseAt(ctx, l.cfg.Store, leases)
	if err != nil {
		return err
	}
	if at == 0 {
		at = before
	}
	l.cfg.OnRelease(leases, at)
	return nil
}
