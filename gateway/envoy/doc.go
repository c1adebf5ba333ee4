// Package envoy is the gateway's door for Envoy: its rate limit service
// (envoy.service.ratelimit.v3) and its external authorization
// (envoy.service.auth.v3) over gRPC, and grpc.health.v1.
//
// It translates and decides nothing: every answer is the gateway's one decision,
// told in the bytes that its HTTP doors would send. It must not import a store, a
// feed or anything of the console.
//
// What callers of the API can put into a request never makes an error of a call,
// because Envoy may be told to let requests pass when a call fails: values that
// cannot be used are refused by the decision. Errors are for what Envoy's own
// configuration says (domain, names of entries) and for decisions that nobody can
// make (a route that fails closed).
package envoy
