package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// bulkStep is how many rows are done in one transaction at most; a database that
	// is too busy for that gets fewer, down to bulkLeast.
	bulkStep, bulkLeast = 1000, 50
	// gatherStep is how many keys or tenants a selection looks at in one.
	gatherStep = 2000
	// bulkLease is how long a job waits for a worker that says nothing any more.
	bulkLease = 15 * time.Second
	// bulkTurn is how many steps a worker does before it looks for a job that waits longer.
	bulkTurn = 20
	// bulkPause is how long a job waits that cannot get on.
	bulkPause = 5 * time.Second
	// bulkAttempts is how often a step is tried that others' changes get in the way of.
	bulkAttempts = 3
	// bulkIdle is how often a worker looks for jobs that another console has made.
	bulkIdle  = time.Second
	dropBatch = 5000
)

// Run works on jobs until ctx ends. Several consoles may run it; each job has
// one worker at a time, and another one takes over when that dies.
func (s *Bulk) Run(ctx context.Context) error {
	down, swept := false, time.Time{}
	for ctx.Err() == nil {
		worked, err := s.Work(ctx)
		if err == nil && time.Since(swept) > sweepEvery {
			swept = time.Now()
			err = s.Sweep(ctx)
		}
		if err != nil && ctx.Err() == nil && !down {
			s.d.Log.WarnContext(ctx, "bulk jobs do not get on", "error", err)
		}
		down = err != nil
		if worked && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.woken:
		case <-time.After(bulkIdle):
		}
	}
	return nil
}

// Work takes one job that nobody works on and does up to a turn of its steps. It
// reports whether there was one.
func (s *Bulk) Work(ctx context.Context) (bool, error) {
	var r BulkRecord
	now := s.d.now()
	err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		r, err = tx.ClaimBulk(ctx, s.owner, now, now.Add(bulkLease))
		return err
	})
	if IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for range bulkTurn {
		more, err := s.step(ctx, r.ID)
		if err != nil {
			return true, s.stumble(ctx, r.ID, err)
		}
		if !more {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return true, err
		}
	}
	return true, s.give(ctx, r.ID, "", 0)
}

// stumble lets a job wait that cannot get on, and says why.
func (s *Bulk) stumble(ctx context.Context, id string, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	text := "It cannot get on at the moment, and is tried again."
	if e, ok := errors.AsType[*Error](cause); ok && e.Code != CodeInternal {
		text = e.Public
	}
	if err := s.give(ctx, id, text, bulkPause); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// give lets another worker have the job, after a while, and notes what it waits for.
func (s *Bulk) give(ctx context.Context, id, problem string, after time.Duration) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		r, err := tx.LockBulk(ctx, id)
		if err != nil || !s.mine(r) {
			return err
		}
		until := s.d.now().Add(after)
		r.LeaseOwner, r.LeaseUntil, r.Problem = "", &until, problem
		return tx.UpdateBulk(ctx, r)
	})
}

// mine reports whether this process works on the job.
func (s *Bulk) mine(r BulkRecord) bool {
	return r.LeaseOwner == s.owner && (r.State == BulkChecking || r.State == BulkRunning)
}

// errWaits says that a job has to wait, and what for.
type errWaits struct{ text string }

func (e errWaits) Error() string { return e.text }

// step does one step of a job and reports whether there is another.
func (s *Bulk) step(ctx context.Context, id string) (more bool, err error) {
	r, err := s.get(ctx, id)
	if err != nil || !s.mine(r) {
		return false, err
	}
	switch {
	case r.State == BulkChecking && !r.Loaded && r.Kind.Imports():
		return false, s.failed(ctx, id, fmt.Sprintf("The upload broke off after %d rows.", r.Total))
	case r.State == BulkChecking && !r.Loaded:
		more, err = s.gather(ctx, r)
	default:
		size := s.size.Load()
		if more, err = s.span(ctx, r, int(size)); err == nil {
			s.size.Store(min(size*2, bulkStep))
		} else if CodeOf(err) == CodeUnavailable {
			s.size.Store(max(size/4, bulkLeast))
		}
	}
	if w, ok := errors.AsType[errWaits](err); ok {
		return false, s.give(ctx, id, w.text, bulkPause)
	}
	return more, err
}

// span does a step of at most limit rows. Where it fails again and again, smaller
// ones are done, down to single rows: one row that cannot be done keeps no other up.
func (s *Bulk) span(ctx context.Context, r BulkRecord, limit int) (more bool, err error) {
	for range bulkAttempts {
		more, err = s.rows(ctx, r, limit, nil)
		if _, waits := errors.AsType[errWaits](err); err == nil || waits || CodeOf(err) == CodeUnavailable || ctx.Err() != nil {
			return more, err
		}
		if CodeOf(err) != CodeConflict {
			break // it would fail the same way
		}
	}
	if limit > 1 {
		s.d.Log.WarnContext(ctx, "a step of a bulk job is done in smaller parts", "job", r.ID, "rows", limit, "error", err)
		return s.span(ctx, r, limit/10)
	}
	return s.rows(ctx, r, 1, err)
}

// rows checks or does the next rows in one transaction. With a reason it marks
// them as impossible instead.
func (s *Bulk) rows(ctx context.Context, r BulkRecord, limit int, impossible error) (more bool, err error) {
	var n int64
	var span BulkSpan
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		span, n, err = tx.BulkSpanOf(ctx, r.Num, r.Place, limit)
		return err
	})
	if err != nil {
		return false, err
	}
	used, err := s.usedSince(ctx, r, span)
	if err != nil {
		return false, err
	}
	before := r
	changed := false
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		changed = false
		now, err := tx.LockBulk(ctx, before.ID)
		if err != nil || !s.mine(now) || now.Place != before.Place || now.State != before.State {
			return err // somebody else has it
		}
		r = now
		if r.State == BulkRunning {
			changed, err = s.do(ctx, tx, &r, span, n, used, impossible)
		} else {
			err = s.check(ctx, tx, &r, span, n, used, impossible)
		}
		if err == nil {
			more = s.mine(r)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if changed {
		s.d.Nudge()
	}
	return more, nil
}

// check is a step of the dry run: rows are marked, and nothing else is changed.
func (s *Bulk) check(ctx context.Context, tx Tx, r *BulkRecord, span BulkSpan, n int64, used []BulkMark, impossible error) error {
	if n > 0 {
		if err := tx.ClearBulkMarks(ctx, span); err != nil {
			return err
		}
		marks, err := s.judge(ctx, tx, *r, span, used, RowBad, impossible)
		if err != nil {
			return err
		}
		r.Checked += n
		r.Bad += marks[RowBad]
		r.WouldSkip += marks[RowWouldSkip]
		r.WouldDo += n - marks[RowBad] - marks[RowWouldSkip]
		r.Place = span.Through
	}
	s.renew(r)
	if n < 1 || r.Checked >= r.Total {
		now := s.d.now()
		r.State, r.CheckedAt, r.LeaseOwner, r.LeaseUntil = BulkReady, &now, "", nil
	}
	return tx.UpdateBulk(ctx, *r)
}

// renew lets the worker keep the job for a while.
func (s *Bulk) renew(r *BulkRecord) {
	until := s.d.now().Add(bulkLease)
	r.LeaseUntil, r.Problem = &until, ""
}

// judge marks the rows of a span that cannot or need not be done, and counts marks.
func (s *Bulk) judge(ctx context.Context, tx Tx, r BulkRecord, span BulkSpan, used []BulkMark, unfit string, impossible error) (map[string]int64, error) {
	var err error
	if impossible != nil {
		err = s.markAll(ctx, tx, span, unfit, impossible)
	} else {
		err = s.markUsed(ctx, tx, span, used)
	}
	if err != nil {
		return nil, err
	}
	terms, err := s.terms(ctx, tx, r, unfit)
	if err != nil {
		return nil, err
	}
	if err := tx.CheckBulk(ctx, r.Kind, span, terms); err != nil {
		return nil, err
	}
	return tx.CountBulkMarks(ctx, span)
}

func (s *Bulk) markAll(ctx context.Context, tx Tx, span BulkSpan, unfit string, cause error) error {
	text := "It cannot be done."
	if e, ok := errors.AsType[*Error](cause); ok && e.Code != CodeInternal {
		text = e.Public
	}
	rows, err := tx.BulkSubjects(ctx, span, false)
	if err != nil {
		return err
	}
	marks := make([]BulkMark, len(rows))
	for i, row := range rows {
		marks[i] = BulkMark{Line: row.Line, Outcome: unfit, Message: text}
	}
	return tx.PutBulkMarks(ctx, span.Job, marks)
}

// do is a step of the run: what is still good is done, with one event that names all of it.
func (s *Bulk) do(ctx context.Context, tx Tx, r *BulkRecord, span BulkSpan, n int64, used []BulkMark, impossible error) (bool, error) {
	actor, allowed, err := s.onBehalf(ctx, tx, *r)
	if err != nil {
		return false, err
	}
	if !allowed {
		r.State, r.LeaseOwner, r.LeaseUntil = BulkReady, "", nil
		r.Problem = fmt.Sprintf("%s may no longer do this; somebody else has to start it again.", r.StartedBy)
		return false, tx.UpdateBulk(ctx, *r)
	}
	ev := stepView{Kind: r.Kind, FromLine: span.After + 1, ToLine: span.Through, ToPlan: r.Selection.ToPlan}
	if n > 0 {
		if err := s.deed(ctx, tx, r, span, used, impossible, &ev); err != nil {
			return false, err
		}
		r.Place = span.Through
		r.Steps++
	}
	s.renew(r)
	if n < 1 || s.last(ctx, tx, *r) {
		s.end(r, BulkDone)
	}
	if err := tx.UpdateBulk(ctx, *r); err != nil {
		return false, err
	}
	if n < 1 {
		return false, nil
	}
	ev.Step = r.Steps
	if r.Selection.ExpiresAt != nil {
		ev.Expires = r.Selection.ExpiresAt.Format(time.RFC3339Nano)
	}
	return len(ev.Objects) > 0, s.d.record(ctx, tx, actor, s.d.now(), event{action: "bulk.step", object: "bulk", objectID: r.ID, after: ev, reason: r.Reason})
}

// last reports whether no row is left behind the job's place; an error is found again later.
func (s *Bulk) last(ctx context.Context, tx Tx, r BulkRecord) bool {
	_, left, err := tx.BulkSpanOf(ctx, r.Num, r.Place, 1)
	return err == nil && left == 0
}

// deed does the rows of a span that are still good.
func (s *Bulk) deed(ctx context.Context, tx Tx, r *BulkRecord, span BulkSpan, used []BulkMark, impossible error, ev *stepView) error {
	had, err := tx.CountBulkMarks(ctx, span)
	if err != nil {
		return err
	}
	marks, err := s.judge(ctx, tx, *r, span, used, RowFailed, impossible)
	if err != nil {
		return err
	}
	terms, err := s.terms(ctx, tx, *r, RowFailed)
	if err != nil {
		return err
	}
	if ev.Objects, err = tx.DoBulk(ctx, r.Kind, span, terms); err != nil {
		return err
	}
	slices.Sort(ev.Objects)
	ev.Done, ev.Failed, ev.Skipped = int64(len(ev.Objects)), marks[RowFailed], marks[RowWouldSkip]-had[RowWouldSkip]
	r.Done += ev.Done
	r.Failed += ev.Failed
	r.WouldSkip += ev.Skipped // became so in the meantime
	r.WouldDo -= ev.Skipped
	return nil
}

// onBehalf is who a step is done for. It goes on without them being there, but not
// when they may no longer do it.
func (s *Bulk) onBehalf(ctx context.Context, tx Tx, r BulkRecord) (a Actor, allowed bool, err error) {
	a = Actor{ID: r.StartedByID, Name: r.StartedBy, Role: r.StartedRole, Via: ViaSystem}
	if a.ID == "" { // the system itself
		return a, true, nil
	}
	o, err := tx.Operator(ctx, a.ID)
	if IsNotFound(err) {
		return a, false, nil
	}
	return a, err == nil && o.DisabledAt == nil && o.Role.Can(r.Kind.Needs()), err
}

// terms is what rows are held against now.
func (s *Bulk) terms(ctx context.Context, tx Tx, r BulkRecord, unfit string) (BulkTerms, error) {
	t := BulkTerms{Now: s.d.now(), Unfit: unfit, ToPlan: r.Selection.ToPlan, Extend: r.Selection.Extend, Category: RevokeOther, Reason: r.Reason}
	if r.Selection.ExpiresAt != nil {
		t.ExpiresAt = *r.Selection.ExpiresAt
		if !t.ExpiresAt.After(t.Now) {
			return t, errWaits{"The time at which the keys were to expire has passed: cancel the job, and make another."}
		}
	}
	if r.Kind != BulkImportTenants && r.Kind != BulkChangePlan {
		return t, nil
	}
	var err error
	if t.Plans, err = s.plans.inForce(ctx, tx); err != nil {
		return t, err
	}
	if r.Kind == BulkChangePlan && len(t.Plans) > 0 && !slices.Contains(t.Plans, t.ToPlan) {
		return t, errWaits{"The policy in force has no plan " + t.ToPlan + "."}
	}
	return t, nil
}

// plansCache remembers the names of the plans of the version in force.
type plansCache struct {
	mu     sync.Mutex
	number int64
	names  []string
}

// inForce returns the names, and keeps publishers waiting until the transaction
// ends, so that none drops a plan meanwhile. There are none before the first publication.
func (c *plansCache) inForce(ctx context.Context, tx Tx) ([]string, error) {
	number, err := tx.ShareHead(ctx)
	if err != nil || number == 0 {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.number == number {
		return c.names, nil
	}
	v, err := tx.Version(ctx, number)
	if err != nil {
		return nil, err
	}
	doc, err := v.Document()
	if err != nil {
		return nil, fmt.Errorf("read version %d: %w", number, err)
	}
	c.number, c.names = number, planNames(doc)
	return c.names, nil
}

func planNames(doc *policy.Document) []string {
	names := make([]string, 0, len(doc.Plans))
	for n := range doc.Plans {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Sweep removes rows of jobs that ended long ago, some at a time.
func (s *Bulk) Sweep(ctx context.Context) error {
	for range 20 {
		more := false
		err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
			more, err = tx.DropBulkRows(ctx, s.d.now().Add(-BulkRowsKept), dropBatch)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
