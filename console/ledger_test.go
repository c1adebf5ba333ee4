package console_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

const countEvents = `SELECT coalesce(sum(requests), 0)::bigint FROM usage_events`

// TestLedger_R107_U02_U03_EachCallIsCountedOnce: whatever fails while batches are taken
// in, and however often and by how many consoles they are read.
func TestLedger_R107_U02_U03_EachCallIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*ledgerWorld){
		"nothing fails":                          func(*ledgerWorld) {},
		"killed after the batch was taken (U03)": func(w *ledgerWorld) { w.db.before = 1 },
		"killed between commit and answer (U02)": func(w *ledgerWorld) { w.wire.deaf = 1 },
		"the commit's answer is lost (U02)":      func(w *ledgerWorld) { w.db.after = 2 },
		"the database fails three times":         func(w *ledgerWorld) { w.db.before = 3 },
		"all of it":                              func(w *ledgerWorld) { w.db.before, w.db.after, w.wire.deaf = 2, 2, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLedgerWorld(t)
			for i := range int64(10) {
				w.wire.send(t, w.batchOf("gw-1", "b1", 1+i*1000, 1000))
			}
			fail(w)
			two := w.another()
			var both sync.WaitGroup
			for _, l := range []*console.Ledger{w.ledger, two} {
				both.Go(func() {
					for i := 0; l.Collect(w.ctx) != nil && i < 50; i++ {
					}
				})
			}
			both.Wait()
			w.wire.send(t, w.batchOf("gw-1", "b1", 1, 1000)) // sent again
			w.collect(t)
			if err := w.another().Collect(w.ctx); err != nil { // reads everything once more
				t.Fatal(err)
			}
			if n := w.query(t, countEvents); n != 10_000 {
				t.Errorf("%d requests in the ledger, want 10000", n)
			}
			if mark := w.wire.mark("gw-1", "b1"); mark != 10_000 {
				t.Errorf("replicas were told %d, want 10000", mark)
			}
			w.roll(t)
			w.sumsAgree(t)
		})
	}
}

// sumsAgree compares every sum with the events themselves.
func (w *ledgerWorld) sumsAgree(t testing.TB) {
	t.Helper()
	for table, step := range map[string]string{"usage_minutes": "1 minute", "usage_quarters": "15 minutes", "usage_days": "1 day"} {
		bad := w.query(t, `WITH e AS (SELECT date_bin($1::interval, occurred_at, 'epoch') AS at, tenant_id, kid, route, outcome, sum(requests) AS requests, sum(cost) AS cost FROM usage_events GROUP BY 1, 2, 3, 4, 5)
			SELECT count(*) FROM e FULL JOIN `+table+` u USING (at, tenant_id, kid, route, outcome) WHERE e.requests IS DISTINCT FROM u.requests OR e.cost IS DISTINCT FROM u.cost`, step)
		if bad != 0 {
			t.Errorf("%s: %d sums differ from the events", table, bad)
		}
	}
	for table, step := range map[string]string{"usage_fleet": "15 minutes", "usage_fleet_days": "1 day"} {
		bad := w.query(t, `WITH e AS (SELECT date_bin($1::interval, occurred_at, 'epoch') AS at, replica, route, outcome, sum(requests) AS requests, sum(cost) AS cost FROM usage_events JOIN usage_marks USING (run) GROUP BY 1, 2, 3, 4)
			SELECT count(*) FROM e FULL JOIN `+table+` u USING (at, replica, route, outcome) WHERE e.requests IS DISTINCT FROM u.requests OR e.cost IS DISTINCT FROM u.cost`, step)
		if bad != 0 {
			t.Errorf("%s: %d sums differ from the events", table, bad)
		}
	}
	for table, step := range map[string]string{"usage_tenant_hours": "1 hour", "usage_tenant_days": "1 day"} {
		bad := w.query(t, `WITH e AS (SELECT date_bin($1::interval, occurred_at, 'epoch') AS at, tenant_id,
			coalesce(sum(requests) FILTER (WHERE outcome IN ('admitted', 'fallback-admitted')), 0) AS admitted, coalesce(sum(cost) FILTER (WHERE outcome <> 'interrupted'), 0) AS cost,
			coalesce(sum(requests) FILTER (WHERE outcome = 'interrupted'), 0) AS interrupted, coalesce(sum(cost) FILTER (WHERE outcome = 'settled'), 0) AS settled,
			coalesce(sum(requests), 0) AS requests FROM usage_events GROUP BY 1, 2)
			SELECT count(*) FROM e FULL JOIN `+table+` u USING (at, tenant_id) WHERE e.admitted IS DISTINCT FROM u.admitted OR e.cost IS DISTINCT FROM u.cost
				OR e.interrupted IS DISTINCT FROM u.interrupted OR e.settled IS DISTINCT FROM u.settled OR e.requests IS DISTINCT FROM u.admitted + u.interrupted + u.refused + u.other`, step)
		if bad != 0 {
			t.Errorf("%s: %d sums differ from the events", table, bad)
		}
	}
}

// TestLedger_U02_MarksFromAnOlderCopyDoubleNothing: events are compared one by one then.
func TestLedger_U02_MarksFromAnOlderCopyDoubleNothing(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 500))
	w.collect(t)
	w.exec(t, `UPDATE usage_marks SET seq = 100`)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 600))
	w.collect(t)
	if n, mark := w.query(t, countEvents), w.wire.mark("gw-1", "b1"); n != 600 || mark != 600 {
		t.Errorf("%d requests, mark %d; want 600 of each", n, mark)
	}
}

// TestLedger_U09_AnEventKeepsTheSecondThatItWasMadeWith: the same number again with
// another second is not another event.
func TestLedger_U09_AnEventKeepsTheSecondThatItWasMadeWith(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	b := w.batchOf("gw-1", "b1", 1, 3)
	w.wire.send(t, b)
	w.collect(t)
	for i := range b.Events {
		b.Events[i].Second -= 3600
	}
	w.wire.send(t, b)
	w.collect(t)
	if n := w.query(t, `SELECT count(*) FROM usage_events`); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

// TestLedger_U06_GapsAreCountedExactlyAndFilledLater: numbers that nobody tells are asked
// for, then given up, and taken in should they come all the same.
func TestLedger_U06_GapsAreCountedExactlyAndFilledLater(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 100))
	w.wire.send(t, w.batchOf("gw-1", "b1", 141, 60)) // 101 to 140 are missing
	w.collect(t)
	if n, mark := w.query(t, countEvents), w.wire.mark("gw-1", "b1"); n != 160 || mark != 100 {
		t.Fatalf("%d requests, mark %d; want 160 and the mark before the gap", n, mark)
	}
	w.wire.send(t, w.batchOf("gw-1", "b1", 111, 10))
	w.pass(time.Minute)
	w.wire.send(t, w.batchOf("gw-1", "b1", 141, 60))
	w.collect(t)
	if mark := w.wire.mark("gw-1", "b1"); mark != 100 {
		t.Fatalf("mark %d: the gap is given up within a minute", mark)
	}
	w.pass(2 * time.Minute)
	w.wire.send(t, w.batchOf("gw-1", "b1", 141, 60))
	w.collect(t)
	st, err := w.ledger.Standing(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if mark := w.wire.mark("gw-1", "b1"); mark != 200 || st.Missing != 30 || len(st.Gaps) != 2 || !strings.Contains(strings.Join(st.Problems, " "), "30 events are missing") {
		t.Fatalf("mark %d, missing %d in %+v, problems %v; want 200 and 30", mark, st.Missing, st.Gaps, st.Problems)
	}
	w.wire.send(t, w.batchOf("gw-1", "b1", 90, 60)) // 101 to 110 and 121 to 140 come after all
	w.collect(t)
	if st, err = w.ledger.Standing(w.ctx); err != nil || st.Missing != 0 {
		t.Errorf("missing %d (%v), want 0", st.Missing, err)
	}
	if n := w.query(t, countEvents); n != 200 {
		t.Errorf("%d requests, want 200", n)
	}
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 200))
	w.collect(t)
	if n := w.query(t, countEvents); n != 200 {
		t.Errorf("%d requests after everything was sent again, want 200", n)
	}
}

// TestLedger_U06_ABootThatEndsWithAGapIsSettled: also when its last batch is empty, and
// when its disk is gone and nobody sends anything more.
func TestLedger_U06_ABootThatEndsWithAGapIsSettled(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 10))
	end := ledger.Batch{Replica: "gw-1", Boot: "b1", First: 16, Final: true}
	w.wire.send(t, end)
	w.wire.send(t, w.batchOf("gw-2", "b1", 1, 10))
	w.wire.send(t, w.batchOf("gw-2", "b1", 13, 1))
	w.collect(t)
	w.pass(3 * time.Minute)
	w.wire.send(t, end)
	w.collect(t)
	if mark := w.wire.mark("gw-1", "b1"); mark != 15 {
		t.Errorf("mark %d, want 15", mark)
	}
	w.pass(2 * time.Hour)
	if err := w.ledger.Upkeep(w.ctx); err != nil {
		t.Fatal(err)
	}
	if st, err := w.ledger.Standing(w.ctx); err != nil || st.Missing != 7 {
		t.Errorf("missing %d (%v), want 5 of one boot and 2 of the other", st.Missing, err)
	}
}

// TestLedger_U04_LateEventsAreHeldAndReleased: what is older than three days, or of the
// future, waits for a person.
func TestLedger_U04_LateEventsAreHeldAndReleased(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	now := w.clock.now()
	w.wire.send(t, ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1, Events: []ledger.Event{
		w.admitted(now.Add(-71*time.Hour).Unix(), w.tenants[0], 1),
		w.admitted(now.Add(-73*time.Hour).Unix(), w.tenants[0], 2),
		w.admitted(now.Add(time.Hour).Unix(), w.tenants[0], 4),
		w.admitted(now.Unix(), w.tenants[0], 8),
	}})
	w.collect(t)
	w.collect(t)
	if n, mark := w.query(t, `SELECT sum(cost)::bigint FROM usage_events`), w.wire.mark("gw-1", "b1"); n != 9 || mark != 4 {
		t.Fatalf("cost %d, mark %d; want 9 and 4", n, mark)
	}
	held, _, err := w.ledger.Held(w.ctx, owner, "", console.Page{})
	if err != nil || len(held) != 2 || held[1].Reason != "late" || held[0].Reason != "early" || held[1].Event.Cost != 2 {
		t.Fatalf("%+v (%v)", held, err)
	}
	if _, err := w.ledger.Release(w.ctx, owner, []int64{held[0].ID}, "checked"); console.CodeOf(err) != console.CodeInvalid {
		t.Errorf("an event of the future is released: %v", err)
	}
	if _, err := w.ledger.Release(w.ctx, as(console.RoleViewer), []int64{held[1].ID}, "checked"); console.CodeOf(err) != console.CodeForbidden {
		t.Errorf("a viewer releases: %v", err)
	}
	if n, err := w.ledger.Release(w.ctx, owner, []int64{held[1].ID}, "checked with Acme"); err != nil || n != 1 {
		t.Fatalf("%d released (%v)", n, err)
	}
	if n, err := w.ledger.Discard(w.ctx, owner, []int64{held[0].ID}, "a clock was wrong"); err != nil || n != 1 {
		t.Fatalf("%d discarded (%v)", n, err)
	}
	if n := w.query(t, `SELECT sum(cost)::bigint FROM usage_events`); n != 11 {
		t.Errorf("cost %d, want 11", n)
	}
	if _, err := w.ledger.Release(w.ctx, owner, []int64{held[1].ID}, "again"); !console.IsNotFound(err) {
		t.Errorf("released twice: %v", err)
	}
	if n := w.query(t, `SELECT count(*) FROM audit_events WHERE action IN ('usage.release', 'usage.discard')`); n != 2 {
		t.Errorf("%d audit events, want 2", n)
	}
}

// TestLedger_U08_OnePoisonEventHoldsUpNobody: a batch goes on without what is wrong in it.
func TestLedger_U08_OnePoisonEventHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.exec(t, `ALTER TABLE usage_events ADD CONSTRAINT poison CHECK (route <> 'poison')`)
	b := w.batchOf("gw-1", "b1", 1, 1000)
	b.Events[137].Route, b.Events[800].Route = "poison", "poison"
	b.Events[500].Tenant = "ten_zzzzzzzzzzzzzzzz"
	b.Events[501].Cost = 1 << 45
	w.wire.send(t, b)
	w.wire.send(t, w.batchOf("gw-2", "b1", 1, 100))
	w.wire.bodies = append(w.wire.bodies, []byte("nonsense"))
	w.collect(t)
	w.wire.bodies = append(w.wire.bodies, []byte("nonsense"))
	w.wire.send(t, b)
	w.collect(t)
	if n := w.query(t, countEvents); n != 996+100 {
		t.Errorf("%d requests, want 1096", n)
	}
	if a, b := w.wire.mark("gw-1", "b1"), w.wire.mark("gw-2", "b1"); a != 1000 || b != 100 {
		t.Errorf("marks %d and %d, want 1000 and 100", a, b)
	}
	st, err := w.ledger.Standing(w.ctx)
	if err != nil || st.Held != 4 || st.HeldBatch != 1 || st.Unreadable != 2 {
		t.Errorf("%+v (%v): want 4 events and one batch held, which came twice", st, err)
	}
	held, _, err := w.ledger.Held(w.ctx, owner, "held", console.Page{})
	reasons := map[string]int{}
	for _, h := range held {
		reasons[h.Reason]++
	}
	if err != nil || reasons["refused"] != 3 || reasons["unknown-tenant"] != 1 || reasons["unreadable"] != 1 {
		t.Errorf("%v (%v)", reasons, err)
	}
}

// TestLedger_U08_ForgersFillNothing: whoever may write to the stream can neither fill the
// quarantine, nor have what they wrote stay, nor move a mark further than a spool can be.
func TestLedger_U08_ForgersFillNothing(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.wire.send(t, w.batchOf("gw_a", "b1", 1, 3))
	for i := range 130 {
		w.wire.bodies = append(w.wire.bodies, []byte("nonsense "+strconv.Itoa(i)))
	}
	for range 2 {
		w.wire.send(t, w.batchOf("gw_a", "b1", 1<<52, 2))
		w.collect(t)
		w.pass(5 * time.Minute)
	}
	w.wire.send(t, w.batchOf("gw_a", "b1", 4, 2))
	w.collect(t)
	if n := w.query(t, "SELECT count(*) FROM usage_quarantine"); n != 100 {
		t.Errorf("%d batches are held", n)
	}
	if n := w.query(t, "SELECT unreadable FROM usage_intake"); n != 130 {
		t.Errorf("%d are counted", n)
	}
	if got := w.wire.mark("gw_a", "b1"); got != 5 {
		t.Errorf("the mark is %d", got)
	}
	if w.wire.dropped != strconv.Itoa(len(w.wire.bodies)) {
		t.Errorf("%s of %d were dropped", w.wire.dropped, len(w.wire.bodies))
	}
	s, err := w.ledger.Standing(w.ctx)
	if err != nil || s.Missing != 0 || s.HeldBatch != 100 || s.Unreadable != 130 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLedger_U10_AReplayFromZeroChangesNoRow: with the marks, and without them.
func TestLedger_U10_AReplayFromZeroChangesNoRow(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	for i := range int64(16) {
		w.wire.send(t, w.batchOf("gw-1", "b1", 1+i*ledger.MaxEvents, ledger.MaxEvents))
	}
	w.collect(t)
	w.roll(t)
	digest := func() int64 {
		return w.query(t, `SELECT (sum(hashtextextended(e::text, 0)) % 1000000007)::bigint FROM usage_events e`)
	}
	want, rows := digest(), w.query(t, `SELECT count(*) FROM usage_events`)
	if rows != 16*ledger.MaxEvents {
		t.Fatalf("%d rows", rows)
	}
	for _, forget := range []string{`SELECT 1`, `UPDATE usage_marks SET seq = 0, ahead = '{}'`} {
		w.exec(t, forget)
		if err := w.another().Collect(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.roll(t)
		if got, n := digest(), w.query(t, `SELECT count(*) FROM usage_events`); got != want || n != rows {
			t.Errorf("after %q: %d rows, want %d", forget, n, rows)
		}
	}
	w.sumsAgree(t)
}

// TestLedger_P01_WhatIsSentWhileTheDatabaseIsGoneComesAfterwards: nothing is forgotten
// and nothing is told to be committed meanwhile.
func TestLedger_P01_WhatIsSentWhileTheDatabaseIsGoneComesAfterwards(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.wire.send(t, w.batchOf("gw-1", "b1", 1, 100))
	w.collect(t)
	w.db.set(func(s *flakyStore) { s.down = true })
	for i := range int64(60) { // ten minutes of it
		w.pass(10 * time.Second)
		w.wire.send(t, w.batchOf("gw-1", "b1", 101+i*100, 100))
		if err := w.ledger.Collect(w.ctx); err == nil {
			t.Fatal("it collects without a database")
		}
	}
	if mark := w.wire.mark("gw-1", "b1"); mark != 100 {
		t.Errorf("mark %d while the database is gone", mark)
	}
	w.db.set(func(s *flakyStore) { s.down = false })
	w.collect(t)
	if n, mark := w.query(t, countEvents), w.wire.mark("gw-1", "b1"); n != 6100 || mark != 6100 {
		t.Errorf("%d requests, mark %d; want 6100 of each", n, mark)
	}
}

func TestLedger_OutcomesAreSortedTheSameBySQL(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	outcomes := append(usage.Outcomes(), ledger.OutcomeInterrupted, ledger.OutcomeSettled, ledger.OutcomeAborted)
	now := w.clock.now()
	b := ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1}
	for i, o := range outcomes {
		e := ledger.Event{Second: now.Unix() - 60, Tenant: w.tenants[i%3], Outcome: o, Requests: int64(1 + i)}
		if o == ledger.OutcomeSettled {
			e.Requests, e.Cost = 0, -3
		} else if o.Admitted() || o == ledger.OutcomeInterrupted {
			e.Cost = int64(100 + i)
		}
		b.Events = append(b.Events, e)
	}
	w.wire.send(t, b)
	w.collect(t)
	q := console.UsageQuery{From: now.Add(-time.Hour), To: now}
	before, err := w.ledger.Report(w.ctx, owner, q)
	if err != nil {
		t.Fatal(err)
	}
	w.roll(t)
	after, err := w.ledger.Report(w.ctx, owner, q)
	if err != nil || before.Total != after.Total {
		t.Errorf("%+v before events are added up, %+v after (%v)", before.Total, after.Total, err)
	}
	want := console.UsageSums{
		Admitted: 1 + 4, Cost: 100 + 103 - 3, Fallback: 4, FallbackCost: 103, Interrupted: 12, InterruptedCost: 111, Settled: -3,
		Refused: 2 + 3 + 5 + 6, Other: 7 + 8 + 9 + 10 + 11 + 14,
	}
	if after.Total != want {
		t.Errorf("%+v, want %+v", after.Total, want)
	}
	w.sumsAgree(t)
}
