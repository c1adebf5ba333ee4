package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/limiter"
)

// recovery is how long clients wait for a store to come back after a fault.
const recovery = time.Minute

// hammering is a run of many clients that draw from few keys.
type hammering struct {
	t       *testing.T
	clock   func() int64 // ns since the start
	faulty  bool         // calls may fail
	left    atomic.Int64 // calls until half of them are made
	halfway chan struct{}
}

// hammer has the clients make so many calls on each key, with a fault halfway if
// there is one, and returns the history of each key.
func hammer(t *testing.T, keys []drawn, stores []limiter.Store, calls int, fault func(testing.TB)) [][]porcupine.Operation {
	t.Helper()
	begin := time.Now()
	h := &hammering{t: t, clock: func() int64 { return int64(time.Since(begin)) }, faulty: fault != nil, halfway: make(chan struct{})}
	h.left.Store(int64(len(keys) * calls / 2))
	each := make([][][]porcupine.Operation, len(keys))
	var wg sync.WaitGroup
	for i := range keys {
		each[i] = make([][]porcupine.Operation, len(stores))
		for client, store := range stores {
			wg.Go(func() {
				each[i][client] = h.client(client, keys[i], store, (calls+len(stores)-1)/len(stores))
			})
		}
	}
	lost := porcupine.Operation{Input: asked{fault: true}, Output: told{}}
	if fault != nil {
		<-h.halfway
		lost.Call = h.clock()
		fault(t)
		lost.Return = h.clock()
	}
	wg.Wait()
	histories := make([][]porcupine.Operation, len(keys))
	for i := range keys {
		if fault != nil {
			histories[i] = append(histories[i], lost)
		}
		for _, ops := range each[i] {
			histories[i] = append(histories[i], h.unending(ops)...)
		}
	}
	return histories
}

// unending lets calls that failed last until the end: nobody knows when a server
// gets to what it was sent.
func (h *hammering) unending(ops []porcupine.Operation) []porcupine.Operation {
	end := h.clock()
	for i := range ops {
		if out, ok := ops[i].Output.(told); ok && out.failed {
			ops[i].Return = end
		}
	}
	return ops
}

// client makes calls one after the other.
func (h *hammering) client(client int, key drawn, store limiter.Store, calls int) (ops []porcupine.Operation) {
	random := rand.New(rand.NewPCG(uint64(client), 1)) //nolint:gosec // a test's choice
	for range calls {
		in := asked{cost: 1 + random.Int64N(5), extra: max(0, random.Int64N(8)-5)}
		op, err := key.draw(store, in, h.clock)
		if h.left.Add(-1) == 0 {
			close(h.halfway)
		}
		if errors.Is(err, limiter.ErrCharges) || err != nil && !h.faulty {
			h.t.Errorf("client %d: %v", client, err)
			continue
		}
		op.ClientId = client
		ops = append(ops, op)
		if err != nil && !recovered(store) {
			h.t.Errorf("client %d: the store did not come back within %v: %v", client, recovery, err)
			break
		}
		<-time.After(time.Duration(random.Int64N(200)) * time.Microsecond) // so that tokens come in
	}
	return ops
}

// recovered waits until the store can serve again, so that few calls fail.
func recovered(store limiter.Store) bool {
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	for store.Ping(ctx) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}
