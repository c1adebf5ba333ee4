package usage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

func TestTenantDemand_AddsUpRoutesByTheMinute(t *testing.T) {
	t.Parallel()
	now := at(600)
	l := newLive(&now, 0)
	on := func(second int, tenant, route string, n, cost int64) usage.Row {
		return usage.Row{Second: at(second).Unix(), Tenant: tenant, Route: route, Outcome: usage.OutcomeAdmitted, Requests: n, Cost: cost}
	}
	first := 60 - int(at(0).Unix()%60) // a whole minute begins here
	l.Apply(batch(1,
		on(first, "ten_a", "report", 10, 50), on(first+30, "ten_a", "search", 4, 4),
		on(first+60, "ten_a", "report", 2, 10), on(first+65, "ten_a", "search", 11, 11), on(first+65, "ten_b", "search", 99, 99),
	))
	for name, c := range map[string]struct {
		routes               []string
		requests, peak, cost int64
	}{
		"one route":        {[]string{"report"}, 12, 10, 50},
		"two together":     {[]string{"report", "search"}, 27, 14, 54},
		"all":              {nil, 27, 14, 54},
		"one it never met": {[]string{"login"}, 0, 0, 0},
	} {
		d, known, ok := l.TenantDemand("ten_a", c.routes)
		if !ok || known != 4*time.Second || d.Requests != c.requests || d.PeakRequests != c.peak || d.PeakCost != c.cost || d.TenantPeakCost != c.cost {
			t.Errorf("%s: %+v, %v, %v", name, d, known, ok)
		}
	}
	if d, _, ok := l.TenantDemand("ten_c", nil); !ok || d != (usage.Demand{}) {
		t.Errorf("a tenant without requests: %+v, %v", d, ok)
	}
}

func TestTenantDemand_SaysNothingOfWhatIsNotToldApart(t *testing.T) {
	t.Parallel()
	now := at(600)
	l := newLive(&now, 2)
	if _, _, ok := l.TenantDemand("ten_a", nil); ok {
		t.Error("it knows of an hour that nobody reported")
	}
	var rows []usage.Row
	for i := range 40 { // more routes than one tenant has series for
		rows = append(rows, usage.Row{Second: at(1).Unix(), Tenant: "ten_a", Route: fmt.Sprint("r", i), Outcome: usage.OutcomeAdmitted, Requests: 1, Cost: 1})
	}
	for _, tenant := range []string{"ten_b", "ten_c"} { // more tenants than are told apart
		rows = append(rows, usage.Row{Second: at(2).Unix(), Tenant: tenant, Route: "r1", Outcome: usage.OutcomeAdmitted, Requests: 1, Cost: 1})
	}
	l.Apply(batch(1, rows...))
	if _, _, ok := l.TenantDemand("ten_a", []string{"r39"}); ok {
		t.Error("it knows of a route that counts among the rest")
	}
	if d, _, ok := l.TenantDemand("ten_a", []string{"r1"}); !ok || d.Requests != 1 {
		t.Errorf("a route that is told apart: %+v, %v", d, ok)
	}
	if _, _, ok := l.TenantDemand("ten_c", nil); ok {
		t.Error("it knows of a tenant that counts among the rest")
	}
}
