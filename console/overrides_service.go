package console

import "context"

// Overrides gives tenants values of their own and boosts.
type Overrides struct {
	d    Deps
	laws *lawCache
}

// NewOverrides returns the overrides service.
func NewOverrides(d Deps) *Overrides { return &Overrides{d: d.withDefaults(), laws: &lawCache{}} }

// Set gives a tenant its own value for one limit, in place of the one it had. It
// is CodeInvalid when the tenant meets no such limit, when the value is not one of
// the limit, and, with a []Confirmation, when it is lower than what is in force
// and in does not say that this is meant.
func (s *Overrides) Set(ctx context.Context, actor Actor, tenantID string, in NewOverride) (OverrideSet, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return OverrideSet{}, err
	}
	o := TenantOverride{TenantID: tenantID}
	o.Limit, o.Rate, o.Burst, o.Amount, o.Max, o.Reason, o.ExpiresAt = in.Limit, in.Rate, in.Burst, in.Amount, in.Max, in.Reason, in.ExpiresAt
	return s.change(ctx, func(tx Tx) (OverrideSet, error) {
		w, err := s.open(ctx, tx, actor, tenantID)
		if err != nil {
			return OverrideSet{}, err
		}
		return w.set(ctx, o, in.Lower)
	})
}

// Clear ends a tenant's own value for one limit; the plan's holds again.
func (s *Overrides) Clear(ctx context.Context, actor Actor, tenantID, limit, reason string) (Change, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Change{}, err
	}
	caps, err := boostCapsOf(actor)
	if err != nil {
		return Change{}, err
	}
	return s.end(ctx, actor, tenantID, limit, reason, KindOverride, caps)
}

// Boost raises a limit for a while, in place of the boost it had. Who may boost
// and no more may do so by MaxSmallBoost for MaxSmallBoostFor.
func (s *Overrides) Boost(ctx context.Context, actor Actor, tenantID string, in NewBoost) (OverrideSet, error) {
	caps, err := boostCapsOf(actor)
	if err != nil {
		return OverrideSet{}, err
	}
	return s.change(ctx, func(tx Tx) (OverrideSet, error) { return s.boostIn(ctx, tx, actor, tenantID, in, caps) })
}

// EndBoost ends a tenant's boost of one limit before its time.
func (s *Overrides) EndBoost(ctx context.Context, actor Actor, tenantID, limit, reason string) (Change, error) {
	caps, err := boostCapsOf(actor)
	if err != nil {
		return Change{}, err
	}
	return s.end(ctx, actor, tenantID, limit, reason, KindBoost, caps)
}

func (s *Overrides) end(ctx context.Context, actor Actor, tenantID, limit, reason string, kind OverrideKind, caps boostCaps) (Change, error) {
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	out, err := s.change(ctx, func(tx Tx) (OverrideSet, error) {
		w, err := s.open(ctx, tx, actor, tenantID)
		if err != nil {
			return OverrideSet{}, err
		}
		return w.end(ctx, limit, kind, reason, caps)
	})
	return out.Change, err
}

// Extend gives an override or a boost that holds another end, sooner or later.
// Without one an override holds until it is cleared; a boost must have one.
func (s *Overrides) Extend(ctx context.Context, actor Actor, id string, in Extension) (OverrideSet, error) {
	caps, err := boostCapsOf(actor)
	if err != nil {
		return OverrideSet{}, err
	}
	if in.Reason, err = requiredReason(in.Reason); err != nil {
		return OverrideSet{}, err
	}
	return s.change(ctx, func(tx Tx) (OverrideSet, error) {
		o, err := tx.Override(ctx, id)
		if err != nil {
			return OverrideSet{}, err
		}
		w, err := s.open(ctx, tx, actor, o.TenantID)
		if err != nil {
			return OverrideSet{}, err
		}
		return w.extend(ctx, id, in, caps)
	})
}

// change runs fn in a transaction and wakes the relay after it.
func (s *Overrides) change(ctx context.Context, fn func(Tx) (OverrideSet, error)) (out OverrideSet, err error) {
	err = s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		out, err = fn(tx)
		return err
	})
	if err != nil {
		return OverrideSet{}, err
	}
	s.d.Nudge()
	return out, nil
}

// dueTenants is how many tenants Expire reads at a time.
const dueTenants = 100

// Expire ends what no longer holds, each tenant in a transaction of its own.
// Gateways do not wait for it: records carry the times.
func (s *Overrides) Expire(ctx context.Context) error {
	for {
		var due []string
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			due, err = tx.DueOverrides(ctx, s.d.now(), dueTenants)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, id := range due {
			_, err := s.change(ctx, func(tx Tx) (OverrideSet, error) {
				w, err := s.open(ctx, tx, SystemActor(), id)
				if err != nil || len(w.events) == 0 { // another console was faster
					return OverrideSet{}, err
				}
				c, err := w.save(ctx)
				return OverrideSet{Change: c}, err
			})
			if err != nil {
				return err
			}
		}
	}
}
