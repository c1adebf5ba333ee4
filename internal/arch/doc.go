// Package arch holds the arrows between the packages: a test that knows which
// package may import which, and why not the others. It has no code of its own
// and nothing imports it.
package arch
