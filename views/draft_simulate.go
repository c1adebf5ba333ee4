package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// DraftSimulateProps is the page on which a draft is tried on what gateways
// logged.
type DraftSimulateProps struct {
	Head    DraftHead
	Form    *form.Form // range, from, to
	Trial   *TrialProps
	Earlier []TrialRow
}

// TrialRow is an earlier simulation in the list.
type TrialRow struct {
	URL, State, Result, Author string
	From, To, At               time.Time
	Outdated                   bool // the draft has changed since
	Current                    bool
}

// TrialProps is one simulation.
type TrialProps struct {
	Poll       string // address of this part while it runs
	Now        time.Time
	State      string // running, done or failed
	Percent    int
	Problem    string // why it failed
	Against    int64
	From, To   time.Time
	Author     string
	At         time.Time
	Outdated   bool // the draft has changed since
	Refused    OutcomeProps
	Admitted   OutcomeProps
	SameAdmit  string
	SameRefuse string
	Decisions  string // how many were replayed
	Rows       []TrialCell
	MoreRows   int
	Notes      []string // what could not be judged
}

// OutcomeProps counts decisions that come out otherwise.
type OutcomeProps struct{ Requests, Tenants string }

// TrialCell is what changes for one tenant on one route by one limit.
type TrialCell struct {
	Tenant, TenantURL string
	Route, Limit      string
	Refused           bool // newly refused; else newly admitted
	Requests          string
	Share             int // of the largest row, in percent
	First, Last       time.Time
	Peak              string
	PeakAt            time.Time
}

func (t TrialProps) running() bool { return t.State == "running" }

// empty reports whether nothing comes out otherwise.
func (t TrialProps) empty() bool { return t.State == "done" && len(t.Rows) == 0 }

func trialTone(state string) string {
	switch state {
	case "done":
		return "ok"
	case "failed":
		return "bad"
	}
	return "warn"
}

func rangeOptions() []ui.Option {
	return []ui.Option{{Value: "1h", Label: "the last hour"}, {Value: "6h", Label: "the last 6 hours"}, {Value: "24h", Label: "the last 24 hours"},
		{Value: "168h", Label: "the last 7 days"}, {Value: "custom", Label: "from … to …"}}
}

func clock(t time.Time) string { return t.UTC().Format("2 Jan 15:04") }
