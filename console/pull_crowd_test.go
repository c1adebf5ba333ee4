package console_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// countingStore counts the rows of heartbeats that are read.
type countingStore struct {
	console.Store
	lists *int
}

func (s countingStore) InTx(ctx context.Context, fn func(console.Tx) error) error {
	return s.Store.InTx(ctx, func(tx console.Tx) error { return fn(countingTx{tx, s.lists}) })
}

type countingTx struct {
	console.Tx
	counts *int
}

func (t countingTx) CountBeats(ctx context.Context, within, held time.Duration) (live, rows int, err error) {
	*t.counts++
	return t.Tx.CountBeats(ctx, within, held)
}

// TestBeat_A23_AFleetThatIsMadeUpHasABound: whoever has the gateways' token can
// make up replicas. They fill neither the table nor the console, and keep no
// replica out that was heard of.
func TestBeat_A23_AFleetThatIsMadeUpHasABound(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.fleet.Health(tr.ctx) // it has heard of all six, and notes them
	conn, err := pgx.Connect(tr.ctx, tr.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(tr.ctx, `INSERT INTO gateway_beats (id, via, boot, beat, seen_at)
		SELECT 'gw_made_up_' || n, 'https', 'b', json_build_object('id', 'gw_made_up_' || n, 'boot', 'b'), clock_timestamp()
		FROM generate_series(1, 5000) n`); err != nil {
		t.Fatal(err)
	}
	counts := 0
	tr.deps.Store = countingStore{tr.deps.Store, &counts}
	s := console.NewPull(tr.deps)
	for i := range 20 {
		_, err := s.Beat(tr.ctx, policy.Heartbeat{ID: fmt.Sprintf("gw_new_%d", i), Boot: "b"})
		wantCode(t, err, console.CodeUnavailable)
		if live, err := s.Beat(tr.ctx, policy.Heartbeat{ID: fleetIDs[i%6], Boot: "boot"}); err != nil || live < 5006 {
			t.Fatalf("%s: %d live, %v", fleetIDs[i%6], live, err)
		}
	}
	if counts > 10 {
		t.Errorf("counted %d times for 40 heartbeats", counts)
	}
	var rows int
	if err := conn.QueryRow(tr.ctx, `SELECT count(*) FROM gateway_beats WHERE id LIKE 'gw_new_%'`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of made up gateways, %v", rows, err)
	}
}
