package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// TenantMembersProps is a tenant's members tab: who uses its own pages.
type TenantMembersProps struct {
	Head    TenantHeadProps
	Rows    []MemberRow
	Form    *form.Form
	Link    string // of an invitation just made, shown once
	LinkFor string
	Rules   string // what the tenant may do by itself, in words
	Portal  string // the address of the members' own pages
}

// MemberRow is a member or an open invitation.
type MemberRow struct {
	ID, Name, Email, Role string
	Since, Expires        time.Time
	Invited               bool
}

// AsksProps is what tenants ask for.
type AsksProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	All       bool
	Rows      []AskRow
	CanDecide bool
	Failed    string // id of the one that could not be decided
	Problem   string
}

// AskRow is one wish.
type AskRow struct {
	ID, Tenant, TenantURL            string
	Limit, Wanted, Why, State, Kind  string
	Member, DecidedBy, Answer, Grant string // Grant: what granting does
	Created, Until, Decided          time.Time
	Open                             bool
}

// PortalRulesProps says what tenants may do by themselves.
type PortalRulesProps struct {
	Frame   ui.FrameProps
	Rows    []PortalRuleRow
	Form    *form.Form
	Scopes  []ui.Option // for all tenants, or those on a plan
	Default string      // what holds where nothing was said
}

// PortalRuleRow is what holds for one scope.
type PortalRuleRow struct{ Scope, Name, Text string }
