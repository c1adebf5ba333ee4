// Package portal serves the tenant's own pages under /t: sign-in by password,
// invitation or one-time link with a cookie and session rows of their own, and
// what members may see and do. Operators look at the same pages read-only under
// an address of the console.
//
// The tenant comes from the session alone, never from an address or a form, and
// what is not the tenant's is absent: the answer to another tenant's id is the
// one to an id that never was.
//
// It imports console, policy, policy/graphql, usage, views/portal, views/ui,
// internal/form, internal/csvout and web/session; it must not import web, db,
// gateway or anything that speaks SQL or Redis.
package portal
