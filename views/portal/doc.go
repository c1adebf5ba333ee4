// Package portal holds the tenant's own pages as templ components: what members
// see under /t, and what operators see who look at them read-only. No page holds
// anything of another tenant, of gateways or of Redis.
//
// It imports, of this module, only views/ui and internal/form; it must not import
// console or anything that has rows.
package portal
