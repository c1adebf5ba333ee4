package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

func memberOf(r gen.Member) console.Member {
	return console.Member{
		ID: r.ID, TenantID: r.TenantID, Email: r.Email, ExternalUser: r.ExternalUser, Name: r.Name, Role: console.Role(r.Role),
		PasswordHash: r.PasswordHash, CreatedAt: r.CreatedAt, JoinedAt: r.JoinedAt, DisabledAt: r.DisabledAt,
	}
}

// InsertMember implements console.MemberRows.
func (t tx) InsertMember(ctx context.Context, m console.Member) error {
	return t.q.InsertMember(ctx, gen.InsertMemberParams{
		ID: m.ID, TenantID: m.TenantID, Email: m.Email, ExternalUser: m.ExternalUser, Name: m.Name, Role: string(m.Role),
		PasswordHash: m.PasswordHash, CreatedAt: m.CreatedAt, JoinedAt: m.JoinedAt,
	})
}

// UpdateMember implements console.MemberRows.
func (t tx) UpdateMember(ctx context.Context, m console.Member) error {
	return t.q.UpdateMember(ctx, gen.UpdateMemberParams{
		TenantID: m.TenantID, ID: m.ID, Name: m.Name, Role: string(m.Role), PasswordHash: m.PasswordHash, JoinedAt: m.JoinedAt, DisabledAt: m.DisabledAt,
	})
}

// Member implements console.MemberRows.
func (t tx) Member(ctx context.Context, tenantID, id string) (console.Member, error) {
	r, err := t.q.GetMember(ctx, gen.GetMemberParams{TenantID: tenantID, ID: id})
	return memberOf(r), absent(err, "member")
}

// LockMembers implements console.MemberLists.
func (t tx) LockMembers(ctx context.Context, tenantID string) ([]console.Member, error) {
	rows, err := t.q.LockMembers(ctx, tenantID)
	return each(rows, memberOf), err
}

// Members implements console.MemberLists.
func (t tx) Members(ctx context.Context, tenantID string) ([]console.Member, error) {
	rows, err := t.q.ListMembers(ctx, tenantID)
	return each(rows, memberOf), err
}

// MemberKnownAs implements console.MemberLists.
func (t tx) MemberKnownAs(ctx context.Context, tenantID, externalUser, email string) (console.Member, error) {
	r, err := t.q.GetMemberKnownAs(ctx, gen.GetMemberKnownAsParams{TenantID: tenantID, ExternalUser: externalUser, Email: email})
	return memberOf(r), absent(err, "member")
}

// CountMembers implements console.MemberLists.
func (t tx) CountMembers(ctx context.Context, tenantID string) (int64, error) {
	return t.q.CountMembers(ctx, tenantID)
}

// MembersByEmail implements console.MemberLists.
func (t tx) MembersByEmail(ctx context.Context, tenantID, email string) ([]console.MemberOf, error) {
	rows, err := t.q.ListMembersByEmail(ctx, gen.ListMembersByEmailParams{Email: email, TenantID: tenantID})
	return each(rows, func(r gen.ListMembersByEmailRow) console.MemberOf {
		return console.MemberOf{Member: memberOf(r.Member), TenantActive: r.TenantState == "active"}
	}), err
}

// InsertMemberSession implements console.MemberSessionRows.
func (t tx) InsertMemberSession(ctx context.Context, tenantID string, s console.Session) error {
	return t.q.InsertMemberSession(ctx, gen.InsertMemberSessionParams{
		Hash: s.Hash, MemberID: s.OperatorID, TenantID: tenantID, Data: s.Data, IP: s.IP, UserAgent: s.UserAgent,
		CreatedAt: s.CreatedAt, SeenAt: s.SeenAt, ExpiresAt: s.ExpiresAt,
	})
}

// MemberSession implements console.MemberSessionRows.
func (t tx) MemberSession(ctx context.Context, hash string, now, idleSince time.Time) (console.Session, console.Member, error) {
	r, err := t.q.GetMemberSession(ctx, gen.GetMemberSessionParams{Hash: hash, Now: now, IdleSince: idleSince})
	s := r.MemberSession
	return console.Session{
		Hash: s.Hash, OperatorID: s.MemberID, Data: s.Data, IP: s.IP, UserAgent: s.UserAgent, CreatedAt: s.CreatedAt, SeenAt: s.SeenAt, ExpiresAt: s.ExpiresAt,
	}, memberOf(r.Member), absent(err, "session")
}

// SeeMemberSession implements console.MemberSessionRows.
func (t tx) SeeMemberSession(ctx context.Context, hash string, now time.Time) error {
	return t.q.SeeMemberSession(ctx, gen.SeeMemberSessionParams{Hash: hash, Now: now})
}

// SaveMemberSession implements console.MemberSessionRows.
func (t tx) SaveMemberSession(ctx context.Context, hash string, data []byte) error {
	return t.q.SaveMemberSession(ctx, gen.SaveMemberSessionParams{Hash: hash, Data: data})
}

// DeleteMemberSession implements console.MemberSessionRows.
func (t tx) DeleteMemberSession(ctx context.Context, hash string) error {
	return t.q.DeleteMemberSession(ctx, hash)
}

// DeleteDeadMemberSessions implements console.MemberSessionRows.
func (t tx) DeleteDeadMemberSessions(ctx context.Context, now, idleSince time.Time) error {
	return t.q.DeleteDeadMemberSessions(ctx, gen.DeleteDeadMemberSessionsParams{Now: now, IdleSince: idleSince})
}

func invitationOf(r gen.MemberInvitation) console.Invitation {
	return console.Invitation{
		ID: r.ID, TenantID: r.TenantID, Email: r.Email, Role: console.Role(r.Role), InvitedBy: r.InvitedBy, CreatedAt: r.CreatedAt,
		ExpiresAt: r.ExpiresAt, UsedAt: r.UsedAt, RevokedAt: r.RevokedAt,
	}
}

// InsertInvitation implements console.InvitationRows.
func (t tx) InsertInvitation(ctx context.Context, i console.Invitation, secretHash string) error {
	return t.q.InsertInvitation(ctx, gen.InsertInvitationParams{
		ID: i.ID, TenantID: i.TenantID, Email: i.Email, Role: string(i.Role), SecretHash: secretHash, InvitedBy: i.InvitedBy,
		CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
	})
}

// Invitation implements console.InvitationRows.
func (t tx) Invitation(ctx context.Context, secretHash string) (console.Invitation, error) {
	r, err := t.q.GetInvitation(ctx, secretHash)
	return invitationOf(r), absent(err, "invitation")
}

// UseInvitation implements console.InvitationRows.
func (t tx) UseInvitation(ctx context.Context, id string, now time.Time) (bool, error) {
	n, err := t.q.UseInvitation(ctx, gen.UseInvitationParams{ID: id, Now: &now})
	return n == 1, err
}

// RevokeInvitation implements console.InvitationRows.
func (t tx) RevokeInvitation(ctx context.Context, tenantID, id string, now time.Time) (bool, error) {
	n, err := t.q.RevokeInvitation(ctx, gen.RevokeInvitationParams{TenantID: tenantID, ID: id, Now: &now})
	return n == 1, err
}

// Invitations implements console.InvitationRows.
func (t tx) Invitations(ctx context.Context, tenantID string, now time.Time) ([]console.Invitation, error) {
	rows, err := t.q.ListInvitations(ctx, gen.ListInvitationsParams{TenantID: tenantID, Now: now})
	return each(rows, invitationOf), err
}

// InsertSignInLink implements console.SignInLinkRows.
func (t tx) InsertSignInLink(ctx context.Context, m console.Member, secretHash, madeBy string, now, expires time.Time) error {
	return t.q.InsertSignInLink(ctx, gen.InsertSignInLinkParams{
		Hash: secretHash, MemberID: m.ID, TenantID: m.TenantID, MadeBy: madeBy, CreatedAt: now, ExpiresAt: expires,
	})
}

// UseSignInLink implements console.SignInLinkRows.
func (t tx) UseSignInLink(ctx context.Context, secretHash string, now time.Time) (console.Member, error) {
	l, err := t.q.UseSignInLink(ctx, gen.UseSignInLinkParams{Hash: secretHash, Now: &now})
	if err != nil {
		return console.Member{}, absent(err, "link")
	}
	return t.Member(ctx, l.TenantID, l.MemberID)
}

// DeleteOldSignInLinks implements console.SignInLinkRows.
func (t tx) DeleteOldSignInLinks(ctx context.Context, before time.Time) error {
	return t.q.DeleteOldSignInLinks(ctx, before)
}

func askOf(r gen.Ask) console.Ask {
	return console.Ask{
		ID: r.ID, TenantID: r.TenantID, Limit: r.LimitID, Wanted: r.Wanted, Factor: r.FactorMilli, Until: r.Until, Why: r.Why,
		State: console.AskState(r.State), MemberID: r.MemberID, Member: r.MemberName, DecidedBy: r.DecidedBy, Answer: r.Answer,
		CreatedAt: r.CreatedAt, DecidedAt: r.DecidedAt,
	}
}

// InsertAsk implements console.AskRows.
func (t tx) InsertAsk(ctx context.Context, a console.Ask) error {
	return t.q.InsertAsk(ctx, gen.InsertAskParams{
		ID: a.ID, TenantID: a.TenantID, LimitID: a.Limit, Wanted: a.Wanted, FactorMilli: a.Factor, Until: a.Until, Why: a.Why,
		State: string(a.State), MemberID: a.MemberID, MemberName: a.Member, DecidedBy: a.DecidedBy, Answer: a.Answer,
		CreatedAt: a.CreatedAt, DecidedAt: a.DecidedAt,
	})
}

// LockAsk implements console.AskRows.
func (t tx) LockAsk(ctx context.Context, id string) (console.Ask, error) {
	r, err := t.q.LockAsk(ctx, id)
	return askOf(r), absent(err, "ask")
}

// UpdateAsk implements console.AskRows.
func (t tx) UpdateAsk(ctx context.Context, a console.Ask) error {
	return t.q.UpdateAsk(ctx, gen.UpdateAskParams{ID: a.ID, State: string(a.State), DecidedBy: a.DecidedBy, Answer: a.Answer, DecidedAt: a.DecidedAt})
}

// Asks implements console.AskRows.
func (t tx) Asks(ctx context.Context, tenantID string, open bool, limit int) ([]console.Ask, error) {
	rows, err := t.q.ListAsks(ctx, gen.ListAsksParams{TenantID: tenantID, OpenOnly: open, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListAsksRow) console.Ask {
		a := askOf(r.Ask)
		a.Tenant = r.TenantName
		return a
	}), err
}

// CountAsks implements console.AskRows.
func (t tx) CountAsks(ctx context.Context, tenantID string, since time.Time) (open, byRule int64, err error) {
	if open, err = t.q.CountOpenAsks(ctx, tenantID); err != nil {
		return 0, 0, err
	}
	byRule, err = t.q.CountAsksByRule(ctx, gen.CountAsksByRuleParams{TenantID: tenantID, Since: since})
	return open, byRule, err
}

// InsertThreshold implements console.ThresholdRows.
func (t tx) InsertThreshold(ctx context.Context, v console.Threshold) error {
	return t.q.InsertThreshold(ctx, gen.InsertThresholdParams{
		ID: v.ID, TenantID: v.TenantID, Kind: string(v.Kind), Value: v.Value, MemberID: v.MemberID, CreatedAt: v.CreatedAt,
	})
}

// CountThresholds implements console.ThresholdRows.
func (t tx) CountThresholds(ctx context.Context, tenantID string) (int64, error) {
	return t.q.CountThresholds(ctx, tenantID)
}

// DeleteThreshold implements console.ThresholdRows.
func (t tx) DeleteThreshold(ctx context.Context, tenantID, id string) (bool, error) {
	n, err := t.q.DeleteThreshold(ctx, gen.DeleteThresholdParams{TenantID: tenantID, ID: id})
	return n == 1, err
}

func scopedRulesOf(rows []gen.PortalRule) ([]console.ScopedRules, error) {
	out := make([]console.ScopedRules, len(rows))
	for i, r := range rows {
		out[i] = console.ScopedRules{Scope: r.Scope, UpdatedAt: r.UpdatedAt}
		if err := json.Unmarshal(r.Rules, &out[i].Rules); err != nil {
			return nil, fmt.Errorf("read portal rules of %q: %w", r.Scope, err)
		}
	}
	return out, nil
}

// PortalRules implements console.PortalRuleRows.
func (t tx) PortalRules(ctx context.Context) ([]console.ScopedRules, error) {
	rows, err := t.q.ListPortalRules(ctx)
	if err != nil {
		return nil, err
	}
	return scopedRulesOf(rows)
}

// PortalRulesFor implements console.PortalRuleRows.
func (t tx) PortalRulesFor(ctx context.Context, plan, tenantID string) ([]console.ScopedRules, error) {
	rows, err := t.q.GetPortalRules(ctx, gen.GetPortalRulesParams{Plan: plan, TenantID: tenantID})
	if err != nil {
		return nil, err
	}
	return scopedRulesOf(rows)
}

// SetPortalRules implements console.PortalRuleRows.
func (t tx) SetPortalRules(ctx context.Context, r console.ScopedRules) error {
	b, err := json.Marshal(r.Rules)
	if err != nil {
		return fmt.Errorf("encode portal rules: %w", err)
	}
	return t.q.SetPortalRules(ctx, gen.SetPortalRulesParams{Scope: r.Scope, Rules: b, UpdatedAt: r.UpdatedAt})
}

// DeletePortalRules implements console.PortalRuleRows.
func (t tx) DeletePortalRules(ctx context.Context, scope string) error {
	return t.q.DeletePortalRules(ctx, scope)
}
