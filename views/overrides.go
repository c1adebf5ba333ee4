package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// HeldRow is one limit that a tenant meets, with where its value comes from.
type HeldRow struct {
	ID, Applies string // Applies: "every route" or the routes' names
	Per, Counts string
	Value       string // in force now, in words
	Until       string // when it ends, RFC 3339; "" for never
	Shadow      bool   // counted and reported, refuses nobody
	Steps       []LimitStepRow
	Peak        string // most in a minute against the base; "unknown"
	BoostURL    string // "" when the tenant can have no value of its own, or one may not
	SetURL      string
}

// LimitStepRow is one place that a value comes from.
type LimitStepRow struct {
	Source, Text string
	Until        time.Time // zero: no end
	Reason, By   string
}

// OverrideRow is a tenant's own value or boost in a list.
type OverrideRow struct {
	ID, Limit          string
	Tenant, TenantURL  string
	Plan               string
	Kind               string // override or boost
	Base, Value        string
	WithoutEffect      bool
	Reason, By         string
	Created            time.Time
	Expires            time.Time // zero: no end
	Ended              time.Time
	EndedBy, EndReason string
	Peak               string
	CanAct             bool
	Act, Problem       string // a failed act: end or extend
	Kept               string // the reason that was typed for it
	Until              string // the date that was typed for it
}

// OverrideListProps is all tenants' own values and boosts.
type OverrideListProps struct {
	Frame    ui.FrameProps
	Now      time.Time
	Limit    string
	Kind     string
	State    string
	Within   string
	Withins  []ui.Option
	Filtered bool
	Rows     []OverrideRow
	Pager    ui.PagerProps
}

// OverridePageProps is one override with what can be done to it.
type OverridePageProps struct {
	Frame ui.FrameProps
	Now   time.Time
	Row   OverrideRow
}

// TenantOverridesProps is a tenant's overrides tab.
type TenantOverridesProps struct {
	Head  TenantHeadProps
	Live  []OverrideRow
	Ended []OverrideRow
}

// BoostFormProps raises a limit of a tenant for a while.
type BoostFormProps struct {
	Frame      ui.FrameProps
	Form       *form.Form
	TenantName string
	Limits     []ui.Option
	Factors    []ui.Option
	Spans      []ui.Option
	Now        string // the value of the chosen limit, in words; "" when none is chosen
	Action     string
	Back       string
	Bound      string // what one's role allows
}

// OverrideFormProps sets a tenant's own value for one limit.
type OverrideFormProps struct {
	Frame      ui.FrameProps
	Now        time.Time
	Form       *form.Form
	TenantName string
	Limit      HeldRow
	Limits     []ui.Option // to choose from, while none is chosen
	Kind       string      // rate, quota or concurrency; "" while no limit is chosen
	AskLower   string      // what a lower value takes away, when it has to be confirmed
	Action     string
	Back       string
}

// kindTag is the tone of an override's kind.
func kindTag(kind string) string {
	if kind == "boost" {
		return "ok"
	}
	return ""
}

// overrideCols are the columns of a list of overrides, of all tenants or of one.
func overrideCols(withTenant bool) []ui.Col {
	cols := []ui.Col{{Label: "Limit"}, {Label: "Base → value"}, {Label: "Reason"}, {Label: "Ends", Num: true}, {Label: "Peak of the last hour", Num: true}, {}}
	if withTenant {
		cols = append([]ui.Col{{Label: "Tenant"}}, cols...)
	}
	return cols
}
