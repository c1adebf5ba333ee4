package console

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/policy"
)

// Bulk does what concerns many tenants or keys at once: it is checked first,
// started by hand, done in steps, and goes on after a crash of the console, on
// whichever console there is.
type Bulk struct {
	d     Deps
	owner string // of leases; each process has its own
	woken chan struct{}
	plans *plansCache
	size  atomic.Int64 // rows of the next step
	// maxRows is maxBulkRows, and less in tests.
	maxRows int64
}

// NewBulkJobs returns the service of bulk jobs. Run does the work.
func NewBulkJobs(d Deps) *Bulk {
	s := &Bulk{d: d.withDefaults(), woken: make(chan struct{}, 1), plans: &plansCache{}, maxRows: maxBulkRows}
	s.size.Store(bulkStep)
	s.owner, _ = s.d.newID("wrk") // without randomness nothing else works either
	return s
}

func (s *Bulk) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// bulkView is what the audit trail says of a job.
type bulkView struct {
	Kind      BulkKind       `json:"kind"`
	Name      string         `json:"name,omitempty"`
	Selection *BulkSelection `json:"selection,omitempty"`
	State     BulkState      `json:"state,omitempty"`
	Total     int64          `json:"total,omitempty"`
	WouldDo   int64          `json:"would_do,omitempty"`
	Done      int64          `json:"done,omitempty"`
	Failed    int64          `json:"failed,omitempty"`
}

func viewBulk(j BulkJob) bulkView {
	return bulkView{j.Kind, j.Name, viewSelection(j), j.State, j.Total, j.WouldDo, j.Done, j.Failed}
}

func viewSelection(j BulkJob) *BulkSelection {
	if j.Kind.Imports() {
		return nil
	}
	return &j.Selection
}

// stepView is what the audit trail says of a step: everything that it changed.
type stepView struct {
	Kind     BulkKind `json:"kind"`
	Step     int64    `json:"step"`
	FromLine int64    `json:"from_line"`
	ToLine   int64    `json:"to_line"`
	Done     int64    `json:"done"`
	Failed   int64    `json:"failed,omitempty"`
	Skipped  int64    `json:"skipped,omitempty"`
	ToPlan   string   `json:"to_plan,omitempty"`
	Expires  string   `json:"expires_at,omitempty"`
	Objects  []string `json:"objects,omitempty"` // tenants or kids
}

// Get returns a job.
func (s *Bulk) Get(ctx context.Context, id string) (BulkJob, error) {
	r, err := s.get(ctx, id)
	return r.BulkJob, err
}

func (s *Bulk) get(ctx context.Context, id string) (r BulkRecord, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		r, err = tx.Bulk(ctx, id)
		return err
	})
	return r, err
}

// List returns jobs, the newest first, and the cursor to the next page.
func (s *Bulk) List(ctx context.Context, q BulkQuery) (items []BulkJob, next string, err error) {
	after, err := decodeCursor(q.Page.After)
	if err != nil {
		return nil, "", err
	}
	limit := q.Page.limit()
	var rows []BulkRecord
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		rows, err = tx.Bulks(ctx, q, after, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next = cut(rows, limit, func(r BulkRecord) Cursor { return Cursor{At: r.CreatedAt, ID: r.ID} })
	for _, r := range rows {
		items = append(items, r.BulkJob)
	}
	return items, next, nil
}

// Rows returns rows of a job with one outcome, all for "", by line, and the
// cursor to the next page. They are there for BulkRowsKept after its end.
func (s *Bulk) Rows(ctx context.Context, id, outcome string, page Page) (items []BulkRow, next string, err error) {
	if !slices.Contains([]string{"", RowWouldDo, RowWouldSkip, RowBad, RowDone, RowFailed}, outcome) {
		return nil, "", invalid(FieldError{Field: "outcome", Message: "Choose one of would-do, would-skip, bad, done, failed."})
	}
	after, err := decodeCursor(page.After)
	if err != nil {
		return nil, "", err
	}
	var line int64
	if after.ID != "" {
		if line, err = strconv.ParseInt(after.ID, 10, 64); err != nil || line < 1 || line == math.MaxInt64 {
			return nil, "", invalid(FieldError{Field: "cursor", Message: "This is not a cursor of this list."})
		}
	}
	limit := page.limit()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		r, err := tx.Bulk(ctx, id)
		if err != nil {
			return err
		}
		items, err = tx.BulkRowsOf(ctx, r, outcome, line, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	items, next = cut(items, limit, func(b BulkRow) Cursor { return Cursor{At: time.Unix(0, 0), ID: strconv.FormatInt(b.Line, 10)} })
	return items, next, nil
}

// Moves says what a change of plan does to the limits of those it is about, for
// each plan that they were on when the job was made.
func (s *Bulk) Moves(ctx context.Context, id string) (out []PlanMove, err error) {
	var doc *policy.Document
	var counts map[string]int64
	var r BulkRecord
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if r, err = tx.Bulk(ctx, id); err != nil || r.Kind != BulkChangePlan {
			return err
		}
		if counts, err = tx.BulkPlans(ctx, r.Num); err != nil {
			return err
		}
		head, err := tx.Head(ctx)
		if IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		doc, err = head.Document()
		return err
	})
	if err != nil || doc == nil {
		return nil, err
	}
	for from, n := range counts {
		if from != r.Selection.ToPlan {
			out = append(out, PlanMove{From: from, To: r.Selection.ToPlan, Tenants: n, Changes: planChanges(doc, from, r.Selection.ToPlan)})
		}
	}
	slices.SortFunc(out, func(a, b PlanMove) int {
		if a.Tenants != b.Tenants {
			return int(min(max(b.Tenants-a.Tenants, -1), 1))
		}
		if a.From < b.From {
			return -1
		}
		return 1
	})
	return out, nil
}

// planChanges is what differs for a tenant that moves from one plan to another.
func planChanges(doc *policy.Document, from, to string) []policy.Change {
	before := &policy.Document{APIVersion: doc.APIVersion, Plans: map[string]policy.Plan{to: doc.Plans[from]}}
	after := &policy.Document{APIVersion: doc.APIVersion, Plans: map[string]policy.Plan{to: doc.Plans[to]}}
	return policy.Diff(before, after)
}

// Check checks a job anew that waits for its start: what else there is may have
// changed. What a selection is about stays as it was gathered.
func (s *Bulk) Check(ctx context.Context, actor Actor, id string) (BulkJob, error) {
	return s.act(ctx, actor, id, "bulk.check", func(r *BulkRecord) error {
		if r.State != BulkReady || r.StartedAt != nil {
			return conflict("The job is " + string(r.State) + "; only one that waits for its start is checked anew.")
		}
		r.State, r.Place, r.CheckedAt = BulkChecking, 0, nil
		r.Checked, r.WouldDo, r.WouldSkip, r.Bad = 0, 0, 0, 0
		return nil
	})
}

// Start lets a checked job do what it would do. It goes on until it is done or
// cancelled, also when the console is restarted meanwhile.
func (s *Bulk) Start(ctx context.Context, actor Actor, id string) (BulkJob, error) {
	return s.act(ctx, actor, id, "bulk.start", func(r *BulkRecord) error {
		switch {
		case r.State == BulkChecking:
			return conflict("The job is still being checked.")
		case r.State != BulkReady:
			return conflict("The job is " + string(r.State) + " already.")
		case r.WouldDo == 0:
			return conflict("There is nothing to do: no row is good.")
		}
		if r.StartedAt == nil { // otherwise it goes on where it was stopped
			now := s.d.now()
			r.StartedAt, r.Place = &now, 0
		}
		r.State, r.Problem = BulkRunning, ""
		r.StartedBy, r.StartedByID, r.StartedRole = actor.Name, actor.ID, actor.Role
		return nil
	})
}

// Cancel ends a job between two steps. What was done stays done.
func (s *Bulk) Cancel(ctx context.Context, actor Actor, id string) (BulkJob, error) {
	return s.act(ctx, actor, id, "bulk.cancel", func(r *BulkRecord) error {
		if !r.Open() {
			return conflict("The job is " + string(r.State) + " already.")
		}
		s.end(r, BulkCancelled)
		r.EndedBy = actor.Name
		return nil
	})
}

// end makes a job final.
func (s *Bulk) end(r *BulkRecord, to BulkState) {
	now := s.d.now()
	r.State, r.EndedAt, r.LeaseOwner, r.LeaseUntil = to, &now, "", nil
}

// act changes a job under its lock, between two steps, with its event.
func (s *Bulk) act(ctx context.Context, actor Actor, id, action string, fn func(*BulkRecord) error) (BulkJob, error) {
	var r BulkRecord
	err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		if r, err = tx.LockBulk(ctx, id); err != nil {
			return err
		}
		if err := actor.need(r.Kind.Needs()); err != nil {
			return err
		}
		before := r.BulkJob
		if err := fn(&r); err != nil {
			return err
		}
		if r.Open() { // whoever is free takes it
			r.LeaseOwner, r.LeaseUntil = "", nil
		}
		if err := tx.UpdateBulk(ctx, r); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{
			action: action, object: "bulk", objectID: r.ID, before: viewBulk(before), after: viewBulk(r.BulkJob), reason: r.Reason,
		})
	})
	if err != nil {
		return BulkJob{}, err
	}
	s.wake()
	return r.BulkJob, nil
}

// failed ends a job whose input cannot be used. Its idempotency key is free again.
func (s *Bulk) failed(ctx context.Context, id, problem string) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		r, err := tx.LockBulk(ctx, id)
		if err != nil || !r.Open() {
			return err
		}
		s.end(&r, BulkFailed)
		r.Problem, r.IdempotencyKey = problem, ""
		return tx.UpdateBulk(ctx, r)
	})
}
