package storetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
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

// callTime bounds a call, which a server that hangs would not end.
const callTime = 20 * time.Second

// Linearizable is I25: clients that draw from few keys at once get answers that
// some order of their calls explains, one in which each takes effect between its
// start and its end and finds the bucket as those before it left it, at the time
// that the store says. NewStores makes the clients, twelve or so, of one state
// that goes by a real clock and that nobody else uses.
func Linearizable(t *testing.T, newStores func() []limiter.Store) {
	t.Helper()
	linearizable(t, newStores(), nil)
}

// LinearizableAcross is I25 with a fault in the midst of the calls, such as a
// failover, which fault brings about and waits for. It may make a call fail,
// which has then been charged once or not at all, however late; and it may
// once give back up to a full bucket (the loss budget I05). The rest of the answers
// has to be in order.
func LinearizableAcross(t *testing.T, newStores func() []limiter.Store, fault func(t testing.TB)) {
	t.Helper()
	linearizable(t, newStores(), fault)
}

func linearizable(t *testing.T, stores []limiter.Store, fault func(t testing.TB)) {
	t.Helper()
	calls := shortHistory
	if os.Getenv(stepsVariable) != "" {
		calls = longHistory
	}
	keys := []drawn{
		{Tenant("ten_slow"), policy.Numbers{Tokens: 1000, Period: 1_000_000, Burst: 100}},
		{Tenant("ten_fast"), policy.Numbers{Tokens: 1, Period: 7, Burst: 30}},
		{limiter.Row{Kind: limiter.RowGlobal}, policy.Numbers{Tokens: 3, Period: 100, Burst: 500}},
	}
	for i, history := range hammer(t, keys, stores, calls, fault) {
		got := porcupine.CheckOperationsTimeout(keys[i].model(), history, checkTime)
		if got != porcupine.Ok {
			t.Errorf("%+v: %d calls of %d clients: no order explains the answers (%s); by the store's time:\n%s",
				keys[i], len(history), len(stores), got, keys[i].astray(history))
		}
	}
}

// drawn is a bucket that clients draw from.
type drawn struct {
	row     limiter.Row
	numbers policy.Numbers
}

// asked is the input of a call; or a fault that may give back a full bucket.
type asked struct {
	cost, extra int64
	fault       bool
}

// told is its output.
type told struct {
	failed   bool // charged or not
	admitted bool
	now      int64
	level    limiter.Level
}

// filled is the state of a bucket: between which levels it was at a time, -1 for
// one that is not known, and what calls that failed may have taken since. When they
// did is not known either: the bucket may have been full before.
type filled struct{ least, most, time, owed int64 }

// model is the bucket as one call after the other meets it.
func (k drawn) model() porcupine.Model {
	full := k.numbers.Burst * k.numbers.Period
	return porcupine.Model{
		Init: func() any { return filled{full, full, -1, 0} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(filled), input.(asked), output.(told)
			switch {
			case in.fault:
				return true, filled{s.least, full, s.time, s.owed}
			case out.failed:
				return true, filled{s.least, s.most, s.time, s.owed + (in.cost+in.extra)*k.numbers.Period}
			}
			return k.step(s, in, out)
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
}

// step checks an answer: the level that it tells has to be one that the bucket
// can have had, and everything else follows from it.
func (k drawn) step(s filled, in asked, out told) (bool, any) {
	n, elapsed := k.numbers, int64(0)
	if s.time >= 0 {
		elapsed = out.now - s.time
	}
	before := out.level.Units
	if out.admitted {
		before += (in.cost + out.level.Extra) * n.Period
	}
	// An hour of these numbers is far from 64 bits.
	full, gain := n.Burst*n.Period, elapsed*n.Tokens
	if elapsed < 0 || before < min(full, s.least+gain)-s.owed || before > min(full, s.most+gain) {
		return false, s
	}
	want := told{admitted: before >= in.cost*n.Period, now: out.now, level: limiter.Level{Units: before}}
	if want.admitted {
		want.level.Units -= in.cost * n.Period
		want.level.Extra = min(in.extra, want.level.Units/n.Period)
		want.level.Units -= want.level.Extra * n.Period
	} else {
		want.level.WaitMicros = (in.cost*n.Period - before + n.Tokens - 1) / n.Tokens
	}
	return out == want, filled{out.level.Units, out.level.Units, out.now, 0}
}

// shownAround is how many calls astray shows to each side.
const shownAround = 8

// astray tells the first answer that does not follow from the one before it by
// the store's time, with its neighbours, and what may explain it.
func (k drawn) astray(history []porcupine.Operation) string {
	var answers, rest []porcupine.Operation
	for _, op := range history {
		if out, ok := op.Output.(told); ok && !out.failed && out.now != 0 {
			answers = append(answers, op)
		} else {
			rest = append(rest, op)
		}
	}
	slices.SortStableFunc(answers, func(a, b porcupine.Operation) int {
		return cmp.Compare(a.Output.(told).now, b.Output.(told).now) //nolint:forcetypeassert // seen above
	})
	var text strings.Builder
	line := func(op porcupine.Operation) {
		fmt.Fprintf(&text, "client %2d [%d, %d] %+v → %+v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
	}
	for _, op := range rest {
		line(op)
	}
	var state any = k.model().Init()
	for i, op := range answers {
		ok, next := k.model().Step(state, op.Input, op.Output)
		if !ok {
			fmt.Fprintf(&text, "answer %d of %d does not follow from %+v\n", i, len(answers), state)
			for _, near := range answers[max(0, i-shownAround):min(len(answers), i+shownAround)] {
				line(near)
			}
			out := op.Output.(told) //nolint:forcetypeassert // seen above
			next = filled{out.level.Units, out.level.Units, out.now, 0}
		}
		state = next
	}
	return text.String()
}

// draw makes a call and times it.
func (k drawn) draw(store limiter.Store, in asked, clock func() int64) (porcupine.Operation, error) {
	charge := Draw(k.row, "l", k.numbers, in.cost)
	charge.Extra = in.extra
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	op := porcupine.Operation{Input: in, Output: told{failed: true}, Call: clock()}
	out, err := store.Take(ctx, &limiter.Draw{Charges: []limiter.Charge{charge}})
	op.Return = clock()
	if err == nil {
		op.Output = told{admitted: out.Admitted, now: out.NowMicros, level: out.Levels[0]}
	}
	return op, err
}
