package console

import "slices"

// Role says what an operator may do. The zero Role may do nothing.
type Role string

// Roles, from the least to the most.
const (
	RoleViewer    Role = "viewer"
	RoleEditor    Role = "editor"
	RolePublisher Role = "publisher"
	RoleKeyAdmin  Role = "key-admin"
	RoleOwner     Role = "owner"
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
	PermManageOperators Permission = "manage-operators" // operators, their roles and tokens
	PermViewAsTenant    Permission = "view-as-tenant"   // a tenant's own page, read-only
	PermViewAudit       Permission = "view-audit"
	PermOwnSessions     Permission = "own-sessions" // list and end one's own sessions
)

// roleTable is the one place that says who may do what.
func roleTable(r Role) []Permission {
	base := []Permission{PermView, PermViewAudit, PermViewAsTenant, PermOwnSessions}
	switch r {
	case RoleViewer:
		return base
	case RoleEditor:
		return append(base, PermEditDrafts)
	case RolePublisher:
		return append(base, PermEditDrafts, PermPublish, PermApprove)
	case RoleKeyAdmin:
		return append(base, PermManageTenants, PermManageKeys)
	case RoleOwner:
		return append(base, PermEditDrafts, PermPublish, PermApprove, PermManageRules, PermManageTenants, PermManageKeys, PermManageOperators)
	}
	return nil
}

// Can reports whether the role has the permission. An unknown role has none.
func (r Role) Can(p Permission) bool { return slices.Contains(roleTable(r), p) }

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Roles lists all roles from the least to the most.
func Roles() []Role {
	return []Role{RoleViewer, RoleEditor, RolePublisher, RoleKeyAdmin, RoleOwner}
}

// Permissions lists all permissions.
func Permissions() []Permission {
	return []Permission{
		PermView, PermEditDrafts, PermPublish, PermApprove, PermManageRules, PermManageTenants, PermManageKeys,
		PermManageOperators, PermViewAsTenant, PermViewAudit, PermOwnSessions,
	}
}

// Via says by which door an actor came in.
const (
	ViaConsole = "console"
	ViaAPI     = "api"
	ViaCLI     = "cli"
	ViaSystem  = "system"
)

// Actor is who does something. Role is the one on the operator's row at the
// time of the request, never one remembered by a session.
type Actor struct {
	ID        string // opr_…, or "" for the system
	Name      string
	Role      Role
	Via       string // ViaConsole, ViaAPI, ViaCLI or ViaSystem
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

// SystemActor is the actor of periodic jobs.
func SystemActor() Actor { return Actor{Name: "headgate", Via: ViaSystem} }
