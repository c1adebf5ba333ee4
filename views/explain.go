package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// ExplainProps is the page that says why somebody is refused.
type ExplainProps struct {
	Frame  ui.FrameProps
	Now    time.Time
	Form   *form.Form
	Routes []ui.Option
	Answer *ExplainAnswer // nil: nothing was asked
	Back   string         // address of this very state; "" when it holds a key, which no address may
}

// ExplainAnswer is what is said.
type ExplainAnswer struct {
	Kind, Word   string // of the outcome: bad, warn, ok
	Sentence     string
	Whose, Why   string
	Customer     string
	Subject      string
	Tenant       string
	TenantURL    string
	Plan         string
	Key          string // masked, with what it is; "" for none
	KeyURL       string
	KeyKind      string
	Receipt      *ReceiptProps
	Route, Match string
	Status       string
	FailMode     string
	Source       string // of the ladder, with its age
	Rungs        []RungRow
	Others       []OtherRoute
	Traffic      []LabelledText
	TrafficAge   string
	Gateways     []LabelledText
	Notes        []string
	Boost        *BoostNow
	Links        []ExplainLink
}

// LabelledText is a fact with its name.
type LabelledText struct{ Label, Text string }

// ReceiptProps is what a receipt says.
type ReceiptProps struct {
	Kind, Word string
	Problem    string
	Remark     string
	Facts      []LabelledText
	Differs    []string
}

// RungRow is one limit of the ladder.
type RungRow struct {
	ID, Per, Text  string
	Used, Of, Left string // ui.Unknown where nobody knows
	Reset          string
	Percent        int // of it used; -1: unknown
	Kind, Word     string
	Deciding       bool
	Steps          []LimitStepRow
	Missing        string
	BoostURL       string
}

// OtherRoute is what another route would answer.
type OtherRoute struct{ Route, URL, Kind, Word, Wait string }

// BoostNow is the form that raises the limit that refuses, at once.
type BoostNow struct {
	Action, Limit, Text string
	Back                bool // come back to the explanation
}

// ExplainLink is an act on another page.
type ExplainLink struct{ Label, URL, Text string }

// FoundRow is one suggestion of the search.
type FoundRow struct{ Label, What, URL, ExplainURL string }
