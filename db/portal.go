package db

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

var _ console.PortalStore = (*Store)(nil)

// ReadTenant implements console.PortalStore. Role and tenant hold for the one
// transaction alone, so that a connection goes back to the pool, or to a pooler
// in between, as it came.
func (s *Store) ReadTenant(ctx context.Context, tenantID string, fn func(console.PortalTx) error) error {
	err := s.readTenant(ctx, tenantID, fn)
	if connectionBroke(err) && ctx.Err() == nil {
		err = s.readTenant(ctx, tenantID, fn)
	}
	return translate(err)
}

func (s *Store) readTenant(ctx context.Context, tenantID string, fn func(console.PortalTx) error) error {
	t, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, t) // nothing is written
	conn := bounded{t}
	if _, err := conn.Exec(ctx, "SELECT set_config('app.tenant_id', $1, true)", tenantID); err != nil {
		return fmt.Errorf("name the tenant: %w", err)
	}
	if _, err := conn.Exec(ctx, "SET LOCAL ROLE headgate_portal"); err != nil {
		return fmt.Errorf("become headgate_portal: %w", err)
	}
	return fn(portalTx{gen.New(conn), tenantID})
}

// portalTx implements console.PortalTx.
type portalTx struct {
	q      *gen.Queries
	tenant string
}

// Tenant implements console.PortalTx.
func (t portalTx) Tenant(ctx context.Context) (console.Tenant, error) {
	r, err := t.q.PortalTenant(ctx, t.tenant)
	return console.Tenant{
		ID: r.ID, Name: r.Name, Plan: r.Plan, TimeZone: r.TimeZone, State: policy.TenantState(r.State), CreatedAt: r.CreatedAt,
	}, absent(err, "tenant")
}

// Credentials implements console.PortalTx.
func (t portalTx) Credentials(ctx context.Context) ([]console.Credential, error) {
	rows, err := t.q.PortalCredentials(ctx, t.tenant)
	if err != nil {
		return nil, err
	}
	keys, err := t.q.PortalKeys(ctx, t.tenant)
	if err != nil {
		return nil, err
	}
	out, at := make([]console.Credential, len(rows)), make(map[string]int, len(rows))
	for i, r := range rows {
		out[i] = console.Credential{
			ID: r.ID, TenantID: r.TenantID, Name: r.Name, Environment: r.Environment, Scopes: r.Scopes, ExpiresAt: r.ExpiresAt, CreatedAt: r.CreatedAt,
		}
		at[r.ID] = i
	}
	for _, v := range keys {
		if i, ok := at[v.CredentialID]; ok {
			out[i].Versions = append(out[i].Versions, portalKeyOf(v))
		}
	}
	return out, nil
}

func portalKeyOf(v gen.PortalKeysRow) console.KeyVersion {
	return console.KeyVersion{
		KID: v.KID, CredentialID: v.CredentialID, TenantID: v.TenantID, CredentialName: v.CredentialName, Environment: v.Environment, Scopes: v.Scopes,
		State: policy.KeyState(v.State), CreatedAt: v.CreatedAt, ActivatedAt: v.ActivatedAt, RetiringAt: v.RetiringAt, NotAfter: v.NotAfter,
		RevokedAt: v.RevokedAt, RevokeReason: orZero(v.RevokeReason), EndedAt: v.EndedAt,
	}
}

// Rotations implements console.PortalTx.
func (t portalTx) Rotations(ctx context.Context, id string, open bool) ([]console.Rotation, error) {
	rows, err := t.q.PortalRotations(ctx, gen.PortalRotationsParams{TenantID: t.tenant, ID: id, OpenOnly: open})
	return each(rows, func(r gen.PortalRotationsRow) console.Rotation {
		return console.Rotation{
			ID: r.ID, CredentialID: r.CredentialID, TenantID: r.TenantID, CredentialName: r.CredentialName, OldKID: r.OldKID, NewKID: r.NewKID,
			State: console.RotationState(r.State), Reason: r.Reason, Overlap: time.Duration(r.OverlapSeconds) * time.Second, OldNotAfter: r.OldNotAfter,
			StartedAt: r.StartedAt, EndsAt: r.EndsAt, EndedAt: r.EndedAt, EndReason: r.EndReason, Extensions: int(r.Extensions),
		}
	}), err
}

// Members implements console.PortalPeople.
func (t portalTx) Members(ctx context.Context) ([]console.Member, error) {
	rows, err := t.q.PortalMembers(ctx, t.tenant)
	return each(rows, func(r gen.PortalMembersRow) console.Member {
		return console.Member{
			ID: r.ID, TenantID: r.TenantID, Email: r.Email, ExternalUser: r.ExternalUser, Name: r.Name, Role: console.Role(r.Role),
			CreatedAt: r.CreatedAt, JoinedAt: r.JoinedAt,
		}
	}), err
}

// Invitations implements console.PortalPeople.
func (t portalTx) Invitations(ctx context.Context, now time.Time) ([]console.Invitation, error) {
	rows, err := t.q.PortalInvitations(ctx, gen.PortalInvitationsParams{TenantID: t.tenant, Now: now})
	return each(rows, func(r gen.PortalInvitationsRow) console.Invitation {
		return console.Invitation{
			ID: r.ID, TenantID: r.TenantID, Email: r.Email, Role: console.Role(r.Role), InvitedBy: r.InvitedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		}
	}), err
}

// Asks implements console.PortalPeople.
func (t portalTx) Asks(ctx context.Context) ([]console.Ask, error) {
	rows, err := t.q.PortalAsks(ctx, t.tenant)
	return each(rows, askOf), err
}

// Thresholds implements console.PortalPeople.
func (t portalTx) Thresholds(ctx context.Context) ([]console.Threshold, error) {
	rows, err := t.q.PortalThresholds(ctx, t.tenant)
	return each(rows, func(r gen.Threshold) console.Threshold {
		return console.Threshold{
			ID: r.ID, TenantID: r.TenantID, Kind: console.ThresholdKind(r.Kind), Value: r.Value, MemberID: r.MemberID, CreatedAt: r.CreatedAt,
		}
	}), err
}

// KeyUse implements console.PortalKeyUse.
func (t portalTx) KeyUse(ctx context.Context) (map[string]console.KeyUse, error) {
	rows, err := t.q.PortalKeyUse(ctx, t.tenant)
	out := make(map[string]console.KeyUse, len(rows))
	for _, r := range rows {
		out[r.KID] = console.KeyUse{
			KID: r.KID, FirstUsedAt: r.FirstUsedAt, LastUsedAt: r.LastUsedAt, LastNetwork: r.LastNetwork, LastAgent: r.LastAgent, RefusedAt: r.RefusedAt,
		}
	}
	return out, err
}

// KeySources implements console.PortalKeyUse.
func (t portalTx) KeySources(ctx context.Context, kid string, since time.Time) ([]console.KeySource, error) {
	rows, err := t.q.PortalKeySources(ctx, gen.PortalKeySourcesParams{TenantID: t.tenant, KID: kid, Since: since})
	return each(rows, func(r gen.PortalKeySourcesRow) console.KeySource {
		return console.KeySource{
			KID: r.KID, Network: r.Network, Agent: r.Agent, FirstSeen: r.FirstSeen, LastSeen: r.LastSeen, Requests: r.Requests, Refused: r.Limited + r.Refused,
		}
	}), err
}
