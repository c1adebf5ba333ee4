package views

import (
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/form"
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
	Routes           []RouteRow
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

// VersionRow is one published version.
type VersionRow struct {
	Number                   int64
	Digest, Note, Author     string
	Kind                     string
	RollbackOf               int64
	CreatedAt                time.Time
	Live                     bool
	Changes, Tighter, Looser int
}

// VersionsProps is the list of versions.
type VersionsProps struct {
	Frame ui.FrameProps
	Now   time.Time
	Rows  []VersionRow
	Pager ui.PagerProps
}

// VersionProps is the publication page of one version.
type VersionProps struct {
	Frame           ui.FrameProps
	Now             time.Time
	Version         VersionRow
	Head            int64
	Status          PublicationProps
	Changes         []ui.DiffRow
	RollbackTo      int64 // what the button goes back to; 0 when there is nothing
	RollbackChanges []ui.DiffRow
	Form            *form.Form // note
	CanPublish      bool
}

// PublicationProps says which gateways enforce a version.
type PublicationProps struct {
	Version, Head int64
	Now           time.Time
	Known         bool      // false while Redis, which carries heartbeats, is away
	Since         time.Time // since when it is not known
	On, Of, Nacks int
	After         time.Duration // until the last of them
	Rows          []PublicationRow
}

// Done reports whether there is nothing left to wait for.
func (p PublicationProps) Done() bool {
	return p.Version != p.Head || p.Known && p.Of > 0 && p.On == p.Of
}

// Line is the one sentence about a publication.
func (p PublicationProps) Line() string {
	if !p.Known {
		return "Unknown which gateways enforce v" + v(p.Version) + ": Redis cannot be asked"
	}
	return strconv.Itoa(p.On) + " of " + strconv.Itoa(p.Of) + " enforce v" + v(p.Version)
}

func (p PublicationProps) tone() string {
	switch {
	case p.Version != p.Head:
		return "info"
	case p.Nacks > 0:
		return "bad"
	case p.Known && p.Of > 0 && p.On == p.Of:
		return "ok"
	}
	return "warn"
}

func (p PublicationProps) url() string { return ui.VersionURL(p.Version) + "/status" }

// trigger is how soon the page asks for its status again.
func (p PublicationProps) trigger() string {
	if p.Done() {
		return "every 5s"
	}
	return "every 1s"
}

// PublicationRow is one gateway and what it makes of a version.
type PublicationRow struct {
	ID, Host, Zone string
	Version        int64
	Status         string
	Age            time.Duration
	On             bool
	Took           time.Duration // from publishing until it was in force there; 0 when unknown
	After          string        // Took in words
	NACK           string
}

func (r PublicationRow) tone() string {
	switch {
	case r.NACK != "":
		return "bad"
	case r.On:
		return "ok"
	}
	return "warn"
}

// VersionDiffProps compares two versions.
type VersionDiffProps struct {
	Frame           ui.FrameProps
	Number, Against int64
	Changes         []ui.DiffRow
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

func versionRemark(r VersionRow) string {
	switch {
	case r.RollbackOf > 0:
		return "rolls back to v" + v(r.RollbackOf)
	case r.Live:
		return "in force"
	}
	return "superseded"
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return ": “" + note + "”"
}
