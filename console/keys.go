package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

// Keys manages credentials and their key versions.
type Keys struct{ d Deps }

// NewKeys returns the keys service.
func NewKeys(d Deps) *Keys { return &Keys{d.withDefaults()} }

// NewCredential is what an operator says of a new credential. Environment is
// "live" or "test"; ExpiresAt nil means never.
type NewCredential struct {
	Name        string
	Environment string
	Scopes      []string
	ExpiresAt   *time.Time
	Contact     string // whom to ask about it; "" for none
	// MaxCredentials is how many credentials with a live version the tenant may
	// have then; 0 is no bound.
	MaxCredentials int
}

// KeyShow picks out key versions by what is known of them.
type KeyShow string

// What can be picked out. Each comes in an order of its own.
const (
	ShowUnused       KeyShow = "unused"        // works, and was not used for UnusedAfter; the longest first
	ShowNever        KeyShow = "never"         // works, and was never used; the newest first
	ShowExpiring     KeyShow = "expiring"      // works, and expires within ExpiringWithin; the next first
	ShowRetiringUsed KeyShow = "retiring-used" // retires, and was used since; the next end first
	ShowCompromised  KeyShow = "compromised"   // was found where it should not be; the newest first
)

// Bounds of what KeyShow picks out.
const (
	UnusedAfter    = 90 * 24 * time.Hour
	ExpiringWithin = 30 * 24 * time.Hour
)

// KeyQuery filters key versions. Q is a kid, or a part of a credential's or
// tenant's name; "" matches everything.
type KeyQuery struct {
	Q           string
	TenantID    string
	Environment string
	State       policy.KeyState
	Show        KeyShow // "" for all, the newest first
	Page        Page
}

// IssueCredential makes a credential with its first key version. The secret is
// in the answer and nowhere else.
func (s *Keys) IssueCredential(ctx context.Context, actor Actor, tenantID string, in NewCredential) (Issued, error) {
	if err := actor.may(tenantID, "tenant", PermManageKeys, PermOwnKeys); err != nil {
		return Issued{}, err
	}
	out, err := s.prepare(tenantID, in)
	if err != nil {
		return Issued{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		t, err := roomFor(ctx, tx, tenantID, in.MaxCredentials)
		if err != nil {
			return err
		}
		out.KeyVersion.TenantName = t.Name
		return s.insert(ctx, tx, actor, &out)
	})
	if err != nil {
		return Issued{}, err
	}
	out.Credential.Versions = []KeyVersion{out.KeyVersion}
	s.d.Nudge()
	return out, nil
}

// roomFor locks the tenant and refuses when it has been deleted, or has most
// working credentials already. Several may be made at once where nobody counts.
func roomFor(ctx context.Context, tx Tx, tenantID string, most int) (t Tenant, err error) {
	if most > 0 {
		t, err = tx.LockTenant(ctx, tenantID)
	} else {
		t, err = tx.ShareTenant(ctx, tenantID)
	}
	if err != nil {
		return t, err
	}
	if t.State == policy.TenantDeleted {
		return t, conflict("The tenant has been deleted.")
	}
	if most <= 0 {
		return t, nil
	}
	ids, err := tx.LiveCredentials(ctx, tenantID)
	if err == nil && len(ids) >= most {
		err = conflict(fmt.Sprintf("There are %d keys already, and %d are allowed. Revoke one that is not needed, or ask for more.", len(ids), most))
	}
	return t, err
}

// prepare checks the input and makes ids and secret, before any transaction.
func (s *Keys) prepare(tenantID string, in NewCredential) (Issued, error) {
	var p problems
	now := s.d.now()
	c := Credential{TenantID: tenantID, Name: p.name("name", in.Name), Environment: in.Environment, Scopes: p.scopes(in.Scopes), CreatedAt: now,
		Contact: p.text("contact", in.Contact, 200, false)}
	if in.Environment != apikey.Live && in.Environment != apikey.Test {
		p.add("environment", "Choose live or test.")
	}
	if in.ExpiresAt != nil {
		at := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		c.ExpiresAt = &at
		p.future("expires_at", at, now)
	}
	err := p.err()
	if err != nil {
		return Issued{}, err
	}
	if c.ID, err = s.d.newID("crd"); err != nil {
		return Issued{}, err
	}
	v, secret, err := s.d.newVersion(c, now)
	return Issued{Credential: c, KeyVersion: v, Secret: secret}, err
}

// newVersion makes an active key version and its secret.
func (d Deps) newVersion(c Credential, now time.Time) (KeyVersion, apikey.Secret, error) {
	secret, kid, err := apikey.Generate(c.Environment, d.Rand)
	if err != nil {
		return KeyVersion{}, apikey.Secret{}, err
	}
	return KeyVersion{
		KID: kid, CredentialID: c.ID, TenantID: c.TenantID, CredentialName: c.Name, Environment: c.Environment, Scopes: c.Scopes,
		Digest: apikey.Digest(secret.Reveal()), State: policy.KeyActive, Seq: 1, CreatedAt: now, ActivatedAt: now, NotAfter: c.ExpiresAt,
		IdleSince: now,
	}, secret, nil
}

func (s *Keys) insert(ctx context.Context, tx Tx, actor Actor, out *Issued) error {
	c, v := out.Credential, out.KeyVersion
	if err := tx.InsertCredential(ctx, c); err != nil {
		return err
	}
	if err := tx.InsertKey(ctx, v); err != nil {
		return err
	}
	id, err := tx.InsertOutbox(ctx, OutboxKey, v.KID, v.CreatedAt)
	if err != nil {
		return err
	}
	out.Change = Change{OutboxID: id}
	return s.d.record(ctx, tx, actor, v.CreatedAt, event{
		action: "credential.issue", object: "credential", objectID: c.ID, tenantID: c.TenantID,
		after: credentialView{c.Name, c.Environment, c.Scopes, c.Contact, c.ExpiresAt, v.KID},
	})
}

// ListCredentials returns a tenant's credentials with their versions, the newest first.
func (s *Keys) ListCredentials(ctx context.Context, tenantID string) (out []Credential, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if out, err = tx.Credentials(ctx, tenantID); err != nil {
			return err
		}
		versions, err := tx.KeysOf(ctx, tenantID, "")
		if err != nil {
			return err
		}
		at := make(map[string]int, len(out))
		for i := range out {
			at[out[i].ID] = i
		}
		for _, v := range versions {
			if i, ok := at[v.CredentialID]; ok {
				out[i].Versions = append(out[i].Versions, v)
			}
		}
		return nil
	})
	return out, err
}

// GetCredential returns a credential with its versions.
func (s *Keys) GetCredential(ctx context.Context, id string) (c Credential, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if c, err = tx.Credential(ctx, id); err != nil {
			return err
		}
		c.Versions, err = tx.KeysOf(ctx, c.TenantID, c.ID)
		return err
	})
	return c, err
}

// ListKeys returns key versions over all tenants, the newest first, and the
// cursor to the next page.
func (s *Keys) ListKeys(ctx context.Context, q KeyQuery) (items []KeyVersion, next string, err error) {
	after, err := decodeCursor(q.Page.After)
	if err != nil {
		return nil, "", err
	}
	q.Q = kidOf(q.Q)
	limit := q.Page.limit()
	if q.Show != "" && !slices.Contains(KeyShows(), q.Show) {
		return nil, "", invalid(FieldError{Field: "show", Message: "One of unused, never, expiring, retiring-used, compromised."})
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if q.Show != "" {
			items, err = tx.ShownKeys(ctx, q, s.d.now(), after, limit+1)
		} else {
			items, err = tx.Keys(ctx, q, after, limit+1)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	items, next = cut(items, limit, func(k KeyVersion) Cursor { return Cursor{At: k.placeIn(q.Show), ID: k.KID} })
	return items, next, nil
}

// KeyShows lists what KeyQuery can pick out.
func KeyShows() []KeyShow {
	return []KeyShow{ShowUnused, ShowNever, ShowExpiring, ShowRetiringUsed, ShowCompromised}
}

// placeIn is the time by which a list is sorted.
func (k KeyVersion) placeIn(show KeyShow) time.Time {
	switch show {
	case ShowUnused:
		return k.IdleSince
	case ShowExpiring, ShowRetiringUsed:
		return orNever(k.NotAfter)
	default:
		return k.CreatedAt
	}
}

// kidOf reduces a pasted key, whole or masked, to its kid, so that no secret
// reaches the database.
func kidOf(q string) string {
	q = strings.TrimSpace(q)
	for _, env := range []string{apikey.Live, apikey.Test} {
		if rest, ok := strings.CutPrefix(q, "hg_"+env+"_"); ok {
			kid, _, _ := strings.Cut(rest, "_")
			return kid
		}
	}
	return q
}

// Get returns one key version.
func (s *Keys) Get(ctx context.Context, kid string) (v KeyVersion, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		v, err = tx.Key(ctx, kid)
		return err
	})
	return v, err
}

// GetFor is Get for somebody who may be a tenant's member: another tenant's key
// does not exist for such an actor.
func (s *Keys) GetFor(ctx context.Context, actor Actor, kid string) (KeyVersion, error) {
	v, err := s.Get(ctx, kid)
	if err == nil {
		err = actor.sees(v.TenantID, "key")
	}
	if err != nil {
		return KeyVersion{}, err
	}
	return v, nil
}

// CredentialFor is GetCredential for somebody who may be a tenant's member.
func (s *Keys) CredentialFor(ctx context.Context, actor Actor, id string) (Credential, error) {
	c, err := s.GetCredential(ctx, id)
	if err == nil {
		err = actor.sees(c.TenantID, "credential")
	}
	if err != nil {
		return Credential{}, err
	}
	return c, nil
}

// Count counts versions that work or could be resumed.
func (s *Keys) Count(ctx context.Context) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.CountKeys(ctx)
		return err
	})
	return n, err
}

// Revoke ends a version for good. The reason is one of RevokeReasons, alone or
// before a colon and a text ("leak: found in a public repository"); any other
// text is kept in the audit trail under the category other. Revoking the new
// version of a running rotation cancels the rotation.
func (s *Keys) Revoke(ctx context.Context, actor Actor, kid, reason string) (Change, error) {
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	return s.change(ctx, actor, PermOwnKeys, kid, func(k *keyring, v *KeyVersion) error {
		return k.revokeKey(ctx, v, revokeCategory(reason), reason)
	})
}

func revokeCategory(reason string) string {
	word, _, _ := strings.Cut(reason, ":")
	for _, r := range RevokeReasons() {
		if strings.EqualFold(strings.TrimSpace(word), r) {
			return r
		}
	}
	return RevokeOther
}

// Suspend refuses a version until Resume.
func (s *Keys) Suspend(ctx context.Context, actor Actor, kid, reason string) (Change, error) {
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	return s.change(ctx, actor, PermOwnKeys, kid, func(k *keyring, v *KeyVersion) error {
		if v.State == policy.KeySuspended {
			return conflict("The key is suspended already.")
		}
		before := *v
		v.ResumeState, v.State = v.State, policy.KeySuspended
		return k.put(ctx, actor, "key.suspend", reason, before, v)
	})
}

// Resume ends a suspension.
func (s *Keys) Resume(ctx context.Context, actor Actor, kid, reason string) (Change, error) {
	reason, err := optionalReason(reason)
	if err != nil {
		return Change{}, err
	}
	return s.change(ctx, actor, PermOwnKeys, kid, func(k *keyring, v *KeyVersion) error {
		if v.State != policy.KeySuspended {
			return conflict("The key is not suspended.")
		}
		before := *v
		v.State, v.ResumeState = v.ResumeState, ""
		return k.put(ctx, actor, "key.resume", reason, before, v)
	})
}

// change runs fn on a live version under the credential's lock.
func (s *Keys) change(ctx context.Context, actor Actor, own Permission, kid string, fn func(*keyring, *KeyVersion) error) (Change, error) {
	find := func(tx Tx) (target, error) {
		v, err := tx.Key(ctx, kid)
		return target{v.CredentialID, v.TenantID, "key"}, err
	}
	return s.d.changeCredential(ctx, actor, own, find, func(k *keyring) error {
		locked := k.find(kid)
		if !locked.Live() {
			return conflict("The key is " + string(locked.State) + ", which is final.")
		}
		return fn(k, locked)
	})
}
