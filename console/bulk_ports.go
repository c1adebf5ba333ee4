package console

import (
	"context"
	"time"
)

// BulkRecord is a bulk job as it is kept: with what only its steps need.
type BulkRecord struct {
	BulkJob
	Num            int64
	AuthorRole     Role
	AuthorVia      string
	IdempotencyKey string // "" for none
	InputDigest    string
	Gathered       string // id up to which a selection was gathered
	Unreadable     int64
	Place          int64 // line up to which it was checked, then run
	Steps          int64
	LeaseOwner     string
	LeaseUntil     *time.Time
	StartedByID    string
	StartedRole    Role
}

// BulkInput is one row of a job. What it means depends on the job's kind: ObjectID
// is the tenant or credential that is made, or the credential whose key changes.
type BulkInput struct {
	Line        int64
	Subject     string // kid, tenant or external id
	ObjectID    string
	Tenant      string // id or external id
	Name        string
	Environment string
	Digest      []byte // 32 bytes, or nil
	Scopes      []string
	ExpiresAt   *time.Time
	Plan        string
	TimeZone    string
	Note        string
}

// BulkMark says what became of a row that is not simply done.
type BulkMark struct {
	Line       int64
	Outcome    string
	Message    string
	Unreadable bool // whatever else there is; a new check keeps it
}

// BulkSpan is a part of a job's rows: those after a line up to another.
type BulkSpan struct {
	Job     int64
	After   int64
	Through int64
}

// BulkTerms is what rows of a span are held against.
type BulkTerms struct {
	Now       time.Time
	Unfit     string   // outcome of a row that cannot be done: RowBad or RowFailed
	Plans     []string // of the policy in force; none: any will do
	ToPlan    string
	ExpiresAt time.Time
	Extend    bool
	Category  string // why keys are revoked
	Reason    string // of the job; a suspended tenant carries it
}

// BulkCandidate is something that a selection may be about.
type BulkCandidate struct {
	ID         string // kid or tenant
	Credential string
	Tenant     string
	Name       string // of the credential or tenant
	Plan       string // of a tenant
	CreatedAt  time.Time
	NotAfter   *time.Time
}

// BulkRows keeps bulk jobs. Every change of a job happens under LockBulk.
type BulkRows interface {
	InsertBulk(ctx context.Context, r BulkRecord) (num int64, err error)
	UpdateBulk(ctx context.Context, r BulkRecord) error
	Bulk(ctx context.Context, id string) (BulkRecord, error)
	LockBulk(ctx context.Context, id string) (BulkRecord, error)
	BulkLists
	BulkInputs
	BulkSteps
}

// BulkLists reads bulk jobs and their rows.
type BulkLists interface {
	Bulks(ctx context.Context, q BulkQuery, after Cursor, limit int) ([]BulkRecord, error)
	// BulkByKey finds the job that an author made under an idempotency key.
	BulkByKey(ctx context.Context, authorID, key string) (BulkRecord, error)
	// ClaimBulk takes the lease of a job that nobody works on; CodeNotFound when there is none.
	ClaimBulk(ctx context.Context, owner string, now, until time.Time) (BulkRecord, error)
	// BulkRowsOf lists rows of a job with an outcome, all for "", by line.
	BulkRowsOf(ctx context.Context, r BulkRecord, outcome string, afterLine int64, limit int) ([]BulkRow, error)
	// BulkPlans counts the rows of a change of plan by the plan that they had.
	BulkPlans(ctx context.Context, job int64) (map[string]int64, error)
}

// BulkInputs keeps what jobs are about.
type BulkInputs interface {
	PutBulkInput(ctx context.Context, job int64, rows []BulkInput) error
	PutBulkMarks(ctx context.Context, job int64, marks []BulkMark) error
	// BulkCandidates lists what a selection asks for among the next limit keys or
	// tenants after an id, and where the next call goes on; "" at the end.
	BulkCandidates(ctx context.Context, kind BulkKind, s BulkSelection, after string, createdBefore *time.Time, limit int) (out []BulkCandidate, next string, err error)
	// DropBulkRows removes up to limit rows of one job that ended before a time,
	// and reports whether there may be more to remove.
	DropBulkRows(ctx context.Context, before time.Time, limit int) (more bool, err error)
}

// BulkSteps checks and does spans of rows.
type BulkSteps interface {
	// BulkSpanOf is the next limit rows of a job after a line, and how many there are.
	BulkSpanOf(ctx context.Context, job, afterLine int64, limit int) (s BulkSpan, rows int64, err error)
	// BulkSubjects lists rows of a span, those that have no mark or all, by line.
	BulkSubjects(ctx context.Context, s BulkSpan, marked bool) ([]BulkRow, error)
	// CheckBulk marks the rows of a span that cannot or need not be done, after
	// it has locked what doing them would change.
	CheckBulk(ctx context.Context, kind BulkKind, s BulkSpan, t BulkTerms) error
	// ClearBulkMarks forgets what an earlier check said of a span.
	ClearBulkMarks(ctx context.Context, s BulkSpan) error
	BulkDeeds
}

// BulkDeeds does spans of rows.
type BulkDeeds interface {
	// DoBulk does the rows of a span that have no mark, with their outbox rows, and
	// returns what it changed: tenants or kids.
	DoBulk(ctx context.Context, kind BulkKind, s BulkSpan, t BulkTerms) ([]string, error)
	// CountBulkMarks counts the marks of a span by outcome.
	CountBulkMarks(ctx context.Context, s BulkSpan) (map[string]int64, error)
}
