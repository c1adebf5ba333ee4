package console

import "time"

// BulkKind says what a bulk job does.
type BulkKind string

// Kinds of bulk jobs.
const (
	BulkImportTenants BulkKind = "import-tenants" // CSV or JSON lines
	BulkImportKeys    BulkKind = "import-keys"    // hashes of keys that exist elsewhere
	BulkRevokeUnused  BulkKind = "revoke-unused"
	BulkSetExpiry     BulkKind = "set-expiry"
	BulkChangePlan    BulkKind = "change-plan"
)

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
	Author    string
	AuthorID  string
	Total     int64 // rows of the input
	Checked   int64 // rows checked
	WouldDo   int64 // rows that change something
	WouldSkip int64 // rows that are so already
	Bad       int64 // rows with a problem; they are left out
	Done      int64 // rows done
	Failed    int64 // rows that could not be done although they were good when checked
	Problem   string
	CreatedAt time.Time
	StartedAt *time.Time
	EndedAt   *time.Time
}

// Open reports whether the job can still do something.
func (j BulkJob) Open() bool {
	return j.State == BulkChecking || j.State == BulkReady || j.State == BulkRunning
}

// BulkRow is one row of a job with what became of it.
type BulkRow struct {
	Line    int64  // of the input, from 1
	Subject string // tenant, kid or external id
	Outcome string // "would-do", "would-skip", "bad", "done", "failed"
	Message string // what is wrong, or what changes
}
