// Package receipt is the short signed token that a refusal carries: which limit
// refused, when, under which version of the policy and with which numbers. Whoever has
// the replica's public key can recompute it. It holds no secret.
//
// It is pure: it must import neither the gateway nor the console.
package receipt
