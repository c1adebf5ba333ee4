package console

import (
	"context"
	"time"
)

// LedgerRows keeps the ledger.
type LedgerRows interface {
	LedgerIntakeRows
	LedgerMarkRows
	LedgerGapRows
	LedgerHeldRows
	LedgerPeriodRows
	LedgerMonthRows
	LedgerRollupRows
	LedgerReportRows
}

// LedgerIntakeRows takes events in.
type LedgerIntakeRows interface {
	// LockUsageIntake makes this transaction the only one that takes events in, and
	// returns the number of the last one that did.
	LockUsageIntake(ctx context.Context) (int64, error)
	SetUsageIngest(ctx context.Context, ingest int64, now time.Time) error
	// CopyUsageEvents adds rows; CodeConflict when one is there already.
	CopyUsageEvents(ctx context.Context, rows []UsageRow) error
	// AddUsageEvents adds those rows that are not there yet and returns them.
	AddUsageEvents(ctx context.Context, rows []UsageRow) ([]UsageRow, error)
	NextUsageCorrection(ctx context.Context) (int64, error)
	KnownTenants(ctx context.Context, ids []string) ([]string, error)
}

// UsageRow is an event as a row.
type UsageRow struct {
	Run int32
	UsageEvent
}

// UsageMark is how far the ledger has one boot of a replica: all numbers up to Seq, and
// the stretches in Ahead.
type UsageMark struct {
	Run           int32
	Replica, Boot string
	Seq           int64
	Ahead         []Stretch // beyond Seq+1, ascending, apart
	GapSince      time.Time // since when numbers before Ahead are missing
	Through       time.Time
	Final         bool
	UpdatedAt     time.Time
}

// Stretch is numbers from First to Last.
type Stretch struct{ First, Last int64 }

// BootName names one boot of a replica.
type BootName struct{ Replica, Boot string }

// LedgerMarkRows keeps marks. Changes happen under LockUsageIntake.
type LedgerMarkRows interface {
	UsageMarks(ctx context.Context, of []BootName) ([]UsageMark, error)
	AddUsageMark(ctx context.Context, of BootName, now time.Time) (UsageMark, error)
	SaveUsageMark(ctx context.Context, m UsageMark) error
	// StaleUsageGaps lists boots whose gap is older than before and that were not heard
	// since heardBefore.
	StaleUsageGaps(ctx context.Context, before, heardBefore time.Time) ([]UsageMark, error)
	// UsageRuns lists boots heard since a time, and those that have not ended and were
	// heard since openSince.
	UsageRuns(ctx context.Context, since, openSince time.Time) ([]UsageMark, error)
}

// OpenGap is a gap that was given up and has not been filled.
type OpenGap struct {
	ID      int64
	Run     int32
	In      Stretch
	Missing int64
	Filled  []Stretch
}

// LedgerGapRows keeps gaps.
type LedgerGapRows interface {
	OpenUsageGaps(ctx context.Context, runs []int32) ([]OpenGap, error)
	AddUsageGap(ctx context.Context, run int32, in Stretch, after, now time.Time) (OpenGap, error)
	FillUsageGap(ctx context.Context, g OpenGap, now time.Time) error
	UsageGaps(ctx context.Context) ([]UsageGap, error)
	CountMissingUsage(ctx context.Context) (int64, error)
}

// HeldRow is what is put into quarantine: an event, or the Body of a batch that could
// not be read.
type HeldRow struct {
	Reason, Detail string
	Replica, Boot  string
	Seq            int64
	Event          *UsageEvent
	Body           []byte
	Events         int64
}

// LedgerHeldRows keeps what the ledger did not take.
type LedgerHeldRows interface {
	// HoldUsage reports false when it is held already.
	HoldUsage(ctx context.Context, h HeldRow, now time.Time) (bool, error)
	HeldUsage(ctx context.Context, state string, beforeID int64, limit int) ([]HeldUsage, error)
	// LockHeldUsage returns those of some that are held, and keeps them from others.
	LockHeldUsage(ctx context.Context, ids []int64) ([]HeldUsage, error)
	DecideHeldUsage(ctx context.Context, ids []int64, state, by, why string, now time.Time) error
	CountHeldUsage(ctx context.Context) (events, batches int64, err error)
}

// LedgerPeriodRows keeps closed billing periods.
type LedgerPeriodRows interface {
	AddUsagePeriod(ctx context.Context, p UsagePeriod) error
	// OverlappingPeriods counts closed periods of a tenant that share time with one.
	OverlappingPeriods(ctx context.Context, tenantID string, from, to time.Time) (int64, error)
	UsagePeriods(ctx context.Context, tenantID, id string, after Cursor, limit int) ([]UsagePeriod, error)
	UsageAdjustments(ctx context.Context, periodID string) ([]UsageAdjustment, error)
	LedgerLateRows
}

// LedgerLateRows finds what comes after a period was closed.
type LedgerLateRows interface {
	// LastClosedUsage is the last end of any closed period.
	LastClosedUsage(ctx context.Context) (time.Time, error)
	// ClosedAfter lists closed periods of tenants that end after a time, by tenant and
	// begin: id, tenant and ends alone.
	ClosedAfter(ctx context.Context, tenantIDs []string, after time.Time) ([]UsagePeriod, error)
	AddUsageAdjustment(ctx context.Context, a UsageAdjustment, ingest int64) error
}

// UsageMonth is a partition of the events.
type UsageMonth struct {
	Month    time.Time // its first instant
	Attached bool      // false: it was taken out and is to be removed
}

// LedgerMonthRows keeps partitions. Changes happen under TryUsageJob.
type LedgerMonthRows interface {
	// TryUsageJob reports whether this transaction may change partitions; another one
	// does so otherwise.
	TryUsageJob(ctx context.Context) (bool, error)
	UsageMonths(ctx context.Context) ([]UsageMonth, error)
	MakeUsageMonth(ctx context.Context, month time.Time) (bool, error)
	// RemoveUsageMonth takes a month out, or removes one that was taken out.
	RemoveUsageMonth(ctx context.Context, m UsageMonth) error
	// StrayUsage counts events that no month is there for, up to 100 000.
	StrayUsage(ctx context.Context) (int64, error)
	// TidyUsage puts them into months of their own and returns how many it moved.
	TidyUsage(ctx context.Context) (int64, error)
}

// UsageState is where the ledger stands.
type UsageState struct {
	Ingest, Rolled int64 // transactions that took events in; those of them that are added up
	Unreadable     int64
}

// LedgerRollupRows adds events up.
type LedgerRollupRows interface {
	UsageState(ctx context.Context) (UsageState, error)
	// UsageSince is when the first batch of any replica but own came; forever() when none did.
	UsageSince(ctx context.Context, own string) (time.Time, error)
	// LockUsageRollup makes this transaction the only one that adds up, and returns up to
	// where it is done.
	LockUsageRollup(ctx context.Context) (int64, error)
	// NextUsageSlice is up to where to add up next: about so many events.
	NextUsageSlice(ctx context.Context, after int64, events int) (int64, error)
	RollUsage(ctx context.Context, after, through int64, now time.Time) error
	// ForgetUsage removes at most limit sums of each kind that are older than these times.
	ForgetUsage(ctx context.Context, minutes, quarters, days time.Time, limit int) (more bool, err error)
	CountUnreadable(ctx context.Context, batches int64) error
	LedgerRebuildRows
}

// LedgerRebuildRows adds up again.
type LedgerRebuildRows interface {
	// RebuildUsage adds the events of a stretch of at most a UTC day, whole quarters of
	// hours, up again as far as they were added up; it returns how many quarters had wrong
	// sums. Changes happen under LockUsageRollup.
	RebuildUsage(ctx context.Context, from, to time.Time, through int64) (changed int64, err error)
	// RebuildUsageDay makes the sums of a UTC day from those of its quarters, and returns
	// how many rows there are.
	RebuildUsageDay(ctx context.Context, day time.Time) (rows int64, err error)
}

// UsageCover says from which sums a range is read: quarters from From to HoursFrom, hours
// to DaysFrom, days to DaysTo, hours to HoursTo, quarters to To; or minutes alone.
type UsageCover struct {
	From, HoursFrom, DaysFrom, DaysTo, HoursTo, To time.Time
	Minutes                                        bool
}

// UsageRead is what of the sums is read.
type UsageRead struct {
	Cover           UsageCover
	Starts          []time.Time // of steps
	Group           UsageGroup
	By              UsageBy
	Top             int
	TenantIDs, KIDs []string // none: every one
	Replica, Route  string
	Plan, Outcome   string
}

// UsageCell is a group in a step.
type UsageCell struct {
	Step int // from 0
	Key  string
	UsageSums
}

// UsageFamily is the kind of sums that can answer a question: the smallest that can.
type UsageFamily string

// Families.
const (
	UsageOfTenants UsageFamily = "tenants" // by tenant, and nothing else
	UsageOfFleet   UsageFamily = "fleet"   // by gateway, route and outcome, of all tenants
	UsageOfAll     UsageFamily = "detail"
)

// LedgerReportRows reads sums, together with what is not added up yet.
type LedgerReportRows interface {
	UsageCells(ctx context.Context, of UsageFamily, r UsageRead) ([]UsageCell, error)
	// UsageGroups returns the largest groups, and how many there are.
	UsageGroups(ctx context.Context, of UsageFamily, r UsageRead) ([]UsageCell, int, error)
	// UsageSums answers asks, in their order.
	UsageSums(ctx context.Context, asks []LedgerAsk) ([]UsageSums, error)
	// LastUsed tells in which hour (since one time) or day (since another) tenants last
	// had a request admitted.
	LastUsed(ctx context.Context, tenantIDs []string, hoursSince, daysSince time.Time) (map[string]time.Time, error)
	// UsageEvents returns events after a place among the next scan rows, and the place of
	// the last row that was looked at; looked is how many those were.
	UsageEvents(ctx context.Context, q UsageEventQuery, after UsagePlace, limit, scan int) (rows []UsageRow, last UsagePlace, looked int, err error)
}

// UsagePlace is a place in the order in which events were taken in.
type UsagePlace struct {
	Ingest int64
	Run    int32
	Seq    int64
}
