package pglocal

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// fileCopySince is the first server version that knows STRATEGY.
const fileCopySince = 150000

// Create makes a database, empty (template "") or a copy of template, to which
// nobody may be connected then. The name is used as it is: [a-z0-9_]+.
func (s *Server) Create(ctx context.Context, name, template string) error {
	sql := "CREATE DATABASE " + name
	if template != "" {
		sql += " TEMPLATE " + template
	}
	return s.admin(ctx, func(c *pgx.Conn) error {
		var version int
		if err := c.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
			return fmt.Errorf("ask server version: %w", err)
		}
		if version >= fileCopySince {
			sql += " STRATEGY file_copy" // half the time of the default where fsync is off
		}
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
		return nil
	})
}

// Clone makes a database under a fresh name and returns the name.
func (s *Server) Clone(ctx context.Context, template string) (string, error) {
	name := "t_" + strings.ToLower(rand.Text())
	return name, s.Create(ctx, name, template)
}

// Drop removes a database and cuts the connections to it.
func (s *Server) Drop(ctx context.Context, name string) error {
	return s.admin(ctx, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		return nil
	})
}

func (s *Server) admin(ctx context.Context, f func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect as superuser: %w", err)
	}
	defer func() { _ = c.Close(ctx) }()
	return f(c)
}
