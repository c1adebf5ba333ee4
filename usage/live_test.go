package usage_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/usage"
)

// newLive stands at a moment that the test moves.
func newLive(now *time.Time, tenants int) *usage.Live {
	return usage.NewLive(usage.LiveConfig{Now: func() time.Time { return *now }, Tenants: tenants})
}

func batch(seq int64, rows ...usage.Row) usage.Batch {
	b := usage.Batch{Replica: "gw_a", Boot: "boot", Seq: seq, Rows: rows}
	for _, r := range rows {
		b.Through = max(b.Through, r.Second)
	}
	return b
}

func row(second int, tenant string, o usage.Outcome, limit string, n int64) usage.Row {
	return usage.Row{Second: at(second).Unix(), Tenant: tenant, Route: "report", Outcome: o, Limit: limit, Requests: n, Cost: 2 * n}
}

func TestLive_SameBatchCountsOnce(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	b := batch(1, row(5, "ten_a", usage.OutcomeAdmitted, "", 7))
	if !l.Apply(b) {
		t.Fatal("a new batch was not taken")
	}
	if l.Apply(b) {
		t.Fatal("the same batch was taken twice")
	}
	other := b
	other.Boot = "boot2"
	if !l.Apply(other) {
		t.Fatal("the first batch of another boot was not taken")
	}
	points := l.Totals(at(5), at(6), time.Second)
	if len(points) != 1 || points[0].Admitted != 14 || points[0].Cost != 28 {
		t.Fatalf("points are %+v, want 14 admitted of cost 28", points)
	}
}

func TestLive_AnyOrderAndRepetitionGivesTheSameTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := at(100)
		l := newLive(&now, 0)
		const batches = 40
		order := rapid.Permutation(sequence(batches)).Draw(t, "order")
		again := rapid.SliceOfN(rapid.IntRange(0, batches-1), 0, 30).Draw(t, "again")
		for _, i := range append(order, again...) {
			l.Apply(batch(int64(i+1), row(i, "ten_a", usage.OutcomeAdmitted, "", 1)))
		}
		var n int64
		for _, p := range l.Totals(at(0), at(100), 10*time.Second) {
			n += p.Admitted
		}
		if n != batches {
			t.Fatalf("%d requests, want %d", n, batches)
		}
	})
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestLive_VeryOldBatchNumberIsTakenForARepetition(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	l.Apply(batch(100, row(1, "ten_a", usage.OutcomeAdmitted, "", 1)))
	if l.Apply(batch(36, row(1, "ten_a", usage.OutcomeAdmitted, "", 1))) {
		t.Fatal("a batch 64 numbers back was taken for new")
	}
	if !l.Apply(batch(37, row(1, "ten_a", usage.OutcomeAdmitted, "", 1))) {
		t.Fatal("a batch 63 numbers back was not taken")
	}
}

func TestLive_OutcomesFallIntoTheirColumns(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	for i, o := range usage.Outcomes() {
		l.Apply(batch(int64(i+1), row(3, "ten_a", o, "", 1)))
	}
	p := l.Totals(at(3), at(4), time.Second)[0]
	want := usage.Point{At: at(3), Admitted: 2, Refused: 4, Degraded: 4, Invalid: 5, Cost: 4, Reported: true}
	if p != want {
		t.Fatalf("point is %+v, want %+v", p, want)
	}
}

func TestLive_SeriesHasAPointForEachStep(t *testing.T) {
	t.Parallel()
	now := at(120)
	l := newLive(&now, 0)
	l.Apply(batch(1, row(0, "ten_a", usage.OutcomeAdmitted, "", 1), row(59, "ten_a", usage.OutcomeAdmitted, "", 2), row(60, "ten_a", usage.OutcomeLimited, "plan.requests", 3)))
	for name, points := range map[string][]usage.Point{
		"totals": l.Totals(at(0), at(120), time.Minute),
		"tenant": l.TenantSeries("ten_a", at(0), at(120), time.Minute),
	} {
		if len(points) != 2 || points[0].Admitted != 3 || points[1].Refused != 3 || !points[1].At.Equal(at(60)) {
			t.Errorf("%s: %+v", name, points)
		}
	}
	if points := l.TenantSeries("ten_none", at(0), at(120), time.Minute); len(points) != 2 || points[0].Admitted != 0 {
		t.Errorf("unknown tenant: %+v, want two empty points", points)
	}
	if points := l.TenantSeries("ten_a", at(0), at(20), 3*time.Second); len(points) != 4 || !points[1].At.Equal(at(5)) {
		t.Errorf("steps below the resolution: %+v, want steps of 5 s", points)
	}
	if points := l.Totals(at(60), at(0), time.Second); points != nil {
		t.Errorf("an empty window has points %+v", points)
	}
}

func TestLive_SeriesIsBoundedByTheHour(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 0)
	if points := l.Totals(time.Unix(0, 0), at(1<<40), time.Second); len(points) > 3602 {
		t.Fatalf("%d points", len(points))
	}
}

func TestLive_KeepsAnHourAndForgetsWhatIsOlder(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 0)
	for i := range 7200 {
		now = at(i)
		l.Apply(batch(int64(i+1), row(i, "ten_a", usage.OutcomeAdmitted, "", 1)))
	}
	var n int64
	for _, p := range l.Totals(at(0), at(8000), time.Minute) {
		n += p.Admitted
	}
	if n < 3600 || n > 3660 {
		t.Fatalf("the last hour has %d requests, want 3600 and at most a step more", n)
	}
	if l.Apply(batch(9000, row(3000, "ten_a", usage.OutcomeAdmitted, "", 50))); sumOf(l, "ten_a") > 3660 {
		t.Fatal("a row older than an hour was counted")
	}
}

func sumOf(l *usage.Live, tenant string) (n int64) {
	for _, p := range l.TenantSeries(tenant, time.Unix(0, 0), at(1<<30), time.Minute) {
		n += p.Admitted
	}
	return n
}

func TestLive_FutureAndNonsenseRowsDoNoHarm(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	l.Apply(batch(1, row(5000, "ten_a", usage.OutcomeAdmitted, "", 1), row(5, "ten_a", usage.OutcomeAdmitted, "", -4)))
	if got := sumOf(l, "ten_a"); got != 1 {
		t.Fatalf("%d requests, want the one from the future, counted as now", got)
	}
	if asOf, known := l.AsOf(); !known || asOf.After(now) {
		t.Fatalf("as of %v, %v: later than now", asOf, known)
	}
}

func TestLive_AsOfIsUnknownWithoutFreshBatches(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 0)
	if _, known := l.AsOf(); known {
		t.Fatal("known before anything was reported")
	}
	l.Apply(usage.Batch{Replica: "gw_a", Boot: "b", Seq: 1, Through: at(-3).Unix()})
	if asOf, known := l.AsOf(); !known || !asOf.Equal(at(-3)) {
		t.Fatalf("as of %v, %v; want three seconds ago", asOf, known)
	}
	now = at(3700)
	if _, known := l.AsOf(); known {
		t.Fatal("still known after more than an hour of silence")
	}
}

func TestLive_TopRefusedNamesLimitAndBegin(t *testing.T) {
	t.Parallel()
	now := at(1000)
	l := newLive(&now, 0)
	l.Apply(batch(1,
		row(100, "ten_a", usage.OutcomeLimited, "plan.requests", 5), // a run of its own
		row(600, "ten_a", usage.OutcomeLimited, "plan.requests", 2),
		row(650, "ten_a", usage.OutcomeLimited, "route:report.reports", 4),
		row(651, "ten_a", usage.OutcomeAdmitted, "", 9),
		row(700, "ten_b", usage.OutcomeBlocked, "plan.requests", 1),
		row(700, "ten_c", usage.OutcomeAdmitted, "", 1),
		row(700, "", usage.OutcomeLimited, "global.all", 50),
	))
	top := l.TopRefused(at(500), 10)
	want := []usage.TenantRefusals{
		{Tenant: "ten_a", Requests: 15, Refused: 6, Limit: "route:report.reports", Since: at(600)},
		{Tenant: "ten_b", Requests: 1, Refused: 1, Limit: "plan.requests", Since: at(700)},
	}
	if fmt.Sprint(top) != fmt.Sprint(want) {
		t.Fatalf("top is\n%+v, want\n%+v", top, want)
	}
	if one := l.TopRefused(at(0), 1); len(one) != 1 || one[0].Refused != 11 {
		t.Fatalf("top one since the begin is %+v", one)
	}
	limits := l.TopLimits(at(500), 2)
	if len(limits) != 2 || limits[0].Limit != "global.all" || limits[0].Refused != 50 || limits[0].Tenants != 0 || limits[1].Limit != "route:report.reports" {
		t.Fatalf("top limits are %+v", limits)
	}
	if mine := l.TenantLimits("ten_a", at(0), 5); len(mine) != 2 || mine[0].Limit != "plan.requests" || mine[0].Refused != 7 {
		t.Fatalf("limits of the tenant are %+v", mine)
	}
	if l.TenantLimits("ten_none", at(0), 5) != nil || l.TenantRoutes("ten_none", at(0)) != nil {
		t.Fatal("an unknown tenant has limits or routes")
	}
}

func TestLive_RoutesAddUpOverTenants(t *testing.T) {
	t.Parallel()
	now := at(100)
	l := newLive(&now, 0)
	login := row(50, "ten_b", usage.OutcomeClosed, "", 3)
	login.Route = "login"
	l.Apply(batch(1, row(50, "ten_a", usage.OutcomeAdmitted, "", 2), row(51, "ten_b", usage.OutcomeAdmitted, "", 2), login))
	want := []usage.RouteTotals{{Route: "report", Admitted: 4, Cost: 8}, {Route: "login", Refused: 3, Degraded: 3}}
	if got := l.Routes(at(0)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("routes are %+v, want %+v", got, want)
	}
	if got := l.TenantRoutes("ten_b", at(0)); len(got) != 2 || got[0].Route != "login" || got[1].Admitted != 2 {
		t.Fatalf("routes of the tenant are %+v", got)
	}
}

func TestLive_TenantsBeyondTheBoundAreTheRest(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 10)
	var rows []usage.Row
	for i := range 500 {
		rows = append(rows, row(5, fmt.Sprintf("ten_%03d", i), usage.OutcomeLimited, "plan.requests", 1))
	}
	l.Apply(batch(1, rows...))
	top := l.TopRefused(at(0), 1000)
	if len(top) > 11 || top[0].Tenant != usage.Rest || top[0].Refused != 490 {
		t.Fatalf("%d tenants, first %+v", len(top), top[0])
	}
	now = at(3700)
	l.Apply(batch(2, row(3699, "ten_new", usage.OutcomeAdmitted, "", 1)))
	if sumOf(l, "ten_new") != 1 {
		t.Fatal("silent tenants do not make room for new ones")
	}
}

func TestLive_LimitsAndRoutesOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	var rows []usage.Row
	for i := range 3000 {
		r := row(5, "ten_a", usage.OutcomeLimited, fmt.Sprintf("route:r%d.x", i), 1)
		r.Route = fmt.Sprintf("r%d", i)
		rows = append(rows, r)
	}
	l.Apply(batch(1, rows...))
	if n := len(l.TenantLimits("ten_a", at(0), 9999)); n > 33 {
		t.Fatalf("%d limits of a tenant", n)
	}
	if n := len(l.Routes(at(0))); n > 1001 {
		t.Fatalf("%d routes", n)
	}
	var sum int64
	for _, r := range l.Routes(at(0)) {
		sum += r.Refused
	}
	if sum != 3000 {
		t.Fatalf("%d refusals over all routes, want 3000", sum)
	}
}

func TestLive_ManyBootsAreForgottenOldestFirst(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 0)
	for i := range 5000 {
		now = at(i / 10)
		if !l.Apply(usage.Batch{Replica: fmt.Sprintf("gw_%d", i), Boot: "b", Seq: 1, Through: now.Unix()}) {
			t.Fatalf("batch of replica %d was not taken", i)
		}
	}
	if l.Apply(usage.Batch{Replica: "gw_4999", Boot: "b", Seq: 1}) {
		t.Fatal("the newest replica's batch was taken twice")
	}
}

func TestLive_AGapIsNotAZero(t *testing.T) {
	t.Parallel()
	now := at(100)
	l := newLive(&now, 0)
	send := func(seq int64, through int) {
		l.Apply(usage.Batch{Replica: "gw_a", Boot: "b", Seq: seq, Through: at(through).Unix()})
	}
	send(1, 10)
	send(2, 13) // 11 to 13: nothing happened
	send(4, 20) // number 3 was lost, and with it 14 to some second
	l.Apply(usage.Batch{Replica: "gw_b", Boot: "b", Seq: 9, Through: at(30).Unix(), Rows: []usage.Row{row(25, "ten_a", usage.OutcomeAdmitted, "", 1)}})
	want := map[int]bool{10: true, 11: true, 12: true, 13: true, 20: true, 25: true, 30: true}
	for i, p := range l.Totals(at(0), at(40), time.Second) {
		if p.Reported != want[i] {
			t.Errorf("second %d: reported %v", i, p.Reported)
		}
	}
	if points := l.TenantSeries("ten_none", at(0), at(40), 10*time.Second); points[0].Reported || !points[1].Reported {
		t.Errorf("steps of 10 s: %+v", points)
	}
}
