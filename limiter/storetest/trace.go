package storetest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// DefaultSteps is the length of the random traces of one store together.
const DefaultSteps = 12_000

// stepsVariable names the environment variable that asks for longer traces.
const stepsVariable = "HEADGATE_STEPS"

// Spans in µs that bound steps of the clock, so that a trace stays within the
// times that can be counted.
const (
	day  = 86_400_000_000
	year = 365 * day
)

func traceParts() []part {
	return []part{
		{"I23_AgreesWithTheModelOnRandomTraces", agreesWithModel},
		{"I22_ShadowsTellWhatEnforcingWouldHaveDone", shadowsTell},
		{"I22_ShadowsAreSpentTogetherOrNotAtAll", shadowsTogether},
	}
}

// steps is the length of the random traces together.
func (w World) steps(t testing.TB) int {
	t.Helper()
	if w.Steps > 0 {
		return w.Steps
	}
	text := os.Getenv(stepsVariable)
	if text == "" {
		return DefaultSteps
	}
	steps, err := strconv.Atoi(text)
	if err != nil || steps < 1 {
		t.Fatalf("%s=%q: want a number of steps, 1 or more", stepsVariable, text)
	}
	return steps
}

// traces is how many traces rapid makes: 100, or what its flag says.
func traces() int {
	if f := flag.Lookup("rapid.checks"); f != nil {
		if n, err := strconv.Atoi(f.Value.String()); err == nil && n > 0 {
			return n
		}
	}
	return 100
}

// trace is a random run of a store beside the model.
type trace struct {
	World
	t       *testing.T
	rt      *rapid.T
	model   *Model
	numbers []policy.Numbers // what limits change between
	calm    bool             // no jumps of more than a day
	plain   bool             // mostly draws of one limit
	wait    int64            // µs that the last refusal told
	amended []amended        // that may be repeated
	lane    []limiter.Row    // the rows to choose from, where there are lanes
}

// amended is a call of Amend that had an id.
type amended struct {
	id          string
	at          int64 // when it was applied
	corrections []limiter.Amendment
}

// agreesWithModel: on random traces of all calls, with changing numbers, a clock
// that goes forward and back, and flushes, every answer is the model's.
func agreesWithModel(t *testing.T, w World) {
	length := max(1, w.steps(t)/traces())
	rapid.Check(t, func(rt *rapid.T) {
		if err := w.trace(t, rt, length); err != nil {
			rt.Fatal(err)
		}
	})
}

// trace makes one random trace and tells where it left the model's.
func (w World) trace(t *testing.T, rt *rapid.T, length int) error {
	defer rewind(w.Clock)()
	tr := &trace{World: w, t: t, rt: rt, model: NewModel(), calm: rapid.Bool().Draw(rt, "calm"), plain: rapid.IntRange(0, 2).Draw(rt, "plain") == 0}
	tr.numbers = rapid.SliceOfN(rapid.Custom(anyNumbers), 1, 4).Draw(rt, "numbers")
	tr.flush()
	if rapid.IntRange(0, 3).Draw(rt, "marked") > 0 {
		tr.mark()
	}
	for i := range length {
		if err := tr.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// rewind remembers the clock's time and returns what sets it back to it.
func rewind(clock Clock) func() {
	start := clock.Now()
	return func() { clock.Advance(time.Duration(start-clock.Now()) * time.Microsecond) }
}

func (tr *trace) flush() {
	tr.Flush(tr.t)
	tr.model.Flush()
}

func (tr *trace) mark() {
	tr.Mark(tr.t)
	tr.model.Mark()
}

// step lets some time go by, makes a call and compares.
func (tr *trace) step() error {
	tr.Clock.Advance(time.Duration(tr.move()) * time.Microsecond)
	tr.choose()
	switch op := rapid.IntRange(0, 99).Draw(tr.rt, "call"); {
	case op < 58:
		return tr.take()
	case op < 60: // more often than flushes: what is lost refuses most of what a trace could find
		tr.mark()
		return nil
	case op < 75:
		return tr.amend()
	case op < 87:
		return tr.renew()
	case op < 99:
		leases := tr.leases()
		tr.model.Release(leases)
		return tr.Store.Release(context.Background(), leases)
	}
	tr.flush()
	return nil
}

// move draws how the clock goes on, in µs: not at all, by a little, by exactly
// what the last refusal said or a µs less, by much, or back.
func (tr *trace) move() int64 {
	far := int64(year)
	if tr.calm || tr.Clock.Now() > start().UnixMicro()+100*year {
		far = day
	}
	by := rapid.Int64Range(0, 2_000_000).Draw(tr.rt, "by")
	switch rapid.IntRange(0, 11).Draw(tr.rt, "move") {
	case 0, 1, 2, 3:
		return 0
	case 4, 5:
		return min(tr.wait, far)
	case 6:
		return max(0, min(tr.wait, far)-1)
	case 7:
		return -by
	case 8:
		return min(by*5_000_000, far) // up to 115 days
	}
	return by
}

// take decides a request, or several in one call.
func (tr *trace) take() error {
	if tr.Together != nil && rapid.IntRange(0, 3).Draw(tr.rt, "together") == 0 {
		return tr.takeTogether()
	}
	d := tr.draw()
	got, err := tr.Store.Take(context.Background(), d)
	if err != nil {
		return err
	}
	return tr.compare(d, got, 0)
}

func (tr *trace) takeTogether() error {
	draws := make([]*limiter.Draw, rapid.IntRange(1, 8).Draw(tr.rt, "draws"))
	for i := range draws {
		draws[i] = tr.draw()
	}
	got, errs := tr.Together(context.Background(), draws)
	for i, d := range draws {
		if errs[i] != nil {
			return errs[i]
		}
		if err := tr.compare(d, got[i], int32(i)); err != nil {
			return fmt.Errorf("draw %d of %d together: %w", i, len(draws), err)
		}
	}
	return nil
}

// compare wants the model's answer, and the draw's place in its call.
func (tr *trace) compare(d *limiter.Draw, got limiter.Outcome, order int32) error {
	want := tr.model.Decide(tr.Clock.Now(), d)
	want.Order = order
	tr.wait = largestWait(want)
	return differs(*d, got, want)
}

// amend makes corrections, or repeats some.
func (tr *trace) amend() error {
	now := tr.Clock.Now()
	a := amended{at: now}
	if n := len(tr.amended); n > 0 && rapid.IntRange(0, 2).Draw(tr.rt, "repeat") == 0 {
		a = tr.amended[rapid.IntRange(max(0, n-3), n-1).Draw(tr.rt, "which")]
		if age := now - a.at; age >= int64(time.Hour/time.Microsecond) {
			return nil // nobody says whether its id is still known
		}
	} else {
		a.corrections = tr.amendments()
		if rapid.Bool().Draw(tr.rt, "with an id") {
			a.id = fmt.Sprintf("correction %d", n)
			tr.amended = append(tr.amended, a)
		}
	}
	tr.model.Amend(now, a.id, a.corrections)
	return tr.Store.Amend(context.Background(), a.id, a.corrections)
}

func (tr *trace) renew() error {
	leases := tr.leases()
	got, err := tr.Store.Renew(context.Background(), leases)
	if err != nil {
		return err
	}
	return differs(leases, got, tr.model.Renew(tr.Clock.Now(), leases))
}

// differs tells what was asked when the answers are not the same.
func differs(asked, got, want any) error {
	if fmt.Sprint(got) == fmt.Sprint(want) {
		return nil
	}
	return fmt.Errorf("%+v\ngot  %+v\nwant %+v", asked, got, want)
}

func largestWait(out limiter.Outcome) int64 {
	wait := int64(0)
	for _, level := range out.Levels {
		wait = max(wait, level.WaitMicros)
	}
	return wait
}
