// Package knee finds out how much a server can take: it offers load in steps, each
// at a constant pace that does not wait for answers, and tells where answers begin to
// take longer than before or to fail. It leaves a server alone as soon as it suffers.
//
// The load is open: a request is due at its instant, whatever became of those before,
// and its time counts from that instant. So a server that stalls cannot slow its own
// measurement down. (The load generators that Go has as libraries count from when a
// request was really sent, and cannot call back those that are under way.)
//
// It must import nothing of this module: what is asked is a function, what becomes of
// the result is its caller's.
package knee
