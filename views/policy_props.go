package views

import (
	"slices"
	"strconv"
	"strings"
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
	Cost              int64
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
	Settling      bool          // Rows are older than the count
	After         time.Duration // until the last of them
	Rows          []PublicationRow
}

// Done reports whether there is nothing left to wait for.
func (p PublicationProps) Done() bool {
	return p.Version != p.Head || p.Known && p.Of > 0 && p.On == p.Of && !p.Settling
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

// DraftsProps is the list of drafts and the form for a new one.
type DraftsProps struct {
	Frame   ui.FrameProps
	Now     time.Time
	Head    int64
	Rows    []DraftRow
	CanEdit bool
	Form    *form.Form // name, source
}

// DraftRow is one draft.
type DraftRow struct {
	ID, Name  string
	Base      int64
	Behind    bool
	Author    string
	UpdatedAt time.Time
}

// DraftHead is what the pages of one draft share.
type DraftHead struct {
	Frame               ui.FrameProps
	ID, Name            string
	Base, Head          int64
	ETag, Author        string
	UpdatedAt, Now      time.Time
	Tab                 string // forms, source or review
	Message             string
	Problems, Warnings  []ProblemRow
	Conflict            []ui.DiffRow // what saving again would change in the stored draft
	CanEdit, CanPublish bool
}

func (h DraftHead) tabs() []ui.Tab {
	u := ui.DraftURL(h.ID)
	return []ui.Tab{
		{Label: "Forms", URL: u, Current: h.Tab == "forms"},
		{Label: "YAML", URL: u + "/source", Current: h.Tab == "source"},
		{Label: "Review and publish", URL: u + "/review", Current: h.Tab == "review"},
	}
}

func (h DraftHead) remark() string { return "based on v" + v(h.Base) + ", saved by " + h.Author }

// ProblemRow is one problem of a document and where to mend it.
type ProblemRow struct {
	Path, Message, URL string
	Line               int
}

// DraftFormsProps is a draft as forms.
type DraftFormsProps struct {
	Head       DraftHead
	Unreadable bool // the YAML has no shape that forms could show
	Sections   []DraftSection
	Shared     []string // names of shared limits
}

// DraftSection is one form: a plan, a route, or the limits of one place.
type DraftSection struct {
	ID, Kind, Key, Title, Summary string
	Form                          *form.Form
	Limits                        int
	Open                          bool
	Saved                         bool // a moment ago
}

func (s DraftSection) saveLabel() string {
	switch s.Kind {
	case "plan", "route":
		return "Save " + s.Kind
	case "general":
		return "Save"
	}
	return "Save limits"
}

// field names an input of the section.
func (s DraftSection) field(name string) string { return s.ID + "-" + name }

// at names an input of the section's i-th limit.
func at(i int, name string) string { return "l" + strconv.Itoa(i) + "-" + name }

func (s DraftSection) input(name, label, hint string) ui.FieldProps {
	return ui.FieldProps{Name: s.field(name), Label: label, Hint: hint, Value: s.Form.Raw(name), Error: s.Form.Error(name), Plain: true}
}

func (s DraftSection) number(name, label, hint string) ui.FieldProps {
	p := s.input(name, label, hint)
	p.InputMode, p.MaxLength = "numeric", 20
	return p
}

func (s DraftSection) choice(name, label, hint string, options ...ui.Option) ui.SelectProps {
	return ui.SelectProps{Name: s.field(name), Label: label, Hint: hint, Value: s.Form.Raw(name), Error: s.Form.Error(name), Options: options}
}

func (s DraftSection) text(name, label, hint string, rows int) ui.TextAreaProps {
	return ui.TextAreaProps{Name: s.field(name), Label: label, Hint: hint, Value: s.Form.Raw(name), Error: s.Form.Error(name), Rows: rows, Mono: true}
}

// units are the choices of a rate's period; one that is none of the usual ones
// is kept.
func (s DraftSection) units(name, label string) ui.SelectProps {
	options := []ui.Option{{Value: "second", Label: "a second"}, {Value: "minute", Label: "a minute"}, {Value: "hour", Label: "an hour"},
		{Value: "day", Label: "a day"}, {Value: "unlimited", Label: "unlimited"}}
	known := s.Form.Raw(name) == ""
	for _, o := range options {
		known = known || o.Value == s.Form.Raw(name)
	}
	if !known {
		options = append(options, ui.Option{Value: s.Form.Raw(name), Label: "each " + s.Form.Raw(name)})
	}
	return s.choice(name, label, "", options...)
}

func perOptions() []ui.Option {
	return []ui.Option{{Value: "tenant", Label: "tenant"}, {Value: "credential", Label: "credential"}, {Value: "ip", Label: "IP address"}, {Value: "global", Label: "all together"}}
}

func countsOptions() []ui.Option {
	return []ui.Option{{Value: "cost", Label: "cost"}, {Value: "requests", Label: "1 a request"}}
}

func modeOptions() []ui.Option {
	return []ui.Option{{Value: "open", Label: "open: admit within the fallback"}, {Value: "closed", Label: "closed: refuse with 503"}}
}

// DraftSourceProps is a draft as YAML.
type DraftSourceProps struct {
	Head   DraftHead
	Source string // in the editor
	Stored string // what is stored, when it differs from what was typed
}

// DraftReviewProps is a draft against the version in force, with the form that
// publishes it.
type DraftReviewProps struct {
	Head     DraftHead
	Readable bool
	Changes  []ui.DiffRow // from the version in force to the draft
	Theirs   []ui.DiffRow // published since the draft's base
	Mine     []ui.DiffRow // from the draft's base to the draft
	Clashes  []string     // parts that both changed
	CanMerge bool
	Replicas int
	Form     *form.Form // note
}

func (p DraftReviewProps) stale() bool { return p.Head.Base != p.Head.Head }

func (p DraftReviewProps) publishable() bool {
	return p.Readable && len(p.Head.Problems) == 0 && !p.stale() && len(p.Changes) > 0
}

func (p DraftReviewProps) count(effect string) int {
	n := 0
	for _, c := range p.Changes {
		if c.Effect == effect {
			n++
		}
	}
	return n
}

func v(n int64) string { return strconv.FormatInt(n, 10) }

func itoa(n int) string { return strconv.Itoa(n) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return ui.Int(int64(n)) + " " + many
}

func usesOne(s DraftSection, name string) bool {
	return slices.Contains(strings.Split(s.Form.Raw("uses"), ","), name)
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

func sinceClock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + t.UTC().Format("15:04:05") + " UTC"
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return ": “" + note + "”"
}

// usable are the shared limits that a route can draw on, and those that it says
// it does though there are none of that name.
func (s DraftSection) usable(shared []string) []string {
	names := slices.Clone(shared)
	for name := range strings.SplitSeq(s.Form.Raw("uses"), ",") {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// mergeEffect says what taking a draft onto the newest version does.
func (p DraftReviewProps) mergeEffect() string {
	text := "keeps theirs and puts yours on top"
	if len(p.Clashes) > 0 {
		text += "; both changed " + strings.Join(p.Clashes, ", ") + ": there, yours counts"
	}
	return text
}
