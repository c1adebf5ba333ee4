package console

import (
	"context"
	"fmt"
	"time"
)

const (
	rollEvery = time.Second
	// rollEvents is about how many events are added up in one transaction; where that
	// takes longer than a statement may, fewer, down to one transaction's.
	rollEvents = 12_000
	// forgetRows bounds the sums that one transaction removes of each kind.
	forgetRows = 20_000
	// monthsAhead is how many months' partitions are there before they are needed.
	monthsAhead = 3
)

// Run takes events in and adds them up until ctx ends. Several consoles may run it; each
// event is taken, and added up, once.
func (s *Ledger) Run(ctx context.Context) error {
	if err := s.Upkeep(ctx); err != nil && ctx.Err() == nil {
		s.d.Log.WarnContext(ctx, "the ledger's partitions are not looked after", "error", err)
	}
	rolled := make(chan struct{})
	go func() {
		defer close(rolled)
		s.d.repeat(ctx, rollEvery, "usage is not added up", s.d.andSweep(s.Roll, s.Upkeep))
	}()
	s.d.repeat(ctx, ledgerEvery, "the ledger does not grow", s.Collect)
	<-rolled
	return nil
}

// Roll adds up all that is committed. A crash in between leaves nothing half done: the
// place moves with the sums.
func (s *Ledger) Roll(ctx context.Context) error {
	for events, more := rollEvents, true; more; {
		err := s.d.Store.InTx(ctx, func(tx Tx) error {
			after, err := tx.LockUsageRollup(ctx)
			if err != nil {
				return err
			}
			through, err := tx.NextUsageSlice(ctx, after, events)
			if more = through > after; err != nil || !more {
				return err
			}
			return tx.RollUsage(ctx, after, through, s.d.now())
		})
		if CodeOf(err) == CodeUnavailable && events > 0 && ctx.Err() == nil {
			events, more = events/4, true
			continue
		}
		if err != nil {
			return fmt.Errorf("add usage up: %w", err)
		}
	}
	return nil
}

// Upkeep makes partitions ahead of their months, finds events that have none a month,
// drops months and sums that are older than is to be kept, and gives up gaps of boots
// that have long been silent.
func (s *Ledger) Upkeep(ctx context.Context) error {
	if err := s.months(ctx); err != nil {
		return fmt.Errorf("look after months of usage: %w", err)
	}
	if err := s.staleGaps(ctx); err != nil {
		return fmt.Errorf("give up gaps: %w", err)
	}
	now := s.d.now()
	for more := true; more; {
		err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
			more, err = tx.ForgetUsage(ctx, now.Add(-s.keep.Minutes), now.Add(-s.keep.Quarters), now.Add(-s.keep.Days), forgetRows)
			return err
		})
		if err != nil {
			return fmt.Errorf("forget old sums of usage: %w", err)
		}
	}
	return nil
}

// monthOf is the first instant of a time's month, in UTC.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// job runs fn as the only one that changes partitions; not at all while another does.
func (s *Ledger) job(ctx context.Context, fn func(Tx) error) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		got, err := tx.TryUsageJob(ctx)
		if err != nil || !got {
			return err
		}
		return fn(tx)
	})
}

// months keeps partitions, each step in a transaction of its own: none of them may hold
// up those who write for long.
func (s *Ledger) months(ctx context.Context) error {
	this := monthOf(s.redisNow(ctx))
	var have []UsageMonth
	var stray int64
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		if have, err = tx.UsageMonths(ctx); err != nil {
			return err
		}
		stray, err = tx.StrayUsage(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if stray > 0 {
		s.d.Log.WarnContext(ctx, "usage events lay in no month", "events", stray)
		if err := s.job(ctx, func(tx Tx) error { _, err := tx.TidyUsage(ctx); return err }); err != nil {
			return err
		}
	}
	for i := -1; i <= monthsAhead; i++ {
		month := this.AddDate(0, i, 0)
		if monthThere(have, month) {
			continue
		}
		if err := s.job(ctx, func(tx Tx) error { _, err := tx.MakeUsageMonth(ctx, month); return err }); err != nil {
			return err
		}
	}
	return s.dropMonths(ctx, have, s.redisNow(ctx).Add(-s.keep.Events))
}

func monthThere(have []UsageMonth, month time.Time) bool {
	for _, m := range have {
		if m.Attached && m.Month.Equal(month) {
			return true
		}
	}
	return false
}

// dropMonths takes out months that end before a time, and removes what was taken out.
func (s *Ledger) dropMonths(ctx context.Context, have []UsageMonth, before time.Time) error {
	for _, m := range have {
		if m.Attached && m.Month.AddDate(0, 1, 0).After(before) {
			continue
		}
		for _, step := range []bool{true, false} {
			if !m.Attached && step {
				continue
			}
			err := s.job(ctx, func(tx Tx) error { return tx.RemoveUsageMonth(ctx, UsageMonth{m.Month, step}) })
			if err != nil {
				return err
			}
		}
		s.d.Log.InfoContext(ctx, "a month of usage events was dropped", "month", m.Month.Format("2006-01"))
	}
	return nil
}

// staleGaps gives up numbers that nobody tells any more: the boot's disk is gone.
func (s *Ledger) staleGaps(ctx context.Context) error {
	now := s.d.now()
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		if _, err := tx.LockUsageIntake(ctx); err != nil {
			return err
		}
		stale, err := tx.StaleUsageGaps(ctx, now.Add(-gapPatience), now.Add(-gapSilence))
		if err != nil {
			return err
		}
		for _, mark := range stale {
			t, m := taking{tx: tx, now: now}, &runMark{UsageMark: mark}
			if err := t.giveUp(ctx, m, m.Seq+1); err != nil {
				return err
			}
			m.GapSince = time.Time{}
			if err := tx.SaveUsageMark(ctx, m.UsageMark); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	rebuildStep = 6 * time.Hour
	rebuildDays = 400
)

// Rebuild adds a range up again from the events themselves. It works day by day, and
// may be repeated.
func (s *Ledger) Rebuild(ctx context.Context, actor Actor, from, to time.Time) (RebuiltUsage, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return RebuiltUsage{}, err
	}
	const day = 24 * time.Hour
	out := RebuiltUsage{From: floorTo(from, day), To: ceilTo(to, day)}
	if err := s.rebuildable(ctx, out); err != nil {
		return RebuiltUsage{}, err
	}
	for at := out.From; at.Before(out.To); at = at.Add(day) {
		for part := at; part.Before(at.Add(day)); part = part.Add(rebuildStep) {
			changed, err := s.rebuild(ctx, part, part.Add(rebuildStep))
			if err != nil {
				return out, fmt.Errorf("add up %s again: %w", part.Format(time.DateTime), err)
			}
			out.Changed += changed
		}
		err := s.d.Store.InTx(ctx, func(tx Tx) error {
			if _, err := tx.LockUsageRollup(ctx); err != nil {
				return err
			}
			rows, err := tx.RebuildUsageDay(ctx, at)
			out.Rows += rows
			return err
		})
		if err != nil {
			return out, fmt.Errorf("add up the day %s again: %w", at.Format(time.DateOnly), err)
		}
	}
	return out, s.d.Store.InTx(ctx, func(tx Tx) error {
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "usage.rebuild", object: "usage", objectID: out.From.Format(time.DateOnly), after: out})
	})
}

// rebuildable refuses ranges of which events are gone, or too much at once.
func (s *Ledger) rebuildable(ctx context.Context, r RebuiltUsage) error {
	var p problems
	switch {
	case !r.From.Before(r.To):
		p.add("to", "It must lie after the beginning.")
	case r.To.Sub(r.From) > rebuildDays*24*time.Hour:
		p.add("to", "At most %d days at once.", rebuildDays)
	}
	if err := p.err(); err != nil {
		return err
	}
	return s.d.Store.Read(ctx, func(tx Tx) error {
		have, err := tx.UsageMonths(ctx)
		if err != nil {
			return err
		}
		for _, m := range have {
			if m.Attached {
				if r.From.Before(m.Month) {
					p.add("from", "The events before %s are gone: their sums are all that there is. Begin there.", m.Month.Format(time.DateOnly))
				}
				break
			}
		}
		return p.err()
	})
}

// rebuild adds a stretch up again, in halves when that takes longer than a statement may.
func (s *Ledger) rebuild(ctx context.Context, from, to time.Time) (changed int64, err error) {
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		through, err := tx.LockUsageRollup(ctx)
		if err != nil {
			return err
		}
		changed, err = tx.RebuildUsage(ctx, from, to, through)
		return err
	})
	if half := floorTo(from.Add(to.Sub(from)/2), quarterHour); CodeOf(err) == CodeUnavailable && ctx.Err() == nil && half.After(from) && half.Before(to) {
		left, err := s.rebuild(ctx, from, half)
		if err != nil {
			return left, err
		}
		right, err := s.rebuild(ctx, half, to)
		return left + right, err
	}
	return changed, err
}
