package memstore_test

import (
	"testing"

	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/limiter/storetest"
)

func newWorld(*testing.T) storetest.World {
	clock := storetest.NewManual()
	store := memstore.New(clock.Time)
	return storetest.World{Store: store, Clock: clock, Flush: func(testing.TB) { store.Flush() }, Fast: true}
}

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storetest.Conform(t, newWorld)
}
