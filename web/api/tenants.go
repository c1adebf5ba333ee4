package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Tenant is a customer organisation.
type Tenant struct {
	ID         string    `json:"id" example:"ten_abcdefghij234567"`
	Name       string    `json:"name"`
	ExternalID string    `json:"external_id,omitempty"`
	Plan       string    `json:"plan"`
	TimeZone   string    `json:"time_zone"`
	Status     string    `json:"status" enum:"active,suspended,deleted"`
	Reason     string    `json:"reason,omitempty" doc:"Why it is suspended"`
	Anchor     string    `json:"quota_anchor,omitempty" doc:"The date that anniversaries of a quota count from" example:"2026-01-31"`
	Contacts   []string  `json:"contacts,omitempty" doc:"E-mail addresses, with names or without"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

func tenantOf(t console.Tenant) Tenant {
	return Tenant{ID: t.ID, Name: t.Name, ExternalID: t.ExternalID, Plan: t.Plan, TimeZone: t.TimeZone, Status: string(t.State),
		Reason: t.Reason, Anchor: t.QuotaAnchor, Contacts: t.Contacts, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}
}

// tenantOut is a tenant with its ETag.
type tenantOut struct {
	ETag string `header:"ETag"`
	Body Tenant
}

func tenantShown(t console.Tenant) *tenantOut {
	return &tenantOut{ETag: quoted(strconv.FormatInt(t.Seq, 10)), Body: tenantOf(t)}
}

// Paging is how lists are asked for, page by page.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"1024" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

func (p Paging) page() console.Page { return console.Page{After: p.Cursor, Limit: p.Limit} }

// List is one page of a list.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor" doc:"Empty on the last page"`
}

func listOf[D, T any](items []D, next string, as func(D) T) List[T] {
	l := List[T]{Items: make([]T, 0, len(items)), NextCursor: next}
	for _, item := range items {
		l.Items = append(l.Items, as(item))
	}
	return l
}

// Body wraps an answer.
type Body[T any] struct{ Body T }

// Reason is the body of acts that ask why.
type Reason struct {
	Reason string `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail. Only a resumption may leave it empty"`
}

// Waiting asks an act to wait for the gateways.
type Waiting struct {
	Wait    string `query:"wait" enum:"converged" doc:"Answer when every gateway has applied it, or after the timeout"`
	Timeout string `query:"timeout" default:"10s" doc:"Longest wait, a Go duration up to 60s"`
}

// maxWait bounds how long an answer waits for gateways.
const maxWait = 60 * time.Second

// duration returns how long to wait; 0 when the request does not ask to.
func (w Waiting) duration() (time.Duration, error) {
	if w.Wait == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(w.Timeout)
	if err != nil || d < 0 || d > maxWait {
		return 0, fieldProblem("timeout", "must be a duration such as 30s, at most 60s")
	}
	return d, nil
}

func fieldProblem(field, message string) *Problem {
	p := newProblem(http.StatusUnprocessableEntity, field+": "+message).as(string(console.CodeInvalid))
	p.Errors = []FieldProblem{{Field: field, Message: message}}
	return p
}

type (
	// TenantPath names a tenant. Exported, as the framework reads only exported parts.
	TenantPath struct {
		Tenant string `path:"tenant" maxLength:"64"`
	}
	tenantListIn struct {
		Paging
		Q      string `query:"q" maxLength:"200" doc:"Part of a name, or a whole id or external id"`
		Plan   string `query:"plan" maxLength:"63"`
		Status string `query:"status" enum:"active,suspended,deleted"`
		Own    bool   `query:"with_overrides" doc:"Only those with overrides or boosts"`
		Sort   string `query:"sort" enum:"newest,name" doc:"newest when left out; by name leaves deleted ones out"`
	}
	newTenant struct {
		Name       string `json:"name" maxLength:"200"`
		Plan       string `json:"plan" maxLength:"63"`
		ExternalID string `json:"external_id,omitempty" maxLength:"200"`
		TimeZone   string `json:"time_zone,omitempty" maxLength:"64" doc:"IANA name; UTC when left out"`

		Anchor   string   `json:"quota_anchor,omitempty" maxLength:"10" doc:"The date that anniversaries of a quota count from; the calendar's when left out" example:"2026-01-31"`
		Contacts []string `json:"contacts,omitempty" maxItems:"10" doc:"E-mail addresses, with names or without"`
	}
	tenantCreateIn struct {
		Repeatable
		Body newTenant
	}
	tenantPatch struct {
		Name       *string `json:"name,omitempty" maxLength:"200"`
		Plan       *string `json:"plan,omitempty" maxLength:"63"`
		ExternalID *string `json:"external_id,omitempty" maxLength:"200"`
		TimeZone   *string `json:"time_zone,omitempty" maxLength:"64"`

		Anchor   *string   `json:"quota_anchor,omitempty" maxLength:"10" doc:"Empty takes it away"`
		Contacts *[]string `json:"contacts,omitempty" maxItems:"10" doc:"All of them; empty takes them away"`
		Reason   string    `json:"reason,omitempty" maxLength:"500" doc:"Why; kept in the audit trail"`
	}
	tenantPatchIn struct {
		TenantPath
		IfMatch string `header:"If-Match" maxLength:"40" doc:"The tenant's ETag as it was read: 412 when it has changed since. Without it the last one wins"`
		Body    tenantPatch
	}
	tenantActIn struct {
		TenantPath
		Waiting
		Body Reason
	}
	tenantDeleteIn struct {
		TenantPath
		Waiting
		Reason string `query:"reason" minLength:"1" maxLength:"500" required:"true" doc:"Why; kept in the audit trail"`
	}
	tenantAct struct {
		Tenant *Tenant `json:"tenant,omitempty"`
		Converged
	}
)

func (a *API) registerTenants() {
	register(a, op{id: "list-tenants", method: "GET", path: "/tenants", summary: "List tenants", perm: console.PermView}, a.listTenants)
	register(a, op{id: "create-tenant", method: "POST", path: "/tenants", summary: "Create a tenant", perm: console.PermManageTenants, status: 201, errors: []int{409}}, a.createTenant)
	register(a, op{id: "get-tenant", method: "GET", path: "/tenants/{tenant}", summary: "Get a tenant", perm: console.PermView, errors: []int{404}}, a.getTenant)
	register(a, op{id: "update-tenant", method: "PATCH", path: "/tenants/{tenant}", summary: "Change a tenant", perm: console.PermManageTenants, errors: []int{404, 409, 412}}, a.updateTenant)
	register(a, op{id: "delete-tenant", method: "DELETE", path: "/tenants/{tenant}", summary: "Delete a tenant; its keys are refused", perm: console.PermManageTenants, errors: []int{404, 409}}, a.deleteTenant)
	register(a, op{id: "suspend-tenant", method: "POST", path: "/tenants/{tenant}/suspend", summary: "Refuse a tenant's requests", perm: console.PermManageTenants, errors: []int{404, 409}}, a.suspendTenant)
	register(a, op{id: "resume-tenant", method: "POST", path: "/tenants/{tenant}/resume", summary: "Let a suspended tenant in again", perm: console.PermManageTenants, errors: []int{404, 409}}, a.resumeTenant)
}

func (a *API) listTenants(ctx context.Context, in *tenantListIn) (*Body[List[Tenant]], error) {
	q := console.TenantQuery{Q: in.Q, Plan: in.Plan, State: policy.TenantState(in.Status), WithOverrides: in.Own, Page: in.page()}
	if in.Sort == "name" {
		q.Sort = console.SortName
	}
	items, next, err := a.Tenants.List(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Body[List[Tenant]]{listOf(items, next, tenantOf)}, nil
}

func (a *API) createTenant(ctx context.Context, in *tenantCreateIn) (*tenantOut, error) {
	same := func(b *tenantOut) any { return b }
	return once(ctx, a, "tenants.create", in.Repeatable, in.Body, false, same, func() (*tenantOut, error) {
		t, err := a.Tenants.Create(ctx, actorOf(ctx), console.NewTenant{Name: in.Body.Name, Plan: in.Body.Plan,
			ExternalID: in.Body.ExternalID, TimeZone: in.Body.TimeZone, QuotaAnchor: in.Body.Anchor, Contacts: in.Body.Contacts})
		if err != nil {
			return nil, err
		}
		return tenantShown(t), nil
	})
}

func (a *API) getTenant(ctx context.Context, in *TenantPath) (*tenantOut, error) {
	t, err := a.Tenants.Get(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return tenantShown(t), nil
}

func (a *API) updateTenant(ctx context.Context, in *tenantPatchIn) (*tenantOut, error) {
	patch := console.TenantPatch{Name: in.Body.Name, Plan: in.Body.Plan, ExternalID: in.Body.ExternalID, TimeZone: in.Body.TimeZone,
		QuotaAnchor: in.Body.Anchor, Contacts: in.Body.Contacts, Reason: in.Body.Reason}
	if in.IfMatch != "" && in.IfMatch != "*" {
		seq, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(in.IfMatch, "W/"), `"`), 10, 64)
		if err != nil {
			seq = -1 // no ETag of a tenant: it matches none
		}
		patch.Seq = &seq
	}
	t, err := a.Tenants.Update(ctx, actorOf(ctx), in.Tenant, patch)
	if err != nil {
		return nil, err
	}
	return tenantShown(t), nil
}

func (a *API) deleteTenant(ctx context.Context, in *tenantDeleteIn) (*Body[tenantAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Tenants.Delete(ctx, actorOf(ctx), in.Tenant, in.Reason)
	return a.afterTenantAct(ctx, "", change, err, in.Waiting, refused)
}

func (a *API) suspendTenant(ctx context.Context, in *tenantActIn) (*Body[tenantAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Tenants.Suspend(ctx, actorOf(ctx), in.Tenant, in.Body.Reason)
	return a.afterTenantAct(ctx, in.Tenant, change, err, in.Waiting, refused)
}

func (a *API) resumeTenant(ctx context.Context, in *tenantActIn) (*Body[tenantAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Tenants.Resume(ctx, actorOf(ctx), in.Tenant, in.Body.Reason)
	return a.afterTenantAct(ctx, in.Tenant, change, err, in.Waiting, accepted)
}

// afterTenantAct waits where that was asked for and reads the tenant again; id
// is "" when there is none any more.
func (a *API) afterTenantAct(ctx context.Context, id string, change console.Change, err error, wait Waiting, side side) (*Body[tenantAct], error) {
	if err != nil {
		return nil, err
	}
	out := &Body[tenantAct]{}
	if out.Body.Converged, err = a.converge(ctx, change, wait, side); err != nil || id == "" {
		return out, err
	}
	t, err := a.Tenants.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	shown := tenantOf(t)
	out.Body.Tenant = &shown
	return out, nil
}
