package console_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
)

func TestConsole_P10_DatabaseThatCanOnlyBeReadIsRead(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleOwner)
	id, _, err := e.sessions.Create(e.ctx, o.ID, "192.0.2.1", "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := e.operators.IssueToken(e.ctx, owner, o.ID, "ci", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(e.ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(e.ctx, "ALTER DATABASE "+pgx.Identifier{cfg.Database}.Sanitize()+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	store, err := db.Open(e.ctx, e.dsn, 2) // its connections are read-only
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d := e.deps
	d.Store = store
	e.clock.add(time.Minute) // last use is due to be written
	if _, got, err := console.NewSessions(d).Touch(e.ctx, id); err != nil || got.ID != o.ID {
		t.Errorf("session: %v", err)
	}
	if got, err := console.NewOperators(d).Authenticate(e.ctx, token); err != nil || got.ID != o.ID {
		t.Errorf("token: %v", err)
	}
	_, err = console.NewTenants(d).Create(e.ctx, owner, console.NewTenant{Name: "A", Plan: "free"})
	if ce := errorWith(t, err, console.CodeUnavailable); ce.RetryAfter < 1 {
		t.Errorf("a write names no time to try again: %v", err)
	}
}
