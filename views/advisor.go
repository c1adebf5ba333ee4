package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// AdvisorProps is the page of limits from measurement.
type AdvisorProps struct {
	Frame ui.FrameProps
	Live  AdvisorLiveProps
}

// AdvisorLiveProps is its part that moves while a report is made.
type AdvisorLiveProps struct {
	Now      time.Time
	Working  bool
	Problem  string
	Source   string // of the report: what it was made of, and its age
	Notes    []string
	Known    bool // there is a report
	Limits   []AdviceRow
	Promises []PromiseRow
	Empty    string // why there are no promises
}

// AdviceRow is one limit of the list.
type AdviceRow struct {
	URL, ID, Plan        string
	InForce, Per         string // "600/minute, burst 100"; "tenant"
	Shadow               bool
	P50, P90, P99, Max   string
	Used                 int // percent of a window that the p99 takes, 100 at most for the meter
	UsedText             string
	Requests, Refused    string
	Half, Twice          string // refused at half and twice the numbers
	HalfWorse, TwiceLess bool
}

// PromiseRow is a route with what is promised and what it takes.
type PromiseRow struct {
	Route, Pattern   string
	Tenants          string
	Promised, Why    string
	Use              string
	Capacity         string // "1 250/s"; ui.Unknown
	CapacityURL      string
	MeasuredAt       time.Time
	MeasuredBy       string
	Times, TimesTone string // "3.2 ×"
	Stale            string
	Command          string // that measures it; "" when it is known
}

// AdvisorLimitProps is the page of one limit.
type AdvisorLimitProps struct {
	Frame   ui.FrameProps
	Now     time.Time
	Row     AdviceRow
	Source  string
	Window  string
	Notes   []string
	Stats   []ui.StatProps
	Rungs   []AdviceRungRow
	Tenants []TenantUseRow
	Long    *LongUse
	LongURL string // leads to Long; "" where there is none or it is shown
	Form    *form.Form
	CanTry  bool
	DraftTo string // where the number is changed
}

// AdviceRungRow is what other numbers would have refused.
type AdviceRungRow struct {
	Factor, Numbers, Refused, Share, Subjects string
	Current                                   bool
}

// TenantUseRow is one tenant's use of a limit.
type TenantUseRow struct {
	Name, URL          string
	P50, P90, P99, Max string
	Allowed            string
	Own                bool
	Used               int
	UsedText           string
	Refused            string
}

// LongUse is what the ledger says of a limit over days.
type LongUse struct {
	Problem string
	Source  string
	Note    string
	Tenants []TenantUseRow
}

// AdvisorTrialProps is the page of a trial of other numbers.
type AdvisorTrialProps struct {
	Frame ui.FrameProps
	Trial TrialProps
}

// CapacityProps is the page of one measurement.
type CapacityProps struct {
	Frame  ui.FrameProps
	Now    time.Time
	Route  string
	Facts  []CapacityFact
	Steps  []CapacityStepRow
	Method string
	Ended  string // why, for people
	Tone   string
}

// CapacityFact is a name and a value.
type CapacityFact struct{ Name, Value string }

// CapacityStepRow is one rate that was tried.
type CapacityStepRow struct {
	RPS, Sent, Failed, P50, P99, Why string
	Good                             bool
}

func (p AdvisorLimitProps) field(name, label, hint, placeholder string) ui.FieldProps {
	return ui.FieldProps{Name: name, Label: label, Hint: hint, Placeholder: placeholder, Value: p.Form.Raw(name), Error: p.Form.Error(name), Plain: true, MaxLength: 40}
}
