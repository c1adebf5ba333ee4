package scale

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Statement is one that was sent to the database, with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Statements are those of one request. It is safe for concurrent use.
type Statements struct {
	mu  sync.Mutex
	all []Statement
}

// All lists them in the order in which they were sent.
func (s *Statements) All() []Statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

type watchKey struct{}

// Watch returns a context whose statements are remembered, wherever it goes.
func Watch(ctx context.Context) (context.Context, *Statements) {
	s := &Statements{}
	return context.WithValue(ctx, watchKey{}, s), s
}

// Tracer remembers the statements of watched contexts, and no others: a console
// asks its database for much that no page waits for.
type Tracer struct{}

var _ pgx.QueryTracer = Tracer{}

// TraceQueryStart implements pgx.QueryTracer.
func (Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if s, watched := ctx.Value(watchKey{}).(*Statements); watched {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, Statement{d.SQL, slices.Clone(d.Args)})
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (Tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
