package console_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/usage"
)

// rightPassword is that of everybody whom person makes.
const rightPassword = "right horse battery"

// person is somebody who is an operator in the database.
func (e *env) person(t *testing.T, name string, role console.Role) console.Actor {
	t.Helper()
	o, err := e.operators.Create(e.ctx, owner, console.NewOperator{
		Email: strings.ToLower(name) + "@example.com", Name: name, Role: role, Password: rightPassword,
	})
	if err != nil {
		t.Fatal(err)
	}
	return console.Actor{ID: o.ID, Name: o.Name, Role: role, Via: console.ViaConsole, IP: "192.0.2.9", RequestID: "req-" + name}
}

// prover is the engine as tests want it to be.
type prover struct {
	test    func(*policy.Document, *scenario.Suite) ([]scenario.Result, error)
	compare func(context.Context, console.Log, func(float64)) (decisionlog.Comparison, error)
}

func (p prover) Test(ctx context.Context, d *policy.Document, s *scenario.Suite, _ func(string) (policy.TenantRecord, bool)) ([]scenario.Result, error) {
	if p.test == nil {
		return passing(s), nil
	}
	return p.test(d, s)
}

func (prover) Score(context.Context, *policy.Document, *scenario.Suite, func(string) (policy.TenantRecord, bool)) (scenario.Score, error) {
	return scenario.Score{Killed: 3, Total: 4}, nil
}

func (p prover) Compare(ctx context.Context, _, _ *policy.Document, log console.Log, _ func(string) (policy.TenantRecord, bool), progress func(float64)) (decisionlog.Comparison, error) {
	return p.compare(ctx, log, progress)
}

func passing(s *scenario.Suite) []scenario.Result {
	var out []scenario.Result
	for _, test := range s.Tests {
		out = append(out, scenario.Result{Name: test.Name, Passed: true})
	}
	return out
}

func failingTests(_ *policy.Document, s *scenario.Suite) ([]scenario.Result, error) {
	out := passing(s)
	out[0].Passed, out[0].Detail = false, "expected all, 3 were refused"
	return out, nil
}

// suite is a test that can be read.
const suite = `tests:
  - name: a call is admitted
    given: {plan: free}
    steps:
      - {send: 1, request: GET /x, expect: admitted}
`

// proven gives the services a prover.
func (e *env) proven(p prover) {
	e.deps.Prover = p
	e.policies = console.NewPolicies(e.deps)
}

// draft makes a draft of its author with a document.
func (e *env) draft(t *testing.T, author console.Actor, src []byte) console.Draft {
	t.Helper()
	d, err := e.policies.CreateDraft(e.ctx, author, "change", src)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (e *env) ready(t *testing.T, id string) console.Readiness {
	t.Helper()
	r, err := e.policies.Ready(e.ctx, owner, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (e *env) rules(t *testing.T, rules ...console.ApprovalRule) {
	t.Helper()
	if err := e.policies.SetApprovalRules(e.ctx, owner, rules); err != nil {
		t.Fatal(err)
	}
}

func (e *env) approve(t *testing.T, by console.Actor, draft string) {
	t.Helper()
	if _, err := e.policies.Approve(e.ctx, by, draft, e.ready(t, draft).Digest, "fine"); err != nil {
		t.Fatal(err)
	}
}

// hour is traffic that tests say.
type hour struct{ usage.Hour }

func (h hour) LastHour() usage.Hour { return h.Hour }

// fieldsOf are the fields that an error names.
func fieldsOf(t *testing.T, err error, code console.Code) []string {
	t.Helper()
	var out []string
	for _, f := range errorWith(t, err, code).Fields {
		out = append(out, f.Field)
	}
	return out
}

var always = console.ApprovalRule{When: console.WhenAny, Approvals: 1}

func TestApprovals_AreByOthersOfExactlyThisContent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob, vic := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher), e.person(t, "Vic", console.RoleViewer)
	e.rules(t, always)
	d := e.draft(t, ann, document("10"))
	r := e.ready(t, d.ID)
	if len(r.Needed) != 1 || r.Needed[0].Have != 0 || r.Blocked() != "Approvals are missing." {
		t.Fatalf("needed %+v, blocked %q", r.Needed, r.Blocked())
	}
	_, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	got := errorWith(t, err, console.CodeApproval)
	if missing, ok := got.Detail.([]console.Needed); !ok || len(missing) != 1 || missing[0].Rule.When != "any" {
		t.Fatalf("detail %+v", got.Detail)
	}
	for _, c := range []struct {
		who    console.Actor
		digest string
		want   console.Code
	}{
		{ann, r.Digest, console.CodeForbidden}, {vic, r.Digest, console.CodeForbidden}, {bob, "sha256:" + strings.Repeat("0", 64), console.CodeConflict},
		{console.SystemActor(), r.Digest, console.CodeForbidden},
	} {
		_, err := e.policies.Approve(e.ctx, c.who, d.ID, c.digest, "")
		wantCode(t, err, c.want)
	}
	e.approve(t, bob, d.ID)
	if r = e.ready(t, d.ID); len(r.Approvals) != 1 || r.Approvals[0].Actor != "Bob" || len(r.Needed) != 0 || r.Blocked() != "" {
		t.Fatalf("approvals %+v, needed %+v, blocked %q", r.Approvals, r.Needed, r.Blocked())
	}
	v, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	if err != nil || len(v.Proof.Approvals) != 1 || v.Proof.Approvals[0].ActorID != bob.ID || v.Proof.Digest != r.Digest {
		t.Fatalf("version %+v (%v)", v.Proof, err)
	}
	stored, err := e.policies.Version(e.ctx, v.Number)
	if err != nil || len(stored.Proof.Approvals) != 1 || stored.Proof.DraftName != "change" {
		t.Fatalf("stored %+v (%v)", stored.Proof, err)
	}
}

func TestApprovals_AreVoidAfterAnyEditOrAnotherBase(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher)
	e.proven(prover{})
	for name, edit := range map[string]func(console.Draft) (console.Draft, error){
		"document": func(d console.Draft) (console.Draft, error) {
			return e.policies.SaveDraft(e.ctx, ann, d.ID, d.ETag, document("12"))
		},
		"tests": func(d console.Draft) (console.Draft, error) {
			return e.policies.SaveTests(e.ctx, ann, d.ID, d.ETag, []byte(suite))
		},
		"base": func(d console.Draft) (console.Draft, error) {
			head, _, err := e.policies.Head(e.ctx)
			if err != nil {
				return d, err
			}
			e.publish(t, "200", head.Number)
			return e.policies.RebaseDraft(e.ctx, ann, d.ID, d.ETag)
		},
	} {
		d := e.draft(t, ann, document("11"))
		e.approve(t, bob, d.ID)
		renamed, err := e.policies.RenameDraft(e.ctx, ann, d.ID, d.ETag, "other "+name)
		if err != nil {
			t.Fatal(err)
		}
		if r := e.ready(t, d.ID); len(r.Approvals) != 1 || r.Voided != 0 {
			t.Fatalf("%s: after another name %d approvals, %d void", name, len(r.Approvals), r.Voided)
		}
		if _, err := edit(renamed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r := e.ready(t, d.ID); len(r.Approvals) != 0 || r.Voided != 1 {
			t.Fatalf("%s: %d approvals, %d void", name, len(r.Approvals), r.Voided)
		}
	}
}

func TestApprovals_OfAStaleDraftAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher)
	d := e.draft(t, ann, document("11"))
	digest := e.ready(t, d.ID).Digest
	e.publish(t, "10", 0)
	_, err := e.policies.Approve(e.ctx, bob, d.ID, digest, "")
	if got := errorWith(t, err, console.CodeConflict); !strings.Contains(got.Public, "merged first") {
		t.Fatal(got.Public)
	}
}

func TestApprovals_WhoeverWroteInADraftCannotApproveIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob, eve := e.person(t, "Ann", console.RoleEditor), e.person(t, "Bob", console.RolePublisher), e.person(t, "Eve", console.RolePublisher)
	e.rules(t, always)
	d := e.draft(t, ann, document("10"))
	saved, err := e.policies.SaveDraft(e.ctx, bob, d.ID, d.ETag, document("11"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.policies.Approve(e.ctx, bob, d.ID, e.ready(t, d.ID).Digest, "")
	wantCode(t, err, console.CodeForbidden)
	// also when the content is as it was before they wrote: it has passed their hands
	e.approve(t, eve, d.ID)
	again, err := e.policies.SaveDraft(e.ctx, eve, d.ID, saved.ETag, document("12"))
	if err == nil {
		again, err = e.policies.SaveDraft(e.ctx, eve, d.ID, again.ETag, document("11"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := e.ready(t, d.ID); len(r.Approvals) != 0 || r.Voided != 1 || len(r.Writers) != 4 {
		t.Fatalf("approvals %+v, %d void, writers %v", r.Approvals, r.Voided, r.Writers)
	}
	_, err = e.policies.PublishDraft(e.ctx, bob, d.ID, again.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
}

func TestApprovals_OfWhoMayNoLongerApproveDoNotCount(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob, eve := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher), e.person(t, "Eve", console.RoleOwner)
	e.rules(t, console.ApprovalRule{When: console.WhenAny, Approvals: 2})
	d := e.draft(t, ann, document("10"))
	e.approve(t, bob, d.ID)
	e.approve(t, eve, d.ID)
	if err := e.operators.SetRole(e.ctx, owner, bob.ID, console.RoleEditor); err != nil {
		t.Fatal(err)
	}
	if r := e.ready(t, d.ID); len(r.Approvals) != 1 || len(r.Needed) != 1 || r.Needed[0].Have != 1 {
		t.Fatalf("approvals %+v, needed %+v", r.Approvals, r.Needed)
	}
	_, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	if err := e.operators.SetRole(e.ctx, owner, bob.ID, console.RolePublisher); err != nil {
		t.Fatal(err)
	}
	if err := e.policies.Withdraw(e.ctx, eve, d.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.policies.Withdraw(e.ctx, eve, d.ID), console.CodeNotFound)
	_, err = e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	e.approve(t, eve, d.ID)
	if _, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestApprovals_OneStepAndRollbackObeyTheSameRules(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher)
	e.publish(t, "10", 0)
	e.publish(t, "20", 1)
	e.rules(t, always)
	_, err := e.policies.Publish(e.ctx, ann, document("30"), nil, 2, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	_, err = e.policies.Rollback(e.ctx, ann, 1, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	// approvals of a draft with the same content on the same base count, one's own excepted
	d := e.draft(t, ann, document("30"))
	e.approve(t, bob, d.ID)
	_, err = e.policies.Publish(e.ctx, bob, document("30"), nil, 2, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	_, err = e.policies.Publish(e.ctx, ann, document("31"), nil, 2, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	v, err := e.policies.Publish(e.ctx, ann, document("30"), nil, 2, console.PublishOptions{})
	if err != nil || v.Number != 3 || len(v.Proof.Approvals) != 1 {
		t.Fatalf("version %+v (%v)", v, err)
	}
}

// An approval that is withdrawn, and an edit, race with the publication that
// rests on them: whatever was published had them at that moment.
func TestApprovals_RaceWithPublishingIsDecidedUnderTheHeadsLock(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher)
	e.rules(t, always)
	won := 0
	for i := range 20 {
		d := e.draft(t, ann, document([]string{"10", "20"}[won%2]))
		e.approve(t, bob, d.ID)
		errs := atOnce(2, func(n int) error {
			if n == 1 && i%2 == 0 {
				return e.policies.Withdraw(e.ctx, bob, d.ID)
			}
			if n == 1 {
				_, err := e.policies.SaveDraft(e.ctx, ann, d.ID, d.ETag, document("99"))
				return err
			}
			_, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
			return err
		})
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: publication %v, the other %v", i, errs[0], errs[1])
		}
		if errs[0] == nil {
			won++
		}
	}
	versions, _, err := e.policies.Versions(e.ctx, console.Page{Limit: 200})
	if err != nil || len(versions) != won {
		t.Fatalf("%d versions of %d publications (%v)", len(versions), won, err)
	}
	for _, v := range versions {
		if len(v.Proof.Approvals) != 1 {
			t.Errorf("v%d was published with %d approvals", v.Number, len(v.Proof.Approvals))
		}
	}
}

func TestRules_AreCheckedAndAudited(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	set := func(r ...console.ApprovalRule) error { return e.policies.SetApprovalRules(e.ctx, owner, r) }
	for field, r := range map[string]console.ApprovalRule{
		"rules[0].when":      {When: "sometimes", Approvals: 1},
		"rules[0].approvals": {When: console.WhenAny, Approvals: 4},
		"rules[0].only":      {When: console.WhenFailingTests, Approvals: 1, Only: []string{"login"}},
	} {
		if got := fieldsOf(t, set(r), console.CodeInvalid); !slices.Equal(got, []string{field}) {
			t.Errorf("%+v: fields %v", r, got)
		}
	}
	if got := fieldsOf(t, set(make([]console.ApprovalRule, 51)...), console.CodeInvalid); got[0] != "rules" {
		t.Errorf("51 rules: fields %v", got)
	}
	want := []console.ApprovalRule{{When: console.WhenLooser, Only: []string{"login"}, Approvals: 2}}
	if err := set(console.ApprovalRule{When: console.WhenLooser, Only: []string{" login ", "", "login"}, Approvals: 2}); err != nil {
		t.Fatal(err)
	}
	got, err := e.policies.ApprovalRules(e.ctx)
	if err != nil || len(got) != 1 || got[0].When != want[0].When || !slices.Equal(got[0].Only, want[0].Only) || got[0].Approvals != 2 {
		t.Fatalf("rules %+v (%v)", got, err)
	}
	ev := e.events(t)
	if len(ev) != 1 || ev[0].Action != "settings.approval-rules" || !strings.Contains(string(ev[0].After), "login") {
		t.Fatalf("events %+v", ev)
	}
}

func TestRoles_ChangesAreForWhoMayMakeThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.draft(t, owner, document("10"))
	e.refuse(t, console.PermApprove,
		func(a console.Actor) error { _, err := e.policies.Approve(e.ctx, a, d.ID, "", ""); return err },
		func(a console.Actor) error { return e.policies.Withdraw(e.ctx, a, d.ID) },
		func(a console.Actor) error { return e.policies.CloseReview(e.ctx, a, 1, "n") },
	)
	e.refuse(t, console.PermManageRules, func(a console.Actor) error { return e.policies.SetApprovalRules(e.ctx, a, nil) })
	e.refuse(t, console.PermPublish,
		func(a console.Actor) error {
			_, err := e.policies.ScheduleDraft(e.ctx, a, d.ID, d.ETag, e.clock.now().Add(time.Hour), console.PublishOptions{})
			return err
		},
		func(a console.Actor) error { return e.policies.Unschedule(e.ctx, a, d.ID) },
	)
	e.refuse(t, console.PermEditDrafts,
		func(a console.Actor) error { _, err := e.policies.SaveTests(e.ctx, a, d.ID, d.ETag, nil); return err },
		func(a console.Actor) error { _, err := e.policies.RenameDraft(e.ctx, a, d.ID, d.ETag, "n"); return err },
		func(a console.Actor) error { _, _, err := e.policies.MergeDraft(e.ctx, a, d.ID, d.ETag); return err },
		func(a console.Actor) error { _, err := e.policies.Comment(e.ctx, a, d.ID, "c"); return err },
		func(a console.Actor) error { _, err := e.policies.Score(e.ctx, a, d.ID); return err },
		func(a console.Actor) error {
			_, err := e.policies.StartTrial(e.ctx, a, d.ID, e.clock.now().Add(-time.Hour), e.clock.now())
			return err
		},
	)
	e.refuse(t, console.PermView, func(a console.Actor) error { _, err := e.policies.Ready(e.ctx, a, d.ID); return err })
}

var errBroken = errors.New("engine is broken")

// waitFor looks at cond every few milliseconds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		<-time.After(lookEvery)
	}
}

// counter counts calls of several goroutines.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() int { c.mu.Lock(); defer c.mu.Unlock(); c.n++; return c.n }
