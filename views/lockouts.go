package views

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// LockoutRow is a subject that a limit refuses now.
type LockoutRow struct {
	URL               string
	Limit, Part       string
	Subject           string
	Masked            bool
	Tenant, TenantURL string
	Route             string
	Refusals          string // "1 240", or "1 200 to 1 240"
	First, Last       time.Time
	Until             string // "in 12 s", "never by itself", "when a place gets free"
	UntilAt           string // absolute; "" when there is none
	Left              string // "0 of 60", with its unit
	Why               string
	Shared            bool
	Source            string // "Redis, live" or "gateway, ≤ 2 s"
	CanUnlock         bool
}

// LockoutsLiveProps is the part of the page that is polled.
type LockoutsLiveProps struct {
	Now      time.Time
	Poll     string
	Tabs     []ui.Tab
	Rows     []LockoutRow
	Problem  string // why nobody knows; "" when it is known
	Source   string // of the whole list
	Bound    string // how the numbers of refusals are to be read
	Cut      string // that there are more candidates than were looked at
	Empty    string // why there is none
	Filtered bool
	Strays   *StraysProps
}

// StraysProps is limiter state without a TTL.
type StraysProps struct {
	Count         string
	Keys          []string // some of them
	Looked        string   // when all keys had been looked at last
	CanRepair     bool
	Problem, Kept string // a repair that failed
}

// LockoutsProps is the page of all lockouts.
type LockoutsProps struct {
	Frame ui.FrameProps
	Live  LockoutsLiveProps
}

// HeldStateRow is a limit as Redis has it for one subject.
type HeldStateRow struct {
	Limit, Part string
	Used        string // "12 of 60 tokens"
	Lost        string // what a reset loses
	Full        string // when it is full again by itself
	Broken      bool
	CanReset    bool
	Leases      []LeaseRow
	LeaseCount  string
}

// LeaseRow is a place that a request holds.
type LeaseRow struct {
	ID, Replica string
	Since       time.Time // zero: unknown
	Ends        string
}

// HeldStateProps are the limits of one subject with what can be done to them.
type HeldStateProps struct {
	Now           time.Time
	Rows          []HeldStateRow
	Problem       string // why it is unknown
	Source        string
	CanAct        bool
	ResetAction   string
	ReleaseAction string
	Form          *form.Form // of a reset or release that failed; nil
	Act           string     // that failed: reset or release
}

// LockoutPageProps is one lockout with what can be done about it.
type LockoutPageProps struct {
	Frame                  ui.FrameProps
	Now                    time.Time
	Row                    LockoutRow
	Over                   bool // it ended meanwhile
	CanAct                 bool
	UnlockAction           string
	UnlockEffect           string
	NoUnlock               string // why an unlock would not help
	ExtendAction           string
	CanExtend              bool
	BoostURL, ExplainURL   string
	State                  HeldStateProps
	UnlockKept, UnlockFail string
	ExtendFor, ExtendKept  string
	ExtendFail             string
}

// TenantStateProps is a tenant's limits as Redis has them.
type TenantStateProps struct {
	Frame      ui.FrameProps
	Tenant     string
	TenantURL  string
	State      HeldStateProps
	ExplainURL string
}

// actValue is what was typed for an act that failed, and actError why it did.
func actValue(p HeldStateProps, act string) string {
	if p.Act != act {
		return ""
	}
	return p.Form.Raw("reason")
}

func actError(p HeldStateProps, act string) string {
	if p.Act != act {
		return ""
	}
	for _, field := range []string{"reason", "limit", "lease"} {
		if text := p.Form.Error(field); text != "" {
			return text
		}
	}
	return p.Form.Message
}

// tickID is the id of a box in a row of a table in a row of another.
func tickID(what string, row, inner int) string { return fmt.Sprintf("%s-%d-%d", what, row, inner) }
