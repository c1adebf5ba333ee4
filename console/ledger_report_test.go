package console_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage/ledger"
)

// sumOf adds an event up the way that the documentation tells.
func sumOf(s *console.UsageSums, e ledger.Event) {
	switch e.Outcome {
	case "admitted":
		s.Admitted, s.Cost = s.Admitted+e.Requests, s.Cost+e.Cost
	case "fallback-admitted":
		s.Admitted, s.Cost, s.Fallback, s.FallbackCost = s.Admitted+e.Requests, s.Cost+e.Cost, s.Fallback+e.Requests, s.FallbackCost+e.Cost
	case "settled":
		s.Cost, s.Settled = s.Cost+e.Cost, s.Settled+e.Cost
	case "interrupted":
		s.Interrupted, s.InterruptedCost = s.Interrupted+e.Requests, s.InterruptedCost+e.Cost
	case "limited", "blocked", "fallback-refused", "closed":
		s.Refused += e.Requests
	default:
		s.Other += e.Requests
	}
}

// expected is a report over events, made the slow way.
func expected(w *ledgerWorld, events map[string][]ledger.Event, plans map[string]string, q console.UsageQuery, r console.UsageReport) (total console.UsageSums, steps []console.UsageSums, groups map[string]console.UsageSums) {
	steps, groups = make([]console.UsageSums, len(r.Starts)), map[string]console.UsageSums{}
	for replica, list := range events {
		for _, e := range list {
			at := time.Unix(e.Second, 0)
			if at.Before(r.From) || !at.Before(r.To) || q.TenantID != "" && e.Tenant != q.TenantID || q.Route != "" && e.Route != q.Route || q.KID != "" && e.KID != q.KID ||
				q.Outcome != "" && string(e.Outcome) != q.Outcome || q.Plan != "" && plans[e.Tenant] != q.Plan {
				continue
			}
			key := map[console.UsageGroup]string{
				console.GroupTenant: e.Tenant, console.GroupRoute: e.Route, console.GroupKey: e.KID, console.GroupOutcome: string(e.Outcome), console.GroupGateway: replica, console.GroupPlan: plans[e.Tenant],
			}[q.Group]
			g := groups[key]
			sumOf(&g, e)
			groups[key] = g
			sumOf(&total, e)
			for i := len(r.Starts) - 1; i >= 0; i-- {
				if !at.Before(r.Starts[i]) {
					sumOf(&steps[i], e)
					break
				}
			}
		}
	}
	return total, steps, groups
}

// TestLedger_ReportsAgreeWithTheEvents: for random questions, whatever of the events is
// added up, and in zones whose clocks change.
func TestLedger_ReportsAgreeWithTheEvents(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.to(time.Date(2026, 11, 2, 9, 20, 0, 0, time.UTC)) // clocks in New York went back a day ago
	w.upkeep(t)
	r := rand.New(rand.NewPCG(1, 6))
	pro := "pro"
	if _, err := w.conn.Exec(w.ctx, `UPDATE tenants SET plan = $1 WHERE id = $2`, pro, w.tenants[1]); err != nil {
		t.Fatal(err)
	}
	plans := map[string]string{w.tenants[0]: "free", w.tenants[1]: pro, w.tenants[2]: "free"}
	events := map[string][]ledger.Event{}
	for i := range 12 {
		name := fmt.Sprintf("gw-%d", i%3)
		b := ledger.Batch{Replica: name, Boot: "b", First: 1 + int64(len(events[name])), Events: w.randomEvents(r, 250)}
		events[name] = append(events[name], b.Events...)
		w.wire.send(t, b)
		w.collect(t)
		if i == 8 {
			w.roll(t) // the last ones are not added up
		}
	}
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	asked := 0
	for asked < 300 {
		to := w.clock.now().Add(-time.Duration(r.IntN(40)) * time.Hour)
		q := console.UsageQuery{
			From: to.Add(-time.Duration(1+r.IntN(4000)) * time.Minute), To: to, Zone: pick("", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Berlin"),
			Step: console.UsageStep(pick("", "minute", "hour", "day", "month")), Group: console.UsageGroup(pick("", "tenant", "route", "key", "outcome", "gateway", "plan")),
			By: console.UsageBy(pick("", "requests", "cost", "refused")), Top: 1 + r.IntN(4), TenantID: pick("", "", w.tenants[0]), Route: pick("", "", "login"),
			KID: pick("", "", "", "CDEFGHIJKLMN"), Plan: pick("", "", "", pro), Outcome: pick("", "", "", "limited"),
		}
		got, err := w.ledger.Report(w.ctx, owner, q)
		if console.CodeOf(err) == console.CodeInvalid {
			continue // it says what it cannot tell
		}
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		asked++
		total, steps, groups := expected(w, events, plans, q, got)
		if got.Total != total || !slices.Equal(got.Steps, steps) {
			t.Fatalf("%+v from %s:\n%+v\n%+v, want\n%+v\n%+v", q, got.Source, got.Total, got.Steps, total, steps)
		}
		if q.Group != console.GroupNone {
			checkGroups(t, q, got, groups)
		}
	}
}

func figure(s console.UsageSums, by console.UsageBy) int64 {
	switch by {
	case console.ByCost:
		return s.Cost
	case console.ByRefused:
		return s.Refused
	}
	return s.Requests()
}

func checkGroups(t *testing.T, q console.UsageQuery, got console.UsageReport, groups map[string]console.UsageSums) {
	t.Helper()
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(figure(groups[b], q.By), figure(groups[a], q.By)), cmp.Compare(a, b))
	})
	top := keys[:min(len(keys), q.Top)]
	if len(got.Groups) != len(top) || got.RestCount != len(keys)-len(top) {
		t.Fatalf("%+v: %d groups and %d more, want %d and %d", q, len(got.Groups), got.RestCount, len(top), len(keys)-len(top))
	}
	var rest console.UsageSums
	for _, key := range keys[len(top):] {
		rest.Add(groups[key])
	}
	for i, key := range top {
		line := got.Groups[i]
		var steps console.UsageSums
		for _, s := range line.Steps {
			steps.Add(s)
		}
		if line.Key != key || line.Total != groups[key] || steps != line.Total {
			t.Fatalf("%+v: group %d is %q %+v in steps %+v, want %q %+v", q, i, line.Key, line.Total, steps, key, groups[key])
		}
	}
	if got.Rest.Total != rest {
		t.Fatalf("%+v: the rest is %+v, want %+v", q, got.Rest.Total, rest)
	}
}

func TestLedger_TheLastDayOfTenants(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	now := w.clock.now()
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1, Events: []ledger.Event{
		w.admitted(now.Unix(), w.tenants[0], 1), w.admitted(now.Add(-3*time.Hour).Unix(), w.tenants[0], 2), w.admitted(now.Add(-30*time.Hour).Unix(), w.tenants[1], 4),
	}})
	w.collect(t)
	for range 2 {
		days, err := w.ledger.Last24h(w.ctx, w.tenants)
		if err != nil {
			t.Fatal(err)
		}
		a, b := days[w.tenants[0]], days[w.tenants[1]]
		if a.Total.Cost != 3 || a.Hours[23].Cost != 1 || a.Hours[20].Cost != 2 || b.Total.Cost != 0 {
			t.Errorf("%+v, %+v", a, b)
		}
		w.roll(t)
	}
	days, err := w.ledger.Last24h(w.ctx, w.tenants)
	if err != nil || !days[w.tenants[0]].Last.Equal(now.Truncate(time.Hour)) || !days[w.tenants[1]].Last.Equal(now.Add(-30*time.Hour).Truncate(time.Hour)) || !days[w.tenants[2]].Last.IsZero() {
		t.Errorf("%+v (%v)", days, err)
	}
}

// TestLedger_SumsOfAnyRange: hours, days and quarters at the ends add up to the events.
func TestLedger_SumsOfAnyRange(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	r := rand.New(rand.NewPCG(2, 6))
	b := ledger.Batch{Replica: "gw", Boot: "b", First: 1, Events: w.randomEvents(r, 3000)}
	w.wire.send(t, ledger.Batch{Replica: "gw", Boot: "b", First: 1, Events: b.Events[:2500]})
	w.collect(t)
	w.roll(t)
	w.wire.send(t, ledger.Batch{Replica: "gw", Boot: "b", First: 2501, Events: b.Events[2500:]})
	w.collect(t)
	var asks []console.LedgerAsk
	for range 700 {
		from := w.clock.now().Add(-time.Duration(r.IntN(300)) * 15 * time.Minute).Truncate(15 * time.Minute)
		asks = append(asks, console.LedgerAsk{TenantID: w.tenants[r.IntN(3)], From: from, To: from.Add(time.Duration(1+r.IntN(300)) * 15 * time.Minute)})
	}
	asks = append(asks, console.LedgerAsk{TenantID: w.tenants[0]}, console.LedgerAsk{TenantID: "ten_nobody"})
	got, err := w.ledger.Sums(w.ctx, asks)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range asks {
		var want console.UsageSums
		for _, e := range b.Events {
			if at := time.Unix(e.Second, 0); e.Tenant == a.TenantID && !at.Before(a.From) && (a.To.IsZero() || at.Before(a.To)) {
				sumOf(&want, e)
			}
		}
		if got[i] != want {
			t.Fatalf("%+v: %+v, want %+v", a, got[i], want)
		}
	}
}

func TestLedger_MembersSeeTheirOwnUsageAlone(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 30))
	w.collect(t)
	member := console.Actor{ID: "mem_x", Role: console.RoleTenantViewer, Via: console.ViaPortal, TenantID: w.tenants[0]}
	q := console.UsageQuery{From: w.clock.now().Add(-time.Hour), To: w.clock.now().Add(time.Minute)}
	for _, other := range []string{"", w.tenants[1]} {
		q.TenantID = other
		if _, err := w.ledger.Report(w.ctx, member, q); !console.IsNotFound(err) {
			t.Errorf("a report of %q: %v", other, err)
		}
		if _, err := w.ledger.Events(w.ctx, member, console.UsageEventQuery{TenantID: other}); !console.IsNotFound(err) {
			t.Errorf("events of %q: %v", other, err)
		}
		if _, _, err := w.ledger.Periods(w.ctx, member, other, console.Page{}); !console.IsNotFound(err) {
			t.Errorf("periods of %q: %v", other, err)
		}
	}
	q.TenantID = w.tenants[0]
	if r, err := w.ledger.Report(w.ctx, member, q); err != nil || r.Total.Admitted != 10 {
		t.Errorf("%+v (%v)", r.Total, err)
	}
	page, err := w.ledger.Events(w.ctx, member, console.UsageEventQuery{TenantID: w.tenants[0], Limit: 4})
	if err != nil || len(page.Events) != 4 || page.Done {
		t.Fatalf("%+v (%v)", page, err)
	}
	rest, err := w.ledger.Events(w.ctx, member, console.UsageEventQuery{TenantID: w.tenants[0], After: page.Next})
	if err != nil || len(rest.Events) != 6 || !rest.Done {
		t.Errorf("%+v (%v)", rest, err)
	}
	for _, cursor := range []string{"x", "MS4xLjE", page.Next + "A", "MDEuMS4x"} {
		if _, err := w.ledger.Events(w.ctx, owner, console.UsageEventQuery{After: cursor}); cursor != "MS4xLjE" && console.CodeOf(err) != console.CodeInvalid {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}
