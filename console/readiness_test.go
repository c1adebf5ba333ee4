package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// withTests makes a draft with a suite.
func (e *env) withTests(t *testing.T, src []byte) console.Draft {
	t.Helper()
	d := e.draft(t, owner, src)
	d, err := e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte(suite))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReady_RemembersWhatIsDearUntilTheContentChanges(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	runs := &counter{}
	e.proven(prover{test: func(_ *policy.Document, s *scenario.Suite) ([]scenario.Result, error) {
		runs.add()
		return passing(s), nil
	}})
	d := e.withTests(t, document("10"))
	expect := func(what string, want int) {
		t.Helper()
		if r := e.ready(t, d.ID); len(r.Tests) != 1 || !r.Tests[0].Passed {
			t.Fatalf("%s: tests %+v", what, r.Tests)
		}
		if runs.n != want {
			t.Fatalf("%s: the tests ran %d times, want %d", what, runs.n, want)
		}
	}
	expect("first", 1)
	expect("again", 1)
	d = e.save(t, owner, d, 1)
	expect("saved", 2)
	if _, err := e.policies.Publish(e.ctx, owner, document("20"), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("another version in force", 3)
	e.clock.add(2 * time.Minute)
	expect("later: tenants may be on other plans", 4)
	for i := range 101 {
		other := e.draft(t, owner, document(fmt.Sprint(i+1)))
		e.ready(t, other.ID)
	}
	expect("after many others", 5)
}

func TestReady_TestsThatAreSlowAreSaidToBe(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hold := make(chan struct{})
	e.provenBy(slowProver{hold: hold})
	d := e.withTests(t, document("10"))
	if r := e.ready(t, d.ID); !r.TestsSlow || r.TestsUnknown != "" || len(r.Tests) != 0 || r.Blocked() != "" {
		t.Fatalf("readiness %+v", r)
	}
	close(hold)
	if _, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{}); err != nil {
		t.Fatal(err) // publishing waits longer
	}
}

// slowProver answers when it is let, or its time is over.
type slowProver struct {
	prover
	hold chan struct{}
}

func (p slowProver) Test(ctx context.Context, _ *policy.Document, s *scenario.Suite, _ func(string) (policy.TenantRecord, bool)) ([]scenario.Result, error) {
	select {
	case <-p.hold:
		return passing(s), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *env) provenBy(p console.Prover) {
	e.deps.Prover = p
	e.policies = console.NewPolicies(e.deps)
}

func TestReady_SaysWhyADraftCannotBePublished(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{})
	e.publish(t, "100", 0)
	for _, c := range []struct {
		src, tests, want string
	}{
		{"a: [", "", "The document has problems."},
		{strings.Replace(string(document("110")), "  free:", "  gold:", 1), "", "The document has problems."}, // a tenant is on free
		{string(document("110")), "tests: [1]", "The tests cannot be read."},
		{string(document("110")), "tests: [{name: x, given: {plan: none}, steps: [{send: 1, request: GET /x, expect: admitted}]}]", "The tests cannot be read."},
		{string(document("100")), "", "Nothing would change."},
		{string(document("100")), suite, ""}, // tests alone are a change
		{string(document("110")), "", ""},
	} {
		e.tenant(t, "A")
		d := e.draft(t, owner, []byte(c.src))
		d, err := e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte(c.tests))
		if err != nil {
			t.Fatal(err)
		}
		if got := e.ready(t, d.ID).Blocked(); got != c.want {
			t.Errorf("%.40q: %q, want %q", c.src, got, c.want)
		}
	}
	d := e.draft(t, owner, document("120"))
	e.publish(t, "130", 1)
	if got := e.ready(t, d.ID).Blocked(); got != "Someone published since this draft was begun." {
		t.Errorf("stale: %q", got)
	}
	_, err := e.policies.Ready(e.ctx, owner, "drf_x")
	wantCode(t, err, console.CodeNotFound)
}

func TestReady_TellsCommentsChangesAndWhatWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RoleOwner)
	e.publish(t, "10", 0)
	d := e.draft(t, ann, document("30"))
	broken := e.draft(t, ann, []byte("a: ["))
	if out, err := e.policies.Waiting(e.ctx, bob); err != nil || len(out) != 0 {
		t.Fatalf("without rules %+v (%v)", out, err)
	}
	e.rules(t, console.ApprovalRule{When: console.WhenLooser, Only: []string{"everything"}, Approvals: 1})
	for _, text := range []string{"", strings.Repeat("x", 2001), "a\x00b"} {
		_, err := e.policies.Comment(e.ctx, bob, d.ID, text)
		fieldOf(t, text, err, "comment")
	}
	for _, text := range []string{"why?", "because"} {
		e.clock.add(time.Second)
		if _, err := e.policies.Comment(e.ctx, bob, d.ID, text); err != nil {
			t.Fatal(err)
		}
	}
	r := e.ready(t, d.ID)
	if len(r.Comments) != 2 || r.Comments[0].Text != "why?" || len(r.Changes) == 0 || r.Changes[0].Risk == "" || r.Changes[0].Effect != policy.EffectLooser {
		t.Fatalf("comments %+v, changes %+v", r.Comments, r.Changes)
	}
	for _, c := range []struct {
		who  console.Actor
		mine bool
	}{{ann, true}, {bob, false}} {
		out, err := e.policies.Waiting(e.ctx, c.who)
		if err != nil || len(out) != 1 || out[0].Draft.ID != d.ID || out[0].Mine != c.mine || len(out[0].Needed) != 1 {
			t.Fatalf("for %s %+v (%v)", c.who.Name, out, err)
		}
	}
	fresh := console.NewPolicies(e.deps) // which has looked at nothing yet
	if out, err := fresh.Waiting(e.ctx, bob); err != nil || len(out) != 1 {
		t.Fatalf("on another console %+v (%v)", out, err)
	}
	e.approve(t, bob, d.ID)
	if out, err := e.policies.Waiting(e.ctx, ann); err != nil || len(out) != 0 {
		t.Fatalf("approved %+v (%v)", out, err)
	}
	v, err := e.policies.PublishDraft(e.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := e.policies.Comments(e.ctx, v.Proof.Draft)
	if err != nil || len(kept) != 2 {
		t.Fatalf("comments of what was published: %+v (%v)", kept, err)
	}
	if _, err := e.policies.Comment(e.ctx, ann, broken.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	if err := e.policies.DeleteDraft(e.ctx, ann, broken.ID, broken.ETag); err != nil {
		t.Fatal(err)
	}
	if kept, err := e.policies.Comments(e.ctx, broken.ID); err != nil || len(kept) != 0 {
		t.Fatalf("comments of what was deleted: %+v (%v)", kept, err)
	}
}

func TestScore_IsOfADraftThatCanBeTested(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.draft(t, owner, document("10"))
	_, err := e.policies.Score(e.ctx, owner, d.ID)
	wantCode(t, err, console.CodeUnavailable)
	e.proven(prover{})
	broken := e.draft(t, owner, []byte("a: ["))
	_, err = e.policies.Score(e.ctx, owner, broken.ID)
	wantCode(t, err, console.CodeInvalid)
	if d, err = e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte("tests: [1]")); err != nil {
		t.Fatal(err)
	}
	_, err = e.policies.Score(e.ctx, owner, d.ID)
	wantCode(t, err, console.CodeInvalid)
	if _, err = e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte(suite)); err != nil {
		t.Fatal(err)
	}
	if score, err := e.policies.Score(e.ctx, owner, d.ID); err != nil || score.Total != 4 {
		t.Fatalf("score %+v (%v)", score, err)
	}
}

func TestRunTests_KnowsTenantsByEitherID(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Acme", Plan: "pro", ExternalID: "acme-1", TimeZone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]policy.TenantRecord{}
	e.provenBy(lookingProver{refs: []string{ten.ID, "acme-1", "nobody", "nobody"}, found: asked})
	doc, report := policy.ParseLoose(document("10"))
	if doc == nil {
		t.Fatal(report)
	}
	results, report, err := e.policies.RunTests(e.ctx, doc, []byte(suite))
	if err != nil || !report.OK() || len(results) != 1 {
		t.Fatalf("results %+v, report %v (%v)", results, report, err)
	}
	if len(asked) != 2 || asked["acme-1"].ID != ten.ID || asked[ten.ID].Plan != "pro" || asked[ten.ID].TimeZone != "Europe/Berlin" {
		t.Fatalf("found %+v", asked)
	}
	if _, report, err := e.policies.RunTests(e.ctx, doc, []byte("tests: 1")); err != nil || report.OK() {
		t.Fatalf("report %v (%v)", report, err)
	}
	if results, report, err := e.policies.RunTests(e.ctx, doc, nil); err != nil || !report.OK() || len(results) != 0 {
		t.Fatalf("no tests: %+v, %v (%v)", results, report, err)
	}
}

// lookingProver looks tenants up.
type lookingProver struct {
	prover
	refs  []string
	found map[string]policy.TenantRecord
}

func (p lookingProver) Test(_ context.Context, _ *policy.Document, s *scenario.Suite, tenants func(string) (policy.TenantRecord, bool)) ([]scenario.Result, error) {
	for _, ref := range p.refs {
		if r, ok := tenants(ref); ok {
			p.found[ref] = r
		}
	}
	return passing(s), nil
}
