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
	Scheduled time.Time // when it is to be published; zero: it is not scheduled
	Suspended string    // why that will not happen by itself
}

// DraftHead is what the pages of one draft share.
type DraftHead struct {
	Frame               ui.FrameProps
	ID, Name            string
	Base, Head          int64
	ETag, Author        string
	UpdatedAt, Now      time.Time
	Tab                 string // edit, source, tests, simulate or review
	Message             string
	Problems, Warnings  []ProblemRow // the first of them
	ProblemCount        int
	WarningCount        int
	Conflict            []ui.DiffRow // what saving again would change in the stored draft
	CanEdit, CanPublish bool
}

func (h DraftHead) tabs() []ui.Tab {
	u := ui.DraftURL(h.ID)
	return []ui.Tab{
		{Label: "Edit", URL: u, Current: h.Tab == "edit"},
		{Label: "YAML", URL: u + "/source", Current: h.Tab == "source"},
		{Label: "Tests", URL: u + "/tests", Current: h.Tab == "tests"},
		{Label: "Simulate", URL: u + "/simulate", Current: h.Tab == "simulate"},
		{Label: "Review", URL: u + "/review", Current: h.Tab == "review"},
	}
}

func (h DraftHead) remark() string {
	return "based on " + liveName(h.Base) + ", saved by " + h.Author + " " + ui.Ago(h.Now, h.UpdatedAt)
}

func (h DraftHead) stale() bool { return h.Base != h.Head }

// ProblemRow is one problem of a document and where to mend it.
type ProblemRow struct {
	Path, Message, URL string
	Line               int
}

// DraftIndexProps is the list of a draft's parts, of which each has its own form.
type DraftIndexProps struct {
	Head         DraftHead
	Beside       DraftBesideProps
	Unreadable   bool // the YAML has no shape that forms could show
	Query        string
	Show         string // "", problems or changed
	Parts        int    // in all
	Matching     int
	WithProblems int
	Changed      int
	Removed      []string // what the base has and the draft lacks
	Rows         []PartRow
	Pager        ui.PagerProps
	New          *form.Form // kind, name, match and mode of a part to add
}

// PartRow is one part in the list.
type PartRow struct {
	URL, Kind, Title, Summary string
	Problems, Warnings        int
	Mark                      string // new or changed against the base; "" as it was
}

func (p DraftIndexProps) show(which string) string {
	u := ui.DraftURL(p.Head.ID)
	if which != "" {
		u += "?show=" + which
	}
	return u
}

func (p DraftIndexProps) tabs() []ui.Tab {
	tabs := []ui.Tab{
		{Label: "All " + ui.Int(int64(p.Parts)), URL: p.show(""), Current: p.Show == ""},
		{Label: "Changed " + ui.Int(int64(p.Changed)), URL: p.show("changed"), Current: p.Show == "changed"},
	}
	if p.WithProblems > 0 || p.Show == "problems" {
		tabs = append(tabs, ui.Tab{Label: "With problems " + ui.Int(int64(p.WithProblems)), URL: p.show("problems"), Current: p.Show == "problems"})
	}
	return tabs
}

// adds reports whether the form for a new part is about this kind.
func (p DraftIndexProps) adds(kind string) bool { return p.New.Get("kind") == kind }

func (p DraftIndexProps) newField(kind, name, label, hint string) ui.FieldProps {
	f := ui.FieldProps{Name: name, ElementID: "f-new-" + kind + "-" + name, Label: label, Hint: hint, Required: true, MaxLength: 63}
	if p.adds(kind) {
		f.Value = p.New.Raw(name)
	}
	return f
}

func (p DraftIndexProps) newMatch() ui.FieldProps {
	f := p.newField("route", "match", "Matches", "")
	f.MaxLength, f.Mono, f.Placeholder = 500, true, "GET /v1/reports/{id}"
	return f
}

// Link is an address and what it is called.
type Link struct{ Text, URL string }

// DraftPartProps is the form of one part of a draft.
type DraftPartProps struct {
	Head           DraftHead
	Beside         DraftBesideProps
	Kind, Title    string
	Action         string // where the form is sent; also the page's own address
	Form           *form.Form
	Limits         int
	Shared         []string     // names of shared limits
	Changes        []ui.DiffRow // of this part, from the base
	Mark           string       // new or changed against the base
	Elsewhere      int          // problems of other parts
	Previous, Next Link         // the parts before and after; no URL: none
}

func (p DraftPartProps) saveLabel() string {
	switch p.Kind {
	case "plan", "route":
		return "Save " + p.Kind
	case "general":
		return "Save"
	}
	return "Save limits"
}

func (p DraftPartProps) noLimits() string {
	switch p.Kind {
	case "plan":
		return "No limits of its own: a tenant on it is held by shared limits and routes only."
	case "route":
		return "No limits of its own: callers are held by their plan and by what is shared."
	}
	return "No limits here."
}

// Autosave is what the console answers to a form that its page's script sent.
type Autosave struct {
	Saved    string             `json:"saved"` // the time, "10:41:07"; "" when nothing was stored
	ETag     string             `json:"etag"`  // of the draft as it is stored now
	URL      string             `json:"url"`   // where the part is now
	Message  string             `json:"message"`
	Problems map[string]string  `json:"problems"` // by field
	Conflict []AutosaveConflict `json:"conflict"` // what saving again would change
}

// AutosaveConflict is a value that someone else stored meanwhile.
type AutosaveConflict struct {
	Path   string `json:"path"`
	Stored string `json:"stored"`
	Yours  string `json:"yours"`
}

// at names an input of the part's i-th limit.
func at(i int, name string) string { return "l" + strconv.Itoa(i) + "-" + name }

func (p DraftPartProps) input(name, label, hint string) ui.FieldProps {
	return ui.FieldProps{Name: name, Label: label, Hint: hint, Value: p.Form.Raw(name), Error: p.Form.Error(name), Plain: true}
}

func (p DraftPartProps) number(name, label, hint string) ui.FieldProps {
	f := p.input(name, label, hint)
	f.InputMode, f.MaxLength = "numeric", 20
	return f
}

func (p DraftPartProps) choice(name, label, hint string, options ...ui.Option) ui.SelectProps {
	return ui.SelectProps{Name: name, Label: label, Hint: hint, Value: p.Form.Raw(name), Error: p.Form.Error(name), Options: options}
}

func (p DraftPartProps) text(name, label, hint string, rows int) ui.TextAreaProps {
	return ui.TextAreaProps{Name: name, Label: label, Hint: hint, Value: p.Form.Raw(name), Error: p.Form.Error(name), Rows: rows, Mono: true}
}

// graphQL reports whether the cost is computed and has no field.
func (p DraftPartProps) graphQL() bool {
	return strings.HasPrefix(p.Form.Raw("cost-text"), "of the GraphQL query")
}

func (p DraftPartProps) costHint() string {
	if text := p.Form.Raw("cost-text"); text != "" {
		return "tokens " + text
	}
	return "tokens; a cost by GraphQL query or by what the response tells begins as YAML"
}

// units are the choices of a rate's period; one that is none of the usual ones
// is kept.
func (p DraftPartProps) units(name, label string) ui.SelectProps {
	options := []ui.Option{{Value: "second", Label: "a second"}, {Value: "minute", Label: "a minute"}, {Value: "hour", Label: "an hour"},
		{Value: "day", Label: "a day"}, {Value: "unlimited", Label: "unlimited"}}
	known := p.Form.Raw(name) == ""
	for _, o := range options {
		known = known || o.Value == p.Form.Raw(name)
	}
	if !known {
		options = append(options, ui.Option{Value: p.Form.Raw(name), Label: "each " + p.Form.Raw(name)})
	}
	return p.choice(name, label, "", options...)
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

func usesOne(s DraftPartProps, name string) bool {
	return slices.Contains(strings.Split(s.Form.Raw("uses"), ","), name)
}

// usable are the shared limits that a route can draw on, and those that it says
// it does though there are none of that name.
func (p DraftPartProps) usable(shared []string) []string {
	names := slices.Clone(shared)
	for name := range strings.SplitSeq(p.Form.Raw("uses"), ",") {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
