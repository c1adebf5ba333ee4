// Package ledger is what a bill rests on, as it travels: how much each tenant used,
// by second, key version and route. A replica cuts it from its spool, the wire carries
// it, and the console takes each event once.
//
// It is pure: it must import neither files nor the wire nor the console.
package ledger
