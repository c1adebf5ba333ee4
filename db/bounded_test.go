package db_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
)

// mostWait is the longest that a caller may wait for a database that does not answer.
const mostWait = 2500 * time.Millisecond

// through returns a store whose connections pass a relay that can be made to
// swallow everything, as a stopped server or a lost network does: connections
// stay open and nothing is answered.
func through(t *testing.T) (s *db.Store, hang func(bool)) {
	t.Helper()
	cfg, err := pgx.ParseConfig(testkit.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var hanging atomic.Bool
	var conns sync.Map
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			conns.Store(client, nil)
			go relayBytes(server, client, &hanging)
			go relayBytes(client, server, &hanging)
		}
	}()
	dsn := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", url.UserPassword(cfg.User, cfg.Password), l.Addr(), cfg.Database)
	s, err = db.Open(t.Context(), dsn, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Cleanup(func() { // before Close, which waits for connections to end in order
		_ = l.Close()
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
	})
	return s, hanging.Store
}

func relayBytes(to, from net.Conn, hanging *atomic.Bool) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if hanging.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// within fails the test unless fn answers "unavailable" in time.
func within(t *testing.T, what string, fn func() error) {
	t.Helper()
	begun := time.Now()
	err := fn()
	if took := time.Since(begun); took > mostWait {
		t.Errorf("%s took %s", what, took)
	}
	if console.CodeOf(err) != console.CodeUnavailable {
		t.Errorf("%s: error %v", what, err)
	}
}

func TestStore_P02_HangingDatabaseIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	s, hang := through(t)
	ctx := t.Context()
	read := func(tx console.Tx) error { _, err := tx.CountKeys(ctx); return err }
	if err := s.Read(ctx, read); err != nil {
		t.Fatal(err)
	}
	hang(true)
	var wg sync.WaitGroup
	for what, fn := range map[string]func() error{
		"read": func() error { return s.Read(ctx, read) },
		"list": func() error {
			return s.Read(ctx, func(tx console.Tx) error { _, err := tx.Operators(ctx); return err })
		},
		"ping":  func() error { return s.Ping(ctx) },
		"begin": func() error { return s.InTx(ctx, read) },
	} { // one on the connection that stands, the others on new ones
		wg.Go(func() { within(t, what, fn) })
	}
	wg.Wait()
	hang(false)
	if err := s.Read(ctx, read); err != nil {
		t.Fatalf("after the end of the outage: %v", err)
	}
	within(t, "statement in a transaction", func() error {
		return s.InTx(ctx, func(tx console.Tx) error { hang(true); return read(tx) })
	})
	hang(false)
	within(t, "commit", func() error {
		err := s.InTx(ctx, func(tx console.Tx) error { err := read(tx); hang(true); return err })
		if console.HadNoEffect(err) {
			t.Errorf("a commit without an answer is said to have had no effect: %v", err)
		}
		return err
	})
}

func TestStore_P09_UsedUpPoolIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	s, err := db.Open(t.Context(), testkit.Postgres(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	err = s.InTx(ctx, func(console.Tx) error {
		within(t, "read", func() error {
			return s.Read(context.WithoutCancel(ctx), func(tx console.Tx) error { _, err := tx.CountKeys(ctx); return err })
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
