// Package child runs child processes that do not outlive their parent: each in
// its own process group, with a signal from the kernel when the parent dies
// (Linux), its output in a file, and its end as a channel.
//
// It is for the demo, the private servers and the tests. It imports nothing of
// this module, and neither plane may import it: os/exec stays out of them.
package child
