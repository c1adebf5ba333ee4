package ui

// FieldProps is a labelled input. What was typed is kept in Value; Error stands
// beside the field and is announced with it.
type FieldProps struct {
	Name, Label, Hint string
	ElementID         string // "f-" and the name when empty; a page with two forms tells them apart by it
	Value, Error      string
	Type              string // text when empty
	Placeholder       string
	Autocomplete      string
	InputMode         string // numeric, email …
	MaxLength         int    // 0: none
	Required          bool
	ReadOnly          bool
	Plain             bool // without the word "optional", as in filters
	Autofocus         bool
	Mono              bool
	Suffix            string // unit behind the input
}

// ID is the input's element id.
func (p FieldProps) ID() string { return elementID(p.ElementID, p.Name) }

func elementID(id, name string) string {
	if id != "" {
		return id
	}
	return "f-" + name
}

func (p FieldProps) inputType() string {
	if p.Type == "" {
		return "text"
	}
	return p.Type
}

func describedBy(id, hint, err string) string {
	switch {
	case hint != "" && err != "":
		return id + "-hint " + id + "-error"
	case err != "":
		return id + "-error"
	default:
		return id + "-hint"
	}
}

// Option is one choice of a Select.
type Option struct{ Value, Label string }

// SelectProps is a labelled choice of one.
type SelectProps struct {
	Name, Label, Hint string
	ElementID         string // as in FieldProps
	Value, Error      string
	Options           []Option
	Required          bool
}

// ID is the select's element id.
func (p SelectProps) ID() string { return elementID(p.ElementID, p.Name) }

// TextAreaProps is a labelled text of several lines.
type TextAreaProps struct {
	Name, Label, Hint string
	Value, Error      string
	Rows              int
	Required          bool
	Mono              bool
	MaxLength         int
}

// ID is the text area's element id.
func (p TextAreaProps) ID() string { return "f-" + p.Name }

// ConfirmProps is a form for an act that has effects: it says in numbers what it
// will do, asks a reason and names its button by the act.
type ConfirmProps struct {
	ID          string // of the form; unique on the page
	Action      string // address of the POST
	Title       string // "Revoke key 0123456789AB"
	Effect      string // what happens, in numbers
	Button      string
	Danger      bool
	Reason      string // kept input
	ReasonError string
	NoReason    bool     // the act asks none
	Optional    bool     // the reason may be left out
	Open        bool     // shown unfolded, as after a failed attempt
	Hidden      []Hidden // further values of the form
}

// Hidden is a value that a form carries along.
type Hidden struct{ Name, Value string }

func buttonClass(danger bool) string {
	if danger {
		return "btn danger"
	}
	return "btn primary"
}

// PagerProps is a keyset pager. Empty addresses are left out; there is no page
// number because rows may come and go between pages.
type PagerProps struct {
	First string // address of the first page, when this is a later one
	Next  string
	Sizes []PageSize
	Shown int
	Total string // "about 10 000"; empty when not known
}

// PageSize is a choice of rows a page.
type PageSize struct {
	N       int
	URL     string
	Current bool
}

// Tab is one entry of a page's tabs.
type Tab struct {
	Label, URL string
	Current    bool
}

// DiffRow is one semantic change of a policy or record.
type DiffRow struct {
	Path   string
	Kind   string // added, removed, changed, renamed
	Before string
	After  string
	Effect string // tighter, looser, neutral, new-bucket
	Text   string
}

func effectTag(effect string) string {
	switch effect {
	case "tighter", "new-bucket":
		return "warn"
	case "looser":
		return "ok"
	default:
		return ""
	}
}

// Col is one column of a Table. A column without a label has an empty head.
type Col struct {
	Label string
	Num   bool
}
