package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// How many calls each key sees in Linearizable: usually, and when
// HEADGATE_STEPS asks for long runs.
const (
	shortHistory = 700
	longHistory  = 10_000
)

// checkTime bounds the search for an order. A history that has one is through in
// a second or two.
const checkTime = 2 * time.Minute

// Linearizable is I25: clients that draw from few keys at once get answers that
// some order of their calls explains, one in which each takes effect between its
// start and its end and finds the bucket as those before it left it, at the time
// that the store says. NewStores makes the clients, twelve or so, of one state
// that goes by a real clock and that nobody else uses.
func Linearizable(t *testing.T, newStores func() []limiter.Store) {
	t.Helper()
	calls := shortHistory
	if os.Getenv(stepsVariable) != "" {
		calls = longHistory
	}
	stores := newStores()
	for _, key := range []drawn{
		{Tenant("ten_slow"), policy.Numbers{Tokens: 1000, Period: 1_000_000, Burst: 100}},
		{Tenant("ten_fast"), policy.Numbers{Tokens: 1, Period: 7, Burst: 30}},
		{limiter.Row{Kind: limiter.RowGlobal}, policy.Numbers{Tokens: 3, Period: 100, Burst: 500}},
	} {
		t.Run(key.row.Tenant+string(rune(key.row.Kind)), func(t *testing.T) {
			t.Parallel()
			history := key.hammer(t, stores, calls)
			if t.Failed() {
				return
			}
			if got := porcupine.CheckOperationsTimeout(key.model(), history, checkTime); got != porcupine.Ok {
				t.Errorf("%d calls of %d clients: no order explains the answers (%s)", len(history), len(stores), got)
			}
		})
	}
}

// drawn is a bucket that clients draw from.
type drawn struct {
	row     limiter.Row
	numbers policy.Numbers
}

// asked is the input of a call.
type asked struct{ cost, extra int64 }

// told is its output.
type told struct {
	admitted bool
	now      int64
	level    limiter.Level
}

// hammer has every client make its share of the calls and writes the history.
func (k drawn) hammer(t *testing.T, stores []limiter.Store, calls int) []porcupine.Operation {
	t.Helper()
	begin := time.Now()
	each := make([][]porcupine.Operation, len(stores))
	var wg sync.WaitGroup
	for client, store := range stores {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1)) //nolint:gosec // a test's choice
			for range (calls + len(stores) - 1) / len(stores) {
				op := porcupine.Operation{ClientId: client, Call: int64(time.Since(begin))}
				in := asked{cost: 1 + random.Int64N(5), extra: max(0, random.Int64N(8)-5)}
				charge := Draw(k.row, "l", k.numbers, in.cost)
				charge.Extra = in.extra
				out, err := store.Take(context.Background(), &limiter.Draw{Charges: []limiter.Charge{charge}})
				if err != nil {
					t.Errorf("client %d: %v", client, err)
					return
				}
				op.Input, op.Output = in, told{out.Admitted, out.NowMicros, out.Levels[0]}
				op.Return = int64(time.Since(begin))
				each[client] = append(each[client], op)
				<-time.After(time.Duration(random.Int64N(200)) * time.Microsecond) // so that tokens come in
			}
		})
	}
	wg.Wait()
	var history []porcupine.Operation
	for _, ops := range each {
		history = append(history, ops...)
	}
	return history
}

// filled is the state of a bucket: its level at a time. Before the first call it
// is full, whatever the time.
type filled struct {
	units, time int64
	drawn       bool
}

// model is the bucket as one call after the other meets it.
func (k drawn) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return filled{} },
		Step: func(state, input, output any) (bool, any) {
			return k.step(state.(filled), input.(asked), output.(told))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
}

func (k drawn) step(s filled, in asked, out told) (bool, any) {
	n := k.numbers
	if !s.drawn {
		s = filled{units: n.Burst * n.Period, time: out.now, drawn: true}
	}
	if out.now < s.time {
		return false, s
	}
	// An hour of these numbers is far from 64 bits.
	units := min(n.Burst*n.Period, s.units+(out.now-s.time)*n.Tokens)
	want := told{admitted: units >= in.cost*n.Period, now: out.now}
	if want.admitted {
		units -= in.cost * n.Period
		want.level.Extra = min(in.extra, units/n.Period)
		units -= want.level.Extra * n.Period
	} else {
		want.level.WaitMicros = (in.cost*n.Period - units + n.Tokens - 1) / n.Tokens
	}
	want.level.Units = units
	return out == want, filled{units: units, time: out.now, drawn: true}
}
