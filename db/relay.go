package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// relayLock is the advisory lock of the one relay that works at a time.
const relayLock = 7234003

// lockCheck is how often the holder makes sure that it still has the lock.
const lockCheck = time.Second

// WithRelayLock runs fn while this process alone holds the relay's lock. The
// lock lives as long as its connection: when that breaks, fn's context ends and
// another process may begin.
func (s *Store) WithRelayLock(ctx context.Context, fn func(context.Context) error) (bool, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return false, translate(fmt.Errorf("connect for the relay's lock: %w", err))
	}
	defer closeConn(ctx, conn)
	var got bool
	if err := (bounded{conn}).QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(relayLock)).Scan(&got); err != nil {
		return false, translate(fmt.Errorf("take the relay's lock: %w", err))
	}
	if !got {
		return false, nil
	}
	held, lost := context.WithCancelCause(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		watchLock(held, conn, lost)
	}()
	err = fn(held)
	lost(nil)
	<-watching
	// The server lets go by itself, but only some time after the connection has ended.
	_, _ = (bounded{conn}).Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(relayLock))
	return true, err
}

// watchLock ends the lock's context when its connection no longer answers.
func watchLock(ctx context.Context, conn *pgx.Conn, lost context.CancelCauseFunc) {
	tick := time.NewTicker(lockCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := conn.Ping(asked)
		cancel()
		if err != nil && ctx.Err() == nil {
			lost(fmt.Errorf("the relay's lock was lost: %w", err))
			return
		}
	}
}

// ListenOutbox calls wake after each commit that wrote to the outbox. It
// returns when ctx ends or the connection breaks; what was committed meanwhile
// is found by polling.
func (s *Store) ListenOutbox(ctx context.Context, wake func()) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer closeConn(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN headgate_outbox"); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	wake()
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return fmt.Errorf("wait for notification: %w", err)
		}
		wake()
	}
}

func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.direct.Copy())
}

func closeConn(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
