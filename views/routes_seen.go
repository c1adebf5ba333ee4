package views

import (
	"net/url"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// SeenProps are the paths that were asked for and have no route of their own.
type SeenProps struct {
	Now     time.Time
	Known   bool // gateways tell of them
	Age     string
	Rows    []SeenRow
	Others  int   // paths that are not shown
	Rest    int64 // requests of paths that are not told apart
	AllURL  string
	CanEdit bool
}

// SeenRow is one of them.
type SeenRow struct {
	Method   string // "any" when it is not told
	Path     string // with {id} for what differs
	Route    string // that takes every path and took it; "": refused with 404
	Requests string
	Last     time.Time
	NewURL   string // of the form that makes a route of it
}

// RouteNewProps is the form that makes a route of a path that was seen.
type RouteNewProps struct {
	Frame  ui.FrameProps
	Form   *form.Form // name, match, mode, draft, title
	Drafts []ui.Option
}

// NewDraft is the value of the choice of a draft that stands for a new one.
const NewDraft = "new"

// newRouteQuery is the address of the form for a method and a path.
func newRouteQuery(method, path string) string {
	return url.Values{"method": {method}, "path": {path}}.Encode()
}

// RouteNewURL is the address of the form that makes a route of what was seen.
func RouteNewURL(method, path string) string { return ui.RouteNewURL(newRouteQuery(method, path)) }

func (p RouteNewProps) field(name, label, hint string, max int) ui.FieldProps {
	return ui.FieldProps{Name: name, Label: label, Hint: hint, Value: p.Form.Raw(name), Error: p.Form.Error(name), MaxLength: max, Required: name != "title"}
}

func (p RouteNewProps) match() ui.FieldProps {
	f := p.field("match", "Matches", "as gateways saw it, {id} for what differs: correct it", 500)
	f.Mono = true
	return f
}
