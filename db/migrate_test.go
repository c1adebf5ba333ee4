package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
)

func TestMigrate_SeveralAtOnceTakeTurns(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresEmpty(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = db.Migrate(t.Context(), dsn) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	all, err := db.MigrateStatus(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no migrations are known")
	}
	for _, m := range all {
		if m.AppliedAt.IsZero() {
			t.Errorf("%s is pending", m.Name)
		}
	}
}

func TestMigrate_StatusOfAnEmptyDatabaseIsPending(t *testing.T) {
	t.Parallel()
	all, err := db.MigrateStatus(t.Context(), testkit.PostgresEmpty(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if !m.AppliedAt.IsZero() {
			t.Errorf("%s counts as applied", m.Name)
		}
	}
}

func TestMigrate_BadURLIsAnError(t *testing.T) {
	t.Parallel()
	if err := db.Migrate(t.Context(), "postgres://%zz"); err == nil {
		t.Fatal("no error")
	}
}

func TestCheckSchema_R126_TellsOlderAndNewerSchemas(t *testing.T) {
	t.Parallel()
	empty := testkit.PostgresEmpty(t)
	if err := db.CheckSchema(t.Context(), empty); !errors.Is(err, db.ErrSchemaOlder) {
		t.Errorf("an empty database: %v", err)
	}
	dsn := testkit.Postgres(t)
	if err := db.CheckSchema(t.Context(), dsn); err != nil {
		t.Errorf("a migrated database: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := db.CheckSchema(t.Context(), dsn); !errors.Is(err, db.ErrSchemaNewer) {
		t.Errorf("a database of a newer build: %v", err)
	}
	if err := db.Migrate(t.Context(), dsn); !errors.Is(err, db.ErrSchemaNewer) {
		t.Errorf("migrating a database of a newer build: %v", err)
	}
	if err := db.CheckSchema(t.Context(), "postgres://%zz"); err == nil || errors.Is(err, db.ErrSchemaOlder) {
		t.Errorf("a bad URL: %v", err)
	}
}
