package console_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// guard looks once, and returns the state of the canary.
func (tr *trial) guard(t *testing.T, version int64) console.Rollout {
	t.Helper()
	if err := tr.rollouts.Guard(tr.ctx); err != nil {
		t.Fatal(err)
	}
	r, err := tr.rollouts.Get(tr.ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// alive has all replicas report now.
func (tr *trial) alive() {
	tr.each(fleetIDs, func(h *policy.Heartbeat) { h.At = tr.env.feed.now })
}

// pass lets time go by, on Redis' clock and on the consoles'.
func (tr *trial) pass(d time.Duration) {
	tr.clock.add(d)
	tr.env.feed.set(func() { tr.env.feed.now = tr.env.feed.now.Add(d) })
	tr.alive()
}

// inForce has replicas say that a version came into force now. Their clocks are
// off by some time.
func (tr *trial) inForce(v console.Version, off time.Duration, ids ...string) {
	tr.enforce(v, ids...)
	tr.each(ids, func(h *policy.Heartbeat) { h.Since, h.ClockOffsetMS = tr.env.feed.now.Add(off), off.Milliseconds() })
}

var byItself = console.CanaryPlan{Count: 1, Hold: 10 * time.Minute, Promote: true}

// TestCanary_B1_ConsolesThatWereAwayPromoteNothingUnseen holds what "held without
// harm" means: somebody has watched. All consoles were down while the version
// was on trial, and it refuses everything.
func TestCanary_B1_ConsolesThatWereAwayPromoteNothingUnseen(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, r := tr.start(t, byItself)
	tr.enforce(v, r.Replicas...)
	tr.pass(time.Hour)
	if got := tr.guard(t, v.Number); got.State != console.RolloutRunning {
		t.Fatalf("the first look ends it: %+v", got)
	}
	tr.each(fleetIDs, func(h *policy.Heartbeat) { h.Decisions += 1000 })
	tr.each(r.Replicas, func(h *policy.Heartbeat) { h.Refused += 900 })
	tr.pass(2 * time.Minute)
	if got := tr.guard(t, v.Number); got.State != console.RolloutStopped {
		t.Fatalf("what refuses 90 %% ended as %+v", got)
	}
}

// TestCanary_G04_AReplicaThatTakesItLateIsWatchedAsLong: the hold begins when
// the version is in force, by the replicas' own word and Redis' clock, and not
// when it was published.
func TestCanary_G04_AReplicaThatTakesItLateIsWatchedAsLong(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, r := tr.start(t, byItself)
	tr.guard(t, v.Number)
	tr.pass(30 * time.Minute) // Redis was away, say
	tr.inForce(v, time.Hour, r.Replicas...)
	tr.guard(t, v.Number)
	tr.pass(9 * time.Minute)
	if got := tr.guard(t, v.Number); got.State != console.RolloutRunning {
		t.Fatalf("held for 9 of 10 minutes: %+v", got)
	}
	tr.pass(2 * time.Minute)
	if got := tr.guard(t, v.Number); got.State != console.RolloutPromoted {
		t.Fatalf("held for 11 minutes: %+v", got)
	}
}

// TestCanary_C08_AnotherConsolesClockCutsNoHoldShort: a console whose clock is
// ahead by an hour takes over the guards.
func TestCanary_C08_AnotherConsolesClockCutsNoHoldShort(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, r := tr.start(t, byItself)
	tr.inForce(v, 0, r.Replicas...)
	ahead := tr.deps
	ahead.Now = func() time.Time { return tr.clock.now().Add(time.Hour) }
	tr.rollouts = console.NewRollouts(ahead, console.NewFleet(ahead))
	tr.guard(t, v.Number)
	tr.pass(2 * time.Minute)
	if got := tr.guard(t, v.Number); got.State != console.RolloutRunning {
		t.Fatalf("held for 2 of 10 minutes: %+v", got)
	}
}

// TestCanary_P03_IsNotPromotedByReplicasThatAreFurtherOn: a restored database
// knows of a canary that is long over.
func TestCanary_P03_IsNotPromotedByReplicasThatAreFurtherOn(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, _ := tr.start(t, byItself)
	later := v
	later.Number, later.Digest = v.Number+5, "sha256:of-a-version-that-was-lost"
	tr.enforce(later, fleetIDs...)
	tr.guard(t, v.Number)
	tr.pass(20 * time.Minute)
	if got := tr.guard(t, v.Number); got.State == console.RolloutPromoted {
		t.Fatalf("ended as %+v", got)
	}
}

// TestCanary_I16_NobodyIsSaidToEnforceWhatOneOnTrialDoesNot: the version in
// force is not on all gateways while a few decide by another one.
func TestCanary_I16_NobodyIsSaidToEnforceWhatOneOnTrialDoesNot(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, r := tr.start(t, console.CanaryPlan{Count: 2, Hold: time.Minute})
	tr.enforce(v, r.Replicas...)
	p, err := tr.fleet.Publication(tr.ctx, tr.base.Number)
	if err != nil || p.On != 4 || p.OnTrial != 2 || p.Of != 6 || p.Done() {
		t.Fatalf("%d and %d of %d, done %v, %v", p.On, p.OnTrial, p.Of, p.Done(), err)
	}
	// Nobody waits for them: they come back with the end of the trial.
	if c := tr.fleet.WaitVersion(tr.ctx, tr.base.Number, time.Minute); c.Done() || c.On != 4 || c.After > 30*time.Second {
		t.Errorf("convergence %+v", c)
	}
	after, err := tr.rollouts.Stop(tr.ctx, owner, v.Number, "enough")
	if err != nil {
		t.Fatal(err)
	}
	tr.enforce(after, fleetIDs...)
	for _, n := range []int64{tr.base.Number, after.Number} {
		if p, err := tr.fleet.Publication(tr.ctx, n); err != nil || p.On != 6 || p.OnTrial != 0 || !p.Done() {
			t.Errorf("v%d: %+v, %v", n, p, err)
		}
	}
}
