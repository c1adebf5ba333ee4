package views

import (
	"time"

	"github.com/headgate/headgate/views/ui"
)

// OverviewProps is the first page: is it healthy, is it my change, who is hit.
type OverviewProps struct {
	Frame ui.FrameProps
	Live  OverviewLiveProps
}

// OverviewLiveProps is the part of the overview that moves.
type OverviewLiveProps struct {
	Now       time.Time
	Range     string // that the lines cover: "last hour"
	LiveKnown bool   // counts came in a moment ago
	LiveAge   string // source and age of the counts: "live, not the record · 2 s ago"
	Stats     []ui.StatProps
	Tenants   []RefusedTenant
	Limits    []RefusedLimit
	Changes   []ChangeRow
	Coming    []ComingRow // what ends, runs out or is overdue, the most urgent first
	// ComingAge is source and age of Coming; ComingUnknown why it cannot be told, "" when it can.
	ComingAge, ComingUnknown string
	AuditLink                bool
	Checklist                []Step // empty once everything has been done

	Hazards    []HazardRow
	HazardsAge string // of the last look at Redis: "looked at 4 s ago", or that there was none
}

// ComingRow is something that will happen by itself, or should have been done.
type ComingRow struct {
	At     time.Time
	When   string // instead of At: "overdue", "used up", "3 Dec"
	Tone   string // of When: "", warn or bad
	Text   string // what will happen
	Object string // to what, by its name
	URL    string
	Note   string
	Bar    *ui.QuotaBar // of a quota
}

// HazardRow is something about a Redis server that endangers the limits.
type HazardRow struct {
	Tone, Label string // of its tag: "bad" "red"
	Server      string
	Text, Mend  string
}

// RefusedTenant is a tenant that is refused now.
type RefusedTenant struct {
	Name, URL, Plan string // URL is empty for what is not one tenant
	Limit           string // limit id that refused most
	Refused         string // requests in the last 15 minutes
	Share           string // of its requests
	Since           time.Time
	NewSince        string // "new since v42" when its refusals began after a publication
	ExplainURL      string // may be empty
}

// RefusedLimit is a limit that refuses now.
type RefusedLimit struct {
	ID       string
	IfDown   string // fail mode of its route, or "–"
	Refused  string
	Rate     string // the number in force
	URL      string // who is refused by it now
	NewSince string // as of a tenant
}

// ChangeRow is one change of the last day.
type ChangeRow struct {
	At     time.Time
	Actor  string
	Text   string // what was done
	Object string // to what, by its name
	URL    string // page of the object; may be empty
	Detail string // what changed: "plan free → pro"
	Reason string
}

// Step is one step of a fresh installation, verified as the page is made.
type Step struct {
	Done        bool
	Unknown     bool // whether it is done cannot be seen now
	Label, Hint string
	URL, Action string
}
