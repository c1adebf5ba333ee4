package e2e_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

// long says whether faults are tried at length (`make faults`) or briefly.
func long() bool { return os.Getenv("HEADGATE_FAULTS") == "long" }

// sized is the brief value, or the long one.
func sized[T any](brief, lengthy T) T {
	if long() {
		return lengthy
	}
	return brief
}

// unhurried is for tests that count: a busy machine is no fault of Redis', and
// must not make a gateway decide without it.
const unhurried = "--budget=3s"

// bucket is a limit: burst at once and rate a second.
type bucket struct{ burst, rate int }

// hotPolicy counts /exact and /shared by one limit each and /leased by another
// one; /shared goes on by its share of the limit.
func hotPolicy(gateways int, exact, leased bucket) string {
	return fmt.Sprintf(`
apiVersion: headgate/v1
replicas_expected: %d
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 1000000/second, burst: 1000000, sync: leased}]}
routes:
  - name: exact
    match: ["/exact"]
    identity: api_key
    motive: quota
    limits: [{name: hot, per: tenant, rate: %[3]d/second, burst: %[2]d}]
    on_store_failure: {mode: closed}
  - name: leased
    match: ["/leased"]
    identity: api_key
    motive: quota
    limits: [{name: hot, per: tenant, rate: %[5]d/second, burst: %[4]d, sync: leased}]
    on_store_failure: {mode: closed}
  - name: shared
    match: ["/shared"]
    identity: api_key
    motive: fairness
    limits: [{name: hot, per: tenant, rate: %[3]d/second, burst: %[2]d}]
    on_store_failure: {mode: open, fallback: share}
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: closed}
`, gateways, exact.burst, exact.rate, leased.burst, leased.rate)
}

// twelve are the gateways that a limit is tried over.
const twelve = 12

// Liveness, in thousandths of what a limit has. What a gateway gets no time to
// spend of a slice within 40 ms goes back, and is lost when that takes longer than
// 50 ms: a machine that is busy with other things may lose much.
const exactShare = 995

func leasedShare() int { return sized(500, 900) }

// leased is what a leased limit keeps in Redis of its burst; the rest is what its
// slices may hold at the end.
func (b bucket) leased() int {
	return int(policy.Numbers{Tokens: int64(b.rate), Period: 1_000_000, Burst: int64(b.burst)}.LeasedBurst())
}

// TestGateways_I01_TwelveKeepOneHotKeyToItsLimit asks twelve processes at full
// speed for one tenant, and counts where the clients are.
func TestGateways_I01_TwelveKeepOneHotKeyToItsLimit(t *testing.T) {
	t.Parallel()
	hot, lent := sized(bucket{300, 150}, bucket{1000, 1000}), sized(bucket{1000, 300}, bucket{2000, 1000})
	f := NewFleet(t, testkit.RedisURL(t), hotPolicy(twelve, hot, lent))
	f.Start(twelve, unhurried)
	ask := func(path string, limit bucket) seen {
		c := f.Crowd(sized(2, 4), path)
		c.drained(t)
		pause(t.Context(), sized(2*time.Second, 20*time.Second))
		s := c.done(t)
		s.keepsTo(t, path, limit.burst, limit.rate, 0)
		if n := len(s.of(unavailable, unanswered)); n > 0 {
			t.Errorf("%s: %d were not decided by Redis: %v", path, n, s.counts())
		}
		return s
	}
	ask("/exact", hot).getsItsShare(t, "/exact", exactShare, hot.burst, hot.rate, 0)
	kept := lent.leased()
	ask("/leased", lent).getsItsShare(t, "/leased", leasedShare(), kept, lent.rate, lent.burst-kept)
	t.Logf("%v tokens were taken in %v slices, %v were given back; %v requests were admitted from slices alone", f.sum("headgate_slice_tokens_total"),
		f.sum("headgate_slices_total"), f.sum("headgate_slice_tokens_returned_total"), f.sum("headgate_local_admissions_total"))
	if f.sum("headgate_local_admissions_total") == 0 {
		t.Error("no slice of the leased limit was ever spent: it was counted exactly")
	}
	f.everythingExpires(t)
}

// TestGateways_I01_ARollingRestartHandsOutNoFreshBudget stops and kills gateways
// one by one under load and starts each again.
func TestGateways_I01_ARollingRestartHandsOutNoFreshBudget(t *testing.T) {
	t.Parallel()
	limit := sized(bucket{200, 100}, bucket{500, 200})
	f := NewFleet(t, testkit.RedisURL(t), hotPolicy(twelve, limit, limit))
	f.Start(twelve, unhurried)
	exactly, leased := f.Crowd(1, "/exact"), f.Crowd(1, "/leased")
	exactly.drained(t)
	leased.drained(t)
	killed := 0
	for range sized(1, 5) {
		for i, m := range f.Gateways {
			if i%2 == 0 {
				m.Term()
			} else {
				m.Kill()
				killed++
			}
			m.Restart()
		}
	}
	s := exactly.done(t)
	s.keepsTo(t, "/exact", limit.burst, limit.rate, 0)
	// A killed gateway takes along the one answer that it owed its client, and of
	// a leased limit its slices, of which it may hold a quarter of the bucket.
	s.getsItsShare(t, "/exact", exactShare, limit.burst, limit.rate, killed)
	s = leased.done(t)
	s.keepsTo(t, "/leased", limit.burst, limit.rate, 0)
	kept := limit.leased()
	s.getsItsShare(t, "/leased", leasedShare(), kept, limit.rate, killed*(1+limit.rate/20)+limit.burst-kept)
}
