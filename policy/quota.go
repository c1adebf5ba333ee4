package policy

import "time"

// Quota is a total per period, for a tenant.
type Quota struct {
	Amount    int64 // units of a period, 0..MaxUnits-1; 0 admits nothing
	Counts    Counts
	Period    QuotaPeriod
	Alignment Alignment
	TimeZone  string // IANA name; default UTC; a tenant may have its own
	Over      QuotaOver
	Max       int64 // with OverBill: units at which requests are refused after all, >= Amount; 0: no bound
	Mode      LimitMode
}

// QuotaPeriod is the length of a quota's period.
type QuotaPeriod string

// Quota periods. A week begins on Monday (ISO 8601).
const (
	PeriodDay      QuotaPeriod = "day"
	PeriodWeek     QuotaPeriod = "week"
	PeriodMonth    QuotaPeriod = "month"
	PeriodYear     QuotaPeriod = "year"
	PeriodLifetime QuotaPeriod = "lifetime"
)

func quotaPeriods() []QuotaPeriod {
	return []QuotaPeriod{PeriodDay, PeriodWeek, PeriodMonth, PeriodYear, PeriodLifetime}
}

// MaxAmount is the largest amount and max of a quota: integers up to it are
// exact in a double, which is what Redis' Lua counts in.
const MaxAmount = MaxUnits - 1

// Alignment says where periods begin.
type Alignment string

// Alignments.
const (
	AlignCalendar    Alignment = "calendar"    // default: on the first of the month, on Monday, …
	AlignAnniversary Alignment = "anniversary" // on the day of the tenant's quota anchor
)

// QuotaOver says what happens to requests beyond the amount.
type QuotaOver string

// Values of QuotaOver.
const (
	OverBlock QuotaOver = "block" // default: refused until the next period
	OverBill  QuotaOver = "bill"  // admitted and marked as overage, up to Max
)

// QuotaID names a plan's quota in overrides, diffs and stored state. It is the
// same for all plans, so that a change of plan carries the use over.
const QuotaID = "plan." + quotaName

// CompiledQuota is a plan's quota in the form that a gateway counts.
type CompiledQuota struct {
	*Quota
	ID       string         // QuotaID
	Hash     uint64         // LimitHash(ID)
	Source   string         // "plan pro"
	Location *time.Location // of TimeZone
	Shadow   bool
}
