package console

import (
	"context"
	"time"
)

// takeSure takes batches in, whatever one of them holds. What the database refuses is
// found by halving, tried again, and held: one event must not keep everybody's from the
// ledger.
func (s *Ledger) takeSure(ctx context.Context, batches []*intakeBatch) ([]UsageMark, error) {
	marks, err := s.take(ctx, batches)
	if err == nil || ctx.Err() != nil || !hopeless(err) {
		return marks, err
	}
	if len(batches) > 1 {
		half := len(batches) / 2
		return s.takeBoth(ctx, batches[:half], batches[half:])
	}
	b := batches[0]
	if n := len(b.Events); n > 1 {
		left, right := *b, *b
		left.Events, left.Through, left.Final = b.Events[:n/2], 0, false
		right.Events, right.First = b.Events[n/2:], b.First+int64(n/2)
		return s.takeBoth(ctx, []*intakeBatch{&left}, []*intakeBatch{&right})
	}
	for range poisonTries - 1 {
		if marks, err = s.take(ctx, batches); err == nil || !hopeless(err) {
			return marks, err
		}
	}
	if len(b.Events) == 0 {
		return nil, err
	}
	s.d.Log.ErrorContext(ctx, "a usage event cannot be stored and is held", "replica", b.Replica, "boot", b.Boot, "number", b.First, "error", err)
	b.bad[b.First] = heldWhy{heldRefused, clip("The database refuses it: " + err.Error())}
	return s.take(ctx, batches)
}

func (s *Ledger) takeBoth(ctx context.Context, left, right []*intakeBatch) ([]UsageMark, error) {
	marks, err := s.takeSure(ctx, left)
	if err != nil {
		return marks, err
	}
	more, err := s.takeSure(ctx, right)
	return append(marks, more...), err
}

// take takes batches in, in one transaction. Marks tell what is there; should they not
// (they are older than the events: a restored copy), events are compared one by one.
func (s *Ledger) take(ctx context.Context, batches []*intakeBatch) (marks []UsageMark, err error) {
	for _, compare := range []bool{false, true} {
		err = s.d.Store.InTx(ctx, func(tx Tx) error {
			t := taking{tx: tx, now: s.d.now(), compare: compare}
			if err := t.all(ctx, batches); err != nil {
				return err
			}
			marks = t.saved
			return nil
		})
		if CodeOf(err) != CodeConflict {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return marks, nil
}

// taking is one transaction that takes events in.
type taking struct {
	tx      Tx
	now     time.Time
	compare bool
	ingest  int64

	marks map[BootName]*runMark
	order []*runMark
	rows  []UsageRow
	held  []HeldRow
	saved []UsageMark
}

func (t *taking) all(ctx context.Context, batches []*intakeBatch) error {
	last, err := t.tx.LockUsageIntake(ctx)
	if err != nil {
		return err
	}
	t.ingest = last + 1
	if err := t.loadMarks(ctx, batches); err != nil {
		return err
	}
	for _, b := range batches {
		if err := t.batch(ctx, b); err != nil {
			return err
		}
	}
	if err := t.store(ctx); err != nil {
		return err
	}
	return t.saveMarks(ctx)
}

// loadMarks reads, or begins, the marks of the batches' boots.
func (t *taking) loadMarks(ctx context.Context, batches []*intakeBatch) error {
	t.marks = map[BootName]*runMark{}
	var names []BootName
	for _, b := range batches {
		name := BootName{b.Replica, b.Boot}
		if _, ok := t.marks[name]; !ok {
			t.marks[name], names = nil, append(names, name)
		}
	}
	known, err := t.tx.UsageMarks(ctx, names)
	if err != nil {
		return err
	}
	runs := make([]int32, 0, len(known))
	for _, m := range known {
		t.marks[BootName{m.Replica, m.Boot}] = &runMark{UsageMark: m}
		runs = append(runs, m.Run)
	}
	for _, name := range names {
		if t.marks[name] == nil {
			m, err := t.tx.AddUsageMark(ctx, name, t.now)
			if err != nil {
				return err
			}
			t.marks[name] = &runMark{UsageMark: m}
		}
		t.order = append(t.order, t.marks[name])
	}
	gaps, err := t.tx.OpenUsageGaps(ctx, runs)
	for _, g := range gaps {
		for _, m := range t.order {
			if m.Run == g.Run {
				m.gaps = append(m.gaps, g)
			}
		}
	}
	return err
}

// batch sorts a batch's events into rows and what is held, and moves the mark.
func (t *taking) batch(ctx context.Context, b *intakeBatch) error {
	m := t.marks[BootName{b.Replica, b.Boot}]
	if b.First > m.Seq+maxJump { // no spool holds so many
		return nil
	}
	m.UpdatedAt = t.now
	m.Final = m.Final || b.Final
	if b.First > m.Seq+1 && !m.GapSince.IsZero() && t.now.Sub(m.GapSince) >= gapPatience {
		if err := t.giveUp(ctx, m, b.First); err != nil {
			return err
		}
	}
	in := Stretch{b.First, b.Last()}
	if len(b.Events) == 0 {
		if b.First > m.Seq+1 && m.GapSince.IsZero() {
			m.GapSince = t.now
		}
	} else if !m.room(in) {
		return nil
	}
	for _, part := range m.fresh(in) {
		for n := part.First; n <= part.Last; n++ {
			t.event(m, b, n)
		}
	}
	if len(b.Events) > 0 {
		m.take(in, t.now)
	}
	if through := time.Unix(b.Through, 0).UTC(); b.First <= m.Seq+1 && through.After(m.Through) && through.Before(t.now.Add(time.Hour)) {
		m.Through = through
	}
	return nil
}

// giveUp notes what is missing before a batch that the replica sends again and again
// without it.
func (t *taking) giveUp(ctx context.Context, m *runMark, first int64) error {
	lost := m.giveUp()
	if first > m.Seq+1 {
		lost = append(lost, Stretch{m.Seq + 1, first - 1})
		m.Seq = first - 1
	}
	for _, in := range lost {
		gap, err := t.tx.AddUsageGap(ctx, m.Run, in, m.Through, t.now)
		if err != nil {
			return err
		}
		m.gaps = append(m.gaps, gap)
	}
	return nil
}

func (t *taking) event(m *runMark, b *intakeBatch, n int64) {
	e := eventOf(b, n)
	e.Ingest = t.ingest
	why, bad := b.bad[n]
	if !bad {
		t.rows = append(t.rows, UsageRow{Run: m.Run, UsageEvent: e})
		return
	}
	t.held = append(t.held, HeldRow{Reason: why.reason, Detail: clip(why.detail), Replica: b.Replica, Boot: b.Boot, Seq: n, Event: &e, Events: 1})
}

func eventOf(b *intakeBatch, n int64) UsageEvent {
	e := &b.Events[n-b.First]
	return UsageEvent{
		Replica: b.Replica, Boot: b.Boot, Seq: n, Second: time.Unix(e.Second, 0).UTC(), TenantID: e.Tenant, KID: e.KID, Route: e.Route,
		Outcome: string(e.Outcome), Requests: e.Requests, Cost: e.Cost,
	}
}

// store writes rows and what is held.
func (t *taking) store(ctx context.Context) error {
	if err := addEvents(ctx, t.tx, &t.rows, t.compare); err != nil {
		return err
	}
	for _, h := range t.held {
		if _, err := t.tx.HoldUsage(ctx, h, t.now); err != nil {
			return err
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	if err := adjust(ctx, t.tx, t.rows, t.ingest, t.now); err != nil {
		return err
	}
	return t.tx.SetUsageIngest(ctx, t.ingest, t.now)
}

// addEvents writes rows; comparing, it leaves in rows those that were not there.
func addEvents(ctx context.Context, tx Tx, rows *[]UsageRow, compare bool) (err error) {
	switch {
	case len(*rows) == 0:
		return nil
	case compare:
		*rows, err = tx.AddUsageEvents(ctx, *rows)
		return err
	}
	return tx.CopyUsageEvents(ctx, *rows)
}

func (t *taking) saveMarks(ctx context.Context) error {
	for _, m := range t.order {
		if err := t.tx.SaveUsageMark(ctx, m.UsageMark); err != nil {
			return err
		}
		for _, g := range m.gaps {
			if !m.filled[g.ID] {
				continue
			}
			if err := t.tx.FillUsageGap(ctx, g, t.now); err != nil {
				return err
			}
		}
		t.saved = append(t.saved, m.UsageMark)
	}
	return nil
}

// lateKey is what the adjustments of one transaction are told apart by.
type lateKey struct{ period, kid, route, outcome string }

// adjust notes which rows belong to periods that are closed.
func adjust(ctx context.Context, tx Tx, rows []UsageRow, ingest int64, now time.Time) error {
	closed, err := tx.LastClosedUsage(ctx)
	if err != nil {
		return err
	}
	var late []UsageRow
	tenants, first := map[string]bool{}, closed
	for _, r := range rows {
		if r.Second.Before(closed) {
			late, tenants[r.TenantID] = append(late, r), true
			if r.Second.Before(first) {
				first = r.Second
			}
		}
	}
	if len(late) == 0 {
		return nil
	}
	ids := make([]string, 0, len(tenants))
	for id := range tenants {
		ids = append(ids, id)
	}
	periods, err := tx.ClosedAfter(ctx, ids, first)
	if err != nil || len(periods) == 0 {
		return err
	}
	for k, a := range adjustments(periods, late) {
		a.PeriodID, a.KID, a.Route, a.Outcome, a.NotedAt = k.period, k.kid, k.route, k.outcome, now
		if err := tx.AddUsageAdjustment(ctx, a, ingest); err != nil {
			return err
		}
	}
	return nil
}

func adjustments(periods []UsagePeriod, late []UsageRow) map[lateKey]UsageAdjustment {
	of := map[string][]UsagePeriod{}
	for _, p := range periods {
		of[p.TenantID] = append(of[p.TenantID], p)
	}
	sums := map[lateKey]UsageAdjustment{}
	for _, r := range late {
		for _, p := range of[r.TenantID] {
			if r.Second.Before(p.From) || !r.Second.Before(p.To) {
				continue
			}
			k := lateKey{p.ID, r.KID, r.Route, r.Outcome}
			a, ok := sums[k]
			if !ok || r.Second.Before(a.FirstAt) {
				a.FirstAt = r.Second
			}
			if r.Second.After(a.LastAt) {
				a.LastAt = r.Second
			}
			a.Requests, a.Cost, a.Events = a.Requests+r.Requests, a.Cost+r.Cost, a.Events+1
			sums[k] = a
		}
	}
	return sums
}
