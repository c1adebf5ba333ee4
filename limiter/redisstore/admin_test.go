package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

func adminOf(r rig) *redisstore.Admin { return redisstore.NewAdmin(r.client, options) }

func bucketOf(row limiter.Row, id string, n policy.Numbers) limiter.Ask {
	return limiter.Ask{Part: limiter.PartCharge, Row: row, Hash: storetest.Draw(row, id, n, 1).Hash, Numbers: n}
}

func inspected(t testing.TB, a *redisstore.Admin, asks ...limiter.Ask) []limiter.Held {
	t.Helper()
	held, err := a.Inspect(context.Background(), asks)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestAdmin_InspectTellsWhatADecisionReadsAndChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	take(t, r.real, storetest.Draw(tenant, "l", hourly, 30), storetest.Draw(tenant, "m", hourly, 1))
	before := r.client.Get(context.Background(), r.row()).Val()
	held := inspected(t, a, bucketOf(tenant, "l", hourly), bucketOf(tenant, "m", policy.Numbers{}), bucketOf(tenant, "absent", hourly), bucketOf(tenant, "absent", policy.Numbers{}))
	if got := held[0].Units / hourly.Period; got != 70 || !held[0].Found || held[0].Numbers != hourly || held[0].TTLMillis <= 0 {
		t.Errorf("l: %+v", held[0])
	}
	if got := held[1].Units / held[1].Numbers.Period; got != 99 || held[1].Numbers != hourly {
		t.Errorf("m under its own numbers: %+v", held[1])
	}
	if held[2].Found || held[2].Units != 100*hourly.Period || held[3].Found || held[3].Units != 0 {
		t.Errorf("absent: %+v, %+v", held[2], held[3])
	}
	half := policy.Numbers{Tokens: 1, Period: hourly.Period, Burst: 50}
	if got := inspected(t, a, bucketOf(tenant, "l", half))[0]; got.Units != 50*half.Period || got.Waits(50) != 0 || got.Waits(51) != -1 {
		t.Errorf("under half the burst: %+v", got)
	}
	if after := r.client.Get(context.Background(), r.row()).Val(); after != before {
		t.Error("looking changed the row")
	}
}

// TestAdmin_InspectAgreesWithTheNextDecision: whatever was drawn and under whatever
// numbers, the wait that is told is the one that the store tells.
func TestAdmin_InspectAgreesWithTheNextDecision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	seq := 0
	rapid.Check(t, func(rt *rapid.T) {
		seq++
		row := storetest.Tenant("ten_r" + string(rune('a'+seq%26)) + strings.Repeat("x", seq/26))
		numbers := func(name string) policy.Numbers {
			return policy.Numbers{Tokens: rapid.Int64Range(1, 3).Draw(rt, name+"n"), Period: rapid.Int64Range(1, 5).Draw(rt, name+"p") * 3_600_000_000, Burst: rapid.Int64Range(1, 90).Draw(rt, name+"b")}
		}
		first, second := numbers("first"), numbers("second")
		for range rapid.IntRange(0, 4).Draw(rt, "draws") {
			take(t, r.real, storetest.Draw(row, "l", first, rapid.Int64Range(1, first.Burst).Draw(rt, "cost")))
		}
		cost := rapid.Int64Range(1, second.Burst).Draw(rt, "asked")
		told := inspected(t, a, bucketOf(row, "l", second))[0]
		out := take(t, r.real, storetest.Draw(row, "l", second, cost))
		// Between the two it refills, under the old numbers, at up to 15 times the new rate.
		apart, between := told.Waits(cost)-out.Levels[0].WaitMicros, out.NowMicros-told.NowMicros
		if refused := out.Levels[0].WaitMicros > 0; refused != (told.Waits(cost) > 0) || apart < 0 || apart > 15*between+1 {
			rt.Fatalf("told %+v, decided %+v", told, out.Levels[0])
		}
	})
}

func TestAdmin_AdjustMovesBetweenItsBoundsAndIsOnceIfTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	ctx := context.Background()
	take(t, r.real, storetest.Draw(tenant, "l", hourly, 100), storetest.Draw(tenant, "other", hourly, 40))
	move := func(floor, ceiling int64) limiter.Adjusted {
		t.Helper()
		done, err := a.Adjust(ctx, []limiter.Adjustment{{Ask: bucketOf(tenant, "l", hourly), Floor: floor, Ceiling: ceiling}})
		if err != nil {
			t.Fatal(err)
		}
		return done[0]
	}
	if got := move(100, 100); got.Before.Units/hourly.Period != 0 || got.After.Units != 100*hourly.Period {
		t.Fatalf("filled: %+v", got)
	}
	move(100, 100)
	if out := take(t, r.real, storetest.Draw(tenant, "l", hourly, 100)); !out.Admitted {
		t.Fatal("a filled bucket refuses its burst")
	}
	if out := take(t, r.real, storetest.Draw(tenant, "l", hourly, 1)); out.Admitted {
		t.Fatal("filling twice gave two bursts")
	}
	if got := move(-policy.MaxUnits, -5); got.After.Units > -5*hourly.Period+hourly.Period || got.After.Waits(1) < 5*hourly.Period {
		t.Fatalf("drawn down: %+v", got)
	}
	if got := inspected(t, a, bucketOf(tenant, "other", hourly))[0]; got.Units/hourly.Period != 60 {
		t.Errorf("another limit of the row was touched: %+v", got)
	}
	if done, err := a.Adjust(ctx, []limiter.Adjustment{{Ask: bucketOf(tenant, "l", policy.Numbers{}), Floor: 1, Ceiling: 1}}); !errors.Is(err, limiter.ErrCharges) {
		t.Errorf("without numbers: %+v, %v", done, err)
	}
	r.everyKeyExpires(t)
}

func TestAdmin_ClearDropsOneLimitOfARow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	for _, id := range []string{"a", "b", "c"} {
		take(t, r.real, storetest.Draw(tenant, id, hourly, 10))
	}
	for i, id := range []string{"b", "c", "a"} {
		done, err := a.Clear(context.Background(), []limiter.Ask{bucketOf(tenant, id, hourly)})
		if err != nil || !done[0].Before.Found || done[0].Before.Units/hourly.Period != 90 || done[0].After.Found {
			t.Fatalf("clear %s: %+v, %v", id, done, err)
		}
		left := 0
		for _, h := range inspected(t, a, bucketOf(tenant, "a", hourly), bucketOf(tenant, "b", hourly), bucketOf(tenant, "c", hourly)) {
			if h.Found {
				left++
			}
		}
		if left != 2-i {
			t.Errorf("after clearing %s %d are left", id, left)
		}
	}
	r.everyKeyExpires(t)
}

func TestAdmin_LeasesAreToldWithTheirEndAndEndedByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	ctx := context.Background()
	slot := limiter.Slot{Row: tenant, LimitID: "c", Hash: policy.LimitHash("c"), Max: 2, HoldMicros: 60_000_000}
	for _, name := range []string{"AAAAAAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBBBBBB"} {
		slot.Lease = name
		if out, err := r.real.Take(ctx, &limiter.Draw{Slots: []limiter.Slot{slot}}); err != nil || !out.Admitted {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	ask := limiter.Ask{Part: limiter.PartSlot, Row: tenant, Hash: policy.LimitHash("c")}
	held := inspected(t, a, ask)[0]
	if held.Active != 2 || len(held.Leases) != 2 || held.Leases[0].ID[0] != 'A' || held.Leases[0].EndsMicros <= held.NowMicros || held.TTLMillis <= 0 {
		t.Fatalf("%+v", held)
	}
	done, err := a.EndLeases(ctx, ask, []string{"AAAAAAAAAAAAAAAAAAAAAAAAAA", "unknown"})
	if err != nil || done.Before.Active != 2 || done.After.Active != 1 || done.After.Leases[0].ID[0] != 'B' {
		t.Fatalf("%+v, %v", done, err)
	}
	slot.Lease = "CCCCCCCCCCCCCCCCCCCCCCCCCC"
	if out, err := r.real.Take(ctx, &limiter.Draw{Slots: []limiter.Slot{slot}}); err != nil || !out.Admitted {
		t.Errorf("the place was not free: %+v, %v", out, err)
	}
	if cleared, err := a.Clear(ctx, []limiter.Ask{ask}); err != nil || cleared[0].Before.Active != 2 || cleared[0].After.Active != 0 {
		t.Errorf("%+v, %v", cleared, err)
	}
}

func TestAdmin_AQuotaIsToldWithTheMarkOfItsLane(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	ctx := context.Background()
	q := limiter.Quota{Row: tenant, LimitID: "plan.quota", Hash: policy.LimitHash("plan.quota"), Start: 1_000_000, End: 4_000_000_000_000_000, Cost: 7, Amount: 10, Most: 10}
	if _, err := r.real.Take(ctx, &limiter.Draw{Quotas: []limiter.Quota{q}}); err != nil {
		t.Fatal(err)
	}
	ask := limiter.Ask{Part: limiter.PartQuota, Row: tenant, Hash: q.Hash, Start: q.Start, End: q.End}
	held := inspected(t, a, ask)[0]
	if !held.Found || held.Used != 7 || held.Kept {
		t.Errorf("%+v", held)
	}
	if other := inspected(t, a, limiter.Ask{Part: limiter.PartQuota, Row: tenant, Hash: q.Hash, Start: 2_000_000})[0]; other.Found || other.Used != 0 {
		t.Errorf("another period: %+v", other)
	}
}

func TestAdmin_AKeyOfAnotherTypeIsToldBroken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	ctx := context.Background()
	if err := r.client.LPush(ctx, r.row(), "x").Err(); err != nil {
		t.Fatal(err)
	}
	if held := inspected(t, a, bucketOf(tenant, "l", hourly))[0]; !held.Broken || held.TTLMillis != -1 {
		t.Errorf("%+v", held)
	}
	if done, err := a.Adjust(ctx, []limiter.Adjustment{{Ask: bucketOf(tenant, "l", hourly), Floor: 1, Ceiling: 1}}); err != nil || !done[0].Before.Broken || !done[0].After.Broken {
		t.Errorf("%+v, %v", done, err)
	}
}

// plantStrays writes one key of each kind without a TTL.
func plantStrays(t testing.TB, r rig) map[string]string {
	t.Helper()
	ctx := context.Background()
	take(t, r.real, storetest.Draw(tenant, "l", hourly, 30))
	lease := limiter.Lease{Row: tenant, Hash: policy.LimitHash("c"), Max: 2, ID: "AAAAAAAAAAAAAAAAAAAAAAAAAA", HoldMicros: 60_000_000}
	if _, err := r.real.Renew(ctx, []limiter.Lease{lease}); err != nil {
		t.Fatal(err)
	}
	quota := r.real.QuotaKey(tenant, 1, time.Now().UnixMicro())
	planted := map[string]string{"row": r.row(), "leases": r.real.SlotKey(lease), "counter": quota, "nonsense": "hg:l:{3}:t:ten_z", "list": "hg:l:{4}:t:ten_y", "unknown": "hg:l:{5}:w:x", "mark": "hg:l:{6}:k"}
	for _, key := range []string{planted["row"], planted["leases"]} {
		if err := r.client.Persist(ctx, key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{quota: "42", planted["nonsense"]: "999", planted["unknown"]: "1", planted["mark"]: "epoch", "hg:{policy}:head": "x"} {
		if err := r.client.Set(ctx, key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.client.LPush(ctx, planted["list"], "x").Err(); err != nil {
		t.Fatal(err)
	}
	return planted
}

func TestAdmin_R032_KeysWithoutATTLAreFoundAndRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	ctx := context.Background()
	planted := plantStrays(t, r)
	var place limiter.ScanPlace
	var found []limiter.Stray
	for whole := false; !whole; {
		var some []limiter.Stray
		var err error
		if some, whole, err = a.Strays(ctx, &place, 1); err != nil {
			t.Fatal(err)
		}
		found = append(found, some...)
	}
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = found[i].Key
	}
	if len(keys) != len(planted) {
		t.Fatalf("found %q, planted %q", keys, planted)
	}
	if n, err := a.Repair(ctx, append(keys, "hg:l:{1}:t:gone")); err != nil || n != len(planted) {
		t.Fatalf("repaired %d, %v", n, err)
	}
	for what, key := range planted {
		if ttl := r.client.PTTL(ctx, key).Val(); ttl == -1 {
			t.Errorf("%s has no TTL still", what)
		}
	}
	if got := r.client.PTTL(ctx, planted["counter"]).Val(); got < 366*24*time.Hour || got > 368*24*time.Hour {
		t.Errorf("a counter whose period is not known lasts %v", got)
	}
	if got := r.client.PTTL(ctx, planted["mark"]).Val(); got < 59*24*time.Hour {
		t.Errorf("a lane's mark lasts %v", got)
	}
	if held := inspected(t, a, bucketOf(tenant, "l", hourly))[0]; held.Units/hourly.Period != 70 {
		t.Errorf("repairing changed the bucket: %+v", held)
	}
	if n, err := a.Repair(ctx, keys); err != nil || n != 0 {
		t.Errorf("a second time: %d, %v", n, err)
	}
	if _, err := a.Repair(ctx, []string{"hg:{policy}:head"}); err == nil || r.client.TTL(ctx, "hg:{policy}:head").Val() != -1 {
		t.Errorf("a key outside the limiter's state: %v", err)
	}
}

func TestAdmin_WorksOnACluster(t *testing.T) {
	t.Parallel()
	client, err := redisstore.PatientClient(testkit.Cluster(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store, a := redisstore.New(client, options), redisstore.NewAdmin(client, options)
	var asks []limiter.Ask
	var moves []limiter.Adjustment
	for _, id := range []string{"ten_a", "ten_b", "ten_c", "ten_d"} {
		row := storetest.Tenant(id)
		take(t, store, storetest.Draw(row, "l", hourly, 100))
		asks = append(asks, bucketOf(row, "l", hourly))
		moves = append(moves, limiter.Adjustment{Ask: asks[len(asks)-1], Floor: 100, Ceiling: 100})
	}
	for _, h := range inspected(t, a, asks...) {
		if !h.Found || h.Units/hourly.Period != 0 {
			t.Errorf("%+v", h)
		}
	}
	done, err := a.Adjust(context.Background(), moves)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		if d.After.Units != 100*hourly.Period {
			t.Errorf("%+v", d)
		}
	}
	if err := client.Set(context.Background(), "hg:l:{9}:t:stray", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var place limiter.ScanPlace
	found, whole, err := a.Strays(context.Background(), &place, 50)
	if err != nil || !whole || len(found) != 1 {
		t.Errorf("%v, %t, %v", found, whole, err)
	}
}

func TestAdmin_ARedisThatIsAwayIsAnErrorOfTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := adminOf(r)
	r.server.Kill()
	if _, err := a.Inspect(context.Background(), []limiter.Ask{bucketOf(tenant, "l", hourly)}); !errors.Is(err, limiter.ErrStore) {
		t.Error(err)
	}
}
