package usage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

// rowsOver makes a refusal for each of many tenants on routes and by limits of
// their own.
func rowsOver(second int, tenants, routes int, name string) []usage.Row {
	var rows []usage.Row
	for i := range tenants {
		for j := range routes {
			r := row(second, fmt.Sprintf("ten_%s%d", name, i), usage.OutcomeLimited, fmt.Sprintf("route:r%d.x", j), 1)
			r.Route = fmt.Sprintf("r%d", j)
			rows = append(rows, r)
		}
	}
	return rows
}

func TestLive_SilentDetailsMakeRoomForNewOnes(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	l.Apply(batch(1, rowsOver(5, 400, 20, "old")...)) // 16 000 details, far from 2 000 tenants
	if n := len(l.TenantRoutes("ten_old399", at(0))); n != 0 {
		t.Fatalf("the last tenant has %d routes: the bound of details is not met", n)
	}
	if sum := l.TenantSeries("ten_old399", at(0), at(10), 10*time.Second)[0].Refused; sum != 20 {
		t.Fatalf("%d refusals of a tenant without details, want 20 all the same", sum)
	}
	now = at(3700)
	l.Apply(batch(2, rowsOver(3699, 1, 3, "new")...))
	if routes, limits := l.TenantRoutes("ten_new0", at(3600)), l.TenantLimits("ten_new0", at(3600), 9); len(routes) != 3 || len(limits) != 3 {
		t.Fatalf("after an hour of silence a new tenant has %d routes and %d limits, want 3 and 3", len(routes), len(limits))
	}
}

func TestLive_SilentDetailsOfABusyTenantGo(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	l.Apply(batch(1, rowsOver(5, 400, 20, "a")...))
	now = at(3700)
	var rows []usage.Row
	for i := range 400 { // each goes on, on one route only
		rows = append(rows, row(3699, fmt.Sprintf("ten_a%d", i), usage.OutcomeAdmitted, "", 1))
	}
	l.Apply(batch(2, rows...))
	if got := l.TenantRoutes("ten_a399", at(3600)); len(got) != 1 || got[0].Admitted != 1 {
		t.Fatalf("routes of the last tenant are %+v, want the one it is on", got)
	}
}

func TestLive_SilentRoutesMakeRoomForNewOnes(t *testing.T) {
	t.Parallel()
	now := at(10)
	l := newLive(&now, 0)
	l.Apply(batch(1, rowsOver(5, 1, 1500, "a")...))
	now = at(3700)
	l.Apply(batch(2, row(3699, "ten_a", usage.OutcomeAdmitted, "", 1)))
	if got := l.Routes(at(3600)); len(got) != 1 || got[0].Route != "report" {
		t.Fatalf("routes are %+v, want just report", got)
	}
}

// TestLive_WhatIsBeingAddedIsNotLetGo: the row lies in the last second that
// counts, its slot begins before the hour, and its own details want the sweep.
func TestLive_WhatIsBeingAddedIsNotLetGo(t *testing.T) {
	t.Parallel()
	now := at(4003)
	l := newLive(&now, 0)
	l.Apply(batch(1, rowsOver(4000, 400, 20, "busy")...))
	now = at(4073)
	l.Apply(batch(2, row(474, "ten_late", usage.OutcomeLimited, "plan.requests", 1)))
	if points := l.TenantSeries("ten_late", at(470), at(475), 5*time.Second); len(points) != 1 || points[0].Refused != 1 {
		t.Fatalf("points are %+v, want one refusal", points)
	}
}

// TestLive_SweepsAtMostOnceAMinute: a batch may have a thousand rows of tenants
// for whom there is no room, and a look at everything for each would take seconds.
func TestLive_SweepsAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 3)
	apply := func(seq int64, tenant string) {
		l.Apply(batch(seq, usage.Row{Second: now.Unix(), Tenant: tenant, Outcome: usage.OutcomeAdmitted, Requests: 1}))
	}
	apply(1, "ten_a")
	now = at(30)
	apply(2, "ten_b")
	apply(3, "ten_c")
	now = at(3610) // a has been silent for an hour
	apply(4, "ten_d")
	now = at(3640) // so have b and c, but a look was just taken
	apply(5, "ten_e")
	if d, e, rest := sumOf(l, "ten_d"), sumOf(l, "ten_e"), sumOf(l, usage.Rest); d != 1 || e != 0 || rest != 1 {
		t.Fatalf("d has %d, e %d, the rest %d; want 1, 0, 1", d, e, rest)
	}
	now = at(3670)
	apply(6, "ten_f")
	if sumOf(l, "ten_f") != 1 {
		t.Fatal("a minute later b and c have not made room")
	}
}
