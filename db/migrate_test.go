package db_test

import (
	"sync"
	"testing"

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
