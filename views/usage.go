package views

import (
	"strings"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// UsageProps is the page of what was used, from the ledger.
type UsageProps struct {
	Frame ui.FrameProps
	Tabs  []ui.Tab
	Usage UsageRecord
}

// UsageRecord is what was used, with the question it answers. A tenant's tab shows
// the same.
type UsageRecord struct {
	Now     time.Time
	Action  string // address of the form
	Filter  UsageFilter
	Source  string // "ledger · complete up to 3 s ago"
	Notices []UsageNotice
	Totals  []UsageTotal
	Chart   ui.BarChart
	Group   string // what a row is: "Tenant"; "" when nothing is told apart
	Cost    bool   // rows are ordered and shared by cost
	Before  string // the period before in words; "" without comparison
	Rows    []UsageRow
	Heat    *ui.HeatMap
	CSV     string // addresses of the same as files; "" for those who may not
	JSON    string
	Empty   string // why there is nothing; "" when there is something
}

// UsageFilter is a question as its form shows it. Each Options list has its current
// choice in the field beside it.
type UsageFilter struct {
	Range, Group, Top, By, Zone string
	Ranges, Groups, Tops, Zones []ui.Option
	From, To                    string // dates; Range is "dates" then
	Tenant, TenantName          string // of whom; fixed on a tenant's own tab
	Fixed                       bool
	Plan, Route, KID            string
	Outcome                     string
	Plans, Routes, Outcomes     []ui.Option
	Compare                     bool
	Problems                    map[string]string // by field
	Active                      bool              // anything besides range and grouping is set
	Clear                       string            // address without filters
}

// Problem is what is wrong with a field.
func (f UsageFilter) Problem(name string) string { return f.Problems[name] }

// UsageNotice says what the numbers of a page lack.
type UsageNotice struct {
	Kind, Lead, Text string
	URL, Action      string
}

// UsageTotal is one sum of the range.
type UsageTotal struct {
	Label, Value, Note, Tone string
}

// UsageRow is what one tenant, route, key … used.
type UsageRow struct {
	Name, ID, URL string
	Rest          bool // all that is beyond the top together
	Admitted      string
	Cost          string
	Refused       string
	RefusedShare  string // of its requests
	Share         string // of the total, in the measure asked for
	Percent       int    // Share as a number
	Change        string // against the period before; "" without comparison
	Line          []int64
	LineLabel     string // the line in words
}

// UsageStandingProps says how well the ledger knows what it should.
type UsageStandingProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	Tabs      []ui.Tab
	Source    string
	Problems  []string // each worth an alarm
	Totals    []UsageTotal
	Replicas  []StandingReplica
	Gaps      []GapRow
	Held      []QuarantineRow
	State     string // of what is listed: held, released or discarded
	Pager     ui.PagerProps
	CanRepair bool
	Problem   string // of an act that failed
}

// StandingReplica is how far the ledger has one boot of a replica.
type StandingReplica struct {
	Replica, Boot string
	Through       time.Time
	Seq           string
	Ahead         string // events beyond a gap; "" for none
	State, Word   string
	Heard         time.Time
}

// GapRow is numbers of a boot that did not come.
type GapRow struct {
	Replica, Boot, First, Last, Missing string
	Noted                               time.Time
	State, Word                         string
}

// QuarantineRow is an event, or a batch, that was not taken in.
type QuarantineRow struct {
	ID, Replica, Boot, Seq, Tenant, Reason, Detail string
	Requests, Cost                                 string
	Came, Second                                   time.Time
	Decided                                        time.Time
	By, Why                                        string
}

// UsagePeriodsProps is billing periods that were closed, and the form that closes one.
type UsagePeriodsProps struct {
	Frame    ui.FrameProps
	Now      time.Time
	Tabs     []ui.Tab
	Source   string
	Tenant   string // only of this one
	Rows     []PeriodRow
	Pager    ui.PagerProps
	CanClose bool
	Form     *form.Form // tenant, from, to, note
}

// PeriodRow is a closed billing period.
type PeriodRow struct {
	URL, Tenant, TenantURL string
	From, To               string // first and last day, in the tenant's zone
	Zone                   string
	Admitted, Cost         string // as they were when it was closed
	Adjusted               string // cost of what came later; "" for nothing
	ClosedAt               time.Time
	ClosedBy, Note         string
}

// UsagePeriodProps is one closed period with what came for it later.
type UsagePeriodProps struct {
	Frame       ui.FrameProps
	Now         time.Time
	Tabs        []ui.Tab
	Period      PeriodRow
	Totals      []UsageTotal
	Adjustments []AdjustmentRow
}

// AdjustmentRow is usage that came after its period was closed.
type AdjustmentRow struct {
	KID, Route, Outcome string
	Requests, Cost      string
	Events              string
	First, Last, Noted  time.Time
}

// ReconcileProps compares the counters in Redis with the ledger.
type ReconcileProps struct {
	Frame  ui.FrameProps
	Now    time.Time
	Tabs   []ui.Tab
	Source string
	Totals []UsageTotal
	Rows   []ReconcileRow
	Losses []CounterLossRow
	Pager  ui.PagerProps
	Empty  string
}

// CounterLossRow is counters that Redis lost, and that were rebuilt.
type CounterLossRow struct {
	Seen, Rebuilt time.Time
	Took          string
	Lanes         string
	Tenants       string
	Raised        string
	State, Word   string
	Missing       string // replicas that had not told everything
}

// ReconcileRow is one tenant in one period of its quota.
type ReconcileRow struct {
	Tenant, URL, Period, Zone string
	Counter, Ledger           string // Redis, and the record; "unknown" when it cannot be read
	Drift                     string // "0", "+12", "unknown"
	DriftKind                 string // ok, warn or bad
	Healed                    time.Time
	HealedBy                  string // "raised by 12"
	Checked                   time.Time
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
