package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/config"
)

// migrateCmd is `headgate migrate`. Several may run at once: they take turns.
type migrateCmd struct {
	DatabaseURL     string `help:"PostgreSQL to bring up to date." placeholder:"URL"`
	DatabaseURLFile string `help:"File that holds the database URL." placeholder:"FILE"`
	Status          bool   `help:"Only say which migrations have been applied."`
}

// Run applies what is pending, or lists all with --status.
func (c *migrateCmd) Run(ctx context.Context) error {
	var p config.Problems
	dsn := config.Secret(&p, "--database-url", c.DatabaseURL, c.DatabaseURLFile)
	p.Require("--database-url", dsn)
	if err := p.Err(); err != nil {
		return err
	}
	if !c.Status {
		if err := db.Migrate(ctx, dsn); err != nil {
			return err
		}
	}
	all, err := db.MigrateStatus(ctx, dsn)
	if err != nil {
		return err
	}
	for _, m := range all {
		state := "pending"
		if !m.AppliedAt.IsZero() {
			state = "applied " + m.AppliedAt.UTC().Format(time.RFC3339)
		}
		fmt.Printf("%-32s %s\n", m.Name, state)
	}
	return nil
}
