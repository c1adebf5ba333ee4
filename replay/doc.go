// Package replay runs policies through the gateway's own code on a virtual
// clock: the tests of a suite, small changes of a document that some test should
// notice, and the decision log under two documents side by side.
//
// What it says of a policy is what a gateway would do, because the same code
// decides; only the clock and the store are its own. Leased limits count exactly
// here, and nothing is remembered in a deny cache.
//
// It imports the data plane and the formats of suites and logs. It must not import
// the console, which sees it through a port, nor anything that talks to a server.
package replay
