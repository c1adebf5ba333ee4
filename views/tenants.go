package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// TenantListProps is the list of tenants.
type TenantListProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	Q, Plan   string
	State     string
	Plans     []ui.Option
	Only      string // "overrides": only those with values of their own or boosts
	Sort      string // "" or name
	SortURL   string // the list in the other order
	Filtered  bool   // any filter is set
	LiveAge   string
	UseAge    string
	Rows      []TenantRow
	Pager     ui.PagerProps
	CanManage bool
	ExportURL string // the same list as CSV; "" for those who may not
}

// TenantRow is one tenant in the list.
type TenantRow struct {
	ID, Name, ExternalID, Plan string
	State                      string
	Keys                       string  // "3 active, 1 retiring"
	Requests                   string  // per second, last minute
	Refused                    string  // of its requests, last 15 minutes
	Day                        string  // requests of 24 hours
	Line                       []int64 // of them by hour
	DayRefused                 string  // of the requests of 24 hours
	Quota                      ui.QuotaBar
	Overrides                  string // "2"; "" for none
	NextEnd                    time.Time
	Seen                       time.Time // a key was used last; zero: see SeenWord
	SeenWord                   string    // "never" or "unknown"
	Created                    time.Time
}

// TenantFormProps is the form for a new tenant or the change of one.
type TenantFormProps struct {
	Frame   ui.FrameProps
	Form    *form.Form
	Title   string
	Action  string
	Button  string
	Back    string
	Plans   []ui.Option
	NoPlans bool   // no policy is in force, or it has no plans
	Token   string // guards against a second submission; empty for changes
	Seq     string // of the tenant when it was read; guards against a lost change
	// Preview is what the other plan changes, SeenPlan the plan that it was shown for.
	Preview  []ui.DiffRow
	SeenPlan string
}

// TenantHeadProps is what stands above each tab of a tenant.
type TenantHeadProps struct {
	Frame        ui.FrameProps
	Now          time.Time
	ID, Name     string
	ExternalID   string
	Plan         string
	PlanMissing  bool // the policy in force lacks the plan
	TimeZone     string
	State        string // active, suspended or deleted
	StateReason  string
	Created      time.Time
	Tab          string // "", keys, usage, overrides, members or audit
	CanManage    bool
	CanManageKey bool
	CanAudit     bool
	CanViewAs    bool
	CanBoost     bool
	Contacts     []string
	StateEffect  string // what suspending or resuming does now, in numbers
	Problem      string // of an act that failed
	Reason       string // typed for it
}

// EffectiveRow is one limit that a tenant meets.
type EffectiveRow struct {
	ID, Applies string // Applies: "every route" or the route's name and patterns
	Rate, Burst string
	Per, Counts string
	Cost        string
	Source      string // where the number comes from: "plan pro"
	Shadow      bool   // counted and reported, refuses nobody
	Until       string // when it ends, RFC 3339; "" for never
}

// TenantSummaryProps is a tenant's first tab.
type TenantSummaryProps struct {
	Head     TenantHeadProps
	Version  string // of the policy the limits come from: "v42"; "" when there is none
	Limits   []HeldRow
	Unused   []OverrideRow // overrides that nothing goes by
	Usage    UsageLiveProps
	UsageURL string
	Quota    *QuotaPanel     // nil: the plan has none
	Deletion *TenantDeletion // nil for those who may not, and once it is deleted
}

// QuotaPanel is a tenant's quota, how much of it is used, and what becomes of it.
type QuotaPanel struct {
	Source            string
	Bar               ui.QuotaBar
	Text              string // the quota in words
	Left              string
	Starts, Resets    string // in the tenant's zone
	Forecast          string
	Granted           string // "" for none
	GrantURL          string // "" for who may not
	Redis, Ledger     string
	ReconciliationURL string
}

// TenantDeletion is the form that deletes a tenant, with what was typed before.
type TenantDeletion struct {
	Effect              string // what it does now, in numbers
	Name, NameError     string
	Reason, ReasonError string
	Message             string // of an attempt that failed as a whole
	Open                bool
}

// UsageLiveProps is live usage: a chart and two tables.
type UsageLiveProps struct {
	Now     time.Time
	Poll    string // address it asks for itself anew
	Age     string // "live, not the record · 2 s ago"
	Ranges  []ui.Tab
	Now1m   []ui.StatProps
	Chart   ui.ChartProps
	Routes  []UsageRoute
	Limits  []UsageLimit
	Details bool // with the tables
}

// UsageRoute is what a tenant did on one route.
type UsageRoute struct {
	Route                                      string
	Admitted, Refused, Degraded, Invalid, Cost string
}

// UsageLimit is a limit that refused a tenant.
type UsageLimit struct{ ID, Refused string }

// TenantUsageProps is a tenant's usage tab.
type TenantUsageProps struct {
	Head   TenantHeadProps
	Usage  UsageLiveProps
	Record UsageRecord // by the ledger
}

// TenantAuditProps is a tenant's audit tab.
type TenantAuditProps struct {
	Head  TenantHeadProps
	Rows  []EventRow
	Pager ui.PagerProps
}

// EventRow is one event of the audit trail in short.
type EventRow struct {
	Seq    string
	At     time.Time
	Actor  string
	Via    string
	Text   string
	Object string // what it was done to, by its name
	Detail string // what changed: "plan free → pro"
	Reason string
}

// stateKind is the tone of a tenant's, key's or rotation's state.
func stateKind(state string) string {
	switch state {
	case "active", "completed", "ready", "contained", "done", "in-sync", "in sync":
		return "ok"
	case "revoked", "nacked", "overdue", "failed":
		return "bad"
	default:
		return "warn"
	}
}

// StateKind is stateKind for answers that show a state alone.
func StateKind(state string) string { return stateKind(state) }

// rotationWord is the state of a rotation in the words of its page.
func rotationWord(state string) string {
	if state == "forced" {
		return "ended early"
	}
	return state
}

func (p TenantHeadProps) tabs() []ui.Tab {
	tabs := []ui.Tab{
		{Label: "Summary", URL: ui.TenantURL(p.ID, ""), Current: p.Tab == ""},
		{Label: "Keys", URL: ui.TenantURL(p.ID, "keys"), Current: p.Tab == "keys"},
		{Label: "Usage", URL: ui.TenantURL(p.ID, "usage"), Current: p.Tab == "usage"},
		{Label: "Overrides", URL: ui.TenantURL(p.ID, "overrides"), Current: p.Tab == "overrides"},
	}
	tabs = append(tabs, ui.Tab{Label: "Members", URL: ui.TenantURL(p.ID, "members"), Current: p.Tab == "members"})
	if p.CanAudit {
		tabs = append(tabs, ui.Tab{Label: "Audit", URL: ui.TenantURL(p.ID, "audit"), Current: p.Tab == "audit"})
	}
	return tabs
}

func limitsSource(version string) string {
	if version == "" {
		return ""
	}
	return "policy " + version
}
