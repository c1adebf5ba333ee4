package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/headgate/headgate/migrations"
)

// MigrationStatus is one migration and when it was applied.
type MigrationStatus struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero when it is pending
}

// What CheckSchema finds.
var (
	ErrSchemaOlder = errors.New("the database's schema is not up to date; run headgate migrate first")
	ErrSchemaNewer = errors.New("the database's schema was made by a newer headgate; run that one, this one would not understand its rows")
)

// CheckSchema compares the schema with the one that this build was made for:
// nil, ErrSchemaOlder, ErrSchemaNewer, or why it cannot be told.
func CheckSchema(ctx context.Context, dsn string) error {
	return withProvider(dsn, func(p *goose.Provider) error {
		current, ours, err := p.GetVersions(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read schema version: %w", err)
		case current < ours:
			return ErrSchemaOlder
		case current > ours:
			return ErrSchemaNewer
		}
		return nil
	})
}

// Migrate applies all pending migrations. Several processes may call it at the
// same time: an advisory lock lets them take turns. A newer schema is left as it
// is: ErrSchemaNewer.
func Migrate(ctx context.Context, dsn string) error {
	return withProvider(dsn, func(p *goose.Provider) error {
		if current, ours, err := p.GetVersions(ctx); err == nil && current > ours {
			return ErrSchemaNewer
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate up: %w", err)
		}
		return nil
	})
}

// MigrateStatus lists all migrations in order.
func MigrateStatus(ctx context.Context, dsn string) ([]MigrationStatus, error) {
	var out []MigrationStatus
	err := withProvider(dsn, func(p *goose.Provider) error {
		all, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read migration status: %w", err)
		}
		for _, s := range all {
			out = append(out, MigrationStatus{Version: s.Source.Version, Name: s.Source.Path, AppliedAt: s.AppliedAt})
		}
		return nil
	})
	return out, err
}

func withProvider(dsn string, fn func(*goose.Provider) error) error {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("parse database URL: %w", err)
	}
	sdb := stdlib.OpenDB(*cfg)
	defer func() { _ = sdb.Close() }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, sdb, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	return fn(p)
}
