package db_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// TestQuotas_GrantsAndResetsAreForGood, so that what was given or forgiven can be shown.
func TestQuotas_GrantsAndResetsAreForGood(t *testing.T) {
	t.Parallel()
	s, dsn := open(t)
	fill(t, s, tenA, "a")
	used(t, dsn, tenA, "a")
	conn := connect(t, dsn)
	run(t, conn, `INSERT INTO quota_resets (id, tenant_id, period_start, units, reason, author_id, author, created_at)
		VALUES ('qrs_' || repeat('a', 16), $1, 'epoch', 5, 'r', 'opr', 'Ann', now())`, tenA)
	for _, sql := range []string{
		"UPDATE quota_grants SET units = 5", "DELETE FROM quota_grants", "UPDATE quota_resets SET units = 1", "DELETE FROM quota_resets",
	} {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was done", sql)
		}
	}
	for what, sql := range map[string]string{
		"a grant that takes away":                        "INSERT INTO quota_grants SELECT 'gra_' || repeat('b', 16), tenant_id, period_start, period_end, -5, reason, author_id, author, created_at FROM quota_grants",
		"a grant of a period that ends before it begins": "INSERT INTO quota_grants SELECT 'gra_' || repeat('b', 16), tenant_id, period_start, period_start, units, reason, author_id, author, created_at FROM quota_grants",
		"a reset of nothing":                             "INSERT INTO quota_resets SELECT 'qrs_' || repeat('b', 16), tenant_id, period_start, 0, reason, author_id, author, created_at FROM quota_resets",
		"a crossing that was told":                       "INSERT INTO quota_crossings (tenant_id, period_start, percent, units, amount, crossed_at) SELECT tenant_id, period_start, percent, 9, 9, now() FROM quota_crossings",
	} {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is kept", what)
		}
	}
}

// TestQuotas_ManyGrantsTravelNewestPeriodFirst after a lifetime's, whatever order they were given in.
func TestQuotas_ManyGrantsTravelNewestPeriodFirst(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	fill(t, s, tenA, "a")
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	var got []console.QuotaGrantUnits
	err := s.InTx(t.Context(), func(tx console.Tx) error {
		for i, start := range []time.Time{day(2), day(9), time.Unix(0, 0), day(5), day(9)} {
			end := start.AddDate(0, 0, 1)
			g := console.QuotaGrant{ID: "gra_" + string(rune('a'+i)) + "aaaaaaaaaaaaaaa", TenantID: tenA, Start: start, End: &end, Units: int64(i + 1), Reason: "r", Author: "Ann", At: day(1)}
			if start.Unix() == 0 {
				g.End = nil
			}
			if err := tx.InsertQuotaGrant(t.Context(), g); err != nil {
				return err
			}
		}
		var err error
		got, err = tx.QuotaGrantUnits(t.Context(), []string{tenA})
		return err
	})
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	for i, want := range []struct {
		start time.Time
		units int64
	}{{time.Unix(0, 0), 3}, {day(9), 7}, {day(5), 4}, {day(2), 1}} {
		if !got[i].Start.Equal(want.start) || got[i].Units != want.units {
			t.Errorf("%d: %+v, want %+v", i, got[i], want)
		}
	}
}

// TestQuotas_AStandingRemembersItsLastCorrection until there is another one.
func TestQuotas_AStandingRemembersItsLastCorrection(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	fill(t, s, tenA, "a")
	at := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	put := func(healed int64, redis *int64) console.QuotaStanding {
		t.Helper()
		at = at.Add(time.Minute)
		var out []console.QuotaStanding
		err := s.InTx(t.Context(), func(tx console.Tx) error {
			q := console.QuotaStanding{
				TenantID: tenA, Plan: "free", Period: "month", Start: at, TimeZone: "UTC", Counts: "cost", Over: "block", Amount: 10, Redis: redis, Ledger: 4, HealedUnits: healed,
			}
			if err := tx.PutQuotaStandings(t.Context(), []console.QuotaStanding{q}, at); err != nil {
				return err
			}
			var err error
			out, err = tx.QuotaStandings(t.Context(), []string{tenA})
			return err
		})
		if err != nil || len(out) != 1 {
			t.Fatal(out, err)
		}
		return out[0]
	}
	if q := put(0, nil); q.HealedAt != nil || q.Redis != nil || q.End != nil || q.Drift() != 4 {
		t.Errorf("at first: %+v", q)
	}
	four := int64(4)
	healed := put(4, &four)
	if q := put(0, &four); q.HealedAt == nil || !q.HealedAt.Equal(*healed.HealedAt) || q.HealedUnits != 4 || !q.ComparedAt.Equal(at) || *q.Redis != 4 {
		t.Errorf("after a quiet round: %+v", q)
	}
	if q := put(-1, &four); !q.HealedAt.Equal(at) || q.HealedUnits != -1 {
		t.Errorf("corrected again: %+v", q)
	}
}
