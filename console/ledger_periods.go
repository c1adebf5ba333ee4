package console

import (
	"context"
	"time"
)

// periodView is what the audit trail tells of a period that was closed.
type periodView struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Sums  UsageSums `json:"sums"`
	Tells string    `json:"note,omitempty"`
}

// ClosePeriod closes a billing period of a tenant: a quarter of an hour after its end at
// the earliest. What comes for it later is an adjustment.
func (s *Ledger) ClosePeriod(ctx context.Context, actor Actor, tenantID string, from, to time.Time, note string) (UsagePeriod, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return UsagePeriod{}, err
	}
	var p problems
	now := s.d.now()
	note = p.text("note", note, maxReason, false)
	from, to = from.UTC(), to.UTC()
	switch {
	case !from.Before(to) || from.Year() < 1970:
		p.add("from", "The period must begin before it ends.")
	case !floorTo(from, quarterHour).Equal(from):
		p.add("from", "A period begins at a quarter of an hour.")
	case !floorTo(to, quarterHour).Equal(to):
		p.add("to", "A period ends at a quarter of an hour.")
	case now.Before(to.Add(quarterHour)):
		p.add("to", "The period is not over for a quarter of an hour yet: gateways may still tell of it.")
	}
	if err := p.err(); err != nil {
		return UsagePeriod{}, err
	}
	id, err := s.d.newID("upr")
	if err != nil {
		return UsagePeriod{}, err
	}
	x := UsagePeriod{ID: id, TenantID: tenantID, From: from, To: to, ClosedAt: now, ClosedBy: actor.Name, Note: note}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		if _, err := tx.LockTenant(ctx, tenantID); err != nil {
			return err
		}
		if x.Ingest, err = tx.LockUsageIntake(ctx); err != nil { // nothing comes in meanwhile
			return err
		}
		n, err := tx.OverlappingPeriods(ctx, tenantID, from, to)
		if err != nil {
			return err
		}
		if n > 0 {
			return &Error{Code: CodeConflict, Public: "A part of this period is closed already."}
		}
		sums, err := tx.UsageSums(ctx, []LedgerAsk{{tenantID, from, to}})
		if err != nil {
			return err
		}
		x.Sums = sums[0]
		if err := tx.AddUsagePeriod(ctx, x); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "usage.close", object: "usage-period", objectID: x.ID, tenantID: tenantID, after: periodView{from, to, x.Sums, note}, reason: note,
		})
	})
	return x, err
}

// Periods lists closed periods, the last closed first, of one tenant or of all ("").
func (s *Ledger) Periods(ctx context.Context, actor Actor, tenantID string, page Page) (items []UsagePeriod, next string, err error) {
	if err := actor.needOf(tenantID, PermView, PermOwnTenant); err != nil {
		return nil, "", err
	}
	return paged(ctx, s.d.Store, page, func(tx Tx, after Cursor, limit int) ([]UsagePeriod, error) {
		return tx.UsagePeriods(ctx, tenantID, "", after, limit)
	}, func(p UsagePeriod) Cursor { return Cursor{At: p.ClosedAt, ID: p.ID} })
}

// Period returns a closed period with its adjustments, the last first, at most 1000.
func (s *Ledger) Period(ctx context.Context, actor Actor, id string) (x UsagePeriod, late []UsageAdjustment, err error) {
	absent := &Error{Code: CodeNotFound, Public: "There is no such period."}
	if id == "" {
		return UsagePeriod{}, nil, absent
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		found, err := tx.UsagePeriods(ctx, "", id, Cursor{}, 1)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return absent
		}
		if err := actor.needOf(found[0].TenantID, PermView, PermOwnTenant); err != nil {
			return err
		}
		x = found[0]
		late, err = tx.UsageAdjustments(ctx, id)
		return err
	})
	return x, late, err
}
