package portal

import (
	"net/url"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// Frame is what stands around each page.
type Frame struct {
	Title    string
	Tenant   string // name
	Member   string // who is signed in
	Role     string
	Base     string // address that all pages begin with: /t, or where an operator looks
	Current  string // the page's own: "", usage, keys …
	Operator string // who looks, when an operator does; nothing can be changed then
	Back     string // where the operator came from
	Flash    ui.Flash
	Now      time.Time
}

// URL is a page of these, escaped by segments.
func (f Frame) URL(parts ...string) string {
	u := f.Base
	for _, p := range parts {
		u += "/" + url.PathEscape(p)
	}
	return u
}

func (f Frame) tabs() []ui.Tab {
	var out []ui.Tab
	for _, t := range [][2]string{{"", "Now"}, {"usage", "Usage"}, {"keys", "Keys"}, {"limits", "Limits"}, {"members", "Members"}, {"asks", "Ask for more"}, {"alerts", "Alerts"}, {"try", "Try"}} {
		u := f.Base
		if t[0] != "" {
			u = f.URL(t[0])
		}
		out = append(out, ui.Tab{URL: u, Label: t[1], Current: t[0] == f.Current})
	}
	return out
}

func (f Frame) windowTitle() string {
	if f.Tenant == "" {
		return f.Title
	}
	return f.Title + " · " + f.Tenant
}

// DoorProps is a page before sign-in.
type DoorProps struct {
	Title  string
	Form   *form.Form // tenant, email; or name and password of an invitation
	Action string
	Tenant string // that somebody is invited to
	Email  string
	Role   string
}

// ProblemProps tells what did not work.
type ProblemProps struct {
	Frame   Frame
	Inside  bool // somebody is signed in: the frame goes around it
	Title   string
	Message string
}

// NowProps is the first page.
type NowProps struct {
	Frame  Frame
	Kind   string // ok, warn or bad
	Text   string
	More   string
	Age    string
	Chart  ui.ChartProps
	Gauges []Gauge
	Quota  *Quota
	Last   []Refusal
}

// Gauge is how much of a limit was asked for.
type Gauge struct {
	Limit, Applies string
	Text           string // "at most 480 of 600 in a minute"
	Percent        int
	Known          bool
}

// Quota is the tenant's quota.
type Quota struct {
	Text, Resets   string // Resets with its zone
	Used           string // "" when the bar tells it
	Bar            ui.QuotaBar
	Left, Forecast string
	Source         string
}

// Refusal is what one limit refused in the last hour.
type Refusal struct{ Limit, Count, Meaning string }

// UsageProps is what was used, by the record that a bill rests on.
type UsageProps struct {
	Frame  Frame
	Source string
	Ranges []ui.Tab
	Groups []ui.Tab
	Group  string // what a row is: Route or Key
	Zone   string
	CSV    string
	Totals []UsageTotal
	Chart  ui.BarChart
	Rows   []UsageRow
	Empty  string
}

// UsageTotal is one sum.
type UsageTotal struct{ Label, Value, Note string }

// UsageRow is one route or key.
type UsageRow struct {
	Name, URL                      string
	Admitted, Refused, Cost, Share string
	Line                           []int64
	LineLabel                      string
}

// KeyRow is one key version. It never holds a secret or a digest.
type KeyRow struct {
	KID, Masked, URL string
	Name, State      string
	Environment      string
	Created          time.Time
	Ends             time.Time // zero: never
	LastUsed         time.Time
	LastFrom         string
	Use              string // instead of LastUsed: "never", "unknown"
}

// KeyBlock is a credential.
type KeyBlock struct {
	ID, Name, Environment, Scopes string
	Versions                      []KeyRow
	RotateURL, RotationURL        string
}

// KeysProps is the list of keys.
type KeysProps struct {
	Frame  Frame
	Blocks []KeyBlock
	Age    string // of what is known of their use
	NewURL string
	Room   string // "3 of 20 keys"
}

// SourceRow is who used a key.
type SourceRow struct {
	Network, Agent    string
	First, Last       time.Time
	Requests, Refused string
}

// KeyProps is one key version.
type KeyProps struct {
	Frame     Frame
	Key       KeyRow
	Scopes    string
	Sources   []SourceRow
	Age       string
	Rotate    string // address; "" when it cannot be
	CanRevoke bool
	Form      *form.Form // of a revocation that failed
}

// KeyFormProps makes a key.
type KeyFormProps struct {
	Frame Frame
	Form  *form.Form
	Room  string
}

// RotateProps starts a rotation.
type RotateProps struct {
	Frame      Frame
	Form       *form.Form
	ID, Name   string
	Old        string
	Overlaps   []ui.Option
	OldEnds    string
	UsedLately string
}

// SecretProps shows a new key, once.
type SecretProps struct {
	Frame       Frame
	Title       string
	Secret      string
	Converged   string
	ConvergedOK bool
	Header      string
	Overlap     string
	Next        string
}

// RotationProps is a rotation.
type RotationProps struct {
	Frame            Frame
	ID, Name         string
	OldKey, NewKey   string
	State            string
	Started, Ends    time.Time
	Left             string
	Old, New         []SourceRow
	Age              string
	Ready, ReadyKind string
	CanAct           bool
	CanExtend        bool
	Act, Problem     string
	Reason           string
}

// LimitRow is one limit.
type LimitRow struct {
	ID, Applies, Value, Per, Cost string
	From                          string // "plan pro"; "×2 until …"
	Trial                         bool
}

// LimitsProps is what the tenant may do.
type LimitsProps struct {
	Frame   Frame
	Plan    string
	Rows    []LimitRow
	Routes  []RouteRow
	Header  string
	Problem string // why the limits are not known
}

// RouteRow is what calls cost.
type RouteRow struct{ Name, Match, Cost, Limits string }

// PersonRow is a member or an open invitation.
type PersonRow struct {
	ID, Name, Email, Role string
	Since, Expires        time.Time
	Invited               bool
	Self                  bool
}

// MembersProps is who uses these pages.
type MembersProps struct {
	Frame     Frame
	Rows      []PersonRow
	CanManage bool
	Form      *form.Form
	Room      string
	Link      string // of an invitation just made, shown once
	LinkFor   string
}

// AskRow is a wish.
type AskRow struct {
	Limit, Wanted, Why, State, Kind, Answer, Member string
	Created, Until                                  time.Time
}

// AsksProps asks for more.
type AsksProps struct {
	Frame  Frame
	Form   *form.Form
	Limits []ui.Option
	Rows   []AskRow
	Rule   string
	CanAsk bool
}

// TryProps tells what a call would cost.
type TryProps struct {
	Frame  Frame
	Form   *form.Form
	Result *TryResult
}

// TryResult is the answer.
type TryResult struct {
	Kind, Text string
	Cost       string
	Rows       []LimitRow
}

// headerRow explains one header of an answer.
type headerRow struct{ Name, Meaning string }

func readHeaders() []headerRow {
	return []headerRow{
		{"RateLimit-Policy", "the limits that a request met: q requests or tokens in w seconds; rl-burst is how many at once, where that is another number"},
		{"RateLimit", "what is left of each: r requests or tokens now, t seconds until more"},
		{"Retry-After", "on 429 and 503: wait this many seconds, then try again; waiting is enough"},
		{"Deprecation, Sunset", "the key that was sent is being replaced, and works until then"},
		{"X-Request-Id", "name it when you ask for help"},
	}
}

func stateKind(state string) string {
	switch state {
	case "active", "granted", "completed":
		return "ok"
	case "retiring", "open", "overlap":
		return "warn"
	case "revoked", "suspended", "refused", "forced":
		return "bad"
	}
	return ""
}

func roleWord(role string) string {
	if role == "tenant-admin" {
		return "admin"
	}
	return "viewer"
}

func roleOptions() []ui.Option {
	return []ui.Option{{Value: "tenant-viewer", Label: "viewer: sees everything, changes nothing"}, {Value: "tenant-admin", Label: "admin: keys, members, asks, alerts"}}
}
