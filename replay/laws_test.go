package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/replay"
)

// sampled is what of a whole log is left when a share of the subjects is logged: theirs
// entirely, of the others the refusals.
func sampled(t *testing.T, log memoryLog, share uint32) memoryLog {
	t.Helper()
	out := memoryLog{}
	for _, b := range log {
		whole, err := decisionlog.Decode(b.Body)
		if err != nil {
			t.Fatal(err)
		}
		whole.Sample = share
		whole.Entries = slices.DeleteFunc(whole.Entries, func(e decisionlog.Entry) bool {
			return e.Kind == decisionlog.KindDecision && e.Allowed && decisionlog.Bucket(e.Subject()) >= share
		})
		out = append(out, *whole)
	}
	return out
}

func TestCompare_I09_ASampledLogDiffersInNothingOfWhatItJudges(t *testing.T) {
	t.Parallel()
	entries, skipped, refused := int64(0), int64(0), int64(0)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := documentOf(t, randomPolicy(rng, true))
		now := start
		clock := func() time.Time { return time.UnixMicro(now) }
		g := newReal(t, d, memstore.New(clock), clock, randomTenants(rng))
		drive(t, rng, g, &now, 300, true)
		got, err := replay.Engine{}.Compare(t.Context(), d, d, sampled(t, g.logged(t), decisionlog.Whole/2), g.world.find, nil)
		if err != nil || got.Differs != 0 || got.Refused.Requests != 0 || got.Admitted.Requests != 0 || got.Sample != decisionlog.Whole/2 {
			t.Errorf("seed %d: %v, %+v", seed, err, got)
		}
		entries, skipped, refused = entries+got.Entries, skipped+got.Skipped, refused+got.Both.Refused
	}
	if entries < 1000 || skipped < 500 || refused < 250 {
		t.Errorf("%d replayed, %d of them refused, %d skipped: too few of one", entries, refused, skipped)
	}
}

// one is a policy with a single limit.
func one(tokens, burst int) string {
	return fmt.Sprintf(`
apiVersion: headgate/v1
plans: {free: {}}
routes:
  - name: a
    match: ["/"]
    identity: api_key
    motive: fairness
    limits: [{name: only, per: tenant, rate: %d/minute, burst: %d}]
    on_store_failure: {mode: closed}
`, tokens, burst)
}

// oneLog is what a gateway decides of requests that come in bursts.
func oneLog(t *testing.T, rng *rand.Rand, d *policy.Document) (memoryLog, replay.Tenants) {
	t.Helper()
	now := start
	clock := func() time.Time { return time.UnixMicro(now) }
	tenants := map[string]policy.TenantRecord{}
	for _, id := range []string{"ten_a", "ten_b"} {
		tenants[id] = policy.TenantRecord{ID: id, Plan: "free", State: policy.TenantActive}
	}
	g := newReal(t, d, memstore.New(clock), clock, tenants)
	for range 300 {
		now += 1 + rng.Int64N(600_000)
		if rng.IntN(20) == 0 {
			now += rng.Int64N(60_000_000)
		}
		in := randomRequest(rng)
		in.Tenant, in.RouteName, in.EscapedPath, in.Hits, in.Cost = []string{"ten_a", "ten_b"}[rng.IntN(2)], "", "/x", 1, 0
		g.Decide(context.Background(), &in)
	}
	return g.logged(t), g.world.find
}

// A looser limit may refuse a request that the tighter one admitted, because it has
// admitted others before; but never more of them than it admits besides.
func TestCompare_ALooserLimitAdmitsMoreThanItRefuses(t *testing.T) {
	t.Parallel()
	changes := int64(0)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		tokens, burst := 10+rng.IntN(60), 1+rng.IntN(20)
		live := documentOf(t, one(tokens, burst))
		looser := documentOf(t, one(tokens+rng.IntN(30), burst+rng.IntN(10)))
		log, tenants := oneLog(t, rng, live)
		loosened, err := replay.Engine{}.Compare(t.Context(), live, looser, log, tenants, nil)
		if err != nil || loosened.Refused.Requests > loosened.Admitted.Requests {
			t.Errorf("seed %d: %v, %+v", seed, err, loosened)
		}
		back, err := replay.Engine{}.Compare(t.Context(), looser, live, log, tenants, nil)
		if err != nil || back.Refused.Requests != loosened.Admitted.Requests || back.Admitted.Requests != loosened.Refused.Requests || back.Both != loosened.Both {
			t.Errorf("seed %d: the other way round %v, %+v, against %+v", seed, err, back, loosened)
		}
		changes += loosened.Admitted.Requests
	}
	if changes < 250 {
		t.Errorf("%d newly admitted in all: too few", changes)
	}
}

func TestCompare_WithoutItsLimitsAPolicyRefusesNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 5))
	live := documentOf(t, one(5, 5))
	free := documentOf(t, one(5, 5))
	free.Routes[0].Limits = nil
	log, tenants := oneLog(t, rng, live)
	got, err := replay.Engine{}.Compare(t.Context(), live, free, log, tenants, nil)
	if err != nil || got.Refused.Requests != 0 || got.Both.Refused != 0 || got.Admitted.Requests == 0 || got.Admitted.Requests+got.Both.Admitted != got.Entries {
		t.Errorf("%v, %+v", err, got)
	}
	sum := int64(0)
	for _, row := range got.Rows {
		if row.Limit != "route:a.only" || row.Refused || row.First > row.Last || row.Peak > row.Requests || row.PeakAt%60_000_000 != 0 {
			t.Errorf("%+v", row)
		}
		sum += row.Requests
	}
	if sum != got.Admitted.Requests {
		t.Errorf("rows add up to %d of %d", sum, got.Admitted.Requests)
	}
}
