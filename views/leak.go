package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// LeakFound is one key that was found in a text, without its secret.
type LeakFound struct {
	Key    KeyRow
	Ours   bool   // a key of this installation, secret and all
	Masked string // what can be shown of it
	// Operator is whose API token it is; "" for a tenant's key.
	Operator string
	KID      string
	Revoked  bool // the token is refused already
	Sources  []SourceRow
	Cases    []LeakCaseRow
	Effect   string // what containing it does, in numbers
	Form     *form.Form
}

// LeakCaseRow is one key that was found where it should not be.
type LeakCaseRow struct {
	ID, KID           string
	Tenant, TenantURL string
	State             string
	Source, Kind      string
	URL               string // where it was found; text, never a link
	Note, Done        string
	Found, Closed     time.Time
	ClosedBy          string
	Reports           string
	CanDismiss        bool
	Problem, Kept     string // of a dismissal that failed
}

// LeakPageProps is the leak box, what was found, and the cases.
type LeakPageProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	Asked     bool   // a text was looked through
	None      string // why nothing was found in it
	Problem   string // of the text
	Found     []LeakFound
	UseAge    string
	Tabs      []ui.Tab
	Cases     []LeakCaseRow
	Pager     ui.PagerProps
	CanManage bool
}
