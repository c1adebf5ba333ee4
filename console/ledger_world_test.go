package console_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// eventFeed is the transport of usage events, in memory. Nothing is trimmed from it.
type eventFeed struct {
	*fakeFeed
	mu        sync.Mutex
	bodies    [][]byte
	committed map[console.BootName]int64
	dropped   string
	deaf      int // so often nobody can be told what is committed
}

func (f *eventFeed) Events(_ context.Context, after string) ([][]byte, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := 0
	if after != "" {
		from, _ = strconv.Atoi(after)
	}
	if from >= len(f.bodies) {
		return nil, after, nil
	}
	to := min(from+32, len(f.bodies))
	return f.bodies[from:to], strconv.Itoa(to), nil
}

func (f *eventFeed) SetCommitted(_ context.Context, marks []ledger.Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf > 0 {
		f.deaf--
		return errors.New("the console was killed")
	}
	for _, m := range marks {
		f.committed[console.BootName{Replica: m.Replica, Boot: m.Boot}] = m.Seq
	}
	return nil
}

func (f *eventFeed) DropEvents(_ context.Context, through string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = through
	return nil
}

func (f *eventFeed) send(t testing.TB, b ledger.Batch) {
	t.Helper()
	body, err := ledger.Encode(&b)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.bodies = append(f.bodies, body)
	f.mu.Unlock()
}

func (f *eventFeed) mark(replica, boot string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.committed[console.BootName{Replica: replica, Boot: boot}]
}

// flakyStore is a database that fails now and then.
type flakyStore struct {
	console.Store
	mu     sync.Mutex
	before int // so many transactions fail before their commit
	after  int // so many are committed, and nobody learns of it
	down   bool
}

var errGone = &console.Error{Code: console.CodeUnavailable, Public: "gone"}

func (s *flakyStore) InTx(ctx context.Context, fn func(console.Tx) error) error {
	s.mu.Lock()
	before, after, down := s.before > 0, s.before <= 0 && s.after > 0, s.down
	if before {
		s.before--
	} else if after {
		s.after--
	}
	s.mu.Unlock()
	if down {
		return errGone
	}
	err := s.Store.InTx(ctx, func(tx console.Tx) error {
		if err := fn(tx); err != nil || !before {
			return err
		}
		return errGone
	})
	if err == nil && after {
		return errGone
	}
	return err
}

func (s *flakyStore) Read(ctx context.Context, fn func(console.Tx) error) error {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		return errGone
	}
	return s.Store.Read(ctx, fn)
}

func (s *flakyStore) set(fn func(*flakyStore)) { s.mu.Lock(); fn(s); s.mu.Unlock() }

// ledgerWorld is a ledger over a real PostgreSQL.
type ledgerWorld struct {
	*env
	wire    *eventFeed
	db      *flakyStore
	ledger  *console.Ledger
	conn    *pgx.Conn
	tenants []string
}

func newLedgerWorld(t testing.TB) *ledgerWorld {
	t.Helper()
	e := newEnv(t)
	w := &ledgerWorld{env: e, wire: &eventFeed{fakeFeed: e.feed, committed: map[console.BootName]int64{}}, db: &flakyStore{Store: e.store}}
	e.feed.set(func() { e.feed.now = e.clock.now() })
	w.tenants = []string{e.tenant(t, "Acme").ID, e.tenant(t, "Bolt").ID, e.tenant(t, "Cask").ID}
	w.ledger = w.another()
	conn, err := pgx.Connect(t.Context(), e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	w.conn = conn
	return w
}

// another is the ledger of another console.
func (w *ledgerWorld) another() *console.Ledger {
	d := w.deps
	d.Feed, d.Store = w.wire, w.db
	return console.NewLedger(d, console.UsageRetention{})
}

// pass moves both clocks.
func (w *ledgerWorld) pass(d time.Duration) {
	w.clock.add(d)
	w.feed.set(func() { w.feed.now = w.clock.now() })
}

func (w *ledgerWorld) collect(t testing.TB) {
	t.Helper()
	if err := w.ledger.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
}

func (w *ledgerWorld) roll(t testing.TB) {
	t.Helper()
	if err := w.ledger.Roll(w.ctx); err != nil {
		t.Fatal(err)
	}
}

// query answers with one number.
func (w *ledgerWorld) query(t testing.TB, sql string, args ...any) (n int64) {
	t.Helper()
	if err := w.conn.QueryRow(w.ctx, sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (w *ledgerWorld) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := w.conn.Exec(w.ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// admitted is an event of a request that went through.
func (w *ledgerWorld) admitted(second int64, tenant string, cost int64) ledger.Event {
	return ledger.Event{Second: second, Tenant: tenant, KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 1, Cost: cost}
}

// batchOf is n events of now, for all tenants in turn.
func (w *ledgerWorld) batchOf(replica, boot string, first int64, n int) ledger.Batch {
	now := w.clock.now().Unix()
	b := ledger.Batch{Replica: replica, Boot: boot, First: first, Through: now}
	for i := range n {
		at := first + int64(i)
		e := w.admitted(now-at%600, w.tenants[at%3], at%7)
		e.KID, e.Route = fmt.Sprintf("key%09d", at%5), fmt.Sprintf("route-%d", at%4)
		b.Events = append(b.Events, e)
	}
	return b
}
