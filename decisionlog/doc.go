// Package decisionlog is the log of decisions that gateways keep for simulation:
// what an entry holds, how a batch of them travels, which subjects are sampled,
// and what a comparison of two policies on a log says.
//
// It imports policy and compression, nothing else: recording is the gateway's,
// transport is policy/feed's, storage is db's, replaying is package replay's.
package decisionlog
