package db_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

func open(t *testing.T) (*db.Store, string) {
	t.Helper()
	dsn := testkit.Postgres(t)
	s, err := db.Open(t.Context(), dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, dsn
}

func tenant(id string) console.Tenant {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return console.Tenant{ID: id, Name: "A", Plan: "free", TimeZone: "UTC", State: policy.TenantActive, Seq: 1, CreatedAt: now, UpdatedAt: now}
}

const tenA = "ten_aaaaaaaaaaaaaaaa"

func TestStore_WhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	want := tenant(tenA)
	want.ExternalID, want.Reason = "ext", "why"
	var got console.Tenant
	err := s.InTx(t.Context(), func(tx console.Tx) (err error) {
		if err := tx.InsertTenant(t.Context(), want); err != nil {
			return err
		}
		got, err = tx.Tenant(t.Context(), tenA)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestStore_FailedTransactionLeavesNothing(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	boom := errors.New("boom")
	err := s.InTx(t.Context(), func(tx console.Tx) error {
		if err := tx.InsertTenant(t.Context(), tenant(tenA)); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("error %v", err)
	}
	err = s.Read(t.Context(), func(tx console.Tx) error {
		_, err := tx.Tenant(t.Context(), tenA)
		return err
	})
	if !console.IsNotFound(err) {
		t.Fatalf("tenant after a failed transaction: %v", err)
	}
}

func TestStore_AbsentRowsAreNotFound(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	for name, fn := range map[string]func(console.Tx) error{
		"tenant":     func(tx console.Tx) error { _, err := tx.Tenant(ctx, "x"); return err },
		"credential": func(tx console.Tx) error { _, err := tx.LockCredential(ctx, "x"); return err },
		"key":        func(tx console.Tx) error { _, err := tx.Key(ctx, "x"); return err },
		"rotation":   func(tx console.Tx) error { _, err := tx.Rotation(ctx, "x"); return err },
		"draft":      func(tx console.Tx) error { _, err := tx.Draft(ctx, "x"); return err },
		"version":    func(tx console.Tx) error { _, err := tx.Version(ctx, 7); return err },
		"head":       func(tx console.Tx) error { _, err := tx.Head(ctx); return err },
		"operator":   func(tx console.Tx) error { _, err := tx.OperatorByEmail(ctx, "x"); return err },
		"session":    func(tx console.Tx) error { _, _, err := tx.Session(ctx, "x", time.Now(), time.Now()); return err },
		"token":      func(tx console.Tx) error { _, _, err := tx.Token(ctx, "x"); return err },
		"outbox":     func(tx console.Tx) error { _, err := tx.Outbox(ctx, 7); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := s.InTx(ctx, fn); !console.IsNotFound(err) {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestStore_BrokenUniquenessIsAConflictInWords(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	a, b := tenant(tenA), tenant("ten_bbbbbbbbbbbbbbbb")
	a.ExternalID, b.ExternalID = "same", "same"
	err := s.InTx(t.Context(), func(tx console.Tx) error {
		if err := tx.InsertTenant(t.Context(), a); err != nil {
			return err
		}
		return tx.InsertTenant(t.Context(), b)
	})
	e, ok := errors.AsType[*console.Error](err)
	if !ok || e.Code != console.CodeConflict || e.Public != "Another tenant has this external id." {
		t.Fatalf("error %v", err)
	}
}

func TestStore_DeadlockIsRetriedUntilBothSucceed(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	ids := []string{tenA, "ten_bbbbbbbbbbbbbbbb"}
	err := s.InTx(ctx, func(tx console.Tx) error {
		return errors.Join(tx.InsertTenant(ctx, tenant(ids[0])), tx.InsertTenant(ctx, tenant(ids[1])))
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg, bothHold sync.WaitGroup
	bothHold.Add(2)
	errs := make([]error, 2)
	for i := range 2 {
		wg.Go(func() {
			var first sync.Once
			errs[i] = s.InTx(ctx, func(tx console.Tx) error {
				if _, err := tx.LockTenant(ctx, ids[i]); err != nil {
					return err
				}
				first.Do(func() { bothHold.Done(); bothHold.Wait() })
				_, err := tx.LockTenant(ctx, ids[1-i])
				return err
			})
		})
	}
	wg.Wait()
	// PostgreSQL looks for deadlocks after 1 s, which is the lock timeout, too: either way
	// each ends by itself, and no error is an internal one.
	for _, err := range errs {
		if c := console.CodeOf(err); err != nil && c != console.CodeUnavailable {
			t.Errorf("code %s: %v", c, err)
		}
	}
}

func TestStore_SerializationFailureIsRetriedAtMostFiveTimes(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var tries atomic.Int32
	err := s.InTx(t.Context(), func(console.Tx) error {
		if tries.Add(1) < 3 {
			return &pgconn.PgError{Code: "40001"}
		}
		return nil
	})
	if err != nil || tries.Load() != 3 {
		t.Fatalf("%d tries, error %v", tries.Load(), err)
	}
	tries.Store(0)
	err = s.InTx(t.Context(), func(console.Tx) error {
		tries.Add(1)
		return &pgconn.PgError{Code: "40P01"}
	})
	if console.CodeOf(err) != console.CodeConflict || tries.Load() != 5 {
		t.Fatalf("%d tries, error %v", tries.Load(), err)
	}
}

func TestStore_BlockedRowIsUnavailableAfterTheLockTimeout(t *testing.T) {
	t.Parallel()
	s, dsn := open(t)
	ctx := t.Context()
	if err := s.InTx(ctx, func(tx console.Tx) error { return tx.InsertTenant(ctx, tenant(tenA)) }); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	err = s.Read(ctx, func(tx console.Tx) error {
		_, err := tx.Tenant(ctx, tenA)
		return err
	})
	if console.CodeOf(err) != console.CodeUnavailable {
		t.Fatalf("error %v", err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Fatalf("took %s", took)
	}
}

func TestStore_TerminatedConnectionsAreReplacedUnseen(t *testing.T) {
	t.Parallel()
	s, dsn := open(t)
	ctx := t.Context()
	if err := s.InTx(ctx, func(tx console.Tx) error { return tx.InsertTenant(ctx, tenant(tenA)) }); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for range 3 {
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate' AND datname = current_database()`); err != nil {
			t.Fatal(err)
		}
		if err := s.Read(ctx, func(tx console.Tx) error { _, err := tx.Tenant(ctx, tenA); return err }); err != nil {
			t.Fatalf("read after the connection was ended: %v", err)
		}
	}
}

func TestStore_UnreachableDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	s, err := db.Open(t.Context(), "postgres://x@"+address+"/x", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.InTx(t.Context(), func(console.Tx) error { return nil })
	if console.CodeOf(err) != console.CodeUnavailable {
		t.Fatalf("error %v", err)
	}
	if err := s.Ping(t.Context()); console.CodeOf(err) != console.CodeUnavailable {
		t.Fatalf("ping: %v", err)
	}
}

func TestRelayLock_OneHolderAtATimeAndTheNextAfterIt(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	inside, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		got, err := s.WithRelayLock(ctx, func(context.Context) error {
			close(inside)
			<-leave
			return nil
		})
		if !got || err != nil {
			t.Errorf("first: %v %v", got, err)
		}
	})
	<-inside
	got, err := s.WithRelayLock(ctx, func(context.Context) error { t.Error("second ran"); return nil })
	if got || err != nil {
		t.Fatalf("second: %v %v", got, err)
	}
	close(leave)
	wg.Wait()
	got, err = s.WithRelayLock(ctx, func(context.Context) error { return nil })
	if !got || err != nil {
		t.Fatalf("third: %v %v", got, err)
	}
}

func TestRelayLock_HolderIsToldWhenItsConnectionBreaks(t *testing.T) {
	t.Parallel()
	s, dsn := open(t)
	ctx := t.Context()
	_, err := s.WithRelayLock(ctx, func(held context.Context) error {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); err != nil {
			return err
		}
		select {
		case <-held.Done():
			return nil
		case <-time.After(10 * time.Second):
			return errors.New("not told within 10 s")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestListenOutbox_CommitWakes(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan struct{}, 8)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.ListenOutbox(ctx, func() { woken <- struct{}{} }); err != nil {
			t.Error(err)
		}
	})
	<-woken // it listens
	err := s.InTx(ctx, func(tx console.Tx) error {
		_, err := tx.InsertOutbox(ctx, console.OutboxKey, "k", time.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(5 * time.Second):
		t.Error("not woken")
	}
	cancel()
	wg.Wait()
}
