package console

import (
	"fmt"
	"testing"
	"time"
)

func cellsOf(n int) (cells []UsageCell) {
	for i := range n {
		cells = append(cells, UsageCell{Key: fmt.Sprint(i)})
	}
	return cells
}

func TestRanks_AreRememberedOfVeryManyGroupsAndForAShortTime(t *testing.T) {
	t.Parallel()
	var s ranks
	now := time.Unix(1_800_000_000, 0)
	s.put("few", cellsOf(10), rankMany-1, now)
	s.put("many", cellsOf(10), rankMany, now)
	if _, _, _, ok := s.get("few", now); ok {
		t.Error("an order of few groups is remembered")
	}
	if keys, count, again, ok := s.get("many", now.Add(rankFresh)); !ok || again || count != rankMany || len(keys) != 10 || keys[3] != "3" {
		t.Errorf("got %v of %d, again %t, there %t", keys, count, again, ok)
	}
	old := now.Add(rankFresh + time.Second)
	if _, _, again, ok := s.get("many", old); !ok || !again {
		t.Errorf("an old order: there %t, to be read again %t", ok, again)
	}
	if _, _, again, _ := s.get("many", old); again {
		t.Error("two read the same order again")
	}
	s.tried("many")
	if _, _, again, _ := s.get("many", old); !again {
		t.Error("after a failure nobody tries again")
	}
	if _, _, _, ok := s.get("many", now.Add(rankStale+time.Second)); ok {
		t.Error("a stale order is taken")
	}
	if _, _, _, ok := s.get("many", now.Add(-time.Second)); ok {
		t.Error("an order of the future is taken")
	}
	s.put("many", cellsOf(3), 3, old)
	if _, _, _, ok := s.get("many", old); ok {
		t.Error("an order that has become short is still remembered")
	}
}

func TestRanks_HoldNoMoreThanTheyMay(t *testing.T) {
	t.Parallel()
	var s ranks
	for i := range 3 * ranksKept {
		s.put(fmt.Sprint(i), nil, rankMany, time.Unix(1, 0))
	}
	if len(s.all) > ranksKept {
		t.Errorf("%d are remembered", len(s.all))
	}
}

func TestRankKey_IsOfQuestionsAboutAllTenantsOnly(t *testing.T) {
	t.Parallel()
	all := UsageRead{Group: GroupTenant, By: ByCost, Top: 10}
	if rankKey(UsageOfTenants, all) == "" {
		t.Error("the largest tenants have no key")
	}
	seen := map[string]bool{}
	for i, change := range []func(*UsageRead){
		func(*UsageRead) {}, func(r *UsageRead) { r.By = ByRequests }, func(r *UsageRead) { r.Top = 11 }, func(r *UsageRead) { r.Plan = "pro" }, func(r *UsageRead) { r.Route = "pro" },
		func(r *UsageRead) { r.Outcome = "pro" }, func(r *UsageRead) { r.Cover.From = time.Unix(900, 0) }, func(r *UsageRead) { r.Cover.To = time.Unix(900, 0) }, func(r *UsageRead) { r.Group = GroupKey },
	} {
		r := all
		change(&r)
		if key := rankKey(UsageOfTenants, r); key == "" || seen[key] {
			t.Errorf("question %d has the key %q of another", i, key)
		} else {
			seen[key] = true
		}
	}
	for _, r := range []UsageRead{{Group: GroupTenant, TenantIDs: []string{"a"}}, {Group: GroupKey, KIDs: []string{"a"}}, {Group: GroupPlan}, {Group: GroupRoute}} {
		if key := rankKey(UsageOfTenants, r); key != "" {
			t.Errorf("%+v has the key %q", r, key)
		}
	}
}
