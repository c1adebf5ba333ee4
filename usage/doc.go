// Package usage counts what gateways decide, by second, tenant, route and
// outcome, carries the counts as batches and adds them up again for the pages
// that are marked "live, not the record". It also counts who uses which key
// version: network and program, without anything personal or secret. It is no
// ledger: batches may be lost with Redis.
//
// The package is pure: no I/O and no clock of its own. It imports no other
// package of this module and only the standard library; how a batch travels is
// policy/feed's business.
package usage
