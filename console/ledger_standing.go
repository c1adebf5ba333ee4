package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/policy"
)

// UsageRun is how far the ledger has one boot of a replica.
type UsageRun struct {
	Replica, Boot string
	Seq           int64
	Ahead         int64 // events beyond a gap
	GapSince      time.Time
	Through       time.Time
	Final         bool
	UpdatedAt     time.Time
}

// UsageGap is numbers that a replica never told.
type UsageGap struct {
	Replica, Boot string
	First, Last   int64
	Missing       int64     // events; 0: all of them came later
	After         time.Time // everything up to here is there
	NotedAt       time.Time
	FilledAt      time.Time
}

// LedgerStanding says how complete the ledger is.
type LedgerStanding struct {
	At         time.Time
	Through    time.Time     // complete up to; zero: unknown
	Lag        time.Duration // how far that is behind Redis' clock, by the slowest gateway that is alive
	RollupLag  int64         // transactions that are not added up yet
	Behind     []UsageRun    // not heard for a minute and not ended: what they have left is not known
	Runs       []UsageRun    // heard within the last day, the last first
	Gaps       []UsageGap    // the last 100
	Missing    int64         // events that are missing for good, of all time
	Held       int64         // events in quarantine
	HeldBatch  int64         // batches that could not be read
	Unreadable int64         // how often such ones came
	Default    int64         // events that have no month's partition
	MonthsTo   time.Time     // partitions are there up to here
	MonthsFrom time.Time     // and from here
	Problems   []string      // each worth an alarm, in words; none: all is well
}

// HeldUsage is what the ledger did not take.
type HeldUsage struct {
	ID            int64
	Reason        string // late, early, unknown-tenant, refused, unreadable
	Detail        string
	Replica, Boot string
	Seq           int64
	Event         *UsageEvent // nil for a batch that could not be read
	Events        int64
	ReceivedAt    time.Time
	State         string // held, released, discarded
	DecidedBy     string
	DecidedWhy    string
	DecidedAt     time.Time
}

// RebuiltUsage is what a rebuild did.
type RebuiltUsage struct {
	From, To time.Time // whole UTC days
	Rows     int64     // rows of sums that are there now
	Changed  int64     // quarters of hours whose sums were wrong
}

// UsagePeriod is a billing period that was closed.
type UsagePeriod struct {
	ID, TenantID string
	From, To     time.Time
	ClosedAt     time.Time
	ClosedBy     string
	Note         string
	Ingest       int64
	Sums         UsageSums // as they were when it was closed
	Adjusted     UsageSums // what came for it later
	Adjustments  int64     // events of those
}

// UsageAdjustment is what came for a period after it was closed.
type UsageAdjustment struct {
	PeriodID        string
	KID, Route      string
	Outcome         string
	Requests, Cost  int64
	Events          int64
	FirstAt, LastAt time.Time
	NotedAt         time.Time
}

// UsageCorrection is a correction of what a tenant is charged: a new row, never a change
// of one.
type UsageCorrection struct {
	TenantID, KID, Route string
	At                   time.Time // the second that it belongs to
	Cost                 int64     // signed, not 0
	Reason               string
}

const (
	// runSilent is how long a boot that has not ended may be silent before it counts as
	// behind.
	runSilent = time.Minute
	// standingFor is how long it is remembered how complete the ledger is.
	standingFor = time.Second
	// lagAlarm is from which lag on there is a problem.
	lagAlarm = time.Minute
)

// told is up to when the replicas that are alive are in the ledger.
type told struct {
	now     time.Time // by Redis' clock
	through time.Time // zero: unknown
	alive   map[BootName]bool
	known   bool // Redis could be asked
	full    []string
	unnoted int64
}

// fleet asks what replicas that are alive tell of their spools. A replica that waits for
// nothing is complete up to where it is itself.
func (s *Ledger) fleet(ctx context.Context) told {
	out := told{now: s.redisNow(ctx), alive: map[BootName]bool{}}
	ask, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	beats, err := s.d.Feed.Replicas(ask)
	if err != nil {
		return out
	}
	out.known = true
	for i := range beats {
		b := &beats[i]
		if b.Usage == nil || out.now.Sub(b.At) > runSilent {
			continue
		}
		out.add(b)
	}
	return out
}

func (t *told) add(b *policy.Heartbeat) {
	t.alive[BootName{b.ID, b.Boot}] = true
	at := time.Unix(b.Usage.Committed, 0).UTC()
	if b.Usage.Waiting == 0 {
		at = time.Unix(b.Usage.Through, 0).UTC()
	}
	if t.through.IsZero() || at.Before(t.through) {
		t.through = at
	}
	if b.Usage.Full {
		t.full = append(t.full, b.ID)
	}
	t.unnoted += b.Usage.Unnoted
}

// through is up to when the ledger is complete, as it was within the last second.
func (s *Ledger) through(ctx context.Context) time.Time {
	s.complete.Lock()
	defer s.complete.Unlock()
	if now := s.d.Now(); now.Sub(s.complete.at) >= standingFor || now.Before(s.complete.at) {
		s.complete.through, s.complete.at = s.fleet(ctx).through, now
	}
	return s.complete.through
}

// Standing tells how complete the ledger is.
func (s *Ledger) Standing(ctx context.Context) (LedgerStanding, error) {
	fleet := s.fleet(ctx)
	out := LedgerStanding{At: s.d.now(), Through: fleet.through}
	if !out.Through.IsZero() {
		out.Lag = max(fleet.now.Sub(out.Through), 0)
	}
	var runs []UsageMark
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		state, err := tx.UsageState(ctx)
		if err != nil {
			return err
		}
		out.RollupLag, out.Unreadable = state.Ingest-state.Rolled, state.Unreadable
		if runs, err = tx.UsageRuns(ctx, out.At.Add(-24*time.Hour), out.At.Add(-s.keep.Events)); err != nil {
			return err
		}
		if out.Gaps, err = tx.UsageGaps(ctx); err != nil {
			return err
		}
		if out.Missing, err = tx.CountMissingUsage(ctx); err != nil {
			return err
		}
		if out.Held, out.HeldBatch, err = tx.CountHeldUsage(ctx); err != nil {
			return err
		}
		if out.Default, err = tx.StrayUsage(ctx); err != nil {
			return err
		}
		return out.months(ctx, tx)
	})
	if err != nil {
		return LedgerStanding{}, err
	}
	for _, m := range runs {
		out.run(m, fleet)
	}
	out.problems(fleet)
	return out, nil
}

func (l *LedgerStanding) months(ctx context.Context, tx Tx) error {
	have, err := tx.UsageMonths(ctx)
	for _, m := range have {
		if !m.Attached {
			continue
		}
		if l.MonthsFrom.IsZero() {
			l.MonthsFrom, l.MonthsTo = m.Month, m.Month
		}
		if m.Month.Equal(l.MonthsTo) {
			l.MonthsTo = m.Month.AddDate(0, 1, 0)
		}
	}
	return err
}

func (l *LedgerStanding) run(m UsageMark, fleet told) {
	r := UsageRun{Replica: m.Replica, Boot: m.Boot, Seq: m.Seq, GapSince: m.GapSince, Through: m.Through, Final: m.Final, UpdatedAt: m.UpdatedAt}
	for _, a := range m.Ahead {
		r.Ahead += a.Last - a.First + 1
	}
	if m.Replica == corrections().Replica {
		return
	}
	if !m.Final && l.At.Sub(m.UpdatedAt) > runSilent && !fleet.alive[BootName{m.Replica, m.Boot}] {
		l.Behind = append(l.Behind, r)
	}
	if l.At.Sub(m.UpdatedAt) <= 24*time.Hour {
		l.Runs = append(l.Runs, r)
	}
}

// problems says in words what is worth an alarm.
func (l *LedgerStanding) problems(fleet told) {
	add := func(is bool, format string, args ...any) {
		if is {
			l.Problems = append(l.Problems, fmt.Sprintf(format, args...))
		}
	}
	slices.Sort(fleet.full)
	add(!fleet.known, "Redis cannot be asked: it is not known how far the gateways are.")
	add(l.Lag > lagAlarm, "The ledger is %s behind the slowest gateway.", l.Lag.Round(time.Second))
	add(l.Missing > 0, "%d events are missing: gateways lost them before the ledger had them.", l.Missing)
	add(l.Held > 0, "%d events are held and not counted: release or discard them.", l.Held)
	add(l.HeldBatch > 0, "%d batches could not be read.", l.HeldBatch)
	add(len(l.Behind) > 0, "%d gateways stopped without telling all: what they have left comes when they start again.", len(l.Behind))
	add(len(fleet.full) > 0, "The spool is full on %v: routes do what they are configured to.", fleet.full)
	add(fleet.unnoted > 0, "%d requests were admitted without a note, because a spool was full.", fleet.unnoted)
	add(l.Default > 0, "%d events lie in no month's partition.", l.Default)
	add(l.MonthsTo.Before(l.At.AddDate(0, 1, 0)), "Partitions of usage are there up to %s only.", l.MonthsTo.Format(time.DateOnly))
}
