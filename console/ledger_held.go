package console

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const maxDecided = 1000

// corrections is the boot under which the console's own rows are kept. No replica can be
// called so: see readBatches.
func corrections() BootName { return BootName{Replica: "(console)", Boot: "(corrections)"} }

// Held lists what is held, or what was ("released", "discarded"; "" is "held"), and the
// cursor to the next page.
func (s *Ledger) Held(ctx context.Context, actor Actor, state string, page Page) (items []HeldUsage, next string, err error) {
	if err := actor.need(PermView); err != nil {
		return nil, "", err
	}
	switch state {
	case "":
		state = "held"
	case "held", "released", "discarded":
	default:
		return nil, "", invalid(FieldError{Field: "state", Message: "It must be held, released or discarded."})
	}
	return paged(ctx, s.d.Store, page, func(tx Tx, after Cursor, limit int) ([]HeldUsage, error) {
		before, err := after.number()
		if err != nil {
			return nil, err
		}
		return tx.HeldUsage(ctx, state, before, limit)
	}, func(h HeldUsage) Cursor { return Cursor{At: h.ReceivedAt, ID: strconv.FormatInt(h.ID, 10)} })
}

// Release takes events into the ledger that were held: at most 1000 ids. It returns how
// many it took.
func (s *Ledger) Release(ctx context.Context, actor Actor, ids []int64, reason string) (taken int64, err error) {
	return s.decide(ctx, actor, ids, "released", "usage.release", reason, func(tx Tx, held []HeldUsage) (int64, error) {
		return s.release(ctx, tx, held)
	})
}

// Discard decides that what is held will never be counted.
func (s *Ledger) Discard(ctx context.Context, actor Actor, ids []int64, reason string) (int64, error) {
	return s.decide(ctx, actor, ids, "discarded", "usage.discard", reason, func(_ Tx, held []HeldUsage) (int64, error) { return int64(len(held)), nil })
}

// heldView is what the audit trail tells of a decision.
type heldView struct {
	IDs    []int64 `json:"ids"`
	Events int64   `json:"events"`
}

func (s *Ledger) decide(ctx context.Context, actor Actor, ids []int64, state, action, reason string, do func(Tx, []HeldUsage) (int64, error)) (n int64, err error) {
	if err := actor.need(PermManageTenants); err != nil {
		return 0, err
	}
	var p problems
	reason = p.reason(reason)
	if len(ids) == 0 || len(ids) > maxDecided {
		p.add("ids", "Name 1 to %d of what is held.", maxDecided)
	}
	if err := p.err(); err != nil {
		return 0, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		// In the order of those who take events in, so that no two wait for each other.
		if _, err := tx.LockUsageIntake(ctx); err != nil {
			return err
		}
		held, err := tx.LockHeldUsage(ctx, ids)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return &Error{Code: CodeNotFound, Public: "None of these is held."}
		}
		found := make([]int64, len(held))
		for i, h := range held {
			found[i] = h.ID
		}
		if n, err = do(tx, held); err != nil {
			return err
		}
		now := s.d.now()
		if err := tx.DecideHeldUsage(ctx, found, state, actor.Name, reason, now); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: action, object: "usage", objectID: strconv.FormatInt(found[0], 10), after: heldView{found, n}, reason: reason,
		})
	})
	return n, err
}

// release takes held events in. The caller holds the intake's lock.
func (s *Ledger) release(ctx context.Context, tx Tx, held []HeldUsage) (int64, error) {
	ids := map[string]bool{}
	for _, h := range held {
		if h.Event == nil {
			return 0, invalid(FieldError{Field: "ids", Message: fmt.Sprintf("%d is a batch that could not be read: it can only be discarded.", h.ID)})
		}
		ids[h.Event.TenantID] = true
	}
	tenants := make([]string, 0, len(ids))
	for id := range ids {
		tenants = append(tenants, id)
	}
	known, err := tx.KnownTenants(ctx, tenants)
	if err != nil {
		return 0, err
	}
	there := newIntake(s.d).known
	for _, id := range known {
		there[id] = true
	}
	now := s.d.now()
	rows := make([]UsageRow, len(held))
	for i, h := range held {
		switch e := h.Event; {
		case !there[e.TenantID]:
			return 0, invalid(FieldError{Field: "ids", Message: fmt.Sprintf("%d is of a tenant that does not exist.", h.ID)})
		case e.Second.Before(now.Add(-s.keep.Events)), e.Second.After(now.Add(usageEarly)):
			return 0, invalid(FieldError{Field: "ids", Message: fmt.Sprintf("%d is of %s, for which the ledger has no place.", h.ID, e.Second.UTC().Format(time.DateTime))})
		case e.Requests > mostRequests || e.Cost > mostCost || e.Cost < -mostCost:
			return 0, invalid(FieldError{Field: "ids", Message: fmt.Sprintf("%d counts more than one event can.", h.ID)})
		}
		rows[i] = UsageRow{UsageEvent: *h.Event}
	}
	return addOwn(ctx, tx, rows, now)
}

// addOwn adds rows outside of any batch, and returns how many were not there yet. The
// caller holds the intake's lock.
func addOwn(ctx context.Context, tx Tx, rows []UsageRow, now time.Time) (int64, error) {
	last, err := tx.LockUsageIntake(ctx)
	if err != nil {
		return 0, err
	}
	runs := map[BootName]int32{}
	var names []BootName
	for i := range rows {
		name := BootName{rows[i].Replica, rows[i].Boot}
		if _, ok := runs[name]; !ok {
			runs[name], names = 0, append(names, name)
		}
	}
	marks, err := tx.UsageMarks(ctx, names)
	if err != nil {
		return 0, err
	}
	for _, m := range marks {
		runs[BootName{m.Replica, m.Boot}] = m.Run
	}
	for i := range rows {
		rows[i].Ingest = last + 1
		if rows[i].Run = runs[BootName{rows[i].Replica, rows[i].Boot}]; rows[i].Run == 0 {
			return 0, fmt.Errorf("there is no mark of %s %s", rows[i].Replica, rows[i].Boot)
		}
	}
	rows, err = tx.AddUsageEvents(ctx, rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if err := adjust(ctx, tx, rows, last+1, now); err != nil {
		return 0, err
	}
	return int64(len(rows)), tx.SetUsageIngest(ctx, last+1, now)
}

// correctionView is what the audit trail tells of a correction.
type correctionView struct {
	KID    string    `json:"kid,omitempty"`
	Route  string    `json:"route,omitempty"`
	Second time.Time `json:"second"`
	Cost   int64     `json:"cost"`
}

// Correct adds a correction to the ledger.
func (s *Ledger) Correct(ctx context.Context, actor Actor, c UsageCorrection) (UsageEvent, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return UsageEvent{}, err
	}
	var p problems
	now := s.d.now()
	c.Reason = p.reason(c.Reason)
	c.KID, c.Route = p.text("kid", c.KID, maxName, false), p.text("route", c.Route, maxName, false)
	if c.Cost == 0 || c.Cost > mostCost || c.Cost < -mostCost {
		p.add("cost", "Say by how much: more or less than 0.")
	}
	if c.At.Before(now.Add(-s.keep.Events)) || c.At.After(now) {
		p.add("at", "It must lie in the past, and not further than events are kept.")
	}
	if err := p.err(); err != nil {
		return UsageEvent{}, err
	}
	name := corrections()
	e := UsageEvent{
		Replica: name.Replica, Boot: name.Boot, Second: c.At.UTC().Truncate(time.Second), TenantID: c.TenantID, KID: c.KID, Route: c.Route,
		Outcome: "settled", Cost: c.Cost,
	}
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		if _, err := tx.ShareTenant(ctx, c.TenantID); err != nil {
			return err
		}
		last, err := tx.LockUsageIntake(ctx)
		if err != nil {
			return err
		}
		if err := s.correctionsMark(ctx, tx, &e.Seq, now); err != nil {
			return err
		}
		e.Ingest = last + 1
		if _, err := addOwn(ctx, tx, []UsageRow{{UsageEvent: e}}, now); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "usage.correct", object: "usage", objectID: strconv.FormatInt(e.Seq, 10), tenantID: c.TenantID,
			after: correctionView{c.KID, c.Route, e.Second, c.Cost}, reason: c.Reason,
		})
	})
	return e, err
}

// correctionsMark counts the console's own rows.
func (s *Ledger) correctionsMark(ctx context.Context, tx Tx, seq *int64, now time.Time) (err error) {
	if *seq, err = tx.NextUsageCorrection(ctx); err != nil {
		return err
	}
	marks, err := tx.UsageMarks(ctx, []BootName{corrections()})
	if err != nil {
		return err
	}
	if len(marks) == 0 {
		m, err := tx.AddUsageMark(ctx, corrections(), now)
		if err != nil {
			return err
		}
		marks = append(marks, m)
	}
	m := marks[0]
	m.Seq, m.Final, m.UpdatedAt = *seq, true, now
	return tx.SaveUsageMark(ctx, m)
}
