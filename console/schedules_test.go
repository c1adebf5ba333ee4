package console_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// schedule schedules a draft of somebody in an hour.
func (e *env) schedule(t *testing.T, by console.Actor, d console.Draft) console.Schedule {
	t.Helper()
	sc, err := e.policies.ScheduleDraft(e.ctx, by, d.ID, d.ETag, e.clock.now().Add(time.Hour), console.PublishOptions{Note: "at night"})
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// due lets the hour go by and runs the schedules.
func (e *env) due(t *testing.T) {
	t.Helper()
	e.clock.add(time.Hour + time.Second)
	if err := e.policies.RunSchedules(e.ctx); err != nil {
		t.Fatal(err)
	}
}

func (e *env) head(t *testing.T) int64 {
	t.Helper()
	v, _, err := e.policies.Head(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return v.Number
}

// suspended is why the only schedule is suspended.
func (e *env) suspended(t *testing.T) string {
	t.Helper()
	all, err := e.policies.Schedules(e.ctx)
	if err != nil || len(all) != 1 {
		t.Fatalf("schedules %+v (%v)", all, err)
	}
	return all[0].Suspended
}

func TestSchedules_PublishAtTheirTimeAsTheirAuthor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	d := e.draft(t, ann, document("10"))
	sc := e.schedule(t, ann, d)
	if err := e.policies.RunSchedules(e.ctx); err != nil || e.head(t) != 0 || e.suspended(t) != "" {
		t.Fatalf("before its time: head %d (%v)", e.head(t), err)
	}
	e.due(t)
	v, _, err := e.policies.Head(e.ctx)
	if err != nil || v.Number != 1 || v.Author != "Ann" || v.AuthorID != ann.ID || v.Note != "at night" || v.Proof.Scheduled == nil || !v.Proof.Scheduled.Equal(sc.At) {
		t.Fatalf("version %+v (%v)", v, err)
	}
	if got := e.told(t, d.ID); !slices.Equal(got, []string{"draft.create Ann", "draft.schedule Ann", "policy.publish Ann"}) {
		t.Fatalf("trail %q", got)
	}
	if ev := e.events(t)[0]; ev.Via != console.ViaSystem || ev.Role != console.RolePublisher || !strings.Contains(string(ev.After), `"scheduled":true`) {
		t.Fatalf("event %+v", ev)
	}
	if all, err := e.policies.Schedules(e.ctx); err != nil || len(all) != 0 {
		t.Fatalf("schedules %+v (%v)", all, err)
	}
}

func TestSchedules_AreSuspendedWhenSomethingIsNotAsItWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(e *env, t *testing.T, ann console.Actor, d console.Draft)
		reason string
		atOnce bool // shown before its time
	}{
		"edited": {func(e *env, t *testing.T, ann console.Actor, d console.Draft) { e.save(t, ann, d, 1) }, "The draft was changed since it was scheduled.", true},
		"published": {func(e *env, t *testing.T, _ console.Actor, _ console.Draft) { e.publish(t, "20", 0) },
			"v1 was published since it was scheduled.", true},
		"role": {func(e *env, t *testing.T, ann console.Actor, _ console.Draft) {
			if err := e.operators.SetRole(e.ctx, owner, ann.ID, console.RoleEditor); err != nil {
				t.Fatal(err)
			}
		}, "Ann may no longer publish.", false},
		"disabled": {func(e *env, t *testing.T, ann console.Actor, _ console.Draft) {
			if err := e.operators.Disable(e.ctx, owner, ann.ID); err != nil {
				t.Fatal(err)
			}
		}, "Ann may no longer publish.", false},
		"approvals": {func(e *env, t *testing.T, _ console.Actor, _ console.Draft) { e.rules(t, always) }, "Others have to approve this first.", false},
		"plan in use": {func(e *env, t *testing.T, _ console.Actor, _ console.Draft) {
			if _, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "A", Plan: "gold"}); err != nil {
				t.Fatal(err)
			}
		}, "The policy has problems.", false},
		"late": {func(e *env, _ *testing.T, _ console.Actor, _ console.Draft) { e.clock.add(16 * time.Minute) }, "15 minutes", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ann := e.person(t, "Ann", console.RolePublisher)
			d := e.draft(t, ann, document("10"))
			e.schedule(t, ann, d)
			c.change(e, t, ann, d)
			head := e.head(t)
			if got := e.suspended(t); (got != "") != c.atOnce {
				t.Fatalf("before its time: %q", got)
			}
			e.due(t)
			if got := e.suspended(t); !strings.Contains(got, c.reason) || e.head(t) != head {
				t.Fatalf("suspended: %q, head %d", got, e.head(t))
			}
			if r := e.ready(t, d.ID); r.Schedule == nil || r.Schedule.Suspended == "" {
				t.Fatalf("the draft's page says %+v", r.Schedule)
			}
			last := e.events(t)[0]
			if last.Action != "draft.schedule-suspended" || last.Via != console.ViaSystem || !strings.Contains(string(last.After), "suspended") {
				t.Fatalf("event %+v", last)
			}
			before := len(e.events(t))
			e.due(t)
			if len(e.events(t)) != before {
				t.Fatal("it was suspended again")
			}
			if err := e.policies.Unschedule(e.ctx, as(console.RoleOwner), d.ID); err != nil {
				t.Fatal(err)
			}
			wantCode(t, e.policies.Unschedule(e.ctx, owner, d.ID), console.CodeNotFound)
		})
	}
}

func TestSchedules_AreRefusedForWhatCannotHappen(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	e.publish(t, "100", 0)
	d, cut := e.draft(t, ann, document("110")), e.draft(t, ann, document("10"))
	broken := e.draft(t, ann, []byte("a: ["))
	now := e.clock.now()
	at := func(d console.Draft, at time.Time, o console.PublishOptions) error {
		_, err := e.policies.ScheduleDraft(e.ctx, ann, d.ID, d.ETag, at, o)
		return err
	}
	for field, err := range map[string]error{
		"at":               at(d, now, console.PublishOptions{}),
		"note":             at(d, now.Add(time.Hour), console.PublishOptions{Note: strings.Repeat("x", 2001)}),
		"break_glass":      at(d, now.Add(time.Hour), console.PublishOptions{BreakGlass: &console.BreakGlass{}}),
		"confirm.cut-half": at(cut, now.Add(time.Hour), console.PublishOptions{}),
	} {
		if got := fieldsOf(t, err, console.CodeInvalid); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: fields %v", field, got)
		}
	}
	wantCode(t, at(d, now.Add(367*24*time.Hour), console.PublishOptions{}), console.CodeInvalid)
	wantCode(t, at(broken, now.Add(time.Hour), console.PublishOptions{}), console.CodeInvalid)
	if err := at(cut, now.Add(time.Hour), console.PublishOptions{Confirmed: map[string]string{"cut-half": "yes"}}); err != nil {
		t.Fatal(err)
	}
	e.due(t)
	if e.head(t) != 2 {
		t.Fatalf("head %d: what was confirmed when it was scheduled is confirmed", e.head(t))
	}
	wantCode(t, at(d, e.clock.now().Add(time.Hour), console.PublishOptions{}), console.CodeConflict) // its base is no longer in force
}

func TestSchedules_SchedulingAgainReplacesTheEarlierOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	d := e.draft(t, ann, document("10"))
	e.schedule(t, ann, d)
	d = e.save(t, ann, d, 1)
	if e.suspended(t) == "" {
		t.Fatal("an edit did not suspend it")
	}
	e.schedule(t, ann, d)
	if got := e.suspended(t); got != "" {
		t.Fatalf("suspended: %q", got)
	}
	e.due(t)
	if e.head(t) != 1 {
		t.Fatalf("head %d", e.head(t))
	}
}

func TestC08_TwoConsolesCarryOutEachScheduleOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	consoles := []*console.Policies{e.policies, console.NewPolicies(e.deps), console.NewPolicies(e.deps)}
	for round := range 10 {
		d := e.draft(t, ann, document([]string{"10", "11"}[round%2]))
		e.schedule(t, ann, d)
		e.clock.add(time.Hour + time.Second)
		for _, err := range atOnce(len(consoles), func(i int) error { return consoles[i].RunSchedules(e.ctx) }) {
			if err != nil && console.CodeOf(err) != console.CodeUnavailable {
				t.Fatal(err)
			}
		}
		if err := e.policies.RunSchedules(e.ctx); err != nil {
			t.Fatal(err)
		}
		if got := e.head(t); got != int64(round+1) {
			t.Fatalf("round %d: head %d", round, got)
		}
		if all, err := e.policies.Schedules(e.ctx); err != nil || len(all) != 0 {
			t.Fatalf("round %d: schedules %+v (%v)", round, all, err)
		}
	}
	if got := e.actions(t); slices.Contains(got, "draft.schedule-suspended") {
		t.Fatalf("actions %v", got)
	}
}

func TestJobs_CarryOutSchedules(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	e.schedule(t, ann, e.draft(t, ann, document("10")))
	e.clock.add(time.Hour + time.Second)
	run(t, e.jobs.Run)
	waitFor(t, "the publication", func() bool { return e.head(t) == 1 })
}

// Tests may run for seconds. What is said of a schedule meanwhile holds.
func TestSchedules_TakenBackOrMovedWhileTestsRunDoNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(e *env, ann console.Actor, d console.Draft) error{
		"taken back": func(e *env, _ console.Actor, d console.Draft) error { return e.policies.Unschedule(e.ctx, owner, d.ID) },
		"moved": func(e *env, ann console.Actor, d console.Draft) error {
			_, err := e.policies.ScheduleDraft(e.ctx, ann, d.ID, d.ETag, e.clock.now().Add(24*time.Hour), console.PublishOptions{})
			return err
		},
		"its publisher lost the role": func(e *env, ann console.Actor, _ console.Draft) error {
			return e.operators.SetRole(e.ctx, owner, ann.ID, console.RoleEditor)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ann := e.person(t, "Ann", console.RolePublisher)
			var d console.Draft
			var said error
			var runs atomic.Int64
			e.proven(prover{test: func(_ *policy.Document, s *scenario.Suite) ([]scenario.Result, error) {
				if runs.Add(1) == 2 { // the first is that of the one who schedules
					said = meanwhile(e, ann, d)
				}
				return passing(s), nil
			}})
			d = e.draft(t, ann, document("10"))
			d, err := e.policies.SaveTests(e.ctx, ann, d.ID, d.ETag, []byte(suite))
			if err != nil {
				t.Fatal(err)
			}
			e.schedule(t, ann, d)
			e.due(t)
			if said != nil || runs.Load() < 2 {
				t.Fatalf("%d runs of the tests (%v)", runs.Load(), said)
			}
			if e.head(t) != 0 {
				t.Fatalf("published as v%d all the same", e.head(t))
			}
			all, err := e.policies.Schedules(e.ctx)
			if want := map[string]int{"taken back": 0, "moved": 1, "its publisher lost the role": 1}[name]; err != nil || len(all) != want {
				t.Fatalf("schedules %+v (%v)", all, err)
			}
			if name == "moved" && all[0].Suspended != "" {
				t.Fatalf("suspended: %q", all[0].Suspended)
			}
		})
	}
}
