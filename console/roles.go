package console

import "slices"

// Role says what an operator may do. The zero Role may do nothing.
type Role string

// Roles, from the least to the most.
const (
	RoleViewer    Role = "viewer"
	RoleSupport   Role = "support" // helps tenants: small boosts that end by themselves
	RoleAuditor   Role = "auditor" // reads everything and takes it away as files
	RoleEditor    Role = "editor"
	RolePublisher Role = "publisher"
	RoleKeyAdmin  Role = "key-admin"
	RoleOwner     Role = "owner"
)

// Roles of a tenant's members. They reach nothing but their tenant.
const (
	RoleTenantViewer Role = "tenant-viewer"
	RoleTenantAdmin  Role = "tenant-admin"
)

// Permission is one thing that a role may be allowed to do.
type Permission string

// Permissions.
const (
	PermView            Permission = "view"             // every page that changes nothing
	PermEditDrafts      Permission = "edit-drafts"      // create, save and delete drafts
	PermPublish         Permission = "publish"          // publish, roll back, schedule
	PermApprove         Permission = "approve"          // approve somebody else's draft, close reviews
	PermManageRules     Permission = "manage-rules"     // say which changes need approvals
	PermManageTenants   Permission = "manage-tenants"   // create, change, suspend, delete tenants
	PermManageKeys      Permission = "manage-keys"      // issue, rotate, suspend, revoke
	PermUnlock          Permission = "unlock"           // end or prolong a lockout, reset a limit's state, release leases
	PermSeeSubjects     Permission = "see-subjects"     // addresses, accounts and the like of refused callers in full
	PermBoost           Permission = "boost"            // raise a tenant's limit a little and for a while
	PermExport          Permission = "export"           // lists of tenants, keys and events as files
	PermManageOperators Permission = "manage-operators" // operators, their roles and tokens
	PermViewAsTenant    Permission = "view-as-tenant"   // a tenant's own page, read-only
	PermViewAudit       Permission = "view-audit"
	PermOwnSessions     Permission = "own-sessions"   // list and end one's own sessions
	PermManageAlerts    Permission = "manage-alerts"  // say what is told to whom, and try messages anew
	PermSilenceAlerts   Permission = "silence-alerts" // keep messages back for a while

	PermOwnTenant  Permission = "own-tenant"  // a tenant's member: the tenant's own pages
	PermOwnKeys    Permission = "own-keys"    // the same: issue, rotate and revoke the tenant's keys, within its caps
	PermOwnMembers Permission = "own-members" // the same: invite and remove members, ask for more, set thresholds
)

// roleTable is the one place that says who may do what.
func roleTable(r Role) []Permission {
	base := []Permission{PermView, PermViewAudit, PermViewAsTenant, PermOwnSessions}
	switch r {
	case RoleViewer:
		return base
	case RoleSupport:
		return append(base, PermSilenceAlerts, PermBoost, PermUnlock, PermSeeSubjects)
	case RoleAuditor:
		return append(base, PermExport, PermSeeSubjects)
	case RoleEditor:
		return append(base, PermEditDrafts)
	case RolePublisher:
		return append(base, PermEditDrafts, PermPublish, PermApprove, PermSilenceAlerts, PermManageAlerts)
	case RoleKeyAdmin:
		return append(base, PermSilenceAlerts, PermManageAlerts, PermManageTenants, PermManageKeys, PermBoost, PermUnlock, PermSeeSubjects, PermExport)
	case RoleTenantViewer:
		return []Permission{PermOwnTenant, PermOwnSessions}
	case RoleTenantAdmin:
		return []Permission{PermOwnTenant, PermOwnSessions, PermOwnKeys, PermOwnMembers}
	case RoleOwner:
		return append(base, PermSilenceAlerts, PermManageAlerts, PermEditDrafts, PermPublish, PermApprove, PermManageRules, PermManageTenants, PermManageKeys, PermManageOperators, PermBoost, PermUnlock, PermSeeSubjects, PermExport)
	}
	return nil
}

// Can reports whether the role has the permission. An unknown role has none.
func (r Role) Can(p Permission) bool { return slices.Contains(roleTable(r), p) }

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Roles lists all roles of operators from the least to the most.
func Roles() []Role {
	return []Role{RoleViewer, RoleSupport, RoleAuditor, RoleEditor, RolePublisher, RoleKeyAdmin, RoleOwner}
}

// Permissions lists all permissions that an operator can have.
func Permissions() []Permission {
	return []Permission{
		PermView, PermEditDrafts, PermPublish, PermApprove, PermManageRules, PermManageTenants, PermManageKeys,
		PermManageOperators, PermViewAsTenant, PermViewAudit, PermOwnSessions, PermManageAlerts, PermSilenceAlerts, PermBoost, PermUnlock, PermSeeSubjects, PermExport,
	}
}

// Via says by which door an actor came in.
const (
	ViaConsole = "console"
	ViaAPI     = "api"
	ViaCLI     = "cli"
	ViaPortal  = "portal" // a tenant's own pages
	ViaSystem  = "system"
)

// Actor is who does something. Role is the one on the operator's row at the
// time of the request, never one remembered by a session.
type Actor struct {
	ID   string // opr_… or mem_…, or "" for the system
	Name string
	Role Role
	Via  string // ViaConsole, ViaAPI, ViaCLI, ViaPortal or ViaSystem
	// TenantID is set for a tenant's member and for nobody else. What belongs to
	// another tenant does not exist for such an actor.
	TenantID  string
	IP        string
	RequestID string
}

// need refuses an actor whose role lacks p. The system may do everything.
func (a Actor) need(p Permission) error {
	if a.Via == ViaSystem || a.Role.Can(p) {
		return nil
	}
	return &Error{Code: CodeForbidden, Public: "Your role does not allow this."}
}

// needOf refuses an actor who may not do to this tenant's things what operators
// need p for and members own. Another tenant's things are absent for a member.
func (a Actor) needOf(tenantID string, p, own Permission) error {
	if a.TenantID == "" {
		return a.need(p)
	}
	if a.TenantID != tenantID {
		return &Error{Code: CodeNotFound, Public: "There is nothing here."}
	}
	return a.need(own)
}

// SystemActor is the actor of periodic jobs.
func SystemActor() Actor { return Actor{Name: "headgate", Via: ViaSystem} }
