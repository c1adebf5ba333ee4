package limiter

import "context"

// Settle corrects the cost of an admitted request once it is known: delta is the
// actual cost less the reserved one. It is applied to all charges and quotas of
// the draw that count cost, not to those that are PerRequest. A call with an id
// takes effect once, however often it is repeated within an hour.
func (l *Limiter) Settle(ctx context.Context, id string, draw *Draw, delta int64) error {
	return l.cfg.Store.Amend(ctx, id, nil)
}

// Spent is what of a draw the decision spent: all of it when it admitted, without
// the shadows if one of them refuses; nothing when it refused or is degraded.
func (d *Decision) Spent(draw *Draw) Draw { return *draw }
