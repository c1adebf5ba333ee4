package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

// sees refuses a tenant's member what belongs to another tenant, in the words in
// which an unknown one is refused.
func (a Actor) sees(tenantID, what string) error {
	if a.TenantID != "" && a.TenantID != tenantID {
		return notFound(what)
	}
	return nil
}

// keyring is one credential with its versions and its open rotation, locked for
// the rest of the transaction. Opening it finalises what has expired.
type keyring struct {
	d     Deps
	tx    Tx
	actor Actor
	now   time.Time
	cred  Credential
	keys  []KeyVersion
	open  *Rotation
	last  Change
}

func (d Deps) openKeyring(ctx context.Context, tx Tx, actor Actor, credentialID string) (*keyring, error) {
	cred, err := tx.LockCredential(ctx, credentialID)
	if err != nil {
		return nil, err
	}
	k := &keyring{d: d, tx: tx, actor: actor, now: d.now(), cred: cred}
	if k.keys, err = tx.KeysOf(ctx, cred.TenantID, cred.ID); err != nil {
		return nil, err
	}
	r, err := tx.OpenRotation(ctx, cred.ID)
	if err != nil && !IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		k.open = &r
	}
	return k, k.settle(ctx)
}

// settle finalises versions and the rotation whose time has run out.
func (k *keyring) settle(ctx context.Context) error {
	system := SystemActor()
	for i := range k.keys {
		v := &k.keys[i]
		if !v.Live() || v.NotAfter == nil || v.NotAfter.After(k.now) {
			continue
		}
		before := *v
		k.expire(v, *v.NotAfter)
		if err := k.put(ctx, system, "key.expire", "", before, v); err != nil {
			return err
		}
	}
	if k.open == nil {
		return nil
	}
	oldKey, newKey := k.find(k.open.OldKID), k.find(k.open.NewKID)
	if k.open.EndsAt.After(k.now) && oldKey.Live() && newKey.Live() {
		return nil
	}
	return k.closeRotation(ctx, system, RotationCompleted, minTime(k.now, &k.open.EndsAt), "")
}

// find returns the version; never nil for a kid of this credential.
func (k *keyring) find(kid string) *KeyVersion {
	for i := range k.keys {
		if k.keys[i].KID == kid {
			return &k.keys[i]
		}
	}
	return &KeyVersion{}
}

// current is the version that is active, or suspended while active; nil when there is none.
func (k *keyring) current() *KeyVersion {
	for i := range k.keys {
		if v := &k.keys[i]; v.State == policy.KeyActive || v.ResumeState == policy.KeyActive {
			return v
		}
	}
	return nil
}

// expire sets a final state; the row is written by put.
func (k *keyring) expire(v *KeyVersion, at time.Time) {
	v.State, v.ResumeState, v.EndedAt = policy.KeyExpired, "", &at
	v.NotAfter, v.Brownout = &at, nil
}

func (k *keyring) revoke(v *KeyVersion, reason string) {
	at := k.now
	v.State, v.ResumeState, v.EndedAt, v.RevokedAt, v.RevokeReason = policy.KeyRevoked, "", &at, &at, reason
	v.Brownout, v.Leaked = nil, v.Leaked || reason == RevokeLeak
}

// restore makes the retiring version the active one again. The version that
// held that place must have been written in a final state before.
func (k *keyring) restore(v *KeyVersion, notAfter *time.Time) {
	if v.State == policy.KeySuspended {
		v.ResumeState = policy.KeyActive
	} else {
		v.State = policy.KeyActive
	}
	v.RetiringAt, v.NotAfter, v.Brownout = nil, notAfter, nil
}

// put writes a version, its record for the gateways and its event.
func (k *keyring) put(ctx context.Context, actor Actor, action, reason string, before KeyVersion, v *KeyVersion) error {
	if err := k.write(ctx, v); err != nil {
		return err
	}
	return k.d.record(ctx, k.tx, actor, k.now, event{
		action: action, object: "key", objectID: v.KID, tenantID: v.TenantID, before: viewKey(before), after: viewKey(*v), reason: reason,
	})
}

// write writes a version and its record for the gateways, without an event.
func (k *keyring) write(ctx context.Context, v *KeyVersion) error {
	v.Seq++
	if err := k.tx.UpdateKey(ctx, *v); err != nil {
		return fmt.Errorf("update key version %s: %w", v.KID, err)
	}
	return k.send(ctx, v.KID)
}

func (k *keyring) send(ctx context.Context, kid string) error {
	id, err := k.tx.InsertOutbox(ctx, OutboxKey, kid, k.now)
	if err != nil {
		return fmt.Errorf("insert outbox row of key %s: %w", kid, err)
	}
	k.last = Change{OutboxID: id}
	return nil
}

// closeRotation ends the open rotation; its versions are the caller's business.
func (k *keyring) closeRotation(ctx context.Context, actor Actor, state RotationState, at time.Time, reason string) error {
	before := *k.open
	r := before
	r.State, r.EndedAt, r.EndReason = state, &at, reason
	if r.EndsAt.After(at) {
		r.EndsAt = at
	}
	if err := k.tx.UpdateRotation(ctx, r); err != nil {
		return fmt.Errorf("close rotation %s: %w", r.ID, err)
	}
	if err := k.tx.StopBrownouts(ctx, r.ID, k.now); err != nil {
		return fmt.Errorf("stop brown-outs of rotation %s: %w", r.ID, err)
	}
	k.open = nil
	actions := map[RotationState]string{
		RotationCompleted: "rotation.complete", RotationForced: "rotation.end", RotationCancelled: "rotation.cancel",
	}
	return k.d.record(ctx, k.tx, actor, k.now, event{
		action: actions[state], object: "rotation", objectID: r.ID, tenantID: r.TenantID, before: viewRotation(before), after: viewRotation(r), reason: reason,
	})
}

// cancelRotation revokes the new version and gives the old one its place back.
func (k *keyring) cancelRotation(ctx context.Context, category, reason string) error {
	r := *k.open
	oldKey, newKey := k.find(r.OldKID), k.find(r.NewKID)
	before := *newKey
	k.revoke(newKey, category)
	if err := k.put(ctx, k.actor, "key.revoke", reason, before, newKey); err != nil {
		return err
	}
	before = *oldKey
	k.restore(oldKey, r.OldNotAfter)
	if err := k.put(ctx, k.actor, "key.reactivate", reason, before, oldKey); err != nil {
		return err
	}
	return k.closeRotation(ctx, k.actor, RotationCancelled, k.now, reason)
}

// revokeKey revokes one version and lets an open rotation follow: without its
// old version it is over, without its new one it is cancelled, so that the
// tenant keeps a working key.
func (k *keyring) revokeKey(ctx context.Context, v *KeyVersion, category, reason string) error {
	if k.open != nil && v.KID == k.open.NewKID {
		return k.cancelRotation(ctx, category, reason)
	}
	before := *v
	k.revoke(v, category)
	if err := k.put(ctx, k.actor, "key.revoke", reason, before, v); err != nil {
		return err
	}
	if k.open != nil && v.KID == k.open.OldKID {
		return k.closeRotation(ctx, k.actor, RotationForced, k.now, reason)
	}
	return nil
}

// offboard revokes every live version of a tenant, whose row the caller has locked.
func (d Deps) offboard(ctx context.Context, tx Tx, actor Actor, tenantID, reason string) error {
	ids, err := tx.LiveCredentials(ctx, tenantID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		k, err := d.openKeyring(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if k.open != nil {
			if err := k.closeRotation(ctx, actor, RotationForced, k.now, reason); err != nil {
				return err
			}
		}
		for i := range k.keys {
			v := &k.keys[i]
			if !v.Live() {
				continue
			}
			before := *v
			k.revoke(v, RevokeOffboarding)
			if err := k.put(ctx, actor, "key.revoke", reason, before, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// target is the credential that a change is about, and what the change names.
type target struct{ credentialID, tenantID, what string }

// may refuses an actor who may not change this tenant's keys. what is the thing
// that was asked for.
func (a Actor) may(tenantID, what string, p, own Permission) error {
	if err := a.sees(tenantID, what); err != nil {
		return err
	}
	return a.needOf(tenantID, p, own)
}

// needFirst refuses an operator who lacks p before anything is read. A member is
// refused by may, when it is known whose the thing is.
func (a Actor) needFirst(p Permission) error {
	if a.TenantID != "" {
		return nil
	}
	return a.need(p)
}

// changeCredential runs fn under the lock of a credential, in one transaction,
// and wakes the relay. find says which one it is, as the transaction sees it.
func (d Deps) changeCredential(ctx context.Context, actor Actor, own Permission, find func(Tx) (target, error), fn func(*keyring) error) (Change, error) {
	if err := actor.needFirst(PermManageKeys); err != nil {
		return Change{}, err
	}
	var c Change
	err := d.Store.InTx(ctx, func(tx Tx) error {
		t, err := find(tx)
		if err != nil {
			return err
		}
		if err := actor.may(t.tenantID, t.what, PermManageKeys, own); err != nil {
			return err
		}
		k, err := d.openKeyring(ctx, tx, actor, t.credentialID)
		if err != nil {
			return err
		}
		err = fn(k)
		c = k.last
		return err
	})
	if err != nil {
		return Change{}, err
	}
	d.Nudge()
	return c, nil
}
