package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// RouteListProps is the page of the routes in force, with the box that says
// which of them a request meets.
type RouteListProps struct {
	Frame     ui.FrameProps
	Version   string // "v42"; "" when nothing is published
	LiveAge   string
	Query     string
	Show      string // "", no-limit or fail-open
	Total     int
	NoLimit   int
	FailOpen  int
	Rows      []RouteUse
	Pager     ui.PagerProps
	Ask       *form.Form // request, tenant, ip
	Trace     *TraceProps
	Seen      SeenProps
	Published bool
}

// RouteUse is a route with what goes through it.
type RouteUse struct {
	RouteRow
	Requests string // per second
	Refused  string
	P50, P99 string // of deciding; P50 is "" when P99 says why there is none
	NoLimit  bool
	Bounded  bool // what it admits without Redis has a bound
}

// TraceProps is what would decide a request.
type TraceProps struct {
	Sentence string
	Problem  string
	Route    string
	Pattern  string // the canonical path that is matched
	Limits   []EffectiveRow
	Notes    []string
}

func (p RouteListProps) show(which string) string {
	if which == "" {
		return ui.RoutesURL("")
	}
	return ui.RoutesURL("show=" + which)
}

func (p RouteListProps) tabs() []ui.Tab {
	return []ui.Tab{
		{Label: "All " + ui.Int(int64(p.Total)), URL: p.show(""), Current: p.Show == ""},
		{Label: "No limit of their own " + ui.Int(int64(p.NoLimit)), URL: p.show("no-limit"), Current: p.Show == "no-limit"},
		{Label: "Fail open " + ui.Int(int64(p.FailOpen)), URL: p.show("fail-open"), Current: p.Show == "fail-open"},
	}
}

func (p RouteListProps) ask(name, label, hint, placeholder string) ui.FieldProps {
	return ui.FieldProps{Name: name, Label: label, Hint: hint, Placeholder: placeholder, Value: p.Ask.Raw(name), Error: p.Ask.Error(name), Plain: true, MaxLength: 2000}
}

// PlanListProps is the page of the plans in force.
type PlanListProps struct {
	Frame   ui.FrameProps
	Version string
	Rows    []PlanUse
	CanEdit bool
}

// PlanUse is a plan and who is on it.
type PlanUse struct {
	PlanRow
	Quota      string
	Tenants    string
	TenantsURL string
	MoveURL    string // of the job that moves its tenants to another plan; empty when that is not to be done
	Gone       bool   // tenants are on it and the policy lacks it
}

// ReviewsProps is what waits for somebody else.
type ReviewsProps struct {
	Frame   ui.FrameProps
	Now     time.Time
	Waiting []WaitingRow
	Open    []ReviewRow
	Closed  []ReviewRow
	Rules   bool // the reader may set them
	Form    *form.Form
	FormOf  int64 // version whose form failed
}

// WaitingRow is a draft that lacks approvals.
type WaitingRow struct {
	Name, URL, Author string
	UpdatedAt         time.Time
	Needed            []NeededRow
	Mine              bool // the reader wrote in it
}

// ReviewRow is a publication by break-glass.
type ReviewRow struct {
	Version        int64
	Author, Reason string
	At             time.Time
	Missing        []NeededRow
	ClosedBy, Note string
	ClosedAt       time.Time
	CanClose       bool
	WhyNot         string
}

// RulesProps is the page of approval rules.
type RulesProps struct {
	Frame ui.FrameProps
	Rows  []RuleRow
	Kinds []ui.Option
	Form  *form.Form
}

// RuleRow is one rule as it is typed.
type RuleRow struct{ When, Only, Approvals string }

// ImportProps is the page that reads routes out of another document.
type ImportProps struct {
	Head   DraftHead
	Form   *form.Form // format, source
	Routes []RouteRow // that would be added
	Notes  []ImportNote
	Clash  int // routes of the draft that have the same names and stay as they are
}

// ImportNote is what could not be taken over.
type ImportNote struct {
	Path, Message string
	Line          int
	Todo          bool
}

// AdoptProps is the page on which a version is taken over from Redis.
type AdoptProps struct {
	Frame        ui.FrameProps
	Ours, Theirs int64 // Theirs is 0 when there is nothing to adopt
	Form         *form.Form
	CanAdopt     bool
}
