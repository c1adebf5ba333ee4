package console

import "time"

// UsageStep is the length of a step of a report.
type UsageStep string

// Steps. Hours, days and months are those of the query's zone.
const (
	StepNone   UsageStep = "" // one step, the whole range
	StepMinute UsageStep = "minute"
	StepHour   UsageStep = "hour"
	StepDay    UsageStep = "day"
	StepMonth  UsageStep = "month"
)

// UsageGroup is what a report tells apart.
type UsageGroup string

// Groups.
const (
	GroupNone    UsageGroup = ""
	GroupTenant  UsageGroup = "tenant"
	GroupRoute   UsageGroup = "route"
	GroupKey     UsageGroup = "key"
	GroupPlan    UsageGroup = "plan" // as tenants are on them now
	GroupOutcome UsageGroup = "outcome"
	GroupGateway UsageGroup = "gateway" // of all tenants only
)

// UsageBy is by what groups are ordered.
type UsageBy string

// Orders.
const (
	ByRequests UsageBy = "requests" // everything that came in
	ByCost     UsageBy = "cost"
	ByRefused  UsageBy = "refused"
)

// UsageQuery asks for a report. From and To are rounded down to the minute, and to the
// quarter of an hour where minutes are not kept any more.
type UsageQuery struct {
	From, To time.Time // half open
	Step     UsageStep
	Group    UsageGroup
	Top      int // groups told apart, the largest; 0 is 10, at most 200
	By       UsageBy
	Zone     string // IANA; "" is UTC
	Unnamed  bool   // groups go without their names

	// What to count; "" is everything.
	TenantID, Route, KID, Plan, Outcome string
}

// UsageLine is one group of a report.
type UsageLine struct {
	Key   string // id, name, kid or outcome; "" is what has none
	Name  string // a tenant's, or whose a key is: "server of Acme"
	Total UsageSums
	Steps []UsageSums // as long as the report's
}

// UsageReport is what was used.
type UsageReport struct {
	From, To  time.Time   // as they were rounded
	Starts    []time.Time // of each step, in the query's zone; the first may lie before From
	Total     UsageSums
	Steps     []UsageSums
	Groups    []UsageLine
	Rest      UsageLine // groups beyond Top together
	RestCount int       // how many those are
	// Through is the second up to which the ledger has everything that gateways which
	// are alive told; zero when that is unknown.
	Through time.Time
	Source  string // "minutes", "quarters" or "days": the finest sums that it is made of
	At      time.Time
}

// TenantDay is a tenant's last 24 hours.
type TenantDay struct {
	Total UsageSums
	Hours [24]UsageSums // the last is the hour that runs
	Last  time.Time     // begin of the last hour with an admitted request, of the last 31 days; zero: none
}

// LedgerAsk asks for what a tenant used. To zero means no end; the other ends are whole
// quarters of hours.
type LedgerAsk struct {
	TenantID string
	From, To time.Time // half open
}

// UsageEvent is a row of the ledger. Replica, Boot, Seq and Second name it for ever.
type UsageEvent struct {
	Ingest        int64 // number of the transaction that took it in
	Replica, Boot string
	Seq           int64
	Second        time.Time
	TenantID, KID string
	Route         string
	Outcome       string
	Requests      int64
	Cost          int64
}

// UsageEventQuery picks events in the order in which they were taken in, which never
// changes: nothing ever comes before what was read.
type UsageEventQuery struct {
	After    string // cursor; "" is the beginning
	Limit    int    // 0 is 1000, at most 10 000
	TenantID string // "" is every one
	From, To time.Time
	// Billable leaves out refusals and what was interrupted.
	Billable bool
}

// UsageEventPage is a page of events. It may hold fewer than the limit, even none,
// before the end.
type UsageEventPage struct {
	Events []UsageEvent
	Next   string // cursor to what follows, now or later; never ""
	Done   bool   // there was nothing more when this was read
}
