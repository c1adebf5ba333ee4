package api

import (
	"context"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
)

// Member is a person of a tenant who uses the tenant's own pages.
type Member struct {
	ID           string     `json:"id" example:"mem_abcdefghij234567"`
	Email        string     `json:"email,omitempty"`
	ExternalUser string     `json:"external_user,omitempty" doc:"The person's id in the tenant's own system"`
	Name         string     `json:"name,omitempty"`
	Role         string     `json:"role" enum:"tenant-viewer,tenant-admin"`
	JoinedAt     *time.Time `json:"joined_at,omitempty"`
}

func memberOf(m console.Member) Member {
	return Member{ID: m.ID, Email: m.Email, ExternalUser: m.ExternalUser, Name: m.Name, Role: string(m.Role), JoinedAt: m.JoinedAt}
}

// Invitation lets somebody become a member, once.
type Invitation struct {
	ID        string    `json:"id" example:"inv_abcdefghij234567"`
	Email     string    `json:"email"`
	Role      string    `json:"role" enum:"tenant-viewer,tenant-admin"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url,omitempty" doc:"The link to send, in the answer that makes it alone"`
}

func invitationOf(i console.Invitation) Invitation {
	return Invitation{ID: i.ID, Email: i.Email, Role: string(i.Role), ExpiresAt: i.ExpiresAt}
}

// Ask is what a tenant wants more of.
type Ask struct {
	ID        string     `json:"id" example:"ask_abcdefghij234567"`
	Tenant    string     `json:"tenant"`
	Limit     string     `json:"limit" example:"plan.requests"`
	Wanted    string     `json:"wanted" doc:"In words"`
	Factor    float64    `json:"factor" doc:"Of what the tenant had"`
	Until     *time.Time `json:"until,omitempty" doc:"For good when left out"`
	Why       string     `json:"why"`
	State     string     `json:"state" enum:"open,granted,refused"`
	Member    string     `json:"member"`
	DecidedBy string     `json:"decided_by,omitempty" doc:"An operator, or rule"`
	Answer    string     `json:"answer,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
}

func askOf(a console.Ask) Ask {
	return Ask{ID: a.ID, Tenant: a.TenantID, Limit: a.Limit, Wanted: a.Wanted, Factor: float64(a.Factor) / 1000, Until: a.Until, Why: a.Why,
		State: string(a.State), Member: a.Member, DecidedBy: a.DecidedBy, Answer: a.Answer, CreatedAt: a.CreatedAt}
}

type (
	memberList struct {
		Members     []Member     `json:"members"`
		Invitations []Invitation `json:"invitations" doc:"Those that can still be accepted"`
	}
	inviteIn struct {
		TenantPath
		Repeatable
		Body struct {
			Email string `json:"email" maxLength:"254"`
			Role  string `json:"role" enum:"tenant-viewer,tenant-admin"`
		}
	}
	memberIn struct {
		TenantPath
		Member string `path:"member" maxLength:"64"`
	}
	linkIn struct {
		TenantPath
		Repeatable
		Body struct {
			Email        string `json:"email,omitempty" maxLength:"254" doc:"Of a member, or of who becomes one"`
			ExternalUser string `json:"external_user,omitempty" maxLength:"120" doc:"The person's id in the tenant's own system; comes before email"`
			Name         string `json:"name,omitempty" maxLength:"120"`
			Role         string `json:"role" enum:"tenant-viewer,tenant-admin" doc:"Of who becomes a member by this; a member keeps theirs"`
			TTL          string `json:"ttl,omitempty" default:"5m" doc:"60s to 15m" example:"5m"`
		}
	}
	signInLink struct {
		URL       string    `json:"url" doc:"Signs one person in, once"`
		ExpiresAt time.Time `json:"expires_at"`
		Member    Member    `json:"member"`
	}
	askListIn struct {
		Tenant string `query:"tenant" maxLength:"64"`
		State  string `query:"state" enum:"open,all" default:"open"`
	}
	askDecision struct {
		Answer string `json:"answer,omitempty" maxLength:"500" doc:"Shown to the tenant; needed for a refusal"`
	}
	askIn struct {
		Ask  string `path:"ask" maxLength:"64"`
		Body askDecision
	}
)

func (a *API) registerMembers() {
	register(a, op{id: "list-members", method: "GET", path: "/tenants/{tenant}/members", summary: "List who uses a tenant's own pages", perm: console.PermView, errors: []int{404}}, a.listMembers)
	register(a, op{id: "invite-member", method: "POST", path: "/tenants/{tenant}/members", summary: "Invite somebody to a tenant's own pages", perm: console.PermManageTenants, status: 201, errors: []int{404, 409}}, a.inviteMember)
	register(a, op{id: "remove-member", method: "DELETE", path: "/tenants/{tenant}/members/{member}", summary: "Remove a member, or take an invitation back", perm: console.PermManageTenants, status: 204, errors: []int{404, 409}}, a.removeMember)
	register(a, op{id: "create-sign-in-link", method: "POST", path: "/tenants/{tenant}/sign-in-links", summary: "Make a link that signs one person in once", perm: console.PermManageTenants, status: 201, errors: []int{404, 409}}, a.createSignInLink)
	register(a, op{id: "list-asks", method: "GET", path: "/asks", summary: "List what tenants want more of, the newest first, at most 500", perm: console.PermView}, a.listAsks)
	register(a, op{id: "grant-ask", method: "POST", path: "/asks/{ask}/grant", summary: "Give what was asked for, as a boost", perm: console.PermManageTenants, errors: []int{404, 409}}, a.grantAsk)
	register(a, op{id: "refuse-ask", method: "POST", path: "/asks/{ask}/refuse", summary: "Refuse what was asked for", perm: console.PermManageTenants, errors: []int{404, 409}}, a.refuseAsk)
}

func (a *API) listMembers(ctx context.Context, in *TenantPath) (*Body[memberList], error) {
	members, open, err := a.Members.List(ctx, actorOf(ctx), in.Tenant)
	if err != nil {
		return nil, err
	}
	return &Body[memberList]{memberList{listOf(members, "", memberOf).Items, listOf(open, "", invitationOf).Items}}, nil
}

func (a *API) inviteMember(ctx context.Context, in *inviteIn) (*Body[Invitation], error) {
	shown := func(b *Body[Invitation]) any {
		i := b.Body
		i.URL = ""
		return Body[Invitation]{i}
	}
	return once(ctx, a, "members.invite "+in.Tenant, in.Repeatable, in.Body, true, shown, func() (*Body[Invitation], error) {
		invited, err := a.Members.Invite(ctx, actorOf(ctx), in.Tenant, console.NewInvitation{Email: in.Body.Email, Role: console.Role(in.Body.Role)})
		if err != nil {
			return nil, err
		}
		out := invitationOf(invited.Invitation)
		out.URL = a.portalURL("invite", invited.Secret)
		return &Body[Invitation]{out}, nil
	})
}

// portalURL is an address of the tenants' own pages.
func (a *API) portalURL(parts ...string) string {
	return strings.TrimSuffix(a.PublicURL, "/") + "/t/" + strings.Join(parts, "/")
}

func (a *API) removeMember(ctx context.Context, in *memberIn) (*struct{}, error) {
	if strings.HasPrefix(in.Member, "inv_") {
		return nil, a.Members.RevokeInvitation(ctx, actorOf(ctx), in.Tenant, in.Member)
	}
	return nil, a.Members.Remove(ctx, actorOf(ctx), in.Tenant, in.Member)
}

func (a *API) createSignInLink(ctx context.Context, in *linkIn) (*Body[signInLink], error) {
	ttl, err := time.ParseDuration(in.Body.TTL)
	if err != nil || ttl <= 0 {
		return nil, fieldProblem("ttl", "must be a duration from 60s to 15m, such as 5m")
	}
	shown := func(b *Body[signInLink]) any {
		l := b.Body
		l.URL = ""
		return Body[signInLink]{l}
	}
	return once(ctx, a, "members.link "+in.Tenant, in.Repeatable, in.Body, true, shown, func() (*Body[signInLink], error) {
		l, err := a.Members.IssueLink(ctx, actorOf(ctx), in.Tenant, console.NewSignInLink{Email: in.Body.Email, ExternalUser: in.Body.ExternalUser,
			Name: in.Body.Name, Role: console.Role(in.Body.Role), For: ttl})
		if err != nil {
			return nil, err
		}
		return &Body[signInLink]{signInLink{a.portalURL("link", l.Secret), l.ExpiresAt, memberOf(l.Member)}}, nil
	})
}

func (a *API) listAsks(ctx context.Context, in *askListIn) (*Body[List[Ask]], error) {
	list, err := a.Asks.List(ctx, actorOf(ctx), in.Tenant, in.State != "all")
	if err != nil {
		return nil, err
	}
	return &Body[List[Ask]]{listOf(list, "", askOf)}, nil
}

func (a *API) grantAsk(ctx context.Context, in *askIn) (*Body[Ask], error) {
	ask, err := a.Asks.Grant(ctx, actorOf(ctx), in.Ask, in.Body.Answer, true)
	if err != nil {
		return nil, err
	}
	return &Body[Ask]{askOf(ask)}, nil
}

func (a *API) refuseAsk(ctx context.Context, in *askIn) (*Body[Ask], error) {
	ask, err := a.Asks.Refuse(ctx, actorOf(ctx), in.Ask, in.Body.Answer)
	if err != nil {
		return nil, err
	}
	return &Body[Ask]{askOf(ask)}, nil
}
