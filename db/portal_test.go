package db_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
)

const tenB = "ten_bbbbbbbbbbbbbbbb"

// member is a tenant's member whose ids end in c.
func member(tenantID, c string) console.Member {
	return console.Member{
		ID: "mem_" + strings.Repeat(c, 16), TenantID: tenantID, Email: c + "@example.com", Name: "taint-" + c, Role: console.RoleTenantAdmin,
		PasswordHash: "x", CreatedAt: at, JoinedAt: &at,
	}
}

// fill gives a tenant a row in each table that its pages read.
func fill(t *testing.T, s *db.Store, tenantID, c string) {
	t.Helper()
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		rep := func(prefix string) string { return prefix + "_" + strings.Repeat(c, 16) }
		ten := tenant(tenantID)
		ten.Name = "taint-" + c
		m := member(tenantID, c)
		crd := credential()
		crd.ID, crd.TenantID = rep("crd"), tenantID
		old, fresh := version(strings.Repeat(c, 11)+"0", c), version(strings.Repeat(c, 11)+"1", c)
		old.CredentialID, old.TenantID = crd.ID, tenantID
		retiring := old
		retiring.State, retiring.RetiringAt, retiring.NotAfter = "retiring", &at, crd.ExpiresAt
		fresh.CredentialID, fresh.TenantID = crd.ID, tenantID
		fresh.Digest = "sha256:" + strings.Repeat(c, 63) + "0"
		rot := console.Rotation{ID: rep("rot"), CredentialID: crd.ID, TenantID: tenantID, OldKID: old.KID, NewKID: fresh.KID, State: console.RotationOverlap,
			Reason: "taint-" + c, Overlap: time.Hour, StartedAt: at, EndsAt: at.Add(time.Hour)}
		later := at.Add(time.Hour)
		for _, do := range []func() error{
			func() error { return tx.InsertTenant(ctx, ten) },
			func() error { return tx.InsertMember(ctx, m) },
			func() error { return tx.InsertCredential(ctx, crd) },
			func() error { return tx.InsertKey(ctx, old) },
			func() error { return tx.UpdateKey(ctx, retiring) },
			func() error { return tx.InsertKey(ctx, fresh) },
			func() error { return tx.InsertRotation(ctx, rot) },
			func() error {
				return tx.InsertMemberSession(ctx, tenantID, console.Session{Hash: strings.Repeat(c, 64), OperatorID: m.ID, Data: []byte("{}"), CreatedAt: at, SeenAt: at, ExpiresAt: later})
			},
			func() error {
				return tx.InsertInvitation(ctx, console.Invitation{ID: rep("inv"), TenantID: tenantID, Email: "i" + c + "@example.com", Role: console.RoleTenantViewer, CreatedAt: at, ExpiresAt: later}, strings.Repeat(c, 64))
			},
			func() error { return tx.InsertSignInLink(ctx, m, strings.Repeat(c, 64), "x", at, later) },
			func() error {
				return tx.InsertAsk(ctx, console.Ask{ID: rep("ask"), TenantID: tenantID, Limit: "plan.requests", Wanted: "x", Factor: 2000, Why: "taint-" + c, State: console.AskOpen, MemberID: m.ID, Member: m.Name, CreatedAt: at})
			},
			func() error {
				return tx.InsertThreshold(ctx, console.Threshold{ID: rep("thr"), TenantID: tenantID, Kind: console.ThresholdRefused, Value: 5, MemberID: m.ID, CreatedAt: at})
			},
		} {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// used notes a use of a tenant's old key.
func used(t *testing.T, dsn, tenantID, c string) {
	t.Helper()
	conn := connect(t, dsn)
	alerted(t, conn, tenantID, c)
	kid := strings.Repeat(c, 11) + "0"
	run(t, conn, "INSERT INTO key_use (kid, tenant_id, first_used_at, last_used_at) VALUES ($1, $2, now(), now())", kid, tenantID)
	run(t, conn, "INSERT INTO key_sources (kid, tenant_id, network, agent, first_seen, last_seen, requests, limited, refused) VALUES ($1, $2, '192.0.2.0/24', 'a', now(), now(), 1, 0, 0)", kid, tenantID)
	run(t, conn, `INSERT INTO quota_grants (id, tenant_id, period_start, units, reason, author_id, author, created_at)
		VALUES ('gra_' || repeat($1, 16), $2, 'epoch', 1, 'r', 'opr', 'Ann', now())`, c, tenantID)
	run(t, conn, `INSERT INTO quota_standings (tenant_id, plan, period, period_start, time_zone, counts, over, amount, most, granted, ledger_units, compared_at, complete)
		VALUES ($1, 'free', 'lifetime', 'epoch', 'UTC', 'cost', 'block', 1, 0, 0, 1, now(), true)`, tenantID)
	for _, table := range []string{"usage_minutes", "usage_quarters", "usage_days"} {
		run(t, conn, "INSERT INTO "+table+" (at, requests, cost, tenant_id, kid, route, outcome) VALUES ('epoch', 1, 1, $1, '', 'r', 'admitted')", tenantID)
	}
	run(t, conn, "INSERT INTO quota_crossings (tenant_id, period_start, percent, units, amount, crossed_at) VALUES ($1, 'epoch', 50, 1, 1, now())", tenantID)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// portalTables are the tables of which the portal's role may read columns.
func portalTables(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT DISTINCT table_name FROM information_schema.column_privileges WHERE grantee = 'headgate_portal' ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPortal_A05_TheRoleSeesItsTenantAndWithoutOneNothing(t *testing.T) {
	t.Parallel()
	s, dsn := open(t)
	for id, c := range map[string]string{tenA: "a", tenB: "b"} {
		fill(t, s, id, c)
		used(t, dsn, id, c)
	}
	conn := connect(t, dsn)
	tables := portalTables(t, conn)
	if len(tables) < 12 {
		t.Fatalf("the role reads only %v", tables)
	}
	for setting, want := range map[string]int{"": 0, tenA: 1, tenB: 1, "ten_cccccccccccccccc": 0, "%": 0} {
		for _, table := range tables {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if setting != "" {
				if _, err := tx.Exec(t.Context(), "SELECT set_config('app.tenant_id', $1, true)", setting); err != nil {
					t.Fatal(err)
				}
			}
			var n int
			if _, err = tx.Exec(t.Context(), "SET LOCAL ROLE headgate_portal"); err == nil {
				err = tx.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n)
			}
			_ = tx.Rollback(t.Context())
			if table == "key_versions" {
				want := want * 2
				if n != want || err != nil {
					t.Errorf("%s with %q: %d rows, want %d (%v)", table, setting, n, want, err)
				}
			} else if n != want || err != nil {
				t.Errorf("%s with %q: %d rows, want %d (%v)", table, setting, n, want, err)
			}
		}
	}
}

func TestPortal_A05_TenantsTablesAreGuardedAlsoFromTheirOwner(t *testing.T) {
	t.Parallel()
	_, dsn := open(t)
	conn := connect(t, dsn)
	for _, table := range portalTables(t, conn) {
		var on, forced bool
		if err := conn.QueryRow(t.Context(), "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = $1::regclass", table).Scan(&on, &forced); err != nil || !on || !forced {
			t.Errorf("%s: row security %v, forced %v (%v)", table, on, forced, err)
		}
	}
}

func TestPortal_SecretsAndOtherTablesAreNotGranted(t *testing.T) {
	t.Parallel()
	_, dsn := open(t)
	conn := connect(t, dsn)
	run(t, conn, "SET ROLE headgate_portal")
	for _, sql := range []string{
		"SELECT digest FROM key_versions", "SELECT password_hash FROM members", "SELECT secret_hash FROM member_invitations", "SELECT hash FROM sign_in_links",
		"SELECT hash FROM member_sessions", "SELECT reason FROM tenants", "SELECT external_id FROM tenants", "SELECT 1 FROM operators", "SELECT 1 FROM audit_events",
		"SELECT 1 FROM leak_cases", "SELECT 1 FROM portal_rules", "UPDATE members SET role = 'tenant-admin'", "DELETE FROM thresholds", "INSERT INTO asks (id) VALUES ('x')",
	} {
		_, err := conn.Exec(t.Context(), sql)
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "42501" {
			t.Errorf("%s: %v, want it refused", sql, err)
		}
	}
}

func TestReadTenant_A05_TenThousandReadsOverTwoConnectionsNeverMix(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, err := db.Open(t.Context(), dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	neverMix(t, s)
}

// neverMix has eight workers read as two tenants in turns, ten thousand times.
func neverMix(t *testing.T, s *db.Store) {
	t.Helper()
	fill(t, s, tenA, "a")
	fill(t, s, tenB, "b")
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 1250 {
				id, want := tenA, "taint-a"
				if (worker+i)%2 == 1 {
					id, want = tenB, "taint-b"
				}
				if err := s.ReadTenant(t.Context(), id, func(tx console.PortalTx) error { return mine(t.Context(), tx, i, want) }); err != nil {
					t.Errorf("worker %d, read %d: %v", worker, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	// A connection goes back as it came.
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		list, err := tx.Members(ctx, tenA)
		if err == nil && (len(list) != 1 || list[0].PasswordHash != "x") {
			err = fmt.Errorf("members are %+v", list)
		}
		return err
	})
}

// mine reads one kind of thing and fails unless it is the tenant's own.
func mine(ctx context.Context, tx console.PortalTx, i int, want string) error {
	switch i % 3 {
	case 0:
		list, err := tx.Members(ctx)
		if err == nil && (len(list) != 1 || list[0].Name != want || list[0].PasswordHash != "") {
			err = fmt.Errorf("members are %+v, want %s", list, want)
		}
		return err
	case 1:
		list, err := tx.Rotations(ctx, "", true)
		if err == nil && (len(list) != 1 || list[0].Reason != want) {
			err = fmt.Errorf("rotations are %+v, want %s", list, want)
		}
		return err
	}
	list, err := tx.Asks(ctx)
	if err == nil && (len(list) != 1 || list[0].Why != want) {
		err = fmt.Errorf("asks are %+v, want %s", list, want)
	}
	return err
}

func TestReadTenant_NothingCanBeWritten(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	fill(t, s, tenA, "a")
	var creds []console.Credential
	err := s.ReadTenant(t.Context(), tenA, func(tx console.PortalTx) (err error) {
		creds, err = tx.Credentials(t.Context())
		return err
	})
	if err != nil || len(creds) != 1 || len(creds[0].Versions) != 2 || creds[0].Versions[0].Digest != "" {
		t.Fatalf("%+v %v", creds, err)
	}
	if err := s.ReadTenant(t.Context(), "ten_zzzzzzzzzzzzzzzz", func(tx console.PortalTx) error {
		_, err := tx.Tenant(t.Context())
		return err
	}); !console.IsNotFound(err) {
		t.Fatalf("an unknown tenant: %v", err)
	}
}

func TestMemberSessions_A03_EndWithRoleMembershipAndTenant(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(context.Context, console.Tx, console.Member) error{
		"role": func(ctx context.Context, tx console.Tx, m console.Member) error {
			m.Role = console.RoleTenantViewer
			return tx.UpdateMember(ctx, m)
		},
		"removed": func(ctx context.Context, tx console.Tx, m console.Member) error {
			m.DisabledAt = &at
			return tx.UpdateMember(ctx, m)
		},
		"suspended": func(ctx context.Context, tx console.Tx, m console.Member) error {
			ten, err := tx.LockTenant(ctx, m.TenantID)
			if err != nil {
				return err
			}
			ten.State, ten.Seq = "suspended", ten.Seq+1
			return tx.UpdateTenant(ctx, ten)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t)
			fill(t, s, tenA, "a")
			find := func() (err error) {
				return s.Read(t.Context(), func(tx console.Tx) error {
					_, _, err = tx.MemberSession(t.Context(), strings.Repeat("a", 64), at, at.Add(-time.Minute))
					return err
				})
			}
			if err := find(); err != nil {
				t.Fatalf("before: %v", err)
			}
			in(t, s, func(ctx context.Context, tx console.Tx) error { return change(ctx, tx, member(tenA, "a")) })
			if err := find(); !console.IsNotFound(err) {
				t.Fatalf("afterwards: %v", err)
			}
			in(t, s, func(ctx context.Context, tx console.Tx) error {
				_, err := tx.UseSignInLink(ctx, strings.Repeat("a", 64), at)
				if !console.IsNotFound(err) {
					t.Errorf("the link works still: %v", err)
				}
				return nil
			})
		})
	}
}

func TestMigrate_WithoutSuperuserNeedsTheRoleAndSaysHow(t *testing.T) {
	t.Parallel()
	_ = testkit.Postgres(t) // the role is one for the whole server, and there from here on
	admin := testkit.PostgresEmpty(t)
	conn := connect(t, admin)
	user := "hg_plain_" + fmt.Sprint(time.Now().UnixNano())
	run(t, conn, "CREATE ROLE "+user+" LOGIN PASSWORD 'x' NOSUPERUSER NOCREATEROLE")
	t.Cleanup(func() {
		ctx := context.Background()
		c, err := pgx.Connect(ctx, admin)
		if err == nil {
			_, _ = c.Exec(ctx, "DROP OWNED BY "+user+" CASCADE")
			_, err = c.Exec(ctx, "DROP ROLE "+user)
			_ = c.Close(ctx)
		}
		if err != nil {
			t.Errorf("drop role: %v", err)
		}
	})
	run(t, conn, "GRANT ALL ON SCHEMA public TO "+user)
	run(t, conn, "GRANT CREATE ON DATABASE "+pgx.Identifier{conn.Config().Database}.Sanitize()+" TO "+user)
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "x")
	err = db.Migrate(t.Context(), u.String())
	if err == nil || !strings.Contains(err.Error(), "CREATE ROLE headgate_portal NOLOGIN; GRANT headgate_portal TO "+user) {
		t.Fatalf("without the role: %v", err)
	}
	run(t, conn, "GRANT headgate_portal TO "+user)
	if err := db.Migrate(t.Context(), u.String()); err != nil {
		t.Fatalf("with the role: %v", err)
	}
	s, err := db.Open(t.Context(), u.String(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	fill(t, s, tenA, "a")
	fill(t, s, tenB, "b")
	for i := range 3 {
		if err := s.ReadTenant(t.Context(), tenB, func(tx console.PortalTx) error { return mine(t.Context(), tx, i, "taint-b") }); err != nil {
			t.Error(err)
		}
	}
}
