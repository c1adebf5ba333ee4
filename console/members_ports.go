package console

import (
	"context"
	"time"
)

// MemberRows keeps tenants' members and how they get in.
type MemberRows interface {
	InsertMember(ctx context.Context, m Member) error
	UpdateMember(ctx context.Context, m Member) error
	Member(ctx context.Context, tenantID, id string) (Member, error)
	MemberLists
	MemberSessionRows
	InvitationRows
	SignInLinkRows
	AskRows
	ThresholdRows
	PortalRuleRows
}

// MemberLists reads several members.
type MemberLists interface {
	// LockMembers locks all members of a tenant that are not removed, in one order.
	LockMembers(ctx context.Context, tenantID string) ([]Member, error)
	Members(ctx context.Context, tenantID string) ([]Member, error)
	// MemberKnownAs finds the member whom the tenant's own system knows by an id or, when
	// that is "", the one with an address.
	MemberKnownAs(ctx context.Context, tenantID, externalUser, email string) (Member, error)
	CountMembers(ctx context.Context, tenantID string) (int64, error)
	// MembersByEmail lists who may sign in with a password under an address: of one
	// tenant, or of any when tenantID is "". At most 3. Their tenants' states stand beside.
	MembersByEmail(ctx context.Context, tenantID, email string) ([]MemberOf, error)
}

// MemberOf is a member and whether the tenant may use its pages.
type MemberOf struct {
	Member
	TenantActive bool
}

// MemberSessionRows keeps sessions of members. Their Session has the member's
// id where an operator's has the operator's. They end with the member's role,
// password or membership and with the tenant's state, in the database itself.
type MemberSessionRows interface {
	InsertMemberSession(ctx context.Context, tenantID string, s Session) error
	// MemberSession finds a session that is neither idle nor too old, whose member is one still.
	MemberSession(ctx context.Context, hash string, now, idleSince time.Time) (Session, Member, error)
	SeeMemberSession(ctx context.Context, hash string, now time.Time) error
	// SaveMemberSession replaces the data of a session that exists; it never makes one.
	SaveMemberSession(ctx context.Context, hash string, data []byte) error
	DeleteMemberSession(ctx context.Context, hash string) error
	DeleteDeadMemberSessions(ctx context.Context, now, idleSince time.Time) error
}

// InvitationRows keeps invitations by the hash of their secret.
type InvitationRows interface {
	InsertInvitation(ctx context.Context, i Invitation, secretHash string) error
	Invitation(ctx context.Context, secretHash string) (Invitation, error)
	// UseInvitation reports false when it was used, revoked or is too old.
	UseInvitation(ctx context.Context, id string, now time.Time) (bool, error)
	// RevokeInvitation reports false when there is nothing to revoke.
	RevokeInvitation(ctx context.Context, tenantID, id string, now time.Time) (bool, error)
	Invitations(ctx context.Context, tenantID string, now time.Time) ([]Invitation, error)
}

// SignInLinkRows keeps one-time links by the hash of their secret.
type SignInLinkRows interface {
	InsertSignInLink(ctx context.Context, m Member, secretHash, madeBy string, now, expires time.Time) error
	// UseSignInLink takes a link and returns whose it is; CodeNotFound when there is none to take.
	UseSignInLink(ctx context.Context, secretHash string, now time.Time) (Member, error)
	DeleteOldSignInLinks(ctx context.Context, before time.Time) error
}

// AskRows keeps asks.
type AskRows interface {
	InsertAsk(ctx context.Context, a Ask) error
	LockAsk(ctx context.Context, id string) (Ask, error)
	UpdateAsk(ctx context.Context, a Ask) error
	// Asks lists the newest first: of one tenant, or of all when tenantID is "".
	Asks(ctx context.Context, tenantID string, open bool, limit int) ([]Ask, error)
	// CountAsks counts a tenant's open asks, and those granted by rule since a time.
	CountAsks(ctx context.Context, tenantID string, since time.Time) (open, byRule int64, err error)
}

// ThresholdRows keeps thresholds.
type ThresholdRows interface {
	InsertThreshold(ctx context.Context, t Threshold) error
	CountThresholds(ctx context.Context, tenantID string) (int64, error)
	// DeleteThreshold reports false when the tenant has no such threshold.
	DeleteThreshold(ctx context.Context, tenantID, id string) (bool, error)
}

// PortalRuleRows keeps what tenants may do by themselves.
type PortalRuleRows interface {
	PortalRules(ctx context.Context) ([]ScopedRules, error)
	// PortalRulesFor lists those that concern a tenant, the narrowest last.
	PortalRulesFor(ctx context.Context, plan, tenantID string) ([]ScopedRules, error)
	SetPortalRules(ctx context.Context, r ScopedRules) error
	DeletePortalRules(ctx context.Context, scope string) error
}

// PortalStore reads one tenant's rows: for what fn can ask, others' do not exist.
type PortalStore interface {
	// ReadTenant runs fn in a transaction of a role that sees this tenant alone.
	ReadTenant(ctx context.Context, tenantID string, fn func(PortalTx) error) error
}

// PortalTx is what a tenant's own pages read of PostgreSQL.
type PortalTx interface {
	// Tenant is the tenant itself, without what operators alone know of it.
	Tenant(ctx context.Context) (Tenant, error)
	// Credentials lists credentials with their versions, the newest first.
	Credentials(ctx context.Context) ([]Credential, error)
	// Rotations lists rotations, the newest first; only the one with the id when it is not "".
	Rotations(ctx context.Context, id string, open bool) ([]Rotation, error)
	PortalKeyUse
	PortalPeople
	PortalAlerts
}

// PortalKeyUse is what a tenant's own pages read of the use of its keys.
type PortalKeyUse interface {
	// KeyUse is what is known of the use of the tenant's versions; one never heard of is absent.
	KeyUse(ctx context.Context) (map[string]KeyUse, error)
	// KeySources lists who used a version since a time, the last seen first, at most 100.
	KeySources(ctx context.Context, kid string, since time.Time) ([]KeySource, error)
}

// PortalPeople is what a tenant's own pages read of its people.
type PortalPeople interface {
	Members(ctx context.Context) ([]Member, error)
	Invitations(ctx context.Context, now time.Time) ([]Invitation, error)
	Asks(ctx context.Context) ([]Ask, error)
	Thresholds(ctx context.Context) ([]Threshold, error)
}
