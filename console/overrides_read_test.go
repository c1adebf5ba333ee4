package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
)

func TestOverrides_ValueInForceSaysWhereItComesFrom(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	until := e.clock.now().Add(48 * time.Hour)
	set, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "120/minute", Burst: new(int64(200)), Reason: "contract", ExpiresAt: &until})
	if err != nil || set.Change.OutboxID == 0 || set.Override.Author != owner.Name || !strings.HasPrefix(set.Override.ID, "ovr_") {
		t.Fatalf("%+v (%v)", set, err)
	}
	boost, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2500, For: time.Hour, Reason: "sale"})
	if err != nil {
		t.Fatal(err)
	}
	l := inForce(t, e, s, ten.ID, "plan.requests")
	want := []struct{ source, text, id string }{
		{"plan free", "60/minute, burst 60", ""}, {"override", "120/minute, burst 200", set.Override.ID}, {"boost", "×2.5: 300/minute, burst 500", boost.Override.ID},
	}
	if len(l.Steps) != len(want) || !l.Own {
		t.Fatalf("steps %+v", l.Steps)
	}
	for i, w := range want {
		if got := l.Steps[i]; got.Source != w.source || got.Text != w.text || got.OverrideID != w.id {
			t.Errorf("step %d: %+v, want %+v", i, got, w)
		}
	}
	if l.Steps[1].Reason != "contract" || l.Steps[2].Reason != "sale" || !l.Expires.Equal(e.clock.now().Add(time.Hour)) {
		t.Errorf("%+v ends %v", l.Steps, l.Expires)
	}
	e.clock.add(2 * time.Hour)
	if l = inForce(t, e, s, ten.ID, "plan.requests"); l.Now().Text != want[1].text || !l.Expires.Equal(until) {
		t.Errorf("after the boost: %+v until %v", l.Now(), l.Expires)
	}
	e.clock.add(48 * time.Hour)
	if l = inForce(t, e, s, ten.ID, "plan.requests"); l.Now().Text != want[0].text || l.Expires != nil {
		t.Errorf("after the override: %+v until %v", l.Now(), l.Expires)
	}
}

func TestOverrides_EffectiveListsWhatTheTenantMeetsAndNoMore(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	all, err := s.Effective(e.ctx, ten.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		id, text, source string
		routes           []string
		own              bool
	}{
		{"global.all", "50000/second, burst 50000", "global", nil, false},
		{"plan.requests", "60/minute, burst 60", "plan free", nil, true},
		{"shared:search", "300/minute, burst 60", "shared search", []string{"report", "find"}, true},
		{"route:report.reports", "100/minute, burst 20", "route report", []string{"report"}, true},
		{"route:report.concurrency", "2 at once", "route report", []string{"report"}, true},
		{"plan.quota", "1000 a month", "plan free", nil, true},
	}
	if len(all.Limits) != len(want) || all.Version != 1 {
		t.Fatalf("version %d, limits %+v", all.Version, all.Limits)
	}
	for i, w := range want {
		got := all.Limits[i]
		if got.ID != w.id || got.Now().Text != w.text || got.Now().Source != w.source || !slices.Equal(got.Routes, w.routes) || got.Own != w.own {
			t.Errorf("%d: %+v, want %+v", i, got, w)
		}
	}
}

func TestOverrides_ListIsFilteredAndPagedAndShowsEachOnce(t *testing.T) {
	t.Parallel()
	e, s, a := lawful(t)
	b := e.tenant(t, "Borg")
	for i, ten := range []string{a.ID, b.ID} {
		for j, limit := range []string{"plan.requests", "shared:search", "plan.quota"} {
			in := console.NewBoost{Limit: limit, FactorMilli: 2000, For: time.Duration(1+i*3+j) * time.Hour, Reason: "r"}
			if _, err := s.Boost(e.ctx, owner, ten, in); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Set(e.ctx, owner, a.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EndBoost(e.ctx, owner, b.ID, "plan.quota", "r"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    console.OverrideQuery
		want int
	}{
		"all that hold":  {console.OverrideQuery{}, 6},
		"one tenant":     {console.OverrideQuery{TenantID: a.ID}, 4},
		"one limit":      {console.OverrideQuery{Limit: "plan.requests"}, 3},
		"boosts":         {console.OverrideQuery{Kind: console.KindBoost}, 5},
		"values":         {console.OverrideQuery{Kind: console.KindOverride}, 1},
		"ended":          {console.OverrideQuery{State: console.OverridesEnded}, 1},
		"history":        {console.OverrideQuery{State: console.OverridesAll}, 7},
		"ends soon":      {console.OverrideQuery{Within: 3 * time.Hour}, 3},
		"ends soon of B": {console.OverrideQuery{Within: 4 * time.Hour, TenantID: b.ID}, 1},
		"another id":     {console.OverrideQuery{TenantID: "ten_x"}, 0},
	} {
		for _, size := range []int{1, 2, 50} {
			c.q.Page = console.Page{Limit: size}
			seen := map[string]bool{}
			for {
				rows, next, err := s.List(e.ctx, c.q)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, r := range rows {
					if seen[r.ID] {
						t.Errorf("%s: %s twice", name, r.ID)
					}
					seen[r.ID] = true
					if r.TenantName == "" || r.Plan != "free" || r.WithoutEffect() && r.EndedAt == nil {
						t.Errorf("%s: row %+v", name, r)
					}
				}
				if c.q.Page.After = next; next == "" {
					break
				}
			}
			if len(seen) != c.want {
				t.Errorf("%s, pages of %d: %d rows, want %d", name, size, len(seen), c.want)
			}
		}
	}
	rows, _, err := s.List(e.ctx, console.OverrideQuery{Within: 100 * time.Hour})
	if err != nil || len(rows) != 5 || !slices.IsSortedFunc(rows, func(a, b console.OverrideRow) int { return a.ExpiresAt.Compare(*b.ExpiresAt) }) {
		t.Errorf("not the soonest first: %+v (%v)", rows, err)
	}
	_, _, err = s.List(e.ctx, console.OverrideQuery{Page: console.Page{After: "x"}})
	wantCode(t, err, console.CodeInvalid)
}

func TestOverrides_PeakOfTheLastHourStandsBesideTheBase(t *testing.T) {
	t.Parallel()
	e, _, ten := lawful(t)
	live := usage.NewLive(usage.LiveConfig{Now: e.clock.now})
	at := e.clock.now().Add(-10 * time.Minute).Truncate(time.Minute).Unix()
	live.Apply(usage.Batch{Replica: "gw", Boot: "b", Seq: 1, Through: at + 30, Rows: []usage.Row{
		{Second: at, Tenant: ten.ID, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 5, Cost: 100},
		{Second: at + 20, Tenant: ten.ID, Route: "find", Outcome: usage.OutcomeLimited, Requests: 25},
	}})
	e.deps.Traffic = live
	s := console.NewOverrides(e.deps)
	for limit, want := range map[string]struct {
		peak int64
		of   float64
	}{"plan.requests": {30, 0.5}, "route:report.reports": {100, 1}, "shared:search": {125, 125.0 / 300}} {
		l := inForce(t, e, s, ten.ID, limit)
		if l.Peak == nil || l.Peak.PerMinute != want.peak || l.Peak.OfBase != want.of || l.Peak.AsOf.Unix() != at+30 || l.Peak.Known == 0 {
			t.Errorf("%s: peak %+v, want %+v", limit, l.Peak, want)
		}
	}
	if l := inForce(t, e, s, ten.ID, "plan.quota"); l.Peak != nil {
		t.Errorf("a quota has a peak a minute: %+v", l.Peak)
	}
	e.clock.add(2 * time.Hour)
	if l := inForce(t, e, s, ten.ID, "plan.requests"); l.Peak != nil {
		t.Errorf("of an hour that nobody reported: %+v", l.Peak)
	}
}

func TestOverrides_ChangeOfPlanSaysWhatChanges(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	if _, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.quota", Amount: new(int64(90_000)), Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	got, err := s.PlanChange(e.ctx, ten.ID, "pro")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range got.Limits {
		before, after := "-", "-"
		if l.Before != nil {
			before = l.Before.Now().Text
		}
		if l.After != nil {
			after = l.After.Now().Text
		}
		lines = append(lines, fmt.Sprintf("%s: %s → %s %v", l.ID, before, after, l.Tighter))
	}
	if want := []string{"plan.requests: 60/minute, burst 60 → 600/minute, burst 100 false", "plan.quota: 90000 a month → 90000 a month, more is billed up to 90000 false"}; !slices.Equal(lines, want) {
		t.Errorf("to pro: %q", lines)
	}
	if got, err = s.PlanChange(e.ctx, ten.ID, "bare"); err != nil || len(got.Unused) != 1 || len(got.Limits) != 2 || got.Limits[0].After != nil {
		t.Errorf("to bare: %+v (%v)", got, err)
	}
	bare := "bare"
	if _, err := e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Plan: &bare}); err != nil {
		t.Fatal(err)
	}
	if got, err = s.PlanChange(e.ctx, ten.ID, "free"); err != nil || len(got.Regain) != 1 || len(got.Limits) != 2 || !got.Limits[0].Tighter {
		t.Errorf("back to free: %+v (%v)", got, err)
	}
	_, err = s.PlanChange(e.ctx, ten.ID, "gold")
	fieldOf(t, "a plan that is not there", err, "plan")
	_, err = s.PlanChange(e.ctx, "ten_none", "free")
	wantCode(t, err, console.CodeNotFound)
}
