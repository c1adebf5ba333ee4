package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// BulkRow is one bulk job in a list.
type BulkRow struct {
	ID, Title, Name string
	State           string
	Progress        string // "312 of 400 done"
	Author          string
	Created, Ended  time.Time
}

// BulkListProps is the list of bulk jobs.
type BulkListProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	State     string
	Kind      string
	Kinds     []ui.Option
	Filtered  bool
	Rows      []BulkRow
	Pager     ui.PagerProps
	CanManage bool
}

// BulkKindCard is one kind of job to choose.
type BulkKindCard struct{ Kind, Title, Text string }

// BulkFormProps is the form of a new job; Kind is "" while none is chosen.
type BulkFormProps struct {
	Frame    ui.FrameProps
	Form     *form.Form
	Kind     string
	Title    string
	Text     string
	Kinds    []BulkKindCard
	Imports  bool
	Columns  string // of an import, in words
	Plans    []ui.Option
	Tenants  []string // chosen one by one
	KIDs     []string
	Selected string // "12 tenants", when chosen one by one
	Token    string
}

// BulkJobProps is one job: what it would do, how far it is, and its rows.
type BulkJobProps struct {
	Frame   ui.FrameProps
	Live    BulkLiveProps
	Reason  string
	Undo    string
	Moves   []BulkMove
	Tabs    []ui.Tab
	Rows    []BulkOutcome
	NoRows  string // why there are none
	Pager   ui.PagerProps
	Message string // of an act that failed
}

// BulkLiveProps is the part of a job's page that moves.
type BulkLiveProps struct {
	Now                     time.Time
	Poll                    string
	ID, Title, Name         string
	State                   string
	Problem                 string
	Sentence                string // what it would do, or did, in numbers
	Share                   int    // percent of the work in hand; -1: no bar
	ShareText               string
	Author, StartedBy       string
	EndedBy                 string
	Created, Started, Ended time.Time
	Counts                  []BulkCount
	CanStart, CanCancel     bool
	StartEffect             string
}

// BulkCount is one number of a job.
type BulkCount struct{ Label, Value, Tone string }

// BulkOutcome is one row of a job with what became of it.
type BulkOutcome struct {
	Line, Subject, URL string
	Tone, Outcome      string
	Message            string
}

// BulkMove is what a change of plan does to those who are on one plan.
type BulkMove struct {
	Title string // "12 tenants from free to pro"
	Rows  []ui.DiffRow
}
