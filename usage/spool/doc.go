// Package spool keeps on a replica's disk what it admitted, until the ledger has it:
// an intent before a request is forwarded, its outcome before the first byte of the
// answer, and the batches that were cut from them. A process that is killed loses
// nothing of it; a power cut loses the last second at most.
//
// It must not import the wire, the gateway or the console.
package spool
