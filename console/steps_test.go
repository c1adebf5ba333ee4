package console_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// The statements below are those that a change goes through on its way from
// draft to version, besides those in failpoints_test.go.

func (t brokenTx) InsertDraft(ctx context.Context, d console.Draft) error {
	return t.point("InsertDraft", func() error { return t.Tx.InsertDraft(ctx, d) })
}

func (t brokenTx) UpdateDraft(ctx context.Context, d console.Draft, etag string) (ok bool, err error) {
	err = t.point("UpdateDraft", func() error { ok, err = t.Tx.UpdateDraft(ctx, d, etag); return err })
	return ok, err
}

func (t brokenTx) PutWriter(ctx context.Context, draft string, a console.Actor, now time.Time) error {
	return t.point("PutWriter", func() error { return t.Tx.PutWriter(ctx, draft, a, now) })
}

func (t brokenTx) AddSave(ctx context.Context, draft string, a console.Actor, before []byte) error {
	return t.point("AddSave", func() error { return t.Tx.AddSave(ctx, draft, a, before) })
}

func (t brokenTx) TellSaves(ctx context.Context, draft, actor string, now time.Time) error {
	return t.point("TellSaves", func() error { return t.Tx.TellSaves(ctx, draft, actor, now) })
}

func (t brokenTx) InsertComment(ctx context.Context, c console.Comment, author string) error {
	return t.point("InsertComment", func() error { return t.Tx.InsertComment(ctx, c, author) })
}

func (t brokenTx) PutApproval(ctx context.Context, draft string, a console.Approval) error {
	return t.point("PutApproval", func() error { return t.Tx.PutApproval(ctx, draft, a) })
}

func (t brokenTx) PutSchedule(ctx context.Context, s console.Schedule) error {
	return t.point("PutSchedule", func() error { return t.Tx.PutSchedule(ctx, s) })
}

func (t brokenTx) SuspendSchedule(ctx context.Context, s console.Schedule, reason string) (ok bool, err error) {
	err = t.point("SuspendSchedule", func() error { ok, err = t.Tx.SuspendSchedule(ctx, s, reason); return err })
	return ok, err
}

func (t brokenTx) InsertReview(ctx context.Context, r console.Review) error {
	return t.point("InsertReview", func() error { return t.Tx.InsertReview(ctx, r) })
}

func (t brokenTx) CloseReview(ctx context.Context, r console.Review, closer string) error {
	return t.point("CloseReview", func() error { return t.Tx.CloseReview(ctx, r, closer) })
}

func (t brokenTx) PutSetting(ctx context.Context, name string, value []byte, now time.Time) error {
	return t.point("PutSetting", func() error { return t.Tx.PutSetting(ctx, name, value, now) })
}

func (t brokenTx) SetHead(ctx context.Context, n int64, now time.Time) error {
	return t.point("SetHead", func() error { return t.Tx.SetHead(ctx, n, now) })
}

func (t brokenTx) InsertOutbox(ctx context.Context, kind console.OutboxKind, ref string, now time.Time) (id int64, err error) {
	err = t.point("InsertOutbox", func() error { id, err = t.Tx.InsertOutbox(ctx, kind, ref, now); return err })
	return id, err
}

func (t brokenTx) InsertRollout(ctx context.Context, r console.Rollout, author string) error {
	return t.point("InsertRollout", func() error { return t.Tx.InsertRollout(ctx, r, author) })
}

func (t brokenTx) EndRollout(ctx context.Context, r console.Rollout) (ok bool, err error) {
	err = t.point("EndRollout", func() error { ok, err = t.Tx.EndRollout(ctx, r); return err })
	return ok, err
}

// step is one change with how many rows the audit trail gets by it.
type step struct {
	name string
	rows int
	call func(console.Deps) error
}

// way is what a change goes through: written by Ann, approved by Bob, published
// by schedule, by break-glass, as a canary, and rolled back.
type way struct {
	*env
	ann, bob console.Actor
	d        console.Draft
	version  console.Version
}

func newWay(t *testing.T) *way {
	t.Helper()
	e := newEnv(t)
	w := &way{env: e, ann: e.person(t, "Ann", console.RolePublisher), bob: e.person(t, "Bob", console.RoleOwner)}
	e.deps.Feed = newCanaryFeed(e.feed)
	e.feed.set(func() {
		for _, id := range fleetIDs {
			e.feed.beats = append(e.feed.beats, e.feed.beat(id, 0, "", 0))
		}
	})
	return w
}

func (w *way) made(v console.Version, err error) error {
	if err == nil {
		w.version = v
	}
	return err
}

func (w *way) digest(d console.Deps, draft string) (string, error) {
	r, err := console.NewPolicies(d).Ready(w.ctx, w.bob, draft)
	return r.Digest, err
}

// steps build on each other. The first half ends with a scheduled publication.
func (w *way) steps() []step {
	return append([]step{
		{"create", 1, func(d console.Deps) error {
			return w.keep(console.NewPolicies(d).CreateDraft(w.ctx, w.ann, "d", document("10")))
		}},
		{"rules", 1, func(d console.Deps) error {
			return console.NewPolicies(d).SetApprovalRules(w.ctx, w.bob, []console.ApprovalRule{always})
		}},
		{"save", 0, func(d console.Deps) error { return w.saveTo(d, "11") }},
		{"rename", 2, func(d console.Deps) error { // with the save that was not told
			return w.keep(console.NewPolicies(d).RenameDraft(w.ctx, w.ann, w.d.ID, w.d.ETag, "e"))
		}},
		{"comment", 1, func(d console.Deps) error {
			_, err := console.NewPolicies(d).Comment(w.ctx, w.bob, w.d.ID, "why?")
			return err
		}},
		{"approve", 1, w.approveBy},
		{"schedule", 1, func(d console.Deps) error {
			_, err := console.NewPolicies(d).ScheduleDraft(w.ctx, w.ann, w.d.ID, w.d.ETag, w.clock.now().Add(time.Minute), console.PublishOptions{})
			return err
		}},
		{"carry out", 1, func(d console.Deps) error { return w.later(d, time.Minute) }},
	}, w.more()...)
}

// more are the steps after the first version.
func (w *way) more() []step {
	return []step{
		{"second draft", 1, func(d console.Deps) error {
			return w.keep(console.NewPolicies(d).CreateDraft(w.ctx, w.ann, "d", document("20")))
		}},
		{"schedule again", 1, func(d console.Deps) error {
			_, err := console.NewPolicies(d).ScheduleDraft(w.ctx, w.ann, w.d.ID, w.d.ETag, w.clock.now().Add(time.Minute), console.PublishOptions{})
			return err
		}},
		{"suspend", 1, func(d console.Deps) error { return w.later(d, time.Minute) }},
		{"break glass", 1, func(d console.Deps) error {
			glass := &console.BreakGlass{Reason: "night", Password: rightPassword}
			return w.made(console.NewPolicies(d).PublishDraft(w.ctx, w.ann, w.d.ID, w.d.ETag, console.PublishOptions{BreakGlass: glass}))
		}},
		{"close review", 1, func(d console.Deps) error {
			return console.NewPolicies(d).CloseReview(w.ctx, w.bob, w.version.Number, "fine")
		}},
		{"no rules", 1, func(d console.Deps) error { return console.NewPolicies(d).SetApprovalRules(w.ctx, w.bob, nil) }},
		{"canary", 1, func(d console.Deps) error {
			return w.made(console.NewPolicies(d).Publish(w.ctx, w.ann, document("30"), nil, w.version.Number, console.PublishOptions{Canary: &plan}))
		}},
		{"roll back", 1, func(d console.Deps) error {
			_, err := console.NewPolicies(d).Rollback(w.ctx, w.ann, 1, console.PublishOptions{})
			return err
		}},
	}
}

func (w *way) keep(d console.Draft, err error) error {
	if err == nil {
		w.d = d
	}
	return err
}

func (w *way) saveTo(d console.Deps, burst string) error {
	return w.keep(console.NewPolicies(d).SaveDraft(w.ctx, w.ann, w.d.ID, w.d.ETag, document(burst)))
}

func (w *way) approveBy(d console.Deps) error {
	digest, err := w.digest(d, w.d.ID)
	if err == nil {
		_, err = console.NewPolicies(d).Approve(w.ctx, w.bob, w.d.ID, digest, "")
	}
	return err
}

// later runs schedules some time after now; the time is given back when that failed.
func (w *way) later(d console.Deps, after time.Duration) error {
	w.clock.add(after)
	err := console.NewPolicies(d).RunSchedules(w.ctx)
	if err != nil {
		w.clock.add(-after)
	}
	return err
}

// everything is all that the steps could have changed.
func (w *way) everything(t *testing.T) map[string]any {
	t.Helper()
	out := w.snapshot(t)
	read := func(name string, fn func(console.Tx) (any, error)) {
		err := w.store.Read(w.ctx, func(tx console.Tx) (err error) { out[name], err = fn(tx); return err })
		if err != nil && !console.IsNotFound(err) {
			t.Fatalf("read %s: %v", name, err)
		}
	}
	ctx := w.ctx
	read("schedules", func(tx console.Tx) (any, error) { return tx.Schedules(ctx, 100) })
	read("reviews", func(tx console.Tx) (any, error) { return tx.Reviews(ctx, false, 100) })
	read("rollouts", func(tx console.Tx) (any, error) { return tx.Rollouts(ctx, 100) })
	read("rules", func(tx console.Tx) (any, error) { return tx.Setting(ctx, "approval-rules") })
	if w.d.ID != "" {
		read("draft", func(tx console.Tx) (any, error) { return tx.Draft(ctx, w.d.ID) })
		read("writers", func(tx console.Tx) (any, error) { return tx.Writers(ctx, w.d.ID) })
		read("approvals", func(tx console.Tx) (any, error) { return tx.Approvals(ctx, w.d.ID) })
		read("comments", func(tx console.Tx) (any, error) { return tx.Comments(ctx, w.d.ID, 100) })
	}
	return out
}

// TestC01_EachStepFromDraftToVersionIsWholeOrAbsent breaks each kind of
// statement before and after its effect: nothing of the step remains, and the
// same step succeeds afterwards.
func TestC01_EachStepFromDraftToVersionIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	for at, hitBy := range map[string]int{
		"InsertDraft": 2, "UpdateDraft": 2, "PutWriter": 2, "AddSave": 1, "TellSaves": 1, "InsertComment": 1, "PutApproval": 1, "PutSchedule": 2,
		"SuspendSchedule": 1, "InsertReview": 1, "CloseReview": 1, "PutSetting": 2, "InsertVersion": 4, "SetHead": 3, "InsertOutbox": 4,
		"InsertRollout": 1, "EndRollout": 1, "DeleteDraft": 2, "InsertAudit": 15,
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after: %v", at, after), func(t *testing.T) {
				t.Parallel()
				w := newWay(t)
				hits := 0
				broken := w.deps
				broken.Store = brokenStore{Store: w.store, at: at, after: after, hits: &hits}
				for _, s := range w.steps() {
					before, earlier := w.everything(t), hits
					err := s.call(broken)
					if hits == earlier {
						if err != nil {
							t.Fatalf("%s did not reach the fail point: %v", s.name, err)
						}
						continue // it has happened, as it should
					}
					if !errors.Is(err, errFailPoint) {
						t.Fatalf("%s: %v", s.name, err)
					}
					if now := w.everything(t); !reflect.DeepEqual(before, now) {
						t.Fatalf("%s left something behind:\n%+v\n%+v", s.name, before, now)
					}
					if err := s.call(w.deps); err != nil {
						t.Fatalf("%s again: %v", s.name, err)
					}
				}
				if hits != hitBy {
					t.Fatalf("the fail point was reached %d times, want %d", hits, hitBy)
				}
			})
		}
	}
}

// TestI16_EachStepHasItsRowInTheTrail counts: a step has the rows that it should
// have, and one that is refused has none.
func TestI16_EachStepHasItsRowInTheTrail(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	for _, s := range w.steps() {
		before := len(w.events(t))
		if err := s.call(w.deps); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if got := len(w.events(t)) - before; got != s.rows {
			t.Errorf("%s has %d rows, want %d: %v", s.name, got, s.rows, w.actions(t))
		}
	}
	if _, _, problem, err := w.audit.Verify(w.ctx); err != nil || problem != nil {
		t.Fatalf("trail %+v (%v)", problem, err)
	}
	want := []string{"policy.publish", "policy.publish", "policy.publish", "policy.rollback"}
	if got := slices.DeleteFunc(w.actions(t), func(a string) bool { return a[:7] != "policy." }); !slices.Equal(got, want) {
		t.Errorf("publications %v", got)
	}
	if v, _, err := w.policies.Head(w.ctx); err != nil || v.Number != 4 || v.Digest != mustVersion(t, w.env, 1).Digest {
		t.Errorf("head %+v (%v)", v, err)
	}
}

func mustVersion(t *testing.T, e *env, n int64) console.Version {
	t.Helper()
	v, err := e.policies.Version(e.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestC09_NothingIsDoneWhoseEventCannotBeWritten is C01's point InsertAudit for
// publications alone, which say so.
func TestC09_NothingIsPublishedWhoseEventCannotBeWritten(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hits := 0
	broken := e.deps
	broken.Store = brokenStore{Store: e.store, at: "InsertAudit", hits: &hits}
	_, err := console.NewPolicies(broken).Publish(e.ctx, owner, document("10"), nil, 0, console.PublishOptions{})
	if console.CodeOf(err) != console.CodeInternal || hits != 1 {
		t.Fatalf("%d hits: %v", hits, err)
	}
	if _, ok, err := e.policies.Head(e.ctx); ok || err != nil {
		t.Fatalf("it was published (%v)", err)
	}
	e.feed.set(func() {
		if len(e.feed.policies) != 0 {
			t.Error("Redis has it")
		}
	})
}
