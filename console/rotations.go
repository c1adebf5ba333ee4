package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
)

// MaxOverlap is the longest time for which a rotation lets two versions work,
// extensions included.
const MaxOverlap = 90 * 24 * time.Hour

// OverdueBefore is how long before its end a rotation counts as overdue.
const OverdueBefore = 24 * time.Hour

// Rotations replaces key versions.
type Rotations struct{ d Deps }

// NewRotations returns the rotations service.
func NewRotations(d Deps) *Rotations { return &Rotations{d.withDefaults()} }

// NewRotation is what an operator says of a new rotation. Overlap 0 ends the
// old version at once. A reason is compulsory.
type NewRotation struct {
	Overlap time.Duration
	Reason  string
	// MaxOverlap is the longest overlap that the actor may ask for; 0 is MaxOverlap.
	MaxOverlap time.Duration
}

// Overlaps lists the overlaps that are offered: now, an hour, a day, a week (the
// default) and thirty days.
func Overlaps() []time.Duration {
	return []time.Duration{0, time.Hour, 24 * time.Hour, DefaultOverlap, 30 * 24 * time.Hour}
}

// DefaultOverlap is the overlap of a rotation for which none is named.
const DefaultOverlap = 7 * 24 * time.Hour

// Start issues a new version of a credential and lets the old one retire. Both
// work until the overlap ends, which is never later than the old version's own
// expiry. A rotation that runs already is a conflict.
func (s *Rotations) Start(ctx context.Context, actor Actor, credentialID string, in NewRotation) (Started, error) {
	if err := actor.needFirst(PermManageKeys); err != nil {
		return Started{}, err
	}
	var p problems
	in.Reason = p.reason(in.Reason)
	if most := longest(in.MaxOverlap); in.Overlap < 0 || in.Overlap > most {
		p.add("overlap", "Between 0 and %s.", spell(most))
	}
	if err := p.err(); err != nil {
		return Started{}, err
	}
	id, err := s.d.newID("rot")
	if err != nil {
		return Started{}, err
	}
	var out Started
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		k, err := s.d.openFor(ctx, tx, actor, credentialID)
		if err != nil {
			return err
		}
		out, err = k.rotate(ctx, id, in)
		return err
	})
	if err != nil {
		return Started{}, err
	}
	s.d.Nudge()
	return out, nil
}

// longest is the longest overlap under a cap, which 0 leaves away.
func longest(most time.Duration) time.Duration {
	if most <= 0 || most > MaxOverlap {
		return MaxOverlap
	}
	return most
}

// openFor locks tenant and credential, in this order, for somebody who may issue keys.
func (d Deps) openFor(ctx context.Context, tx Tx, actor Actor, credentialID string) (*keyring, error) {
	c, err := tx.Credential(ctx, credentialID)
	if err != nil {
		return nil, err
	}
	if err := actor.may(c.TenantID, "credential", PermManageKeys, PermOwnKeys); err != nil {
		return nil, err
	}
	t, err := tx.ShareTenant(ctx, c.TenantID)
	if err != nil {
		return nil, err
	}
	if t.State == policy.TenantDeleted {
		return nil, conflict("The tenant has been deleted.")
	}
	return d.openKeyring(ctx, tx, actor, credentialID)
}

func (k *keyring) rotate(ctx context.Context, id string, in NewRotation) (Started, error) {
	old := k.current()
	switch {
	case k.open != nil:
		return Started{}, conflict("A rotation of this credential is running already.")
	case old == nil:
		return Started{}, conflict("This credential has no working key to rotate.")
	case old.State == policy.KeySuspended:
		return Started{}, conflict("The key is suspended; resume or revoke it first.")
	}
	fresh, secret, err := k.d.newVersion(k.cred, k.now)
	if err != nil {
		return Started{}, err
	}
	fresh.TenantName = old.TenantName
	r := Rotation{
		ID: id, CredentialID: k.cred.ID, TenantID: k.cred.TenantID, CredentialName: k.cred.Name, TenantName: old.TenantName,
		OldKID: old.KID, NewKID: fresh.KID, State: RotationOverlap, Reason: in.Reason, Overlap: in.Overlap,
		OldNotAfter: old.NotAfter, StartedAt: k.now, EndsAt: minTime(k.now.Add(in.Overlap), old.NotAfter),
	}
	if err := k.retire(ctx, old, &r); err != nil {
		return Started{}, err
	}
	if err := k.tx.InsertKey(ctx, fresh); err != nil {
		return Started{}, err
	}
	if err := k.send(ctx, fresh.KID); err != nil {
		return Started{}, err
	}
	if err := k.tx.InsertRotation(ctx, r); err != nil {
		return Started{}, err
	}
	err = k.d.record(ctx, k.tx, k.actor, k.now, event{
		action: "rotation.start", object: "rotation", objectID: r.ID, tenantID: r.TenantID, after: viewRotation(r), reason: in.Reason,
	})
	return Started{Rotation: r, KeyVersion: fresh, Secret: secret, Change: k.last}, err
}

// retire lets the old version end with the rotation: later, or now.
func (k *keyring) retire(ctx context.Context, old *KeyVersion, r *Rotation) error {
	at := k.now
	old.RetiringAt = &at
	if r.EndsAt.After(k.now) {
		ends := r.EndsAt
		old.State, old.NotAfter = policy.KeyRetiring, &ends
	} else {
		k.expire(old, k.now)
		r.State, r.EndedAt, r.EndsAt = RotationCompleted, &at, at
	}
	return k.write(ctx, old)
}

// Get returns one rotation.
func (s *Rotations) Get(ctx context.Context, id string) (r Rotation, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		r, err = tx.Rotation(ctx, id)
		return err
	})
	return r, err
}

// GetFor is Get for somebody who may be a tenant's member: another tenant's
// rotation does not exist for such an actor.
func (s *Rotations) GetFor(ctx context.Context, actor Actor, id string) (Rotation, error) {
	r, err := s.Get(ctx, id)
	if err == nil {
		err = actor.sees(r.TenantID, "rotation")
	}
	if err != nil {
		return Rotation{}, err
	}
	return r, nil
}

// List returns rotations, the newest first, at most 500; only running ones
// when open is set.
func (s *Rotations) List(ctx context.Context, open bool) (out []Rotation, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Rotations(ctx, open, 500)
		return err
	})
	return out, err
}

// RotationExtension lets an old version work for longer. A reason is compulsory.
type RotationExtension struct {
	By     time.Duration
	Reason string
	// MaxOverlap is the longest overlap in all that the actor may ask for; 0 is MaxOverlap.
	MaxOverlap time.Duration
}

// Extend is ExtendWithin without a cap of the tenant's own.
func (s *Rotations) Extend(ctx context.Context, actor Actor, id string, by time.Duration, reason string) (Change, error) {
	return s.ExtendWithin(ctx, actor, id, RotationExtension{By: by, Reason: reason})
}

// ExtendWithin lets the old version work for longer, never past its own expiry
// nor the longest overlap in all. A tenant's member may do it once a rotation.
func (s *Rotations) ExtendWithin(ctx context.Context, actor Actor, id string, in RotationExtension) (Change, error) {
	var p problems
	in.Reason = p.reason(in.Reason)
	if in.By <= 0 || in.By > MaxOverlap {
		p.add("by", "Longer than 0, and %s at most.", spell(MaxOverlap))
	}
	if err := p.err(); err != nil {
		return Change{}, err
	}
	return s.change(ctx, actor, PermOwnKeys, id, func(k *keyring) error { return k.extend(ctx, in) })
}

func (k *keyring) extend(ctx context.Context, in RotationExtension) error {
	before := *k.open
	r := before
	r.EndsAt = minTime(r.EndsAt.Add(in.By), r.OldNotAfter)
	r.Extensions++
	if k.actor.TenantID != "" {
		r.MemberExtensions++
	}
	most := longest(in.MaxOverlap)
	switch {
	case r.MemberExtensions > 1 && k.actor.TenantID != "":
		return conflict("You have extended this rotation once already. Whoever runs the API can extend it again.")
	case r.EndsAt.Sub(r.StartedAt) > most:
		return invalid(FieldError{Field: "by", Message: "The overlap would be longer than " + spell(most) + "."})
	case !r.EndsAt.After(before.EndsAt):
		return conflict("The old key expires then anyway; the overlap cannot be extended.")
	}
	if err := k.tx.UpdateRotation(ctx, r); err != nil {
		return err
	}
	old := k.find(r.OldKID)
	ends := r.EndsAt
	old.NotAfter = &ends
	if err := k.write(ctx, old); err != nil {
		return err
	}
	return k.d.record(ctx, k.tx, k.actor, k.now, event{
		action: "rotation.extend", object: "rotation", objectID: r.ID, tenantID: r.TenantID,
		before: viewRotation(before), after: viewRotation(r), reason: in.Reason,
	})
}

// End ends a rotation before its time: the old version is refused from now on.
// It counts as completed when the old version has been silent for long enough,
// and as forced otherwise. A reason is compulsory.
func (s *Rotations) End(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	state := RotationForced
	if ev, err := s.Evidence(ctx, actor, id); err == nil && ev.Ready {
		state = RotationCompleted
	}
	return s.change(ctx, actor, PermOwnKeys, id, func(k *keyring) error {
		old := k.find(k.open.OldKID)
		k.expire(old, k.now)
		if err := k.write(ctx, old); err != nil {
			return err
		}
		return k.closeRotation(ctx, actor, state, k.now, reason)
	})
}

// Cancel takes a rotation back: the new version is revoked, the old one is
// active again with its own expiry. A reason is compulsory.
func (s *Rotations) Cancel(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	return s.change(ctx, actor, PermOwnKeys, id, func(k *keyring) error {
		return k.cancelRotation(ctx, RevokeSuperseded, reason)
	})
}

// change runs fn on an open rotation under the credential's lock.
func (s *Rotations) change(ctx context.Context, actor Actor, own Permission, id string, fn func(*keyring) error) (Change, error) {
	find := func(tx Tx) (target, error) {
		r, err := tx.Rotation(ctx, id)
		return target{r.CredentialID, r.TenantID, "rotation"}, err
	}
	return s.d.changeCredential(ctx, actor, own, find, func(k *keyring) error {
		if k.open == nil || k.open.ID != id {
			return conflict("The rotation is over.")
		}
		return fn(k)
	})
}
