// Package console holds the control plane's domain: tenants, credentials and
// key versions, rotations, drafts and published versions, operators, sessions,
// API tokens, the audit trail, the relay that carries committed changes to the
// gateways, and what the console knows of the fleet and of live traffic.
//
// It defines its ports: Store (implemented by db) and Feed (implemented by
// policy/feed). It must not import HTTP, SQL or Redis packages, nor any package
// of this module besides policy, policy/apikey, usage, limiter and
// limiter/memstore.
package console
