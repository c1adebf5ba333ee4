package scale

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/testkit"
)

// TestSeed_IsADatabaseThatTheConsoleCouldHaveWritten: constraints were not
// checked row by row while it was filled, so they are checked here.
func TestSeed_IsADatabaseThatTheConsoleCouldHaveWritten(t *testing.T) {
	t.Parallel()
	c := connect(t, testkit.Postgres(t))
	known, err := Seed(t.Context(), c, Size{Tenants: 300, Keys: 5, Audit: 1000, Usage: 9000})
	if err != nil {
		t.Fatal(err)
	}
	for what, query := range map[string]string{
		"credentials without a tenant":         "SELECT count(*) FROM credentials c LEFT JOIN tenants t ON t.id = c.tenant_id WHERE t.id IS NULL",
		"keys without a credential":            "SELECT count(*) FROM key_versions v LEFT JOIN credentials c ON c.id = v.credential_id AND c.tenant_id = v.tenant_id WHERE c.id IS NULL",
		"rotations whose versions are missing": "SELECT count(*) FROM rotations r WHERE (SELECT count(*) FROM key_versions v WHERE v.kid IN (r.old_kid, r.new_kid) AND v.credential_id = r.credential_id) <> 2",
		"retiring keys that do not rotate":     "SELECT count(*) FROM key_versions v LEFT JOIN rotations r ON r.old_kid = v.kid AND r.state = 'overlap' WHERE v.state = 'retiring' AND r.id IS NULL",
		"use of no key":                        "SELECT count(*) FROM key_use u LEFT JOIN key_versions v ON v.kid = u.kid AND v.tenant_id = u.tenant_id WHERE v.kid IS NULL",
		"sources of no key":                    "SELECT count(*) FROM key_sources s LEFT JOIN key_use u ON u.kid = s.kid WHERE u.kid IS NULL",
		"values of no tenant":                  "SELECT count(*) FROM overrides o LEFT JOIN tenants t ON t.id = o.tenant_id WHERE t.id IS NULL",
		"gaps in the trail":                    "SELECT count(*) FROM audit_events a LEFT JOIN audit_events b ON b.seq = a.seq - 1 AND b.hash = a.prev_hash WHERE a.seq > 1 AND b.seq IS NULL",
		"usage of no key":                      "SELECT count(*) FROM usage_events e LEFT JOIN key_versions v ON v.kid = e.kid AND v.tenant_id = e.tenant_id WHERE v.kid IS NULL",
		"quarters that are no sum":             unequal("usage_quarters", "15 minutes", "tenant_id, kid, route, outcome", 91),
		"days that are no sum":                 unequal("usage_days", "1 day", "tenant_id, kid, route, outcome", 91),
		"minutes that are no sum":              unequal("usage_minutes", "1 minute", "tenant_id, kid, route, outcome", 7),
		"quarters of gateways that are no sum": unequal("usage_fleet", "15 minutes", "replica, route, outcome", 91),
		"days of gateways that are no sum":     unequal("usage_fleet_days", "1 day", "replica, route, outcome", 91),
		"hours that are no sum": "SELECT count(*) FROM (SELECT date_bin('1 hour', occurred_at, 'epoch') AS at, tenant_id, sum(cost) FILTER (WHERE outcome <> 'interrupted') AS cost FROM usage_events GROUP BY 1, 2) e " +
			"FULL JOIN usage_tenant_hours h USING (at, tenant_id) WHERE coalesce(e.cost, 0) IS DISTINCT FROM h.cost",
		"days of tenants that are no sum": "SELECT count(*) FROM (SELECT date_bin('1 day', occurred_at, 'epoch') AS at, tenant_id, sum(requests) AS n FROM usage_events GROUP BY 1, 2) e " +
			"FULL JOIN usage_tenant_days d USING (at, tenant_id) WHERE e.n IS DISTINCT FROM d.admitted + d.interrupted + d.refused + d.other",
		"events without a month":                 "SELECT count(*) FROM usage_events_default",
		"events beyond what is said to be there": "SELECT count(*) FROM usage_events e, usage_intake i WHERE e.ingest > i.ingest OR e.occurred_at > now()",
		"statistics that are missing":            "SELECT count(*) FROM pg_class WHERE relname IN ('tenants', 'key_versions', 'audit_events') AND reltuples <= 0",
	} {
		var n int
		if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	for what, query := range map[string]string{
		"tenants": "SELECT count(*) = 300 FROM tenants", "keys": "SELECT count(*) > 1500 FROM key_versions", "events": "SELECT count(*) = 1000 FROM audit_events",
		"suspended": "SELECT count(*) > 0 FROM tenants WHERE state = 'suspended'", "own values": "SELECT count(*) > 0 FROM overrides", "hours": "SELECT count(*) > 0 FROM key_use_hours",
		"open rotations": "SELECT count(*) > 0 FROM rotations WHERE state = 'overlap'", "usage": "SELECT count(*) = 9000 FROM usage_events", "periods": "SELECT count(*) = 60 FROM usage_periods", "quotas": "SELECT count(*) = 30 FROM quota_standings",
		"settings are reset": "SELECT current_setting('session_replication_role') = 'origin'",
	} {
		var ok bool
		if err := c.QueryRow(t.Context(), query).Scan(&ok); err != nil || !ok {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	if known.TenantID == "" || known.KID == "" || known.RotationID == "" || known.RareWord != "n150" {
		t.Errorf("known are %+v", known)
	}
}

// unequal counts rows of sums that the events of some days do not add up to, and
// events that are in none.
func unequal(table, stretch, by string, days int) string {
	return fmt.Sprintf("SELECT count(*) FROM (SELECT date_bin('%s', occurred_at, 'epoch') AS at, %s, sum(requests)::bigint AS requests, sum(cost)::bigint AS cost, 1 AS there "+
		"FROM usage_events JOIN usage_marks USING (run) GROUP BY 1, %s) e FULL JOIN (SELECT *, 1 AS summed FROM %s) s USING (at, %s, requests, cost) "+
		"WHERE at >= date_bin('1 day', now(), 'epoch') - interval '%d days' AND (there IS NULL OR summed IS NULL)", stretch, by, by, table, by, days)
}

func TestSeed_RefusesWhatItCannotFill(t *testing.T) {
	t.Parallel()
	c := connect(t, testkit.PostgresEmpty(t))
	for _, s := range []Size{{}, {Tenants: 99, Keys: 1, Audit: 100}, {Tenants: 100, Keys: 0, Audit: 100}, {Tenants: 100, Keys: 1}, {Tenants: 100, Keys: 1, Audit: 100}} {
		if _, err := Seed(t.Context(), c, s); err == nil {
			t.Errorf("%+v into a database without a schema, or too small: no error", s)
		}
	}
}

func TestSize_PercentKeepsTheKeysOfATenant(t *testing.T) {
	t.Parallel()
	if got := Full().Percent(1); got != (Size{Tenants: 1000, Keys: 10, Audit: 10_000, Usage: 30_000}) {
		t.Errorf("%+v", got)
	}
}
