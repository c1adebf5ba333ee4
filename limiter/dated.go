package limiter

import "context"

// Dated is a Store that says when, by its own clock, it made a change, in Unix µs. It
// is 0 with a nil error when nothing was changed, and Undated when the store cannot
// tell. A type that embeds one and has an Amend or a Release of its own needs these,
// too.
type Dated interface {
	AmendAt(ctx context.Context, id string, corrections []Amendment) (at int64, err error)
	ReleaseAt(ctx context.Context, leases []Lease) (at int64, err error)
}

// Undated is the time that a store does not tell.
const Undated int64 = -1

// AmendAt is Amend of any store.
func AmendAt(ctx context.Context, s Store, id string, corrections []Amendment) (at int64, err error) {
	if dated, is := s.(Dated); is {
		return dated.AmendAt(ctx, id, corrections)
	}
	return Undated, s.Amend(ctx, id, corrections)
}

// ReleaseAt is Release of any store.
func ReleaseAt(ctx context.Context, s Store, leases []Lease) (at int64, err error) {
	if dated, is := s.(Dated); is {
		return dated.ReleaseAt(ctx, leases)
	}
	return Undated, s.Release(ctx, leases)
}

// amend makes corrections and says when, as far as can be told; 0: nothing was done.
func (l *Limiter) amend(ctx context.Context, id string, corrections []Amendment) (at int64, err error) {
	before := l.StoreNow()
	if at, err = AmendAt(ctx, l.cfg.Store, id, corrections); at == Undated {
		at = before
	}
	return at, err
}

// release ends leases and tells OnRelease when the store did.
func (l *Limiter) release(ctx context.Context, leases []Lease) error {
	before := l.StoreNow()
	at, err := ReleaseAt(ctx, l.cfg.Store, leases)
	if err != nil {
		return err
	}
	if at <= 0 {
		at = before
	}
	l.cfg.OnRelease(leases, at)
	return nil
}
