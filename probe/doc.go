// Package probe asks the gateway's own engine what it would answer now, without
// charging anybody: for the console, which explains refusals by it.
//
// It must import neither the console nor a database.
package probe
