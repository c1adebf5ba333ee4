package db

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// Limits of every statement, so that one slow or blocked statement cannot hold
// the console: PostgreSQL gives up and the caller sees CodeUnavailable. What
// holds while PostgreSQL does not answer at all is patience.
const (
	statementTimeout = "2s"
	lockTimeout      = "1s"
	idleInTxTimeout  = "10s"
	maxAttempts      = 5
)

// Store is console.OutboxStore on a pool of connections.
type Store struct {
	pool *pgxpool.Pool
	// direct makes connections outside the pool, for what holds one for long.
	direct *pgx.ConnConfig
}

var _ console.OutboxStore = (*Store)(nil)

// Option changes how a store is opened.
type Option func(*pgxpool.Config)

// Traced has a tracer told of each statement of the pool.
func Traced(t pgx.QueryTracer) Option { return func(c *pgxpool.Config) { c.ConnConfig.Tracer = t } }

// Open makes a store. It does not connect before it is used: the console starts
// while the database is away and answers 503 until it is back. maxConns 0 means 16.
func Open(ctx context.Context, dsn string, maxConns int32, options ...Option) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	for _, o := range options {
		o(cfg)
	}
	if maxConns <= 0 {
		maxConns = 16
	}
	cfg.MaxConns = maxConns
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	p := cfg.ConnConfig.RuntimeParams
	p["application_name"] = "headgate"
	p["timezone"] = "UTC"
	p["statement_timeout"] = statementTimeout
	p["lock_timeout"] = lockTimeout
	p["idle_in_transaction_session_timeout"] = idleInTxTimeout
	// Lists have filters that may be unset: a plan for all their values would walk the table.
	p["plan_cache_mode"] = "force_custom_plan"
	// Pages want few rows at once, of tables that lie in memory or on solid disks.
	p["random_page_cost"] = "1.1"
	cfg.AfterConnect = readUTC
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return &Store{pool: pool, direct: cfg.ConnConfig.Copy()}, nil
}

// readUTC makes times come back in UTC, whatever the machine's zone.
func readUTC(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
	return nil
}

// Close ends all connections, after those in use have been given back.
func (s *Store) Close() { s.pool.Close() }

// Ping asks whether the database can serve.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.pool.Ping(ctx); err != nil {
		return translate(err)
	}
	return nil
}

// Read runs fn on the pool, each statement for itself. It is repeated once when
// the connection broke.
func (s *Store) Read(ctx context.Context, fn func(console.Tx) error) error {
	t := tx{gen.New(bounded{s.pool})}
	err := fn(t)
	if connectionBroke(err) && ctx.Err() == nil {
		err = fn(t)
	}
	return translate(err)
}

// InTx runs fn in a transaction and commits it when fn returns nil. A
// serialization failure or deadlock repeats it, at most 5 times in all; a
// connection that broke before the commit repeats it once. A commit whose answer
// was lost is not repeated: it may have happened, and the error says so (Unsure).
func (s *Store) InTx(ctx context.Context, fn func(console.Tx) error) error {
	broke := false
	for attempt := 1; ; attempt++ {
		committing, err := s.try(ctx, fn)
		switch {
		case err == nil:
			return nil
		case isRetryable(err) && attempt < maxAttempts:
		case connectionBroke(err) && !committing && !broke:
			broke = true
		case committing && sqlState(err) == "":
			return unsure(err)
		default:
			return translate(err)
		}
		pause := time.Duration(rand.Int64N(int64(10*time.Millisecond) << attempt)) //nolint:gosec // jitter, not a secret
		select {
		case <-ctx.Done():
			return translate(ctx.Err())
		case <-time.After(pause):
		}
	}
}

func (s *Store) try(ctx context.Context, fn func(console.Tx) error) (committing bool, err error) {
	t, err := s.begin(ctx)
	if err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, t) // does nothing after a commit
	if err := fn(tx{gen.New(bounded{t})}); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.Commit(ctx); err != nil {
		return true, fmt.Errorf("commit: %w", err)
	}
	return true, nil
}

// begin waits for a connection no longer than for any statement.
func (s *Store) begin(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.pool.Begin(ctx)
}

func rollback(ctx context.Context, t pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = t.Rollback(ctx)
}

// tx implements console.Tx over generated queries, in a transaction or not.
type tx struct{ q *gen.Queries }

var _ console.Tx = tx{}

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

func isRetryable(err error) bool {
	code := sqlState(err)
	return code == "40001" || code == "40P01"
}

// connectionBroke reports errors after which a new connection may do better:
// the server stopped (57P01..57P03), or the connection could not be used at all.
func connectionBroke(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch sqlState(err) {
	case "57P01", "57P02", "57P03":
		return true
	case "":
		return pgconn.SafeToRetry(err) || isNetwork(err)
	}
	return false
}
