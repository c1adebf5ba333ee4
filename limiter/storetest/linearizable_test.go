package storetest

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/limiter"
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
	yes := func(now, units int64) told { return told{true, now, limiter.Level{Units: units}} }
	no := func(now, units, wait int64) told {
		return told{false, now, limiter.Level{Units: units, WaitMicros: wait}}
	}
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
	} {
		if got := porcupine.CheckOperations(k.model(), c.history); got != c.want {
			t.Errorf("%s: linearizable %t, want %t", name, got, c.want)
		}
	}
}
