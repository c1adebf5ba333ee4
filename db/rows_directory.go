package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

// orNull is nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// orZero is the zero value for nil.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// orEmpty keeps text[] columns, which are never null, from a nil slice.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// orNil is what came of orEmpty.
func orNil(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

// decoded is each of rows by f, which may find that one cannot be read.
func decoded[A, B any](rows []A, err error, f func(A) (B, error)) ([]B, error) {
	if err != nil {
		return nil, err
	}
	out := make([]B, len(rows))
	for i, r := range rows {
		if out[i], err = f(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func tenantOf(r gen.Tenant) console.Tenant {
	return console.Tenant{
		ID: r.ID, Name: r.Name, ExternalID: orZero(r.ExternalID), Plan: r.Plan, TimeZone: r.TimeZone, State: policy.TenantState(r.State),
		QuotaAnchor: r.QuotaAnchor, Contacts: orNil(r.Contacts), Reason: r.Reason, Seq: r.Seq, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// InsertTenant implements console.TenantRows.
func (t tx) InsertTenant(ctx context.Context, v console.Tenant) error {
	return t.q.InsertTenant(ctx, gen.InsertTenantParams{
		ID: v.ID, Name: v.Name, ExternalID: orNull(v.ExternalID), Plan: v.Plan, TimeZone: v.TimeZone, State: string(v.State),
		QuotaAnchor: v.QuotaAnchor, Contacts: orEmpty(v.Contacts), Reason: v.Reason, Seq: v.Seq, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	})
}

// UpdateTenant implements console.TenantRows.
func (t tx) UpdateTenant(ctx context.Context, v console.Tenant) error {
	return t.q.UpdateTenant(ctx, gen.UpdateTenantParams{
		ID: v.ID, Name: v.Name, ExternalID: orNull(v.ExternalID), Plan: v.Plan, TimeZone: v.TimeZone, State: string(v.State),
		QuotaAnchor: v.QuotaAnchor, Contacts: orEmpty(v.Contacts), Reason: v.Reason, Seq: v.Seq, UpdatedAt: v.UpdatedAt,
	})
}

// Tenant implements console.TenantRows.
func (t tx) Tenant(ctx context.Context, id string) (console.Tenant, error) {
	r, err := t.q.GetTenant(ctx, id)
	return tenantOf(r), absent(err, "tenant")
}

// LockTenant implements console.TenantRows.
func (t tx) LockTenant(ctx context.Context, id string) (console.Tenant, error) {
	r, err := t.q.LockTenant(ctx, id)
	return tenantOf(r), absent(err, "tenant")
}

// ShareTenant implements console.TenantRows.
func (t tx) ShareTenant(ctx context.Context, id string) (console.Tenant, error) {
	r, err := t.q.ShareTenant(ctx, id)
	return tenantOf(r), absent(err, "tenant")
}

// CountTenants implements console.TenantLists.
func (t tx) CountTenants(ctx context.Context) (int64, error) { return t.q.CountTenants(ctx) }

// PlansInUse implements console.TenantLists.
func (t tx) PlansInUse(ctx context.Context) ([]string, error) { return t.q.ListPlansInUse(ctx) }

// TenantNames implements console.TenantLists.
func (t tx) TenantNames(ctx context.Context, ids []string) (map[string]string, error) {
	rows, err := t.q.ListTenantNames(ctx, orEmpty(ids))
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.ID] = r.Name
	}
	return out, err
}

// TenantFacts implements console.TenantLists.
func (t tx) TenantFacts(ctx context.Context, ids []string, since time.Time) (map[string]console.TenantFacts, error) {
	rows, err := t.q.ListTenantFacts(ctx, gen.ListTenantFactsParams{Ids: orEmpty(ids), Since: since})
	out := make(map[string]console.TenantFacts, len(rows))
	for _, r := range rows {
		f := console.TenantFacts{Active: r.Active, Retiring: r.Retiring, Requests24h: r.Requests, Refused24h: r.Refused}
		if r.LastSeen.Unix() != 0 {
			f.LastSeen = &r.LastSeen
		}
		out[r.ID] = f
	}
	return out, err
}

// DirectoryTenants implements console.TenantLists.
func (t tx) DirectoryTenants(ctx context.Context, afterID string, endedSince time.Time, limit int) ([]console.Tenant, error) {
	rows, err := t.q.ListTenantsForDirectory(ctx, gen.ListTenantsForDirectoryParams{AfterID: afterID, EndedSince: endedSince, MaxRows: int32(limit)})
	return each(rows, tenantOf), err
}

func credentialOf(r gen.Credential) console.Credential {
	return console.Credential{
		ID: r.ID, TenantID: r.TenantID, Name: r.Name, Environment: r.Environment, Scopes: r.Scopes, Contact: r.Contact,
		ExpiresAt: r.ExpiresAt, CreatedAt: r.CreatedAt,
	}
}

// InsertCredential implements console.CredentialRows.
func (t tx) InsertCredential(ctx context.Context, c console.Credential) error {
	return t.q.InsertCredential(ctx, gen.InsertCredentialParams{
		ID: c.ID, TenantID: c.TenantID, Name: c.Name, Environment: c.Environment, Scopes: orEmpty(c.Scopes), Contact: c.Contact,
		ExpiresAt: c.ExpiresAt, CreatedAt: c.CreatedAt,
	})
}

// Credential implements console.CredentialRows.
func (t tx) Credential(ctx context.Context, id string) (console.Credential, error) {
	r, err := t.q.GetCredential(ctx, id)
	return credentialOf(r), absent(err, "credential")
}

// LockCredential implements console.CredentialRows.
func (t tx) LockCredential(ctx context.Context, id string) (console.Credential, error) {
	r, err := t.q.LockCredential(ctx, id)
	return credentialOf(r), absent(err, "credential")
}

// Credentials implements console.CredentialRows.
func (t tx) Credentials(ctx context.Context, tenantID string) ([]console.Credential, error) {
	rows, err := t.q.ListCredentials(ctx, tenantID)
	return each(rows, credentialOf), err
}

// LiveCredentials implements console.CredentialRows.
func (t tx) LiveCredentials(ctx context.Context, tenantID string) ([]string, error) {
	return t.q.ListLiveCredentials(ctx, tenantID)
}

func keyOf(r gen.GetKeyVersionRow) console.KeyVersion {
	v := r.KeyVersion
	return console.KeyVersion{
		KID: v.KID, CredentialID: v.CredentialID, TenantID: v.TenantID, CredentialName: r.CredentialName, TenantName: r.TenantName,
		Environment: r.Environment, Scopes: r.Scopes, Digest: v.Digest, State: policy.KeyState(v.State),
		ResumeState: policy.KeyState(orZero(v.ResumeState)), Seq: v.Seq, CreatedAt: v.CreatedAt, ActivatedAt: v.ActivatedAt,
		RetiringAt: v.RetiringAt, NotAfter: v.NotAfter, RevokedAt: v.RevokedAt, RevokeReason: orZero(v.RevokeReason), EndedAt: v.EndedAt,
		Brownout: brownoutOfKey(v), Leaked: v.Leaked, Used: v.Used, IdleSince: v.IdleSince,
	}
}

// InsertKey implements console.KeyRows.
func (t tx) InsertKey(ctx context.Context, k console.KeyVersion) error {
	return t.q.InsertKeyVersion(ctx, gen.InsertKeyVersionParams{
		KID: k.KID, CredentialID: k.CredentialID, TenantID: k.TenantID, Digest: k.Digest, State: string(k.State), Seq: k.Seq,
		CreatedAt: k.CreatedAt, ActivatedAt: k.ActivatedAt, NotAfter: k.NotAfter,
	})
}

// UpdateKey implements console.KeyRows.
func (t tx) UpdateKey(ctx context.Context, k console.KeyVersion) error {
	network, from, until := brownoutColumns(k.Brownout)
	return t.q.UpdateKeyVersion(ctx, gen.UpdateKeyVersionParams{
		BrownoutNetwork: network, BrownoutFrom: from, BrownoutUntil: until, Leaked: k.Leaked,
		KID: k.KID, State: string(k.State), ResumeState: orNull(string(k.ResumeState)), Seq: k.Seq, RetiringAt: k.RetiringAt,
		NotAfter: k.NotAfter, RevokedAt: k.RevokedAt, RevokeReason: orNull(k.RevokeReason), EndedAt: k.EndedAt,
	})
}

// Key implements console.KeyRows.
func (t tx) Key(ctx context.Context, kid string) (console.KeyVersion, error) {
	r, err := t.q.GetKeyVersion(ctx, kid)
	return keyOf(r), absent(err, "key")
}

// KeysOf implements console.KeyRows.
func (t tx) KeysOf(ctx context.Context, tenantID, credentialID string) ([]console.KeyVersion, error) {
	rows, err := t.q.ListKeyVersions(ctx, gen.ListKeyVersionsParams{TenantID: tenantID, CredentialID: credentialID})
	return each(rows, func(r gen.ListKeyVersionsRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
}

// KeyNames implements console.KeyRows.
func (t tx) KeyNames(ctx context.Context, kids []string) (map[string]string, error) {
	rows, err := t.q.ListKeyNames(ctx, orEmpty(kids))
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.KID] = r.Credential + " of " + r.Tenant
	}
	return out, err
}

// DueCredentials implements console.KeyLists.
func (t tx) DueCredentials(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return t.q.ListDueCredentials(ctx, gen.ListDueCredentialsParams{Now: &now, MaxRows: int32(limit)})
}

// DirectoryKeys implements console.KeyLists.
func (t tx) DirectoryKeys(ctx context.Context, afterKID string, endedSince time.Time, limit int) ([]console.KeyVersion, error) {
	rows, err := t.q.ListKeysForDirectory(ctx, gen.ListKeysForDirectoryParams{AfterKID: afterKID, EndedSince: endedSince, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListKeysForDirectoryRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
}

func rotationOf(r gen.GetRotationRow) console.Rotation {
	v := r.Rotation
	return console.Rotation{
		ID: v.ID, CredentialID: v.CredentialID, TenantID: v.TenantID, CredentialName: r.CredentialName, TenantName: r.TenantName,
		OldKID: v.OldKID, NewKID: v.NewKID, State: console.RotationState(v.State), Reason: v.Reason,
		Overlap: time.Duration(v.OverlapSeconds) * time.Second, OldNotAfter: v.OldNotAfter, StartedAt: v.StartedAt, EndsAt: v.EndsAt,
		EndedAt: v.EndedAt, EndReason: v.EndReason, Extensions: int(v.Extensions), MemberExtensions: int(v.MemberExtensions),
	}
}

// InsertRotation implements console.RotationRows.
func (t tx) InsertRotation(ctx context.Context, r console.Rotation) error {
	return t.q.InsertRotation(ctx, gen.InsertRotationParams{
		ID: r.ID, CredentialID: r.CredentialID, TenantID: r.TenantID, OldKID: r.OldKID, NewKID: r.NewKID, State: string(r.State), Reason: r.Reason,
		OverlapSeconds: int64(r.Overlap / time.Second), OldNotAfter: r.OldNotAfter, StartedAt: r.StartedAt, EndsAt: r.EndsAt, EndedAt: r.EndedAt,
		EndReason: r.EndReason, Extensions: int32(r.Extensions),
	})
}

// UpdateRotation implements console.RotationRows.
func (t tx) UpdateRotation(ctx context.Context, r console.Rotation) error {
	return t.q.UpdateRotation(ctx, gen.UpdateRotationParams{
		ID: r.ID, State: string(r.State), EndsAt: r.EndsAt, EndedAt: r.EndedAt, EndReason: r.EndReason, Extensions: int32(r.Extensions),
		MemberExtensions: int32(r.MemberExtensions),
	})
}

// Rotation implements console.RotationRows.
func (t tx) Rotation(ctx context.Context, id string) (console.Rotation, error) {
	r, err := t.q.GetRotation(ctx, id)
	return rotationOf(r), absent(err, "rotation")
}

// OpenRotation implements console.RotationRows.
func (t tx) OpenRotation(ctx context.Context, credentialID string) (console.Rotation, error) {
	r, err := t.q.GetOpenRotation(ctx, credentialID)
	return rotationOf(gen.GetRotationRow(r)), absent(err, "rotation")
}

// Rotations implements console.RotationRows.
func (t tx) Rotations(ctx context.Context, open bool, limit int) ([]console.Rotation, error) {
	rows, err := t.q.ListRotations(ctx, gen.ListRotationsParams{Open: open, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListRotationsRow) console.Rotation { return rotationOf(gen.GetRotationRow(r)) }), err
}
