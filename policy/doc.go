// Package policy holds the policy document of a deployment and everything that
// can be said about it without asking anyone: strict parsing from YAML and
// JSON, validation that reports all problems at once, canonical bytes and
// digest, signatures, compilation into the form that a gateway enforces, the
// numbers in force beside a tenant's overrides, the periods of quotas, the
// semantic difference of two documents with its effects and risks, what of it may
// be a slip, and the merge of two people's changes. It also holds the records of keys and
// tenants (the directory) and of replicas (heartbeats), because both planes
// speak of them.
//
// The package is pure: no I/O but the time zones that time.LoadLocation finds
// (programs embed time/tzdata), no clock, no randomness. It imports no other
// package of this module and, besides the standard library, only a YAML parser.
package policy
