package console_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// Without the database nothing is answered as if it were there.
func TestChanges_WithoutTheDatabaseNothingIsClaimed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.deps.Decisions = decisions{}
	e.proven(prover{})
	run(t, e.policies.RunTrials)
	d := e.draft(t, owner, document("10"))
	ann := as(console.RoleOwner)
	e.store.Close()
	p, now := e.policies, e.clock.now()
	calls := map[string]func() error{
		"ready":    func() error { _, err := p.Ready(e.ctx, ann, d.ID); return err },
		"waiting":  func() error { _, err := p.Waiting(e.ctx, ann); return err },
		"score":    func() error { _, err := p.Score(e.ctx, ann, d.ID); return err },
		"save":     func() error { _, err := p.SaveTests(e.ctx, ann, d.ID, d.ETag, nil); return err },
		"rename":   func() error { _, err := p.RenameDraft(e.ctx, ann, d.ID, d.ETag, "x"); return err },
		"merge":    func() error { _, _, err := p.MergeDraft(e.ctx, ann, d.ID, d.ETag); return err },
		"comment":  func() error { _, err := p.Comment(e.ctx, ann, d.ID, "x"); return err },
		"comments": func() error { _, err := p.Comments(e.ctx, d.ID); return err },
		"approve":  func() error { _, err := p.Approve(e.ctx, ann, d.ID, "x", ""); return err },
		"withdraw": func() error { return p.Withdraw(e.ctx, ann, d.ID) },
		"rules":    func() error { _, err := p.ApprovalRules(e.ctx); return err },
		"set":      func() error { return p.SetApprovalRules(e.ctx, ann, nil) },
		"reviews":  func() error { _, err := p.Reviews(e.ctx, true); return err },
		"open":     func() error { _, err := p.OpenReviews(e.ctx); return err },
		"close":    func() error { return p.CloseReview(e.ctx, ann, 1, "x") },
		"schedule": func() error {
			_, err := p.ScheduleDraft(e.ctx, ann, d.ID, d.ETag, now.Add(time.Hour), console.PublishOptions{})
			return err
		},
		"unschedule": func() error { return p.Unschedule(e.ctx, ann, d.ID) },
		"schedules":  func() error { _, err := p.Schedules(e.ctx); return err },
		"run":        func() error { return p.RunSchedules(e.ctx) },
		"try":        func() error { _, err := p.StartTrial(e.ctx, ann, d.ID, now.Add(-time.Hour), now); return err },
		"try source": func() error {
			_, err := p.StartTrialOf(e.ctx, ann, document("1"), now.Add(-time.Hour), now)
			return err
		},
		"trial":  func() error { _, err := p.Trial(e.ctx, "sim_x"); return err },
		"trials": func() error { _, err := p.Trials(e.ctx, d.ID); return err },
		"publish": func() error {
			_, err := p.Publish(e.ctx, ann, document("1"), nil, 0, console.PublishOptions{})
			return err
		},
		"draft":    func() error { _, err := p.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{}); return err },
		"rollback": func() error { _, err := p.Rollback(e.ctx, ann, 1, console.PublishOptions{}); return err },
		"sweep":    func() error { return e.jobs.Sweep(e.ctx) },
	}
	for name, call := range calls {
		if err := call(); err == nil || console.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever stops waiting is not kept by tests of others.
func TestChanges_WaitingForTestsEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hold := make(chan struct{})
	e.provenBy(slowProver{hold: hold})
	defer close(hold)
	d := e.withTests(t, document("10"))
	busy, leave := context.WithCancel(e.ctx)
	left := make(chan error, 1)
	go func() {
		_, err := e.policies.Publish(busy, owner, document("11"), []byte(suite), 0, console.PublishOptions{})
		left <- err
	}()
	gone, cancel := context.WithTimeout(e.ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := e.policies.Ready(gone, owner, d.ID); err == nil {
		t.Error("an answer after its caller had gone")
	}
	leave()
	if err := <-left; err == nil {
		t.Error("published without its caller")
	}
	if n := e.head(t); n != 0 {
		t.Errorf("v%d is in force", n)
	}
}

func TestCheckPassword_IsThatOfTheActorAndCountsLikeSignIn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RoleViewer), e.person(t, "Bob", console.RolePublisher)
	none, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: "t@example.com", Name: "Token", Role: console.RolePublisher})
	if err != nil {
		t.Fatal(err)
	}
	check := func(a console.Actor, password string) console.Code {
		return console.CodeOf(e.operators.CheckPassword(e.ctx, a, password))
	}
	token := console.Actor{ID: none.ID, IP: ann.IP}
	for name, c := range map[string]struct{ got, want console.Code }{
		"right":       {check(ann, rightPassword), ""},
		"wrong":       {check(ann, "wrong horse battery"), console.CodeInvalid},
		"empty":       {check(ann, ""), console.CodeInvalid},
		"endless":     {check(ann, string(make([]byte, 1000))), console.CodeInvalid},
		"none set":    {check(token, rightPassword), console.CodeInvalid},
		"nobody":      {check(console.SystemActor(), rightPassword), console.CodeInvalid},
		"not in here": {check(console.Actor{ID: "opr_x"}, rightPassword), console.CodeNotFound},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	if err := e.operators.Disable(e.ctx, owner, bob.ID); err != nil {
		t.Fatal(err)
	}
	if got := check(bob, rightPassword); got != console.CodeInvalid {
		t.Errorf("disabled: %q", got)
	}
	if got := len(e.events(t)); got != 4 { // three operators and one that was disabled
		t.Errorf("%d events: checking a password is none", got)
	}
}
