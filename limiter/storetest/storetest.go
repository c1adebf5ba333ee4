// Package storetest is the suite that every limiter.Store passes.
//
// It imports limiter and policy and nothing else of this module.
package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
)

// Clock is the virtual clock that a store under test goes by.
type Clock interface {
	Now() int64              // Unix µs
	Advance(d time.Duration) // may be negative
}

// Run runs the suite. newStore makes an empty store and the clock it goes by.
func Run(t *testing.T, newStore func(t *testing.T) (limiter.Store, Clock)) {}
