package scale

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Size says how much Seed puts into a database.
type Size struct {
	Tenants int // at least 100
	Keys    int // credentials of each tenant
	Audit   int // events
	Usage   int // events of the ledger, over 90 days and a tenth of the tenants; with their sums more than three times as many rows
}

// Full is what the product promises to be quick with.
func Full() Size { return Size{Tenants: 100_000, Keys: 10, Audit: 1_000_000, Usage: 3_000_000} }

// Percent is p hundredths of s, with the same number of keys a tenant.
func (s Size) Percent(p int) Size {
	return Size{Tenants: s.Tenants * p / 100, Keys: s.Keys, Audit: s.Audit * p / 100, Usage: s.Usage * p / 100}
}

// Known names things that Seed put in, to look for. They have the same
// neighbours whatever the size: a tenant in the middle, one with an open
// rotation, a word that one name has, two that one in 800 has, and one that one
// in 40 has.
type Known struct {
	TenantID, CredentialID, KID, RotationID string
	RareWord, TwoWords, CommonWord          string
	ActorID                                 string
}

// statement is one step of the seed. Arguments are those of its placeholders.
type statement struct {
	what, sql string
	args      []any
}

// Seed fills a migrated database and prepares it as a database at work is:
// analysed and vacuumed. The same size gives the same rows, except for the
// present time. The connection must be a superuser's: foreign keys are not
// checked row by row.
func Seed(ctx context.Context, conn *pgx.Conn, s Size) (Known, error) {
	if s.Tenants < 100 || s.Keys < 1 || s.Audit < 100 {
		return Known{}, fmt.Errorf("seed %+v: at least 100 tenants with a key each, and 100 events", s)
	}
	for _, st := range steps(s) {
		if _, err := conn.Exec(ctx, st.sql, st.args...); err != nil {
			return Known{}, fmt.Errorf("seed %s: %w", st.what, err)
		}
	}
	return known(ctx, conn, s)
}

func steps(s Size) []statement {
	out := []statement{
		{"settings", "SET session_replication_role = replica", nil},
		{"settings", "SET statement_timeout = 0", nil},
		{"settings", "SET work_mem = '64MB'", nil},
		{"settings", "SET maintenance_work_mem = '256MB'", nil},
		{"operators", seedOperators, nil},
		{"tenants", seedTenants, []any{s.Tenants, words(first), words(second)}},
		{"credentials", seedCredentials, []any{s.Tenants, s.Keys}},
		{"keys", seedKeys, []any{s.Tenants, s.Keys}},
		{"rotations", seedRotations, nil},
		{"use of keys", seedUse, nil},
		{"sources of keys", seedSources, nil},
		{"use by the hour", seedHours, nil},
		{"overrides", seedOverrides, nil},
		{"audit trail", seedAudit, []any{s.Audit, s.Tenants, s.Keys}},
	}
	out = append(out, usageSteps(s, time.Now().UTC().Add(-usageDays*24*time.Hour).Truncate(time.Second))...)
	for _, table := range []string{"tenants", "credentials", "key_versions", "rotations", "key_use", "key_sources", "key_use_hours", "overrides", "audit_events",
		"usage_events", "usage_minutes", "usage_quarters", "usage_days", "usage_fleet", "usage_fleet_days", "usage_tenant_hours", "usage_tenant_days", "usage_periods", "usage_gaps", "usage_quarantine", "quota_standings"} {
		out = append(out, statement{"vacuum", "VACUUM (ANALYZE) " + table, nil})
	}
	return append(out, statement{"settings", "RESET ALL", nil})
}

// usageSteps fills the ledger. It has nothing when s has no usage.
func usageSteps(s Size, from time.Time) []statement {
	if s.Usage == 0 {
		return nil
	}
	ingest := 1 + (s.Usage-1)/200
	return []statement{
		{"months", seedMonths, []any{from}},
		{"gateways", seedMarks, []any{s.Usage + 1}},
		{"usage", seedEvents, []any{s.Usage, s.Tenants, s.Keys, from}},
		{"usage by minutes", sumMinutes, nil},
		{"usage by quarters", sumQuarters, nil},
		{"usage by days", sumDays, nil},
		{"usage by gateway", sumFleet, nil},
		{"usage by gateway and day", sumFleetDays, nil},
		{"usage by tenant and hour", sumTenantHours, nil},
		{"usage by tenant and day", sumTenantDays, nil},
		{"periods", seedPeriods, []any{from, ingest}},
		{"quotas", seedQuotas, nil},
		{"gaps", seedGaps, nil},
		{"held usage", seedHeld, nil},
		{"position of the ledger", seedIntake, []any{ingest}},
	}
}

func known(ctx context.Context, conn *pgx.Conn, s Size) (Known, error) {
	k := Known{RareWord: fmt.Sprintf("n%d", s.Tenants/2), TwoWords: "amber systems", CommonWord: "amber", ActorID: "opr_" + strings.Repeat("a", 16)}
	err := conn.QueryRow(ctx, `SELECT t.id, c.id, v.kid FROM tenants t JOIN credentials c ON c.tenant_id = t.id JOIN key_versions v ON v.credential_id = c.id
		WHERE t.external_id = $1 AND v.state = 'active' ORDER BY c.id LIMIT 1`, fmt.Sprintf("cus_%d", s.Tenants/2)).Scan(&k.TenantID, &k.CredentialID, &k.KID)
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT id FROM rotations WHERE state = 'overlap' ORDER BY started_at DESC LIMIT 1").Scan(&k.RotationID)
	}
	if err != nil {
		return Known{}, fmt.Errorf("look for what was seeded: %w", err)
	}
	return k, nil
}

const (
	first = "amber birch cedar delta ember fjord glade haven indigo jasper kestrel lumen maple nimbus onyx pebble quartz ridge sable tundra " +
		"umber valley willow xenon yarrow zephyr atlas bolt comet drift echo flint grove harbor iris juno krypton lotus mesa nova"
	second = "systems labs works retail bank health media foods energy travel games logistics motors studio capital press telecom schools airways insurance"
)

func words(s string) []string { return strings.Fields(s) }

// An id is 16 letters of base 32: eight that scatter, eight that count.
const (
	tenantID     = `'ten_' || translate(left(md5('t' || %[1]s), 8) || lpad(to_hex(%[1]s), 8, '0'), '0189', 'ghij')`
	credentialID = `'crd_' || translate(left(md5('c' || %[1]s), 8) || lpad(to_hex(%[1]s), 8, '0'), '0189', 'ghij')`
)
