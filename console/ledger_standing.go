package console

import (
	"context"
	"errors"
	"time"
)

var errLedgerEmpty = errors.New("the ledger has nothing yet")

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

// Standing tells how complete the ledger is.
func (s *Ledger) Standing(ctx context.Context) (LedgerStanding, error) {
	return LedgerStanding{}, errLedgerEmpty
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

// Held lists what is held, or what was ("released", "discarded"; "" is "held"), and the
// cursor to the next page.
func (s *Ledger) Held(ctx context.Context, actor Actor, state string, page Page) ([]HeldUsage, string, error) {
	return nil, "", errLedgerEmpty
}

// Release takes events into the ledger that were held: at most 1000 ids. It returns how
// many it took.
func (s *Ledger) Release(ctx context.Context, actor Actor, ids []int64, reason string) (int64, error) {
	return 0, errLedgerEmpty
}

// Discard decides that what is held will never be counted.
func (s *Ledger) Discard(ctx context.Context, actor Actor, ids []int64, reason string) (int64, error) {
	return 0, errLedgerEmpty
}

// RebuiltUsage is what a rebuild did.
type RebuiltUsage struct {
	From, To time.Time // whole UTC days
	Rows     int64     // rows of sums that are there now
	Changed  int64     // quarters of hours whose sums were wrong
}

// Rebuild adds a range up again from the events themselves. It works day by day, and
// may be repeated.
func (s *Ledger) Rebuild(ctx context.Context, actor Actor, from, to time.Time) (RebuiltUsage, error) {
	return RebuiltUsage{}, errLedgerEmpty
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

// ClosePeriod closes a billing period of a tenant: a quarter of an hour after its end at
// the earliest. What comes for it later is an adjustment.
func (s *Ledger) ClosePeriod(ctx context.Context, actor Actor, tenantID string, from, to time.Time, note string) (UsagePeriod, error) {
	return UsagePeriod{}, errLedgerEmpty
}

// Periods lists closed periods, the last closed first, of one tenant or of all ("").
func (s *Ledger) Periods(ctx context.Context, actor Actor, tenantID string, page Page) ([]UsagePeriod, string, error) {
	return nil, "", errLedgerEmpty
}

// Period returns a closed period with its adjustments, the last first, at most 1000.
func (s *Ledger) Period(ctx context.Context, actor Actor, id string) (UsagePeriod, []UsageAdjustment, error) {
	return UsagePeriod{}, nil, errLedgerEmpty
}

// UsageCorrection is a correction of what a tenant is charged: a new row, never a change
// of one.
type UsageCorrection struct {
	TenantID, KID, Route string
	At                   time.Time // the second that it belongs to
	Cost                 int64     // signed, not 0
	Reason               string
}

// Correct adds a correction to the ledger.
func (s *Ledger) Correct(ctx context.Context, actor Actor, c UsageCorrection) (UsageEvent, error) {
	return UsageEvent{}, errLedgerEmpty
}
