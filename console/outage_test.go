package console_test

import (
	"context"
	"errors"
	"sync"
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
	id, _, err := e.sessions.Create(e.ctx, o, "192.0.2.1", "test", nil)
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
	wantCode(t, err, console.CodeUnavailable)
}

func TestIdempotency_A18_AnswerIsKeptForAClientThatWentAway(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := console.NewIdempotency(e.deps)
	gone, leave := context.WithCancel(e.ctx)
	for _, key := range []string{"finished", "failed"} {
		if fresh, _, err := s.Claim(gone, owner, "tenants.create", key, "f"); err != nil || !fresh {
			t.Fatalf("claim: %v %v", fresh, err)
		}
	}
	leave()
	if err := s.Finish(gone, owner, "tenants.create", "finished", []byte(`{"id":1}`)); err != nil {
		t.Error(err)
	}
	if err := s.Release(gone, owner, "tenants.create", "failed"); err != nil {
		t.Error(err)
	}
	if fresh, earlier, err := s.Claim(e.ctx, owner, "tenants.create", "finished", "f"); err != nil || fresh || string(earlier) != `{"id":1}` {
		t.Errorf("the repeat of a finished request: fresh %v, earlier %q, %v", fresh, earlier, err)
	}
	if fresh, _, err := s.Claim(e.ctx, owner, "tenants.create", "failed", "f"); err != nil || !fresh {
		t.Errorf("the repeat of a failed request: fresh %v, %v", fresh, err)
	}
}

func TestErrors_C01_NoEffectIsClaimedOnlyWhereItIsCertain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&console.Error{Code: console.CodeInvalid}, true},
		{&console.Error{Code: console.CodeUnavailable}, true},
		{&console.Error{Code: console.CodeUnavailable, Unsure: true}, false},
		{&console.Error{Code: console.CodeInternal}, false},
		{errors.New("anything"), false},
		{nil, false},
	} {
		if got := console.HadNoEffect(c.err); got != c.want {
			t.Errorf("%+v: %v", c.err, got)
		}
	}
}

func TestSessions_A03_NoneBeginsAfterThePasswordThatItRestsOnHasEnded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, change := range map[string]func(id string) error{
		"password": func(id string) error { return e.operators.SetPassword(e.ctx, owner, id, "another password") },
		"disabled": func(id string) error { return e.operators.Disable(e.ctx, owner, id) },
	} {
		o := e.operator(t, name+"@example.com", console.RoleViewer)
		signedIn, err := e.operators.SignIn(e.ctx, o.Email, password, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		if err := change(o.ID); err != nil {
			t.Fatal(err)
		}
		_, _, err = e.sessions.Create(e.ctx, signedIn, "192.0.2.1", "test", nil)
		wantCode(t, err, console.CodeUnauthenticated)
		if left, err := e.sessions.List(e.ctx, o.ID); err != nil || len(left) != 0 {
			t.Errorf("%s: %d sessions are left (%v)", name, len(left), err)
		}
	}
	o := e.operator(t, "race@example.com", console.RoleViewer)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _, _ = e.sessions.Create(e.ctx, o, "192.0.2.1", "test", nil) })
	}
	wg.Go(func() {
		if err := e.operators.SetPassword(e.ctx, owner, o.ID, "another password"); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if left, err := e.sessions.List(e.ctx, o.ID); err != nil || len(left) != 0 {
		t.Errorf("%d sessions of the old password are left (%v)", len(left), err)
	}
}
