package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

// TestLinearizable_I25_FindsWhatNoOrderExplains: the checker is worth something
// only if it refuses histories that are wrong.
func TestLinearizable_I25_FindsWhatNoOrderExplains(t *testing.T) {
	t.Parallel()
	k := drawn{Tenant("ten_a"), policy.Numbers{Tokens: 1, Period: 10, Burst: 2}}
	call := func(from, to int64, out told) porcupine.Operation {
		return porcupine.Operation{Call: from, Return: to, Input: asked{cost: 1}, Output: out}
	}
	yes := func(now, units int64) told {
		return told{admitted: true, now: now, level: limiter.Level{Units: units}}
	}
	no := func(now, units, wait int64) told {
		return told{now: now, level: limiter.Level{Units: units, WaitMicros: wait}}
	}
	failed := call(3, 99, told{failed: true})
	fault := porcupine.Operation{Call: 5, Return: 6, Input: asked{fault: true}, Output: told{}}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"one after the other":         {[]porcupine.Operation{call(1, 2, yes(100, 10)), call(3, 4, yes(100, 0)), call(5, 6, no(104, 4, 6))}, true},
		"at once, in either order":    {[]porcupine.Operation{call(1, 9, yes(100, 0)), call(1, 9, yes(100, 10)), call(1, 9, no(100, 0, 10))}, true},
		"both got the last token":     {[]porcupine.Operation{call(1, 9, yes(100, 10)), call(1, 9, yes(100, 0)), call(1, 9, yes(100, 0))}, false},
		"refused too early":           {[]porcupine.Operation{call(1, 2, yes(100, 10)), call(3, 4, no(100, 10, 0)), call(5, 6, yes(100, 0))}, false},
		"the second before the first": {[]porcupine.Operation{call(1, 2, yes(100, 0)), call(3, 4, yes(100, 10))}, false},
		"a time that goes back":       {[]porcupine.Operation{call(1, 2, yes(100, 10)), call(3, 4, yes(90, 0))}, false},
		"a lost update":               {[]porcupine.Operation{call(1, 9, yes(100, 10)), call(1, 9, yes(100, 10))}, false},
		"a wait that is not exact":    {[]porcupine.Operation{call(1, 2, yes(100, 10)), call(3, 4, yes(100, 0)), call(5, 6, no(104, 4, 7))}, false},
		"a failed call was charged":   {[]porcupine.Operation{call(1, 2, yes(100, 10)), failed, call(5, 6, no(100, 0, 10))}, true},
		"a failed call was not":       {[]porcupine.Operation{call(1, 2, yes(100, 10)), failed, call(5, 6, yes(100, 0))}, true},
		"it was charged late":         {[]porcupine.Operation{call(1, 2, yes(100, 10)), failed, call(5, 6, yes(104, 4)), call(7, 8, no(105, -5, 15))}, true},
		"it was charged when full":    {[]porcupine.Operation{call(1, 2, yes(100, 10)), failed, call(5, 6, yes(120, 1))}, true},
		"it was charged twice":        {[]porcupine.Operation{call(1, 2, yes(100, 10)), failed, call(5, 6, no(120, 5, 5))}, false},
		"a failed call gave tokens":   {[]porcupine.Operation{call(1, 2, yes(100, 10)), failed, call(5, 6, yes(100, 10))}, false},
		"a fault gave a bucket back":  {[]porcupine.Operation{call(1, 2, yes(100, 10)), call(3, 4, yes(100, 0)), fault, call(7, 8, yes(100, 10)), call(9, 10, yes(100, 0))}, true},
		"a fault gave two back":       {[]porcupine.Operation{call(1, 2, yes(100, 10)), call(3, 4, yes(100, 0)), fault, call(7, 8, yes(100, 10)), call(9, 10, yes(100, 10))}, false},
		"given back before the fault": {[]porcupine.Operation{call(1, 2, yes(100, 0)), call(3, 4, yes(100, 10)), fault}, false},
	} {
		if got := porcupine.CheckOperations(k.model(), c.history); got != c.want {
			t.Errorf("%s: linearizable %t, want %t", name, got, c.want)
		}
	}
}

// TestLinearizable_I25_ComesThroughAFault: a server that is gone for a while and
// comes back empty, and whose calls fail before or after they took effect.
func TestLinearizable_I25_ComesThroughAFault(t *testing.T) {
	t.Parallel()
	store := memstore.New(time.Now)
	var down atomic.Bool
	LinearizableAcross(t, func() []limiter.Store {
		clients := make([]limiter.Store, 12)
		for i := range clients {
			clients[i] = failing{store, &down, i%2 == 0}
		}
		return clients
	}, func(testing.TB) {
		down.Store(true)
		store.Flush()
		<-time.After(50 * time.Millisecond)
		down.Store(false)
	})
}

// failing is a client whose calls fail while the server is down.
type failing struct {
	limiter.Store
	down  *atomic.Bool
	after bool // the call takes effect all the same
}

func (f failing) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if !f.down.Load() {
		return f.Store.Take(ctx, d)
	}
	if f.after {
		if _, err := f.Store.Take(ctx, d); err != nil {
			return limiter.Outcome{}, err
		}
	}
	return limiter.Outcome{}, limiter.ErrStore
}

func (f failing) Ping(ctx context.Context) error {
	if f.down.Load() {
		return limiter.ErrStore
	}
	return f.Store.Ping(ctx)
}
