package console_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// to moves both clocks to a time.
func (w *ledgerWorld) to(at time.Time) { w.pass(at.Sub(w.clock.now())) }

func (w *ledgerWorld) upkeep(t testing.TB) {
	t.Helper()
	if err := w.ledger.Upkeep(w.ctx); err != nil {
		t.Fatal(err)
	}
}

// TestLedger_U05_TheMonthThatBeginsHasAPartition: three are made ahead; where none is, no
// event is lost, and it finds its month later.
func TestLedger_U05_TheMonthThatBeginsHasAPartition(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.to(time.Date(2026, 12, 31, 23, 59, 58, 0, time.UTC))
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1, Events: []ledger.Event{
		w.admitted(w.clock.now().Unix(), w.tenants[0], 1), w.admitted(w.clock.now().Unix()+2, w.tenants[0], 2), w.admitted(w.clock.now().Unix()+3, w.tenants[1], 4),
	}})
	w.collect(t) // no partition was ever made
	st, err := w.ledger.Standing(w.ctx)
	if err != nil || st.Default != 3 || !strings.Contains(strings.Join(st.Problems, " "), "no month") {
		t.Fatalf("%+v (%v): want an alarm for 3 events", st, err)
	}
	w.upkeep(t)
	for name, want := range map[string]int64{"usage_events_default": 0, "usage_events_202612": 1, "usage_events_202701": 2, "usage_events_202703": 0, "usage_events": 3} {
		if n := w.query(t, `SELECT count(*) FROM `+name); n != want {
			t.Errorf("%s has %d events, want %d", name, n, want)
		}
	}
	if st, err = w.ledger.Standing(w.ctx); err != nil || st.Default != 0 || !st.MonthsTo.Equal(time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v (%v)", st, err)
	}
	w.upkeep(t)
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1, Events: []ledger.Event{
		w.admitted(w.clock.now().Unix(), w.tenants[0], 1), w.admitted(w.clock.now().Unix()+2, w.tenants[0], 2), w.admitted(w.clock.now().Unix()+3, w.tenants[1], 4),
	}})
	w.exec(t, `UPDATE usage_marks SET seq = 0`)
	w.collect(t)
	if n := w.query(t, `SELECT count(*) FROM usage_events`); n != 3 {
		t.Errorf("%d events after they moved and came again, want 3", n)
	}
}

// TestLedger_OldMonthsAreDroppedAndNothingElse: retention takes out whole months.
func TestLedger_OldMonthsAreDroppedAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	d := w.deps
	d.Feed = w.wire
	w.ledger = console.NewLedger(d, console.UsageRetention{Events: 60 * 24 * time.Hour, Quarters: 60 * 24 * time.Hour})
	w.to(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	for i := range 4 {
		w.upkeep(t)
		b := w.batchOf("gw-1", "b1", int64(1+i*10), 10)
		w.wire.send(t, b)
		w.collect(t)
		w.roll(t)
		w.to(w.clock.now().AddDate(0, 1, 0))
	}
	w.upkeep(t)
	// It is 15 March now; what ended before 14 January is gone: November and December.
	if n := w.query(t, countEvents); n != 20 {
		t.Errorf("%d requests are left, want those of two months", n)
	}
	if n := w.query(t, `SELECT count(*) FROM pg_class WHERE relname ~ '^usage_(events_2026|gone)'`); n != 0 {
		t.Errorf("%d tables of months that are over are left", n)
	}
	if n := w.query(t, `SELECT coalesce(sum(requests), 0)::bigint FROM usage_days`); n != 40 {
		t.Errorf("days tell of %d requests, want 40", n)
	}
	if n := w.query(t, `SELECT count(*) FROM usage_minutes`); n != 0 {
		t.Errorf("%d minutes are left after a month", n)
	}
}

// TestLedger_EventsAreAppendOnly: whoever may write to the database may not rewrite them,
// by way of a partition neither.
func TestLedger_EventsAreAppendOnly(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.upkeep(t)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 10))
	w.collect(t)
	part := "usage_events_" + w.clock.now().Format("200601")
	try := func(sql string) string {
		t.Helper()
		tx, err := w.conn.Begin(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(w.ctx) }()
		_, err = tx.Exec(w.ctx, sql)
		if e, ok := errors.AsType[*pgconn.PgError](err); ok {
			return e.Code
		}
		return fmt.Sprint(err)
	}
	for _, table := range []string{"usage_events", part} {
		for _, sql := range []string{`UPDATE ` + table + ` SET cost = 0`, `DELETE FROM ` + table, `TRUNCATE ` + table} {
			if code := try(sql); code != "42501" {
				t.Errorf("%s: %s", sql, code)
			}
		}
	}
	if code := try(`TRUNCATE usage_events_default`); code != "42501" {
		t.Errorf("the default partition is emptied: %s", code)
	}
	// It is the trigger that refuses, and nothing else.
	w.exec(t, `DROP TRIGGER usage_events_kept ON usage_events`)
	if code := try(`DELETE FROM ` + part); code != "<nil>" {
		t.Errorf("without its trigger a partition still refuses: %s", code)
	}
}

// TestLedger_P13_TheServersZoneMovesNoBoundary: months and sums are those of UTC on a
// server in another zone, and on the day its clocks change.
func TestLedger_P13_TheServersZoneMovesNoBoundary(t *testing.T) {
	t.Parallel()
	var want string
	for _, zone := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		w := newLedgerWorld(t)
		var name string
		if err := w.conn.QueryRow(w.ctx, `SELECT current_database()`).Scan(&name); err != nil {
			t.Fatal(err)
		}
		w.exec(t, `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` SET timezone = '`+zone+`'`)
		w.exec(t, `SET timezone = '`+zone+`'`)
		w.exec(t, `SELECT usage_make_month('2026-11-01'), usage_make_month('2026-10-01')`)
		w.to(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
		b := ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1}
		for at := time.Date(2026, 10, 31, 20, 0, 0, 0, time.UTC); at.Before(w.clock.now()); at = at.Add(7 * time.Minute) {
			b.Events = append(b.Events, w.admitted(at.Unix(), w.tenants[0], 1))
		}
		w.wire.send(t, b)
		w.collect(t)
		w.upkeep(t)
		w.roll(t)
		w.sumsAgree(t)
		got := fmt.Sprint(w.query(t, `SELECT count(*) FROM usage_events_202610`), w.query(t, `SELECT count(*) FROM usage_events_202611`),
			w.query(t, `SELECT sum(extract(epoch FROM at)::bigint * requests)::bigint FROM usage_days`))
		for _, zone := range []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"} {
			r, err := w.ledger.Report(w.ctx, owner, console.UsageQuery{
				From: time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Step: console.StepDay, Zone: zone, TenantID: w.tenants[0],
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range r.Starts {
				got += fmt.Sprint(" ", s.Unix(), " ", r.Steps[i].Admitted)
			}
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s: %s, in UTC %s", zone, got, want)
		}
	}
}

// randomEvents are of the last days, in few enough kinds that sums collide.
func (w *ledgerWorld) randomEvents(r *rand.Rand, n int) []ledger.Event {
	outcomes := append(usage.Outcomes(), ledger.OutcomeInterrupted, ledger.OutcomeSettled, ledger.OutcomeAborted)
	out := make([]ledger.Event, n)
	for i := range out {
		o := outcomes[r.IntN(len(outcomes))]
		e := ledger.Event{
			Second: w.clock.now().Unix() - r.Int64N(70*3600), Tenant: append(w.tenants, "")[r.IntN(4)], KID: []string{"", "0123456789AB", "CDEFGHIJKLMN"}[r.IntN(3)],
			Route: []string{"report", "login", ""}[r.IntN(3)], Outcome: o,
		}
		if o != ledger.OutcomeSettled {
			e.Requests = 1 + r.Int64N(50)
		}
		if ledger.Costs(o) {
			e.Cost = r.Int64N(500)
		}
		if o == ledger.OutcomeSettled {
			e.Cost -= 250
		}
		out[i] = e
	}
	return out
}

// TestLedger_U11_SumsAreThoseOfTheEvents: whatever comes when, and wherever adding up is
// broken off; and again after they were spoilt and rebuilt.
func TestLedger_U11_SumsAreThoseOfTheEvents(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.upkeep(t)
	r := rand.New(rand.NewPCG(11, 6))
	first := map[string]int64{}
	for range 30 {
		name := []string{"gw-1", "gw-2"}[r.IntN(2)]
		b := ledger.Batch{Replica: name, Boot: "b", First: 1 + first[name], Events: w.randomEvents(r, 1+r.IntN(300))}
		first[name] += int64(len(b.Events))
		w.wire.send(t, b)
		if r.IntN(2) == 0 {
			w.collect(t)
		}
		switch r.IntN(3) {
		case 0:
			w.db.set(func(s *flakyStore) { s.before = r.IntN(2) })
			_ = w.ledger.Roll(w.ctx) // it may be broken off before its commit
			w.db.set(func(s *flakyStore) { s.before = 0 })
		case 1:
			w.db.set(func(s *flakyStore) { s.after = r.IntN(2) })
			_ = w.ledger.Roll(w.ctx) // or after it
			w.db.set(func(s *flakyStore) { s.after = 0 })
		}
	}
	w.collect(t)
	w.roll(t)
	w.sumsAgree(t)
	w.exec(t, `UPDATE usage_quarters SET requests = requests + 1 WHERE route = 'login'`)
	w.exec(t, `DELETE FROM usage_days WHERE route = 'report'`)
	w.exec(t, `DELETE FROM usage_tenant_hours`)
	w.exec(t, `UPDATE usage_fleet SET cost = 0`)
	w.exec(t, `INSERT INTO usage_minutes VALUES (now(), 1, 1, 'ten_nobody', '', '', 'admitted')`)
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b", First: 1 + first["gw-1"], Events: w.randomEvents(r, 100)})
	w.collect(t) // not added up before the rebuild
	w.exec(t, `DELETE FROM usage_minutes WHERE tenant_id = 'ten_nobody'`)
	done, err := w.ledger.Rebuild(w.ctx, owner, w.clock.now().Add(-72*time.Hour), w.clock.now())
	if err != nil || done.Changed == 0 {
		t.Fatalf("%+v (%v)", done, err)
	}
	w.roll(t)
	w.sumsAgree(t)
	again, err := w.ledger.Rebuild(w.ctx, owner, w.clock.now().Add(-72*time.Hour), w.clock.now())
	if err != nil || again.Changed != 0 || again.Rows == 0 {
		t.Errorf("a second rebuild finds %d wrong sums (%v)", again.Changed, err)
	}
	w.sumsAgree(t)
	if _, err := w.ledger.Rebuild(w.ctx, owner, w.clock.now().AddDate(-1, 0, 0), w.clock.now()); console.CodeOf(err) != console.CodeInvalid {
		t.Errorf("sums are rebuilt of events that are gone: %v", err)
	}
}

// TestLedger_U04_AClosedPeriodIsNeverChanged: what comes later is an adjustment, and the
// sums of both are those of the events.
func TestLedger_U04_AClosedPeriodIsNeverChanged(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	december := november.AddDate(0, 1, 0)
	w.to(december.Add(-time.Second))
	w.upkeep(t)
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1, Events: []ledger.Event{
		w.admitted(december.Unix()-10, w.tenants[0], 5), w.admitted(december.Unix()-1, w.tenants[1], 50),
	}})
	w.collect(t)
	if _, err := w.ledger.ClosePeriod(w.ctx, owner, w.tenants[0], november, december, ""); console.CodeOf(err) != console.CodeInvalid {
		t.Fatalf("a period is closed before its end: %v", err)
	}
	w.to(december.Add(time.Hour))
	if _, err := w.ledger.ClosePeriod(w.ctx, as(console.RoleViewer), w.tenants[0], november, december, ""); console.CodeOf(err) != console.CodeForbidden {
		t.Fatalf("a viewer closes a period: %v", err)
	}
	x, err := w.ledger.ClosePeriod(w.ctx, owner, w.tenants[0], november, december, "invoice 17")
	if err != nil || x.Sums.Cost != 5 || x.Sums.Admitted != 1 {
		t.Fatalf("%+v (%v)", x, err)
	}
	if _, err := w.ledger.ClosePeriod(w.ctx, owner, w.tenants[0], november.AddDate(0, 0, 7), december, ""); console.CodeOf(err) != console.CodeConflict {
		t.Errorf("a part of it is closed again: %v", err)
	}
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b1", First: 3, Events: []ledger.Event{
		w.admitted(december.Unix()-5, w.tenants[0], 7), w.admitted(december.Unix()-4, w.tenants[0], 8), w.admitted(december.Unix()-3, w.tenants[1], 70), w.admitted(december.Unix(), w.tenants[0], 9),
	}})
	w.collect(t)
	if _, err := w.ledger.Correct(w.ctx, owner, console.UsageCorrection{TenantID: w.tenants[0], Route: "report", At: december.Add(-time.Hour), Cost: -4, Reason: "agreed with Acme"}); err != nil {
		t.Fatal(err)
	}
	got, late, err := w.ledger.Period(w.ctx, owner, x.ID)
	if err != nil || got.Sums != x.Sums || got.Adjusted.Cost != 7+8-4 || got.Adjusted.Settled != -4 || got.Adjustments != 3 || len(late) != 2 {
		t.Errorf("%+v with %+v (%v)", got, late, err)
	}
	sums, err := w.ledger.Sums(w.ctx, []console.LedgerAsk{{TenantID: w.tenants[0], From: november, To: december}, {TenantID: w.tenants[0], From: december}, {TenantID: w.tenants[1]}})
	if err != nil || sums[0].Cost != got.Sums.Cost+got.Adjusted.Cost || sums[1].Cost != 9 || sums[2].Cost != 120 {
		t.Errorf("%+v (%v)", sums, err)
	}
	for _, sql := range []string{`UPDATE usage_periods SET cost = 0`, `DELETE FROM usage_adjustments`, `TRUNCATE usage_periods CASCADE`} {
		if _, err := w.conn.Exec(w.ctx, sql); err == nil {
			t.Errorf("%s: done", sql)
		}
	}
	list, _, err := w.ledger.Periods(w.ctx, owner, "", console.Page{})
	if err != nil || len(list) != 1 || list[0].Adjusted != got.Adjusted {
		t.Errorf("%+v (%v)", list, err)
	}
	member := console.Actor{ID: "mem_x", Role: console.RoleTenantViewer, Via: console.ViaPortal, TenantID: w.tenants[1]}
	if _, _, err := w.ledger.Period(w.ctx, member, x.ID); !console.IsNotFound(err) {
		t.Errorf("another tenant's period: %v", err)
	}
}

// TestLedger_CursorNeverPassesWhatIsCommittedLater: a reader that follows while two
// consoles write sees every event once.
func TestLedger_CursorNeverPassesWhatIsCommittedLater(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	for i := range int64(40) {
		w.wire.send(t, w.batchOf("gw-1", "b1", 1+i*50, 50))
		w.wire.send(t, w.batchOf("gw-2", "b1", 1+i*50, 50))
	}
	written := make(chan struct{}, 2)
	for range 2 {
		l := w.another()
		go func() {
			for l.Collect(ctx) != nil && ctx.Err() == nil {
			}
			written <- struct{}{}
		}()
	}
	seen, cursor, ended := map[string]int{}, "", 0
	for {
		select {
		case <-written:
			ended++
		default:
		}
		last := ended == 2
		page, err := w.ledger.Events(w.ctx, owner, console.UsageEventQuery{After: cursor, Limit: 77})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			seen[fmt.Sprint(e.Replica, e.Seq)]++
		}
		cursor = page.Next
		if last && page.Done {
			break
		}
	}
	if len(seen) != 4000 {
		t.Errorf("%d events seen, want 4000", len(seen))
	}
	for name, n := range seen {
		if n != 1 {
			t.Fatalf("%s was seen %d times", name, n)
		}
	}
}
