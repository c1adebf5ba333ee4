package usage_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

func TestLive_DecisionTimesAreMinuteByMinuteOfAllRoutes(t *testing.T) {
	t.Parallel()
	now := at(200)
	l := newLive(&now, 0)
	times := func(rows ...usage.TimeRow) usage.Detail { return usage.Detail{Times: rows} }
	told(t, l, 1, at(10).Unix(), times(usage.TimeRow{Route: "a", Buckets: []int64{98}}, usage.TimeRow{Route: "b", Buckets: []int64{3: 1}}))
	told(t, l, 2, at(59).Unix(), times(usage.TimeRow{Route: "a", Buckets: []int64{3: 1}}))
	told(t, l, 3, at(180).Unix(), times(usage.TimeRow{Route: "b", Buckets: []int64{5: 7}}))
	got := l.DecisionTimes(at(0), at(200))
	if len(got) != 4 || !got[0].At.Equal(at(0)) || got[0].Decisions != 100 || got[0].P99 != 500*time.Microsecond || got[0].P50 != 50*time.Microsecond {
		t.Fatalf("the first minute is %+v", got)
	}
	if got[1].Decisions != 0 || got[2].Decisions != 0 || got[3].Decisions != 7 || got[3].P99 != 2500*time.Microsecond {
		t.Fatalf("minutes are %+v", got)
	}
	if last := l.DecisionTime(); last.Decisions != 7 || last.P99 != 2500*time.Microsecond {
		t.Fatalf("the last minute is %+v", last)
	}
	now = at(4000) // what is older than an hour is gone
	if got = l.DecisionTimes(at(0), now); len(got) != 61 || got[0].At.Before(now.Add(-time.Hour-time.Minute)) || l.DecisionTime().Decisions != 0 {
		t.Fatalf("an hour later: %d minutes from %v", len(got), got[0].At)
	}
	for _, m := range got { // the slots of an hour ago are not taken for those of now
		if m.Decisions != 0 {
			t.Fatalf("an hour later: %+v", m)
		}
	}
}

func TestLive_DegradedAdmissionsLeaveOutRefusalsAndWhatRedisDecided(t *testing.T) {
	t.Parallel()
	now := at(100)
	l := newLive(&now, 0)
	l.Apply(usage.Batch{Replica: "gw_a", Boot: "b", Seq: 1, Through: at(99).Unix(), Rows: []usage.Row{
		{Second: at(50).Unix(), Route: "r", Outcome: usage.OutcomeAdmitted, Requests: 8},
		{Second: at(50).Unix(), Route: "r", Outcome: usage.OutcomeFallbackAdmitted, Requests: 3},
		{Second: at(50).Unix(), Route: "r", Outcome: usage.OutcomeClosed, Requests: 5},
	}})
	var n int64
	for _, p := range l.DegradedAdmissions(at(0), at(100), time.Second) {
		n += p.Degraded
	}
	if n != 3 {
		t.Fatalf("%d requests were admitted without Redis, want 3", n)
	}
}

func TestLive_TopLimitsTellSinceWhenOverAllTenants(t *testing.T) {
	t.Parallel()
	now := at(700)
	l := newLive(&now, 0)
	refused := func(second int, tenant, limit string) usage.Row {
		return usage.Row{Second: at(second).Unix(), Tenant: tenant, Route: "r", Limit: limit, Outcome: usage.OutcomeLimited, Requests: 1}
	}
	l.Apply(usage.Batch{Replica: "gw_a", Boot: "b", Seq: 1, Through: at(700).Unix(), Rows: []usage.Row{
		refused(100, "ten_a", "l"),                                                         // a run that ended
		refused(500, "ten_a", "l"), refused(545, "ten_b", "l"), refused(590, "ten_a", "l"), // one, by turns
		refused(690, "ten_b", "new"),
	}})
	for _, top := range l.TopLimits(at(0), 5) {
		want := map[string]time.Time{"l": at(500), "new": at(690)}[top.Limit]
		if d := want.Sub(top.Since); d < 0 || d > 15*time.Second {
			t.Errorf("%s is refused since %v, want %v", top.Limit, top.Since, want)
		}
	}
}
