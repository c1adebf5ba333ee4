package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/db/gen"
)

// patience is how long one statement may take, getting a connection included.
// PostgreSQL gives up before (statementTimeout); this one is for a server that
// says nothing at all, because it hangs or because the network is gone, and for
// a pool whose connections are all in use.
const patience = 2200 * time.Millisecond

// bounded gives each statement its own deadline.
type bounded struct{ gen.DBTX }

// Exec implements gen.DBTX.
func (b bounded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.DBTX.Exec(ctx, sql, args...)
}

// Query implements gen.DBTX. The deadline holds until the rows are closed.
func (b bounded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	rows, err := b.DBTX.Query(ctx, sql, args...)
	if err != nil {
		cancel()
		return nil, err
	}
	return boundedRows{rows, cancel}, nil
}

// QueryRow implements gen.DBTX. The deadline holds until the row is scanned.
func (b bounded) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, cancel := context.WithTimeout(ctx, patience)
	return boundedRow{b.DBTX.QueryRow(ctx, sql, args...), cancel}
}

// CopyFrom implements gen.DBTX.
func (b bounded) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.DBTX.CopyFrom(ctx, table, columns, rows)
}

type boundedRows struct {
	pgx.Rows
	cancel context.CancelFunc
}

// Close implements pgx.Rows.
func (r boundedRows) Close() {
	r.Rows.Close()
	r.cancel()
}

type boundedRow struct {
	pgx.Row
	cancel context.CancelFunc
}

// Scan implements pgx.Row.
func (r boundedRow) Scan(dest ...any) error {
	defer r.cancel()
	return r.Row.Scan(dest...)
}
