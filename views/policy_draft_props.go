package views

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

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

func (h DraftHead) remark() string {
	return "based on " + liveName(h.Base) + ", saved by " + h.Author + " " + ui.Ago(h.Now, h.UpdatedAt)
}

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

// graphQL reports whether the cost is computed and has no field.
func (s DraftSection) graphQL() bool {
	return strings.HasPrefix(s.Form.Raw("cost-text"), "of the GraphQL query")
}

func (s DraftSection) costHint() string {
	if text := s.Form.Raw("cost-text"); text != "" {
		return "tokens " + text
	}
	return "tokens; a cost by GraphQL query or by what the response tells begins as YAML"
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

// perHint names what can be counted per.
const perHint = "tenant, credential, user, ip, global, header:NAME or body:FIELD; several with commas"

func countsOptions() []ui.Option {
	return []ui.Option{{Value: "cost", Label: "cost"}, {Value: "requests", Label: "1 a request"}}
}

func modeOptions() []ui.Option {
	return []ui.Option{{Value: "open", Label: "open: admit within the fallback"}, {Value: "closed", Label: "closed: refuse with 503"}}
}

// routeModeOptions are those of a route's form.
func routeModeOptions() []ui.Option {
	return append(modeOptions(), ui.Option{Value: "share", Label: "open: a share of the limits for each gateway"})
}

// kindOptions say whether something refuses.
func kindOptions() []ui.Option {
	return []ui.Option{{Value: "enforce", Label: "enforce"}, {Value: "shadow", Label: "shadow: count, refuse nobody"}}
}

func syncOptions() []ui.Option {
	return []ui.Option{{Value: "exact", Label: "exact: ask Redis each time"}, {Value: "leased", Label: "leased: for very hot limits"}}
}

func periodOptions() []ui.Option {
	return []ui.Option{{Value: "none", Label: "no quota"}, {Value: "day", Label: "day"}, {Value: "week", Label: "week"}, {Value: "month", Label: "month"},
		{Value: "year", Label: "year"}, {Value: "lifetime", Label: "lifetime"}}
}

func alignmentOptions() []ui.Option {
	return []ui.Option{{Value: "calendar", Label: "calendar"}, {Value: "anniversary", Label: "the tenant's own date"}}
}

func overOptions() []ui.Option {
	return []ui.Option{{Value: "block", Label: "block: refuse until the next period"}, {Value: "bill", Label: "bill: admit and mark"}}
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

func usesOne(s DraftSection, name string) bool {
	return slices.Contains(strings.Split(s.Form.Raw("uses"), ","), name)
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
