package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxAhead is how far ahead a draft may be scheduled.
	maxAhead = 366 * 24 * time.Hour
	// scheduleGrace is how late a schedule may be carried out. A console that was
	// away for longer must not surprise anybody with it.
	scheduleGrace = 15 * time.Minute
	maxSchedules  = 500
)

// ScheduleDraft publishes a draft as it stands now (etag) at a time, as its
// actor. Scheduling again replaces the earlier one. o carries note,
// confirmations and a canary; break-glass cannot be scheduled. What the
// publication needs besides (approvals, tests) may follow until then.
func (s *Policies) ScheduleDraft(ctx context.Context, actor Actor, id, etag string, at time.Time, o PublishOptions) (Schedule, error) {
	if err := actor.need(PermPublish); err != nil {
		return Schedule{}, err
	}
	if actor.ID == "" {
		return Schedule{}, &Error{Code: CodeForbidden, Public: "Only an operator can schedule."}
	}
	sc := Schedule{
		Draft: id, ETag: etag, At: at.UTC().Truncate(time.Microsecond), Author: actor.Name, AuthorID: actor.ID, Confirmed: o.Confirmed, Canary: o.Canary,
	}
	if err := s.checkSchedule(&sc, o); err != nil {
		return Schedule{}, err
	}
	r, err := s.Ready(ctx, actor, id)
	if err != nil {
		return Schedule{}, err
	}
	switch {
	case r.Draft.ETag != etag:
		return Schedule{}, staleDraft(r.Draft)
	case !r.Report.OK():
		return Schedule{}, invalidDocument(r.Report)
	case !r.TestProblems.OK():
		return Schedule{}, invalidTests(r.TestProblems)
	case r.Stale():
		return Schedule{}, &Error{
			Code: CodeConflict, Detail: StaleBase{Base: r.Draft.Base, Head: r.Head.Number, Changes: r.Theirs},
			Public: fmt.Sprintf("This is based on v%d, and v%d is in force now.", r.Draft.Base, r.Head.Number),
		}
	}
	if err := confirmed(r.Confirmations, o.Confirmed); err != nil {
		return Schedule{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error { return s.scheduleTx(ctx, tx, actor, &sc) })
	return sc, err
}

func (s *Policies) checkSchedule(sc *Schedule, o PublishOptions) error {
	var p problems
	sc.Note = p.text("note", o.Note, maxNote, false)
	now := s.d.now()
	switch {
	case !sc.At.After(now):
		p.add("at", "This is over already.")
	case sc.At.After(now.Add(maxAhead)):
		p.add("at", "At most a year ahead.")
	}
	if o.BreakGlass != nil {
		p.add("break_glass", "What is scheduled has time for approvals.")
	}
	return p.err()
}

func (s *Policies) scheduleTx(ctx context.Context, tx Tx, actor Actor, sc *Schedule) error {
	d, err := tx.LockDraft(ctx, sc.Draft)
	if err != nil {
		return err
	}
	if d.ETag != sc.ETag {
		return staleDraft(d)
	}
	sc.CreatedAt = s.d.now()
	if err := tx.PutSchedule(ctx, *sc); err != nil {
		return err
	}
	return s.d.recordDraft(ctx, tx, actor, d, sc.CreatedAt, event{
		action: "draft.schedule", object: "draft", objectID: sc.Draft, after: viewSchedule(*sc), reason: sc.Note,
	})
}

func viewSchedule(sc Schedule) scheduleView {
	return scheduleView{sc.At, sc.Note, sc.Canary != nil, sc.Suspended}
}

// Unschedule takes a schedule back, a suspended one too.
func (s *Policies) Unschedule(ctx context.Context, actor Actor, id string) error {
	if err := actor.need(PermPublish); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.LockDraft(ctx, id)
		if err != nil {
			return err
		}
		sc, err := tx.Schedule(ctx, id)
		if err != nil {
			return err
		}
		if _, err := tx.DeleteSchedule(ctx, id); err != nil {
			return err
		}
		return s.d.recordDraft(ctx, tx, actor, d, s.d.now(), event{action: "draft.unschedule", object: "draft", objectID: id, before: viewSchedule(sc)})
	})
}

// Schedules lists all schedules by time, suspended ones included.
func (s *Policies) Schedules(ctx context.Context) (out []Schedule, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		head, _, err := tx.HeadNumber(ctx)
		if err != nil && !IsNotFound(err) {
			return err
		}
		if out, err = tx.Schedules(ctx, maxSchedules); err != nil || len(out) == 0 {
			return err
		}
		drafts, err := tx.Drafts(ctx, maxSchedules)
		if err != nil {
			return err
		}
		for i := range out {
			for _, d := range drafts {
				if d.ID == out[i].Draft {
					out[i].hold(d, head)
				}
			}
		}
		return nil
	})
	return out, err
}

// scheduleIn is a draft's schedule as of now; nil when it has none.
func scheduleIn(ctx context.Context, tx Tx, d Draft, head int64) (*Schedule, error) {
	sc, err := tx.Schedule(ctx, d.ID)
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sc.hold(d, head)
	return &sc, nil
}

// hold suspends a schedule whose draft or base is another one by now: it says so
// at once, whenever the job gets to it.
func (sc *Schedule) hold(d Draft, head int64) {
	switch {
	case sc.Suspended != "":
	case sc.ETag != d.ETag:
		sc.Suspended = "The draft was changed since it was scheduled."
	case d.Base != head:
		sc.Suspended = fmt.Sprintf("v%d was published since it was scheduled.", head)
	}
}

// RunSchedules publishes drafts whose time has come, and suspends schedules that
// no longer hold. Several consoles may run it: each draft is published once.
func (s *Policies) RunSchedules(ctx context.Context) error {
	var due []Schedule
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		due, err = tx.DueSchedules(ctx, s.d.now(), 20)
		return err
	})
	if err != nil {
		return err
	}
	var failed []error
	for _, sc := range due {
		failed = append(failed, s.runSchedule(ctx, sc))
	}
	return errors.Join(failed...)
}

// runSchedule carries one schedule out. It returns an error when it has to be
// tried again.
func (s *Policies) runSchedule(ctx context.Context, sc Schedule) error {
	actor, reason, err := s.scheduler(ctx, sc)
	if err != nil {
		return err
	}
	if reason == "" {
		reason, err = s.carryOut(ctx, actor, sc)
	}
	if reason == "" || err != nil {
		return err
	}
	return s.suspend(ctx, sc, reason)
}

// scheduler is who publishes, with the role of now, or why nobody does.
func (s *Policies) scheduler(ctx context.Context, sc Schedule) (Actor, string, error) {
	var o Operator
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		o, err = tx.Operator(ctx, sc.AuthorID)
		return err
	})
	if IsNotFound(err) {
		err = nil // and o has no role
	}
	if err != nil {
		return Actor{}, "", err
	}
	if !mayPublish(o) {
		return Actor{}, noLonger(sc), nil
	}
	if late := s.d.now().Sub(sc.At); late > scheduleGrace {
		return Actor{}, fmt.Sprintf("It could not be published within %d minutes of its time.", int(scheduleGrace.Minutes())), nil
	}
	return Actor{ID: o.ID, Name: o.Name, Role: o.Role, Via: ViaSystem}, "", nil
}

// carryOut publishes the draft of a schedule, or says why that cannot be done.
func (s *Policies) carryOut(ctx context.Context, actor Actor, sc Schedule) (reason string, err error) {
	d, err := s.GetDraft(ctx, sc.Draft)
	if IsNotFound(err) {
		return "", nil // published or deleted, and the schedule with it
	}
	if err != nil {
		return "", err
	}
	head, err := s.headNumber(ctx)
	if err != nil {
		return "", err
	}
	if sc.hold(d, head); sc.Suspended != "" {
		return sc.Suspended, nil
	}
	if s.d.now().Before(sc.At) {
		return "", nil
	}
	p := ofDraft(d, PublishOptions{Note: sc.Note, Confirmed: sc.Confirmed, Canary: sc.Canary})
	p.scheduled = &sc
	if _, err = s.publish(ctx, actor, p); err == nil || errors.Is(err, errOtherSchedule) {
		return "", nil
	}
	if slices.Contains([]Code{CodeUnavailable, CodeInternal, CodeRateLimited}, CodeOf(err)) {
		return "", err // it may go better the next time
	}
	return whyNot(err), nil
}

// errOtherSchedule says that a schedule was taken back or replaced while it was
// carried out.
var errOtherSchedule = errors.New("the schedule is another one by now")

// stillScheduled holds a schedule that is carried out against what was said
// since, while the tests ran. The draft is locked; sc is nil for a publication
// by hand.
func stillScheduled(ctx context.Context, tx Tx, sc *Schedule) error {
	if sc == nil {
		return nil
	}
	now, err := tx.Schedule(ctx, sc.Draft)
	if IsNotFound(err) || (err == nil && (now.Suspended != "" || !now.CreatedAt.Equal(sc.CreatedAt))) {
		return errOtherSchedule
	}
	if err != nil {
		return err
	}
	o, err := tx.Operator(ctx, sc.AuthorID)
	if err != nil && !IsNotFound(err) {
		return err
	}
	if !mayPublish(o) {
		return &Error{Code: CodeForbidden, Public: noLonger(*sc)}
	}
	return nil
}

func mayPublish(o Operator) bool { return o.DisabledAt == nil && o.Role.Can(PermPublish) }

func noLonger(sc Schedule) string { return sc.Author + " may no longer publish." }

// whyNot is an error in words for whoever finds the schedule suspended.
func whyNot(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return "It could not be published."
	}
	parts := []string{e.Public}
	for _, f := range e.Fields[:min(len(e.Fields), 3)] {
		parts = append(parts, f.Message)
	}
	return shorten(strings.Join(parts, " "), 1000)
}

// suspend notes why a schedule will not happen by itself. One that was replaced,
// or whose draft is gone, is left alone: another console was faster.
func (s *Policies) suspend(ctx context.Context, sc Schedule, reason string) error {
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.LockDraft(ctx, sc.Draft)
		if err != nil {
			return err
		}
		if ok, err := tx.SuspendSchedule(ctx, sc, reason); err != nil || !ok {
			return err
		}
		sc.Suspended = reason
		return s.d.recordDraft(ctx, tx, SystemActor(), d, s.d.now(), event{
			action: "draft.schedule-suspended", object: "draft", objectID: sc.Draft, after: viewSchedule(sc), reason: shorten(reason, maxReason),
		})
	})
	if IsNotFound(err) {
		return nil
	}
	return err
}
