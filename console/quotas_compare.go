package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// compareEvery is how often counters are compared with the ledger. A counter that is too high is
	// corrected when two comparisons have found it, so drift is gone within a minute.
	compareEvery = 20 * time.Second
	// usualLag is by how much the ledger is behind when nothing is wrong.
	usualLag = 5 * time.Second
	// standingKept is how long a standing is shown that nobody compares any more.
	standingKept = 10 * time.Minute
)

// reading is what a comparison saw of a counter.
type reading struct {
	start  time.Time
	units  int64
	at     time.Time // by Redis' clock, before it was read
	excess int64     // by how much it was above the ledger then, of what a reading before had said
}

// Compare brings every counter and the ledger together and keeps how they stand.
//
// The ledger holds nothing that was not admitted, so a counter below it has lost something
// and is raised at once. It lags behind, so a counter above it need not be wrong: it is when the
// ledger, once it has all that live replicas had admitted by the time of a reading, is still below
// what was read, twice in a row. Requests that run for longer than that are
// charged and not told of yet; they are given back too early and taken again when they end.
func (s *Quotas) Compare(ctx context.Context) error {
	began := s.d.now()
	now, err := s.d.Feed.Now(ctx)
	if err != nil {
		return fmt.Errorf("read Redis' clock: %w", err)
	}
	beats, err := s.d.Feed.Replicas(ctx)
	if err != nil {
		return err
	}
	whole, err := s.whole(ctx, beats, now)
	if err != nil {
		return err
	}
	fresh := make(map[string]reading, len(s.readings))
	err = s.each(ctx, now, func(ctx context.Context, cases []quotaCase) error {
		return s.compare(ctx, cases, &comparison{at: now, beats: beats, fresh: fresh, whole: whole})
	})
	if err != nil {
		return fmt.Errorf("compare counters of quotas with the ledger: %w", err)
	}
	s.readings, s.compared = fresh, began
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.DropQuotaStandings(ctx, began.Add(-standingKept)) })
}

// comparison is one round over all quotas.
type comparison struct {
	at    time.Time // by Redis' clock, before any counter was read
	beats []policy.Heartbeat
	fresh map[string]reading
	whole time.Time // of periods that began before, the ledger need not have all
}

// whole is from when on the ledger has, sooner or later, all that was admitted: since it began, and
// never while a replica is alive that keeps no spool or whose spool had no room. What the
// ledger cannot have is no reason to take anything off a counter.
func (s *Quotas) whole(ctx context.Context, beats []policy.Heartbeat, now time.Time) (time.Time, error) {
	for i := range beats {
		b := &beats[i]
		if now.Sub(b.At) <= GoneAfter && (b.Usage == nil || b.Usage.Unnoted > 0) {
			return forever(), nil
		}
	}
	since, err := s.ledger.Since(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when the ledger began: %w", err)
	}
	return since, nil
}

// compare brings some counters and the ledger's sums, which were read before, together.
func (s *Quotas) compare(ctx context.Context, cases []quotaCase, round *comparison) error {
	if len(cases) == 0 {
		return nil
	}
	counters := make([]policy.QuotaCounter, len(cases))
	for i, c := range cases {
		counters[i] = c.counter
	}
	units, err := s.feed.QuotaUnits(ctx, counters)
	if err != nil {
		return err
	}
	complete := len(s.behind(round.beats, round.at.Add(-usualLag), round.at)) == 0
	standings, crossings := make([]QuotaStanding, len(cases)), []QuotaCrossing(nil)
	var raise, lower []policy.QuotaCounter
	var raised, lowered []int // places in standings
	for i, c := range cases {
		excess := s.excess(&c, units[i], round)
		standings[i] = standingNow(c, units[i], complete)
		switch {
		case c.ledger > max(units[i], 0):
			c.counter.Units = c.ledger
			raise, raised = append(raise, c.counter), append(raised, i)
		case excess > 0:
			c.counter.Units = excess
			lower, lowered = append(lower, c.counter), append(lowered, i)
		}
	}
	if err := s.heal(ctx, raise, raised, lower, lowered, standings); err != nil {
		return err
	}
	for i := range standings {
		crossings = append(crossings, crossed(&standings[i])...)
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		if err := tx.PutQuotaStandings(ctx, standings, s.d.now()); err != nil {
			return err
		}
		_, err := tx.InsertQuotaCrossings(ctx, crossings, s.d.now())
		return err
	})
}

// excess is by how much a counter is certainly too high, and notes what is read of it for the
// next round.
func (s *Quotas) excess(c *quotaCase, units int64, round *comparison) int64 {
	if units <= 0 || round.whole.After(c.began()) {
		return 0
	}
	now := reading{start: c.counter.Start, units: units, at: round.at}
	defer func() { round.fresh[c.tenant.ID] = now }()
	last, ok := s.readings[c.tenant.ID]
	if !ok || !last.start.Equal(c.counter.Start) || len(s.behind(round.beats, last.at, round.at)) > 0 {
		return 0
	}
	now.excess = max(min(last.units, units)-c.ledger, 0)
	both := min(now.excess, last.excess)
	if both > 0 {
		now.units, now.excess = units-both, 0
	}
	return both
}

// heal corrects counters and says in their standings by how much.
func (s *Quotas) heal(ctx context.Context, raise []policy.QuotaCounter, raised []int, lower []policy.QuotaCounter, lowered []int, standings []QuotaStanding) error {
	if len(raise) > 0 {
		units, err := s.feed.RaiseQuotas(ctx, raise)
		if err != nil {
			return err
		}
		for i, at := range raised {
			q := &standings[at]
			q.HealedUnits = raise[i].Units - q.counted()
			q.Redis = &units[i]
		}
	}
	if len(lower) == 0 {
		return nil
	}
	units, err := s.feed.LowerQuotas(ctx, lower)
	if err != nil {
		return err
	}
	for i, at := range lowered {
		if units[i] != policy.AbsentUnits {
			standings[at].Redis, standings[at].HealedUnits = &units[i], -lower[i].Units
		}
	}
	return nil
}

// standingNow is how a quota stands before anything is corrected.
func standingNow(c quotaCase, units int64, complete bool) QuotaStanding {
	q := QuotaStanding{
		TenantID: c.tenant.ID, Plan: c.tenant.Plan, Period: string(c.quota.Period), Start: c.counter.Start, End: c.end(), TimeZone: c.zone,
		Counts: string(c.quota.Counts), Over: string(c.quota.Over), Amount: c.amount, Most: c.most, Granted: c.granted,
		Ledger: c.ledger, Complete: complete,
	}
	if units != policy.AbsentUnits {
		q.Redis = &units
	}
	return q
}

// crossed lists the thresholds that are reached; of an amount of 0 there is no part.
func crossed(q *QuotaStanding) (out []QuotaCrossing) {
	for _, percent := range QuotaPercents() {
		if q.Amount > 0 && float64(q.Used()) >= float64(q.Amount)*float64(percent)/100 {
			out = append(out, QuotaCrossing{
				TenantID: q.TenantID, Start: q.Start, End: q.End, Percent: percent, Units: q.Used(), Amount: q.Amount,
			})
		}
	}
	return out
}
