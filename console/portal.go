package console

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// Portal is what the tenant's own pages read and do. It reads by a store for
// which one tenant's rows alone exist, and looks each object up there before it
// asks another service to change it: what is another tenant's is absent.
type Portal struct {
	d         Deps
	store     PortalStore
	keys      *Keys
	rotations *Rotations
}

// NewPortal returns the service.
func NewPortal(d Deps, store PortalStore) *Portal {
	d = d.withDefaults()
	return &Portal{d: d, store: store, keys: NewKeys(d), rotations: NewRotations(d)}
}

// PortalKeys is a tenant's keys with what is known of their use.
type PortalKeys struct {
	Credentials []Credential
	Open        map[string]Rotation // rotations under way, by credential
	Uses        map[string]KeyUse   // by kid
	Age         UseAge
	Rules       PortalRules
}

// Live counts credentials with a key that works or can be resumed.
func (k PortalKeys) Live() (n int) {
	for _, c := range k.Credentials {
		for _, v := range c.Versions {
			if v.Live() {
				n++
				break
			}
		}
	}
	return n
}

// find returns the version with a kid and its credential.
func (k PortalKeys) find(kid string) (Credential, KeyVersion, bool) {
	for _, c := range k.Credentials {
		for _, v := range c.Versions {
			if v.KID == kid {
				return c, v, true
			}
		}
	}
	return Credential{}, KeyVersion{}, false
}

// absentHere is what every object that the tenant lacks is answered with.
func absentHere() error { return &Error{Code: CodeNotFound, Public: "There is nothing here."} }

// read runs fn on the tenant's rows alone, for its members and for operators who
// look at them, whose Actor then names the tenant too.
func (s *Portal) read(ctx context.Context, actor Actor, fn func(PortalTx) error) error {
	if actor.TenantID == "" {
		return absentHere()
	}
	if err := actor.need(PermOwnTenant); err != nil {
		return err
	}
	return s.store.ReadTenant(ctx, actor.TenantID, fn)
}

// Tenant is the actor's tenant, without what operators alone know.
func (s *Portal) Tenant(ctx context.Context, actor Actor) (t Tenant, err error) {
	err = s.read(ctx, actor, func(tx PortalTx) error {
		t, err = tx.Tenant(ctx)
		return err
	})
	return t, err
}

// Keys are the tenant's keys.
func (s *Portal) Keys(ctx context.Context, actor Actor) (out PortalKeys, err error) {
	out.Age.Behind = true // until somebody says otherwise
	err = s.read(ctx, actor, func(tx PortalTx) error {
		if out.Credentials, err = tx.Credentials(ctx); err != nil {
			return err
		}
		if out.Uses, err = tx.KeyUse(ctx); err != nil {
			return err
		}
		open, err := tx.Rotations(ctx, "", true)
		out.Open = make(map[string]Rotation, len(open))
		for _, r := range open {
			out.Open[r.CredentialID] = r
		}
		return err
	})
	if err != nil {
		return PortalKeys{}, err
	}
	if s.d.KeyUse != nil {
		if _, out.Age, err = s.d.KeyUse.Uses(ctx, nil); err != nil {
			return PortalKeys{}, err
		}
	}
	out.Rules, err = s.d.rulesFor(ctx, actor.TenantID)
	return out, err
}

// PortalKey is one key version with who used it.
type PortalKey struct {
	PortalKeys
	Credential Credential
	Key        KeyVersion
	Sources    []KeySource
}

// sourcesSince is how far back a key's page shows sources.
const sourcesSince = 30 * 24 * time.Hour

// Key is one of the tenant's versions.
func (s *Portal) Key(ctx context.Context, actor Actor, kid string) (out PortalKey, err error) {
	if out.PortalKeys, err = s.Keys(ctx, actor); err != nil {
		return PortalKey{}, err
	}
	var ok bool
	if out.Credential, out.Key, ok = out.find(kid); !ok {
		return PortalKey{}, absentHere()
	}
	err = s.read(ctx, actor, func(tx PortalTx) error {
		out.Sources, err = tx.KeySources(ctx, kid, s.d.now().Add(-sourcesSince))
		return err
	})
	return out, err
}

// Credential is one of the tenant's credentials.
func (s *Portal) Credential(ctx context.Context, actor Actor, id string) (Credential, PortalKeys, error) {
	all, err := s.Keys(ctx, actor)
	if err != nil {
		return Credential{}, PortalKeys{}, err
	}
	for _, c := range all.Credentials {
		if c.ID == id {
			return c, all, nil
		}
	}
	return Credential{}, PortalKeys{}, absentHere()
}

// Rotation is one of the tenant's rotations.
func (s *Portal) Rotation(ctx context.Context, actor Actor, id string) (r Rotation, err error) {
	if id == "" {
		return Rotation{}, absentHere()
	}
	err = s.read(ctx, actor, func(tx PortalTx) error {
		list, err := tx.Rotations(ctx, id, false)
		if err == nil && len(list) != 1 {
			return absentHere()
		}
		if err == nil {
			r = list[0]
		}
		return err
	})
	return r, err
}

func (s *Portal) mayNot(what string) error {
	return &Error{Code: CodeForbidden, Public: "Your organisation does not " + what + " by itself. Ask your contact."}
}

// IssueCredential is Keys.IssueCredential within the tenant's rules.
func (s *Portal) IssueCredential(ctx context.Context, actor Actor, in NewCredential) (Issued, error) {
	if err := actor.need(PermOwnKeys); err != nil {
		return Issued{}, err
	}
	all, err := s.Keys(ctx, actor)
	switch {
	case err != nil:
		return Issued{}, err
	case !all.Rules.MayCreate:
		return Issued{}, s.mayNot("create keys")
	case all.Live() >= all.Rules.Credentials:
		return Issued{}, conflict(fmt.Sprintf("You have %d of %d keys. Revoke one that you no longer need, or ask your contact for more.", all.Live(), all.Rules.Credentials))
	}
	in.MaxCredentials = all.Rules.Credentials // again under its lock
	return s.keys.IssueCredential(ctx, actor, actor.TenantID, in)
}

// StartRotation is Rotations.Start within the tenant's rules.
func (s *Portal) StartRotation(ctx context.Context, actor Actor, credentialID string, in NewRotation) (Started, error) {
	_, all, err := s.Credential(ctx, actor, credentialID)
	switch {
	case err != nil:
		return Started{}, err
	case !all.Rules.MayRotate:
		return Started{}, s.mayNot("rotate keys")
	case in.Overlap > all.Rules.MaxOverlap:
		return Started{}, invalid(FieldError{Field: "overlap", Message: "At most " + days(all.Rules.MaxOverlap) + "."})
	}
	in.MaxOverlap = all.Rules.MaxOverlap
	return s.rotations.Start(ctx, actor, credentialID, in)
}

func days(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return d.String()
}

// rotating looks a rotation up and whether the tenant may act on it.
func (s *Portal) rotating(ctx context.Context, actor Actor, id string) (Rotation, PortalRules, error) {
	r, err := s.Rotation(ctx, actor, id)
	if err != nil {
		return Rotation{}, PortalRules{}, err
	}
	rules, err := s.d.rulesFor(ctx, actor.TenantID)
	if err == nil && !rules.MayRotate {
		err = s.mayNot("rotate keys")
	}
	return r, rules, err
}

// ExtendRotation is Rotations.Extend within the tenant's rules.
func (s *Portal) ExtendRotation(ctx context.Context, actor Actor, id string, by time.Duration, reason string) (Change, error) {
	r, rules, err := s.rotating(ctx, actor, id)
	if err != nil {
		return Change{}, err
	}
	if by > 0 && r.EndsAt.Add(by).Sub(r.StartedAt) > rules.MaxOverlap {
		return Change{}, invalid(FieldError{Field: "by", Message: "Both keys work for at most " + days(rules.MaxOverlap) + " together."})
	}
	return s.rotations.ExtendWithin(ctx, actor, id, RotationExtension{By: by, Reason: reason, MaxOverlap: rules.MaxOverlap})
}

// EndRotation is Rotations.End.
func (s *Portal) EndRotation(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	if _, _, err := s.rotating(ctx, actor, id); err != nil {
		return Change{}, err
	}
	return s.rotations.End(ctx, actor, id, reason)
}

// CancelRotation is Rotations.Cancel.
func (s *Portal) CancelRotation(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	if _, _, err := s.rotating(ctx, actor, id); err != nil {
		return Change{}, err
	}
	return s.rotations.Cancel(ctx, actor, id, reason)
}

// RevokeKey is Keys.Revoke; typed must be the name of the key's credential.
func (s *Portal) RevokeKey(ctx context.Context, actor Actor, kid, reason, typed string) (Change, error) {
	k, err := s.Key(ctx, actor, kid)
	switch {
	case err != nil:
		return Change{}, err
	case !k.Rules.MayRevoke:
		return Change{}, s.mayNot("revoke keys")
	case strings.TrimSpace(typed) != k.Credential.Name:
		return Change{}, invalid(FieldError{Field: "name", Message: "Type the key's name: " + k.Credential.Name + "."})
	}
	return s.keys.Revoke(ctx, actor, kid, reason)
}

// PortalPeopleList is who uses the tenant's pages.
type PortalPeopleList struct {
	Members     []Member
	Invitations []Invitation
	Rules       PortalRules
}

// People are the tenant's members and open invitations.
func (s *Portal) People(ctx context.Context, actor Actor) (out PortalPeopleList, err error) {
	err = s.read(ctx, actor, func(tx PortalTx) error {
		if out.Members, err = tx.Members(ctx); err != nil {
			return err
		}
		out.Invitations, err = tx.Invitations(ctx, s.d.now())
		return err
	})
	if err == nil {
		out.Rules, err = s.d.rulesFor(ctx, actor.TenantID)
	}
	return out, err
}

// Asks are the tenant's wishes, the newest first.
func (s *Portal) Asks(ctx context.Context, actor Actor) (out []Ask, rules PortalRules, err error) {
	err = s.read(ctx, actor, func(tx PortalTx) error {
		out, err = tx.Asks(ctx)
		return err
	})
	if err == nil {
		rules, err = s.d.rulesFor(ctx, actor.TenantID)
	}
	return out, rules, err
}

// Thresholds are the tenant's own marks.
func (s *Portal) Thresholds(ctx context.Context, actor Actor) (out []Threshold, err error) {
	err = s.read(ctx, actor, func(tx PortalTx) error {
		out, err = tx.Thresholds(ctx)
		return err
	})
	return out, err
}

// maxThresholds is how many a tenant may have.
const maxThresholds = 20

// AddThreshold keeps a mark.
func (s *Portal) AddThreshold(ctx context.Context, actor Actor, kind ThresholdKind, value int64) error {
	if err := actor.needOf(actor.TenantID, PermOwnMembers, PermOwnMembers); err != nil {
		return err
	}
	var p problems
	most := int64(100)
	switch kind {
	case ThresholdRequests:
		most = 1_000_000_000
	case ThresholdQuota:
		most = 200 // what is billed beyond the quota counts, too
	case ThresholdRefused:
	default:
		p.add("kind", "Choose what to look at.")
	}
	if value < 1 || value > most {
		p.add("value", "Between 1 and %d.", most)
	}
	if err := p.err(); err != nil {
		return err
	}
	id, err := s.d.newID("thr")
	if err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		t := Threshold{ID: id, TenantID: actor.TenantID, Kind: kind, Value: value, MemberID: actor.ID, CreatedAt: now}
		if _, err := lockLiveTenant(ctx, tx, t.TenantID); err != nil { // those that count at the same time follow one another
			return err
		}
		n, err := tx.CountThresholds(ctx, t.TenantID)
		if err != nil {
			return err
		}
		if n >= maxThresholds {
			return conflict(fmt.Sprintf("%d are the most. Remove one first.", maxThresholds))
		}
		if err := tx.InsertThreshold(ctx, t); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "threshold.add", object: "threshold", objectID: id, tenantID: t.TenantID, after: thresholdView{kind, value}})
	})
}

// RemoveThreshold forgets a mark.
func (s *Portal) RemoveThreshold(ctx context.Context, actor Actor, id string) error {
	if err := actor.need(PermOwnMembers); err != nil {
		return err
	}
	if actor.TenantID == "" {
		return absentHere()
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		if ok, err := tx.DeleteThreshold(ctx, actor.TenantID, id); err != nil || !ok {
			return firstError(err, absentHere())
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "threshold.remove", object: "threshold", objectID: id, tenantID: actor.TenantID})
	})
}

type thresholdView struct {
	Kind  ThresholdKind `json:"kind"`
	Value int64         `json:"value"`
}

// Suspended reports whether a tenant's keys are refused now.
func (t Tenant) Suspended() bool { return t.State == policy.TenantSuspended }
