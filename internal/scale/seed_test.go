package scale

import (
	"testing"

	"github.com/headgate/headgate/internal/testkit"
)

// TestSeed_IsADatabaseThatTheConsoleCouldHaveWritten: constraints were not
// checked row by row while it was filled, so they are checked here.
func TestSeed_IsADatabaseThatTheConsoleCouldHaveWritten(t *testing.T) {
	t.Parallel()
	c := connect(t, testkit.Postgres(t))
	known, err := Seed(t.Context(), c, Size{Tenants: 300, Keys: 5, Audit: 1000})
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
		"statistics that are missing":          "SELECT count(*) FROM pg_class WHERE relname IN ('tenants', 'key_versions', 'audit_events') AND reltuples <= 0",
	} {
		var n int
		if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	for what, query := range map[string]string{
		"tenants": "SELECT count(*) = 300 FROM tenants", "keys": "SELECT count(*) > 1500 FROM key_versions", "events": "SELECT count(*) = 1000 FROM audit_events",
		"suspended": "SELECT count(*) > 0 FROM tenants WHERE state = 'suspended'", "own values": "SELECT count(*) > 0 FROM overrides", "hours": "SELECT count(*) > 0 FROM key_use_hours",
		"open rotations": "SELECT count(*) > 0 FROM rotations WHERE state = 'overlap'", "settings are reset": "SELECT current_setting('session_replication_role') = 'origin'",
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
	if got := Full().Percent(1); got != (Size{Tenants: 1000, Keys: 10, Audit: 10_000}) {
		t.Errorf("%+v", got)
	}
}
