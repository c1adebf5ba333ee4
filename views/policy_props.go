package views

import (
	"strconv"
	"time"

	"github.com/headgate/headgate/views/ui"
)

// PolicyLiveProps is the page of the policy in force.
type PolicyLiveProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	Published bool
	Version   VersionRow
	Status    PublicationProps
	View      string // "", yaml or json
	Text      string // the document, for yaml and json
	Policy    PolicyText
	CanEdit   bool
}

// PolicyText is a document as people read it.
type PolicyText struct {
	Description      string
	Header           string
	Proxies, Headers []string
	Invalid          string
	Replicas         int // for the worst case of an outage
	Global, Shared   []LimitRow
	Plans            []PlanRow
	Routes           []RouteRow // the first of them
	MoreRoutes       int
	User             string // where the user behind a request stands; "" nowhere
	Expected         int64  // gateways that are expected; 0 when not said
}

// LimitRow is one limit in words.
type LimitRow struct{ Name, Description, Per, Counts, Rate string }

// PlanRow is one plan with its limits.
type PlanRow struct {
	Name, Description string
	Limits            []LimitRow
}

// RouteRow is one route with everything that holds on it.
type RouteRow struct {
	Name, Description string
	Match             []string
	Identity, Motive  string
	Cost              string // tokens, or how they are found
	Limits            []LimitRow
	Uses              []string
	FailMode          string // open or closed
	Fail              string // in words
	Worst             string // requests a subject could make in the first minute of an outage
}

// VersionDiffProps compares two versions.
type VersionDiffProps struct {
	Frame           ui.FrameProps
	Number, Against int64
	Changes         int
	Risks           []RiskGroup
}

func v(n int64) string { return strconv.FormatInt(n, 10) }

func itoa(n int) string { return strconv.Itoa(n) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return ui.Int(int64(n)) + " " + many
}

func liveName(head int64) string {
	if head == 0 {
		return "nothing published"
	}
	return "v" + v(head)
}

func quoted(note string) string {
	if note == "" {
		return ""
	}
	return "“" + note + "”"
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return ": “" + note + "”"
}
