package usage_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

func TestLastHour_TellsDemandPeaksAndTenantsByRoute(t *testing.T) {
	t.Parallel()
	now := at(600)
	l := newLive(&now, 0)
	on := func(second int, tenant, route string, o usage.Outcome, n, cost int64) usage.Row {
		return usage.Row{Second: at(second).Unix(), Tenant: tenant, Route: route, Outcome: o, Requests: n, Cost: cost}
	}
	first := 60 - int(at(0).Unix()%60) // a whole minute begins here
	l.Apply(batch(1,
		on(first, "ten_a", "report", usage.OutcomeAdmitted, 10, 50),
		on(first+45, "ten_a", "report", usage.OutcomeLimited, 5, 0),
		on(first+70, "ten_a", "report", usage.OutcomeAdmitted, 8, 8),
		on(first+70, "ten_b", "report", usage.OutcomeAdmitted, 9, 9),
		on(first+75, "ten_b", "login", usage.OutcomeAdmitted, 1, 1),
		on(first+75, "", "login", usage.OutcomeAdmitted, 3, 3),
	))
	h := l.LastHour()
	report := usage.Demand{Requests: 32, Cost: 72, Tenants: 2, PeakRequests: 17, PeakCost: 55, TenantPeakRequests: 15, TenantPeakCost: 55}
	if got := h.Routes["report"]; got != report {
		t.Errorf("report %+v, want %+v", got, report)
	}
	login := usage.Demand{Requests: 4, Cost: 4, Tenants: 1, PeakRequests: 4, PeakCost: 4, TenantPeakRequests: 1, TenantPeakCost: 1}
	if got := h.Routes["login"]; got != login {
		t.Errorf("login %+v, want %+v", got, login)
	}
	tenant := usage.Demand{Requests: 10, Cost: 10, Tenants: 1, PeakRequests: 10, PeakCost: 10, TenantPeakRequests: 10, TenantPeakCost: 10}
	if got := h.Tenants["ten_b"]; got != tenant || len(h.Tenants) != 2 {
		t.Errorf("tenants %+v", h.Tenants)
	}
	if h.All.Requests != 36 || h.All.Tenants != 2 || h.All.PeakRequests != 21 || h.All.TenantPeakRequests != 15 {
		t.Errorf("all %+v", h.All)
	}
	if h.Known != 4*time.Second {
		t.Errorf("%v are known, rows spoke of four seconds", h.Known)
	}
}

func TestLastHour_KnowsNothingOfAnEmptyOrPastHour(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 0)
	if h := l.LastHour(); h.Known != 0 || len(h.Routes)+len(h.Tenants) != 0 || h.All != (usage.Demand{}) {
		t.Errorf("an empty one says %+v", h)
	}
	l.Apply(batch(1, row(0, "ten_a", usage.OutcomeAdmitted, "", 7)))
	now = now.Add(2 * time.Hour)
	if h := l.LastHour(); h.Known != 0 || len(h.Routes)+len(h.Tenants) != 0 || h.All != (usage.Demand{}) {
		t.Errorf("after two hours it says %+v", h)
	}
}
