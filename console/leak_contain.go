package console

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

// What was done about a key that got out.
const (
	doneRevoked  = "revoked"
	doneReplaced = "revoked and replaced"
	doneEnded    = "had ended before"
)

// Containment says what to do about a key that got out.
type Containment struct {
	KID     string
	Replace bool // issue a new version at once
	Source  string
	URL     string
	Note    string // compulsory; kept in the audit trail
}

// Contained is what was done. Secret is there when a new version was issued,
// and exists nowhere else.
type Contained struct {
	Case       LeakCase
	Change     Change
	Replaced   bool
	Credential Credential // without its versions
	KeyVersion KeyVersion // the new one, when Replaced
	Secret     apikey.Secret
	// Working is the kid of the version that works on; "" when the tenant has none
	// of this credential.
	Working string
}

// Contain revokes a key that got out, and issues a new version when asked to, in
// one step. Where the credential has another version that works, nothing is
// issued: of a rotation that runs, the version that did not get out goes on. A
// key that has ended is only noted, and replaced when nothing else works.
func (s *Leaks) Contain(ctx context.Context, actor Actor, in Containment) (Contained, error) {
	if err := actor.need(PermManageKeys); err != nil {
		return Contained{}, err
	}
	var p problems
	note := p.text("note", in.Note, maxReason, true)
	if in.Source == "" {
		in.Source = "console"
	}
	if err := p.err(); err != nil {
		return Contained{}, err
	}
	ids, err := s.ids()
	if err != nil {
		return Contained{}, err
	}
	var out Contained
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		c := LeakCase{ID: ids.leak, KID: in.KID, Source: in.Source, URL: cleanURL(in.URL), Note: maskKeys(note)}
		out, err = s.contain(ctx, tx, actor, c, ids.rotation, in.Replace)
		return err
	})
	if err != nil {
		return Contained{}, err
	}
	s.d.Nudge()
	return out, nil
}

type leakIDs struct{ leak, rotation string }

func (s *Leaks) ids() (out leakIDs, err error) {
	if out.leak, err = s.d.newID("lek"); err != nil {
		return out, err
	}
	out.rotation, err = s.d.newID("rot")
	return out, err
}

// contain does it under the credential's lock. c is the case as it would be new.
func (s *Leaks) contain(ctx context.Context, tx Tx, actor Actor, c LeakCase, rotation string, replace bool) (Contained, error) {
	v, err := tx.Key(ctx, c.KID)
	if err != nil {
		return Contained{}, err
	}
	if _, err := tx.ShareTenant(ctx, v.TenantID); err != nil {
		return Contained{}, err
	}
	k, err := s.d.openKeyring(ctx, tx, actor, v.CredentialID)
	if err != nil {
		return Contained{}, err
	}
	out := Contained{Credential: k.cred}
	c.TenantID, c.TenantName, c.State, c.Done = v.TenantID, v.TenantName, LeakContained, doneEnded
	leaked := k.find(c.KID)
	if leaked.Live() {
		c.Done = doneRevoked
		if err := k.revokeKey(ctx, leaked, RevokeLeak, "leak: "+c.Note); err != nil {
			return Contained{}, err
		}
	} else if err := tx.MarkKeyLeaked(ctx, c.KID); err != nil {
		return Contained{}, err
	}
	if replace && k.current() == nil {
		if err := k.replace(ctx, leaked, rotation, &out); err != nil {
			return Contained{}, err
		}
		c.Done = doneReplaced
	}
	if cur := k.current(); cur != nil && cur.State == policy.KeyActive {
		out.Working = cur.KID
	}
	out.Change = k.last
	out.Case, err = s.close(ctx, tx, actor, c)
	return out, err
}

// replace issues a new version in the place of one that is revoked. Where that
// one worked until now, it is a rotation without overlap.
func (k *keyring) replace(ctx context.Context, old *KeyVersion, rotation string, out *Contained) error {
	t, err := k.tx.Tenant(ctx, k.cred.TenantID)
	if err != nil {
		return err
	}
	if t.State == policy.TenantDeleted {
		return conflict("The tenant has been deleted; there is nothing to replace the key for.")
	}
	if k.cred.ExpiresAt != nil && !k.cred.ExpiresAt.After(k.now) {
		return conflict("The credential has expired; a new key of it would not work.")
	}
	fresh, secret, err := k.d.newVersion(k.cred, k.now)
	if err != nil {
		return err
	}
	fresh.TenantName = t.Name
	if err := k.tx.InsertKey(ctx, fresh); err != nil {
		return fmt.Errorf("insert replacing key: %w", err)
	}
	if err := k.send(ctx, fresh.KID); err != nil {
		return err
	}
	at := k.now
	r := Rotation{
		ID: rotation, CredentialID: k.cred.ID, TenantID: k.cred.TenantID, OldKID: old.KID, NewKID: fresh.KID, State: RotationForced,
		Reason: "leak", StartedAt: at, EndsAt: at, EndedAt: &at, EndReason: "leak",
	}
	if err := k.tx.InsertRotation(ctx, r); err != nil {
		return err
	}
	k.keys = append(k.keys, fresh)
	out.Replaced, out.KeyVersion, out.Secret = true, fresh, secret
	return k.d.record(ctx, k.tx, k.actor, k.now, event{
		action: "rotation.start", object: "rotation", objectID: r.ID, tenantID: r.TenantID, after: viewRotation(r), reason: "leak",
	})
}

// close closes the open case of a key, or writes one that is closed.
func (s *Leaks) close(ctx context.Context, tx Tx, actor Actor, c LeakCase) (LeakCase, error) {
	now := s.d.now()
	open, err := tx.LockNewestLeak(ctx, c.KID)
	if err != nil && !IsNotFound(err) {
		return LeakCase{}, err
	}
	ev := event{action: "leak.contain", object: "leak", tenantID: c.TenantID, reason: c.Note}
	if err == nil && open.State == LeakOpen {
		ev.before = viewLeak(open)
		open.State, open.Done, open.ClosedAt, open.ClosedBy = c.State, c.Done, &now, actor.Name
		if c.URL != "" {
			open.URL = c.URL
		}
		c = open
		err = tx.UpdateLeak(ctx, c)
	} else {
		c.FoundAt, c.ClosedAt, c.ClosedBy, c.Reports = now, &now, actor.Name, 1
		err = tx.InsertLeak(ctx, c)
	}
	if err != nil {
		return LeakCase{}, fmt.Errorf("write leak case: %w", err)
	}
	ev.objectID, ev.after = c.ID, viewLeak(c)
	return c, s.d.record(ctx, tx, actor, now, ev)
}
