package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/policy"
)

const (
	// oldestPostgres is the oldest server that the schema is written for.
	oldestPostgres = 150000
	// monthsAhead is how many months of the ledger have to be there besides this one.
	monthsAhead = 3
	// clockBar is how far two clocks may be apart.
	clockBar = time.Second
	// openBar is how long a transaction may be open.
	openBar = 10 * time.Minute
	// fullPercent of all connections are many.
	fullPercent = 80
)

// inspection is one look at a database.
type inspection struct {
	conn   *pgx.Conn
	server string
	found  []policy.Hazard
}

func (l *inspection) add(code string, severity policy.Severity, text, mend string) {
	l.found = append(l.found, policy.Hazard{Code: code, Severity: severity, Server: l.server, Text: text, Mend: mend})
}

// Inspect looks a database over for known hazards, the worst first. now is the clock
// to which the server's is compared. An error says that it could not be asked.
func Inspect(ctx context.Context, dsn string, now func() time.Time) ([]policy.Hazard, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	l := &inspection{conn: conn, server: fmt.Sprintf("postgres %s:%d", cfg.Host, cfg.Port)}
	for _, look := range []func(context.Context) error{
		l.settings, func(ctx context.Context) error { return l.clock(ctx, now) }, l.busy,
		func(ctx context.Context) error { return l.schema(ctx, dsn) }, l.months,
	} {
		if err := look(ctx); err != nil {
			return nil, fmt.Errorf("inspect PostgreSQL: %w", err)
		}
	}
	rank := map[policy.Severity]int{policy.SeverityRed: 0, policy.SeverityAmber: 1, policy.SeverityNote: 2}
	slices.SortStableFunc(l.found, func(a, b policy.Hazard) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return l.found, nil
}

// settings are the version and what decides whether a commit stays.
func (l *inspection) settings(ctx context.Context) error {
	var version int
	var fsync, pages, vacuum, commit string
	var standby bool
	err := l.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('autovacuum'), current_setting('synchronous_commit'), pg_is_in_recovery()`).Scan(&version, &fsync, &pages, &vacuum, &commit, &standby)
	if err != nil {
		return err
	}
	if version < oldestPostgres {
		l.add(policy.HazardVersion, policy.SeverityRed, fmt.Sprintf("The server is PostgreSQL %d, and the schema needs 15 or newer.", version/10000), "Upgrade it.")
	}
	if standby {
		l.add(policy.HazardStandby, policy.SeverityRed, "This server is a standby: nothing can be changed or booked there.", "Point --database-url at the primary; a URL may name several hosts with target_session_attrs=read-write.")
	}
	for _, s := range []struct{ name, value string }{{"fsync", fsync}, {"full_page_writes", pages}} {
		if s.value == "off" {
			l.add(policy.HazardDurability, policy.SeverityRed, s.name+" is off: a crash of the machine can lose or spoil the ledger, versions and the audit trail.", "Set "+s.name+" = on and reload PostgreSQL.")
		}
	}
	if commit == "off" {
		l.add(policy.HazardDurability, policy.SeverityAmber, "synchronous_commit is off: gateways forget usage that a crash of PostgreSQL then loses.", "Set synchronous_commit = on, at least for the console's user.")
	}
	if vacuum == "off" {
		l.add(policy.HazardVacuum, policy.SeverityAmber, "autovacuum is off: tables grow, and one day the server refuses writes.", "Set autovacuum = on.")
	}
	return nil
}

func (l *inspection) clock(ctx context.Context, now func() time.Time) error {
	before := now()
	var there time.Time
	if err := l.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return err
	}
	after := now()
	if away := max(before.Sub(there), there.Sub(after)); away > clockBar {
		l.add(policy.HazardClock, policy.SeverityNote, fmt.Sprintf("The server's clock is %s away from this machine's.", away.Round(time.Millisecond)), "Let NTP keep both: times in the record come from consoles, and logs will not agree.")
	}
	return nil
}

// busy is connections and transactions.
func (l *inspection) busy(ctx context.Context) error {
	var most, used int
	var oldest time.Duration
	err := l.conn.QueryRow(ctx, `SELECT current_setting('max_connections')::int, count(*) FILTER (WHERE backend_type = 'client backend')::int,
		coalesce(max(clock_timestamp() - xact_start) FILTER (WHERE backend_type = 'client backend'), interval '0') FROM pg_stat_activity`).Scan(&most, &used, &oldest)
	if err != nil {
		return err
	}
	if used*100 >= most*fullPercent {
		l.add(policy.HazardBusy, policy.SeverityAmber, fmt.Sprintf("%d of %d connections are in use; when none is left, the console answers 503.", used, most), "Raise max_connections, lower --database-conns, or put a pooler in front.")
	}
	if oldest > openBar {
		l.add(policy.HazardBusy, policy.SeverityAmber, fmt.Sprintf("A transaction has been open for %s: dead rows cannot be removed meanwhile.", oldest.Round(time.Second)), "Find it in pg_stat_activity, and end it.")
	}
	return nil
}

func (l *inspection) schema(ctx context.Context, dsn string) error {
	switch err := CheckSchema(ctx, dsn); {
	case errors.Is(err, ErrSchemaOlder):
		l.add(policy.HazardSchema, policy.SeverityRed, "The schema is older than this headgate.", "Run headgate migrate.")
	case errors.Is(err, ErrSchemaNewer):
		l.add(policy.HazardSchema, policy.SeverityRed, "The schema was made by a newer headgate.", "Run that one.")
	case err != nil:
		return err
	}
	return nil
}

// months are the ledger's partitions.
func (l *inspection) months(ctx context.Context) error {
	var there bool
	if err := l.conn.QueryRow(ctx, "SELECT to_regclass('usage_events') IS NOT NULL").Scan(&there); err != nil || !there {
		return err // without the table the schema is older, and that is told
	}
	var missing []string
	err := l.conn.QueryRow(ctx, `SELECT coalesce(array_agg(to_char(month, 'YYYY-MM') ORDER BY month), '{}')
		FROM generate_series(0, $1) AS ahead, LATERAL (SELECT date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ahead) AS month) AS m
		WHERE to_regclass('usage_events_' || to_char(month, 'YYYYMM')) IS NULL`, monthsAhead).Scan(&missing)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		severity := policy.SeverityAmber
		if len(missing) > monthsAhead { // also the one that runs
			severity = policy.SeverityRed
		}
		l.add(policy.HazardPartitions, severity, fmt.Sprintf("The ledger has no partitions for %v; its events lie in the default one then, which is slow and cannot be dropped by the month.", missing),
			"Let a console run: it makes them at its start and each hour. If one does, its log says why it cannot.")
	}
	var strays bool
	if err := l.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM usage_events_default)").Scan(&strays); err != nil {
		return err
	}
	if strays {
		l.add(policy.HazardPartitions, policy.SeverityAmber, "Events lie in the ledger's default partition: their month had none when they came.", "A console moves them by itself within the hour; SELECT usage_tidy_default() does it at once, while nothing is booked.")
	}
	return nil
}
