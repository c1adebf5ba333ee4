package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/headgate/headgate/policy"
)

// Members manages the people of tenants: invitations, one-time links, roles and
// sign-in at the tenant's own pages, and what tenants may do there.
type Members struct {
	d      Deps
	guard  *guard
	hasher *hasher
}

// NewMembers returns the members service.
func NewMembers(d Deps) *Members {
	d = d.withDefaults()
	return &Members{d: d, guard: newGuard(d.Now), hasher: newHasher()}
}

// minMemberPassword is in characters.
const minMemberPassword = 12

// secretLength is the length of a link's secret: rand.Text, over 128 bits.
const secretLength = 26

func (p *problems) tenantRole(r Role) Role {
	if r != RoleTenantViewer && r != RoleTenantAdmin {
		p.add("role", "Choose tenant-viewer or tenant-admin.")
	}
	return r
}

// List returns a tenant's members by e-mail address and its open invitations.
// Operators may, and the tenant's own members.
func (s *Members) List(ctx context.Context, actor Actor, tenantID string) (members []Member, open []Invitation, err error) {
	if err := actor.needOf(tenantID, PermView, PermOwnTenant); err != nil {
		return nil, nil, err
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if _, err := tx.Tenant(ctx, tenantID); err != nil {
			return err
		}
		if members, err = tx.Members(ctx, tenantID); err != nil {
			return err
		}
		open, err = tx.Invitations(ctx, tenantID, s.d.now())
		return err
	})
	return members, open, err
}

// Invite makes an invitation that is good for seven days and once. Who is a
// member already is a conflict; an open invitation of the same address ends.
func (s *Members) Invite(ctx context.Context, actor Actor, tenantID string, in NewInvitation) (Invited, error) {
	if err := actor.needOf(tenantID, PermManageTenants, PermOwnMembers); err != nil {
		return Invited{}, err
	}
	var p problems
	now := s.d.now()
	i := Invitation{TenantID: tenantID, Email: p.email(in.Email), Role: p.tenantRole(in.Role), InvitedBy: actor.Name, CreatedAt: now, ExpiresAt: now.Add(InvitationFor)}
	err := p.err()
	if err != nil {
		return Invited{}, err
	}
	if i.ID, err = s.d.newID("inv"); err != nil {
		return Invited{}, err
	}
	secret := rand.Text()
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		if err := s.room(ctx, tx, actor, i); err != nil {
			return err
		}
		if err := tx.InsertInvitation(ctx, i, sessionHash(secret)); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "member.invite", object: "invitation", objectID: i.ID, tenantID: tenantID, after: invitationView{i.Email, i.Role},
		})
	})
	return Invited{i, secret}, err
}

// room refuses an invitation of a member, and one more than the tenant may
// have. It takes the place of an earlier invitation of the same address.
func (s *Members) room(ctx context.Context, tx Tx, actor Actor, i Invitation) error {
	t, err := lockLiveTenant(ctx, tx, i.TenantID)
	if err != nil {
		return err
	}
	rules, err := portalRules(ctx, tx, t)
	if err != nil {
		return err
	}
	if _, err := tx.MemberKnownAs(ctx, t.ID, "", i.Email); !IsNotFound(err) {
		return firstError(err, invalid(FieldError{Field: "email", Message: "They are a member already."}))
	}
	members, err := tx.CountMembers(ctx, t.ID)
	if err != nil {
		return err
	}
	open, err := tx.Invitations(ctx, t.ID, i.CreatedAt)
	if err != nil {
		return err
	}
	waiting := int64(0)
	for _, o := range open {
		if !strings.EqualFold(o.Email, i.Email) {
			waiting++
		} else if _, err := tx.RevokeInvitation(ctx, t.ID, o.ID, i.CreatedAt); err != nil {
			return err
		}
	}
	if actor.TenantID != "" && members+waiting >= int64(rules.Members) {
		return conflict(fmt.Sprintf("All %d places for members are taken, open invitations included. Remove somebody, or ask your contact for more.", rules.Members))
	}
	return nil
}

// RevokeInvitation takes an open invitation back.
func (s *Members) RevokeInvitation(ctx context.Context, actor Actor, tenantID, id string) error {
	if err := actor.needOf(tenantID, PermManageTenants, PermOwnMembers); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		if ok, err := tx.RevokeInvitation(ctx, tenantID, id, now); err != nil || !ok {
			return firstError(err, notFound("open invitation"))
		}
		return s.d.record(ctx, tx, actor, now, event{action: "member.uninvite", object: "invitation", objectID: id, tenantID: tenantID})
	})
}

// SetRole changes what a member may do, from the next request on; their sessions
// end. The last admin stays one.
func (s *Members) SetRole(ctx context.Context, actor Actor, tenantID, id string, role Role) error {
	var p problems
	p.tenantRole(role)
	if err := p.err(); err != nil {
		return err
	}
	return s.change(ctx, actor, tenantID, id, "member.set-role", func(m *Member) error {
		m.Role = role
		return nil
	})
}

// Remove ends a membership and its sessions. The row stays for the record; the
// same address can be invited again. The last admin stays.
func (s *Members) Remove(ctx context.Context, actor Actor, tenantID, id string) error {
	return s.change(ctx, actor, tenantID, id, "member.remove", func(m *Member) error {
		now := s.d.now()
		m.DisabledAt, m.PasswordHash = &now, ""
		return nil
	})
}

// change changes one of a tenant's members, all of whom are locked meanwhile.
func (s *Members) change(ctx context.Context, actor Actor, tenantID, id, action string, fn func(*Member) error) error {
	if err := actor.needOf(tenantID, PermManageTenants, PermOwnMembers); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		all, err := tx.LockMembers(ctx, tenantID)
		if err != nil {
			return err
		}
		admins, before := 0, Member{}
		for _, m := range all {
			if m.Role == RoleTenantAdmin {
				admins++
			}
			if m.ID == id {
				before = m
			}
		}
		if before.ID == "" {
			return notFound("member")
		}
		m := before
		if err := fn(&m); err != nil {
			return err
		}
		if before.Role == RoleTenantAdmin && admins == 1 && (m.Role != RoleTenantAdmin || m.DisabledAt != nil) {
			return conflict("This is the last admin; make someone else an admin first.")
		}
		if err := tx.UpdateMember(ctx, m); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{
			action: action, object: "member", objectID: id, tenantID: tenantID, before: viewMember(before), after: viewMember(m),
		})
	})
}

// active is a tenant that may use its pages.
func active(ctx context.Context, tx Tx, tenantID string) (Tenant, error) {
	t, err := tx.ShareTenant(ctx, tenantID)
	if err != nil {
		return Tenant{}, err
	}
	if t.State != policy.TenantActive {
		return Tenant{}, &Error{Code: CodeForbidden, Public: "The access of your organisation is suspended. Ask your contact."}
	}
	return t, nil
}

type invitationView struct {
	Email string `json:"email"`
	Role  Role   `json:"role"`
}

type memberView struct {
	Email        string `json:"email,omitempty"`
	ExternalUser string `json:"external_user,omitempty"`
	Name         string `json:"name,omitempty"`
	Role         Role   `json:"role"`
	Removed      bool   `json:"removed,omitempty"`
}

func viewMember(m Member) memberView {
	return memberView{m.Email, m.ExternalUser, m.Name, m.Role, m.DisabledAt != nil}
}
