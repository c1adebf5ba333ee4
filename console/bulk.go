package console

import (
	"io"
	"time"

	"github.com/headgate/headgate/policy"
)

// BulkKind says what a bulk job does.
type BulkKind string

// Kinds of bulk jobs.
const (
	BulkImportTenants BulkKind = "import-tenants" // CSV or JSON lines
	BulkImportKeys    BulkKind = "import-keys"    // hashes of keys that exist elsewhere
	BulkRevokeUnused  BulkKind = "revoke-unused"
	BulkSetExpiry     BulkKind = "set-expiry"
	BulkChangePlan    BulkKind = "change-plan"
	BulkSuspend       BulkKind = "suspend-tenants"
	BulkResume        BulkKind = "resume-tenants"
)

// BulkKinds lists all kinds.
func BulkKinds() []BulkKind {
	return []BulkKind{BulkImportTenants, BulkImportKeys, BulkRevokeUnused, BulkSetExpiry, BulkChangePlan, BulkSuspend, BulkResume}
}

// Imports reports whether the job reads a file; the others select what is there.
func (k BulkKind) Imports() bool { return k == BulkImportTenants || k == BulkImportKeys }

// OfTenants reports whether the job selects tenants, and not keys.
func (k BulkKind) OfTenants() bool { return k == BulkChangePlan || k == BulkSuspend || k == BulkResume }

// Needs is the permission that a job of this kind asks for; "" for an unknown kind.
func (k BulkKind) Needs() Permission {
	switch k {
	case BulkImportTenants, BulkChangePlan, BulkSuspend, BulkResume:
		return PermManageTenants
	case BulkImportKeys, BulkRevokeUnused, BulkSetExpiry:
		return PermManageKeys
	}
	return ""
}

// BulkState is the state of a bulk job.
type BulkState string

// States of a bulk job. A job is always checked first: what it would do is known,
// row by row, before anything is done. Done, cancelled and failed are final.
const (
	BulkChecking  BulkState = "checking"
	BulkReady     BulkState = "ready" // checked; waits for somebody to start it
	BulkRunning   BulkState = "running"
	BulkDone      BulkState = "done"
	BulkCancelled BulkState = "cancelled" // what was done stays done
	BulkFailed    BulkState = "failed"    // the input as a whole cannot be used
)

// BulkJob is one bulk job and how far it is.
type BulkJob struct {
	ID        string // blk_…
	Kind      BulkKind
	State     BulkState
	Name      string // file name or selection, in words
	Reason    string
	Selection BulkSelection // zero for imports
	Author    string
	AuthorID  string
	Loaded    bool  // the whole input is there; Total grows until then
	Total     int64 // rows of the input
	Checked   int64 // rows checked
	WouldDo   int64 // rows that change something
	WouldSkip int64 // rows that are so already
	Bad       int64 // rows with a problem; they are left out
	Done      int64 // rows done
	Failed    int64 // rows that could not be done although they were good when checked
	// Problem is why a job failed, or what one that does not get on waits for; "" otherwise.
	Problem   string
	RowsKept  bool // its rows can still be listed: for BulkRowsKept after its end
	CreatedAt time.Time
	CheckedAt *time.Time
	StartedAt *time.Time
	StartedBy string
	EndedAt   *time.Time
	EndedBy   string // who cancelled it
}

// Open reports whether the job can still do something.
func (j BulkJob) Open() bool {
	return j.State == BulkChecking || j.State == BulkReady || j.State == BulkRunning
}

// BulkRowsKept is how long rows of a job are kept after its end; the job itself stays.
const BulkRowsKept = 30 * 24 * time.Hour

// Outcomes of rows.
const (
	RowPending   = ""           // not checked yet
	RowWouldDo   = "would-do"   // good; waits for the start, or was not reached before the job was cancelled
	RowWouldSkip = "would-skip" // is so already; nothing is done about it
	RowBad       = "bad"        // has a problem and is left out
	RowDone      = "done"
	RowFailed    = "failed" // was good when checked, and could not be done
)

// BulkRow is one row of a job with what became of it.
type BulkRow struct {
	Line    int64  // of the input, from 1; of a selection its place
	Subject string // tenant, kid or external id; "" where the input cannot be told
	Outcome string // RowWouldDo and so on
	Message string // what is wrong, or what changes
}

// BulkFormat is how the input of an import is written.
type BulkFormat string

// Formats of inputs.
const (
	BulkCSV       BulkFormat = "csv"    // RFC 4180 with a header line
	BulkJSONLines BulkFormat = "ndjson" // one object a line
)

// BulkSelection says which rows a job is about that reads no file. Filters that
// are zero match everything; Tenants and KIDs, when given, name the rows one by
// one (at most 1000) within the filters.
type BulkSelection struct {
	Tenants     []string `json:"tenants,omitempty"` // ten_…
	KIDs        []string `json:"kids,omitempty"`
	Plan        string   `json:"plan,omitempty"` // of the tenant, now
	Environment string   `json:"environment,omitempty"`

	UnusedDays int        `json:"unused_days,omitempty"` // revoke-unused: 1..3650
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`  // set-expiry
	Extend     bool       `json:"extend,omitempty"`      // set-expiry: also for keys that expire earlier now
	ToPlan     string     `json:"to_plan,omitempty"`     // change-plan
}

// NewBulk is a bulk job to be checked. Imports take Format and Input, which is
// read to its end, at most MaxBulkInput bytes; the others take Selection.
type NewBulk struct {
	Kind           BulkKind
	Name           string // of the file; "" for a selection
	Reason         string
	Format         BulkFormat
	Input          io.Reader
	Selection      BulkSelection
	IdempotencyKey string // "" for none: a repeat by the same author gets the job that the first one made
}

// MaxBulkInput bounds the input of an import, in bytes.
const MaxBulkInput = 200 << 20

// BulkQuery filters jobs; "" matches everything.
type BulkQuery struct {
	State BulkState
	Kind  BulkKind
	Page  Page
}

// PlanMove is what a change of plan does to the limits of those who are on one plan now.
type PlanMove struct {
	From    string
	To      string
	Tenants int64
	Changes []policy.Change // what differs between the plans of the policy in force
}
