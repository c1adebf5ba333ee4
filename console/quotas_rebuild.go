package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// quotasEvery is how often lanes are looked over for their marks.
	quotasEvery = time.Second
	// heardAgain is within what replicas that live have sent a heartbeat after Redis lost the
	// last one: it is not waited for less.
	heardAgain = 3 * time.Second
	// rebuildPatience is how long a rebuilding waits for what replicas have not told yet. With it and the
	// time that rebuilding takes, counters are back 10 s after a loss.
	rebuildPatience = 7 * time.Second
	// keepMarksEvery is how often marks are kept up that would be gone after 60 days.
	keepMarksEvery = 24 * time.Hour
)

// Run watches over counters until ctx ends. It may run in one console of a database at
// a time; Relay.While sees to that.
func (s *Quotas) Run(ctx context.Context) error {
	if s.feed == nil {
		<-ctx.Done()
		return nil
	}
	s.d.repeat(ctx, quotasEvery, "counters of quotas are not watched over", s.Work)
	return nil
}

// Work does once what is due: rebuild lanes that lost their counters, compare all of them with
// the ledger, keep marks up. It is Run's; tests call it alone.
func (s *Quotas) Work(ctx context.Context) error {
	marks, err := s.feed.QuotaMarks(ctx)
	if err != nil {
		return err
	}
	now, err := s.d.Feed.Now(ctx)
	if err != nil {
		return fmt.Errorf("read Redis' clock: %w", err)
	}
	beats, err := s.d.Feed.Replicas(ctx)
	if err != nil {
		return err
	}
	lost, seen := s.noteLosses(marks, now)
	if len(lost) > 0 {
		missing := s.behind(beats, seen, now)
		if waited := now.Sub(seen); waited >= heardAgain && (len(missing) == 0 || waited >= rebuildPatience) {
			err = s.rebuild(ctx, lost, seen, missing)
		}
	}
	s.hear(beats, now)
	if err != nil {
		return err
	}
	if s.d.now().Sub(s.kept) >= keepMarksEvery {
		if err := s.keepUp(ctx, marks); err != nil {
			return err
		}
	}
	if len(s.losses) == 0 && s.d.now().Sub(s.compared) >= compareEvery {
		return s.Compare(ctx)
	}
	return nil
}

// noteLosses returns the lanes without their mark and since when the last of them is.
func (s *Quotas) noteLosses(marks []string, now time.Time) (lost []int, seen time.Time) {
	for lane, mark := range marks {
		if mark != "" {
			delete(s.losses, lane)
			continue
		}
		if _, known := s.losses[lane]; !known {
			s.losses[lane] = now
		}
		lost = append(lost, lane)
		if s.losses[lane].After(seen) {
			seen = s.losses[lane]
		}
	}
	return lost, seen
}

// hear remembers who lives, for when Redis forgets it.
func (s *Quotas) hear(beats []policy.Heartbeat, now time.Time) {
	for _, b := range beats {
		if b.Usage != nil {
			s.known[b.ID] = b.At
		}
	}
	for id, at := range s.known {
		if now.Sub(at) > GoneAfter {
			delete(s.known, id)
		}
	}
}

// behind lists the replicas that may have admitted something up to a moment that the ledger does
// not have: those that say so, and those of which nothing was heard since. One that keeps no spool is
// not asked: the ledger never gets what it admits.
func (s *Quotas) behind(beats []policy.Heartbeat, until, now time.Time) []string {
	told := map[string]bool{}
	var out []string
	for _, b := range beats {
		told[b.ID] = true
		if b.Usage != nil && now.Sub(b.At) <= GoneAfter && (b.Usage.Committed < until.Unix() || b.At.Before(until)) {
			out = append(out, b.ID)
		}
	}
	for id := range s.known {
		if !told[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// rebuild brings the counters in lanes up to what the ledger has, and marks the lanes. Since the
// loss nobody was admitted on a quota that blocks, so that the ledger's sum is what was used.
func (s *Quotas) rebuild(ctx context.Context, lanes []int, seen time.Time, missing []string) error {
	name, err := s.d.newID("qrb")
	if err != nil {
		return err
	}
	if err := s.feed.BeginQuotas(ctx, lanes, name); err != nil {
		return err
	}
	now, err := s.d.Feed.Now(ctx)
	if err != nil {
		return fmt.Errorf("read Redis' clock: %w", err)
	}
	lost := map[int]bool{}
	for _, lane := range lanes {
		lost[lane] = true
	}
	loss := QuotaLoss{SeenAt: seen, Complete: len(missing) == 0, Missing: missing}
	err = s.each(ctx, now, func(ctx context.Context, cases []quotaCase) error {
		var raise []policy.QuotaCounter
		for _, c := range cases {
			if !lost[policy.TenantLane(c.tenant.ID)] {
				continue
			}
			loss.Tenants++
			if c.ledger > 0 {
				c.counter.Units = c.ledger
				raise = append(raise, c.counter)
			}
		}
		loss.Raised += int64(len(raise))
		_, err := s.feed.RaiseQuotas(ctx, raise)
		return err
	})
	if err != nil {
		return fmt.Errorf("rebuild counters of quotas: %w", err)
	}
	again, err := s.feed.MarkQuotas(ctx, lanes, name, s.d.now().Format(time.RFC3339))
	if err != nil {
		return err
	}
	return s.rebuilt(ctx, loss, lanes, again)
}

// rebuilt keeps what became of a loss. Lanes that lost their counters once more are left for
// the next round.
func (s *Quotas) rebuilt(ctx context.Context, loss QuotaLoss, lanes, again []int) error {
	for _, lane := range lanes {
		delete(s.losses, lane)
	}
	if loss.Lanes = len(lanes) - len(again); loss.Lanes == 0 {
		return nil
	}
	s.compared = time.Time{} // at once: what came in meanwhile is added
	now, err := s.d.Feed.Now(ctx)
	if err != nil {
		return fmt.Errorf("read Redis' clock: %w", err)
	}
	loss.RebuiltAt = now
	if now.Before(loss.SeenAt) { // Redis was replaced by one whose clock is behind
		loss.RebuiltAt = loss.SeenAt
	}
	s.d.Log.InfoContext(ctx, "counters of quotas are rebuilt", "lanes", loss.Lanes, "tenants", loss.Tenants, "raised", loss.Raised,
		"after", loss.RebuiltAt.Sub(loss.SeenAt), "complete", loss.Complete, "missing", loss.Missing)
	err = s.d.Store.InTx(ctx, func(tx Tx) error { return tx.InsertQuotaLoss(ctx, loss) })
	if err != nil {
		return fmt.Errorf("keep that counters were rebuilt: %w", err)
	}
	return nil
}

// keepUp lets the marks that are there stay.
func (s *Quotas) keepUp(ctx context.Context, marks []string) error {
	var lanes []int
	for lane, mark := range marks {
		if mark != "" {
			lanes = append(lanes, lane)
		}
	}
	if err := s.feed.KeepQuotas(ctx, lanes); err != nil {
		return err
	}
	s.kept = s.d.now()
	return nil
}
