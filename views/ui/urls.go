package ui

import (
	"net/url"
	"strconv"
)

// Addresses of the console's pages, each made in one place. Identifiers are
// escaped as path segments.

// OverviewURL is the first page.
func OverviewURL() string { return "/overview" }

// StripURL is the fragment with the status strip's facts.
func StripURL() string { return "/strip" }

// ExplainURL is why somebody is refused; query keeps the question.
func ExplainURL(query string) string { return withQuery("/explain", query) }

// ExplainTenantURL asks about a tenant.
func ExplainTenantURL(id string) string { return "/explain?tenant=" + url.QueryEscape(id) }

// FoundURL is what the search suggests while it is typed in (POST).
func FoundURL() string { return "/find/list" }

// TenantsURL is the list of tenants.
func TenantsURL() string { return "/tenants" }

// TenantNewURL is the form for a new tenant.
func TenantNewURL() string { return "/tenants/new" }

// TenantURL is one tenant; tab is "", "keys", "usage" or "audit".
func TenantURL(id, tab string) string {
	u := "/tenants/" + url.PathEscape(id)
	if tab != "" {
		u += "/" + url.PathEscape(tab)
	}
	return u
}

// KeysURL is the list of key versions of all tenants.
func KeysURL() string { return "/keys" }

// KeyURL is one key version; act is "", "revoke", "suspend" or "resume".
func KeyURL(kid, act string) string {
	u := "/keys/" + url.PathEscape(kid)
	if act != "" {
		u += "/" + act
	}
	return u
}

// CredentialURL is an act on a credential: "rotate".
func CredentialURL(id, act string) string { return "/credentials/" + url.PathEscape(id) + "/" + act }

// LockoutsURL is who is refused now; query keeps filters.
func LockoutsURL(query string) string { return withQuery("/lockouts", query) }

// LockoutsLiveURL is the fragment with the list.
func LockoutsLiveURL(query string) string { return withQuery("/live/lockouts", query) }

// LockoutURL is one lockout; act is "", "unlock", "extend", "reset" or "release".
func LockoutURL(id, act string) string {
	u := "/lockouts/" + url.PathEscape(id)
	if act != "" {
		u += "/" + act
	}
	return u
}

// TenantStateURL is what Redis holds of a tenant's limits; act is "", "reset" or "release".
func TenantStateURL(id, act string) string {
	u := TenantURL(id, "state")
	if act != "" {
		u += "/" + act
	}
	return u
}

// LeaksURL is where keys that leaked are looked up, and what became of them.
func LeaksURL() string { return "/leaks" }

// ChangeLiveURL is where it is asked on how many gateways a change holds.
func ChangeLiveURL(change int64, act string) string {
	return "/live/changes/" + strconv.FormatInt(change, 10) + "/" + url.PathEscape(act)
}

// OverridesURL is the list of tenants' own values and boosts; query keeps filters.
func OverridesURL(query string) string { return withQuery("/overrides", query) }

// OverrideURL is one override; act is "", "end" or "extend".
func OverrideURL(id, act string) string {
	u := "/overrides/" + url.PathEscape(id)
	if act != "" {
		u += "/" + act
	}
	return u
}

// BulkURL is the list of bulk jobs; query keeps filters.
func BulkURL(query string) string { return withQuery("/bulk", query) }

// BulkNewURL is the form of a new bulk job of a kind; "" asks for the kind.
func BulkNewURL(kind string) string {
	if kind == "" {
		return "/bulk/new"
	}
	return "/bulk/new?kind=" + url.QueryEscape(kind)
}

// BulkJobURL is one bulk job.
func BulkJobURL(id string) string { return "/bulk/" + url.PathEscape(id) }

// FindURL takes what was typed into the strip's search (POST): a key's secret
// must not stand in an address.
func FindURL() string { return "/find" }

// RotationsURL is the list of rotations.
func RotationsURL() string { return "/rotations" }

// RotationURL is one rotation; act is "", "end", "extend" or "cancel".
func RotationURL(id, act string) string {
	u := "/rotations/" + url.PathEscape(id)
	if act != "" {
		u += "/" + act
	}
	return u
}

// GatewaysURL is the list of replicas.
func GatewaysURL() string { return "/gateways" }

// GatewaysDiffersURL is the list of replicas that are not in sync.
func GatewaysDiffersURL() string { return "/gateways?differs=1" }

// PolicyURL is the policy in force.
func PolicyURL() string { return "/policy" }

// DraftsURL is the list of drafts.
func DraftsURL() string { return "/policy/drafts" }

// DraftURL is one draft.
func DraftURL(id string) string { return "/policy/drafts/" + url.PathEscape(id) }

// DraftPartURL is the form of one part of a draft: kind is general, global,
// shared, plan or route, key the plan's or route's name.
func DraftPartURL(id, kind, key string) string {
	u := DraftURL(id) + "/parts/" + url.PathEscape(kind)
	if key != "" {
		u += "/" + url.PathEscape(key)
	}
	return u
}

// TrialLiveURL is a simulation of a draft while it runs.
func TrialLiveURL(draft, trial string) string {
	return "/live" + DraftURL(draft) + "/trials/" + url.PathEscape(trial)
}

// VersionsURL is the list of published versions.
func VersionsURL() string { return "/policy/versions" }

// VersionURL is the publication page of a version.
func VersionURL(n int64) string { return "/policy/versions/" + strconv.FormatInt(n, 10) }

// ReviewsURL is what waits for somebody else: approvals, and publications by
// break-glass.
func ReviewsURL() string { return "/policy/reviews" }

// AdoptURL is where a version that only Redis has is taken over.
func AdoptURL() string { return "/policy/adopt" }

// RulesURL says which changes need approvals.
func RulesURL() string { return "/settings/rules" }

// RoutesURL is the routes of the policy in force; query keeps filters.
func RoutesURL(query string) string { return withQuery("/routes", query) }

// RouteNewURL is the form that makes a route in a draft; query says of what.
func RouteNewURL(query string) string { return withQuery("/routes/new", query) }

// PlansURL is the plans of the policy in force.
func PlansURL() string { return "/plans" }

// AuditURL is the record of changes.
func AuditURL() string { return "/audit" }

// AlertsURL is what is, or was, so; query keeps filters.
func AlertsURL(query string) string { return withQuery("/alerts", query) }

// AlertRulesURL says what is looked for.
func AlertRulesURL() string { return "/alerts/rules" }

// AlertRuleURL is one of these rules.
func AlertRuleURL(id string) string { return AlertRulesURL() + "/" + url.PathEscape(id) }

// AlertChannelsURL is where alerts go.
func AlertChannelsURL() string { return "/alerts/channels" }

// AlertChannelURL is one channel; act is "", "test", "rotate" or "remove".
func AlertChannelURL(id, act string) string {
	u := AlertChannelsURL() + "/" + url.PathEscape(id)
	if act != "" {
		u += "/" + act
	}
	return u
}

// SilencesURL is what keeps messages of alerts back.
func SilencesURL() string { return "/alerts/silences" }

// SilenceURL is an act on a silence: end.
func SilenceURL(id, act string) string { return SilencesURL() + "/" + url.PathEscape(id) + "/" + act }

// DeliveriesURL is the log of alerts' messages; query keeps filters.
func DeliveriesURL(query string) string { return withQuery("/alerts/deliveries", query) }

// DeliveryURL is an act on a message: again.
func DeliveryURL(id, act string) string {
	return DeliveriesURL("") + "/" + url.PathEscape(id) + "/" + act
}

// SessionsURL lists the operator's own sessions.
func SessionsURL() string { return "/settings/sessions" }

// SignOutURL ends the session (POST).
func SignOutURL() string { return "/signout" }

// ViewAsURL is a tenant's own page, read-only for an operator.
func ViewAsURL(id string) string { return TenantURL(id, "view-as") }

// MemberURL is an act on a tenant's member or invitation: remove or uninvite.
func MemberURL(tenant, id, act string) string {
	return TenantURL(tenant, "members") + "/" + url.PathEscape(id) + "/" + act
}

// AsksURL is what tenants ask for.
func AsksURL() string { return "/asks" }

// AskURL is an act on an ask: grant or refuse.
func AskURL(id, act string) string { return AsksURL() + "/" + url.PathEscape(id) + "/" + act }

// PortalRulesURL says what tenants may do by themselves.
func PortalRulesURL() string { return "/settings/portal" }

// HazardsURL is the part of the overview that shows what endangers the limits.
func HazardsURL() string { return OverviewURL() + "#hazards" }

// OverviewLiveURL is the part of the overview that moves.
func OverviewLiveURL() string { return "/live/overview" }

// GatewaysLiveURL is the part of the list of replicas that moves; query keeps
// the page's filters.
func GatewaysLiveURL(query string) string { return withQuery("/live/gateways", query) }

// TenantLiveURL is the part of a tenant's usage tab that moves.
func TenantLiveURL(id, query string) string {
	return withQuery("/live/tenants/"+url.PathEscape(id), query)
}

// RotationLiveURL is the part of a rotation's page that moves.
func RotationLiveURL(id string) string { return "/live/rotations/" + url.PathEscape(id) }

func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// UsageURL is what was used, by the ledger; query keeps the question.
func UsageURL(query string) string { return withQuery("/usage", query) }

// UsageStandingURL is how well the ledger knows what it should.
func UsageStandingURL() string { return "/usage/standing" }

// UsagePeriodsURL is billing periods and adjustments.
func UsagePeriodsURL() string { return "/usage/periods" }

// UsagePeriodURL is one closed billing period.
func UsagePeriodURL(id string) string { return "/usage/periods/" + url.PathEscape(id) }

// UsageHeldURL is an act on what the ledger did not take: release or discard (POST).
func UsageHeldURL(id, act string) string {
	return "/usage/held/" + url.PathEscape(id) + "/" + url.PathEscape(act)
}

// ReconcileURL compares counters in Redis with the ledger; query keeps filters.
func ReconcileURL(query string) string { return withQuery("/usage/reconciliation", query) }

// UsageFileURL is usage as a file (csv or jsonl); query keeps the question.
func UsageFileURL(format, query string) string { return withQuery("/usage."+format, query) }
