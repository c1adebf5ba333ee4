package console_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// Whoever may only edit can let tests run for as long as they like: publications
// have a turn of their own.
func TestTests_OfEditorsKeepNoPublicationWaiting(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	busy, done := make(chan struct{}), make(chan struct{})
	slow, _ := policy.Parse(document("10"))
	e.proven(prover{test: func(d *policy.Document, s *scenario.Suite) ([]scenario.Result, error) {
		if d == slow {
			close(busy)
			<-done
		}
		return passing(s), nil
	}})
	ctx, cancel := context.WithCancel(e.ctx)
	ran := make(chan error, 1)
	go func() {
		_, _, err := e.policies.RunTests(ctx, slow, []byte(suite))
		ran <- err
	}()
	<-busy
	if _, err := e.policies.Publish(e.ctx, owner, document("20"), []byte(suite), 0, console.PublishOptions{}); err != nil {
		t.Fatalf("while somebody tries tests: %v", err)
	}
	cancel()
	close(done)
	if err := <-ran; err != nil && !errors.Is(err, context.Canceled) && console.CodeOf(err) != console.CodeUnavailable {
		t.Fatal(err)
	}
}

// Tests are part of a change: a rule for any change is met by other tests alone.
func TestRules_ForAnyChangeAreMetByOtherTests(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{})
	if _, err := e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	e.rules(t, console.ApprovalRule{When: console.WhenAny, Approvals: 1})
	_, err := e.policies.Publish(e.ctx, owner, document("10"), []byte{}, 1, console.PublishOptions{})
	wantCode(t, err, console.CodeApproval)
	d := e.draft(t, owner, document("10"))
	if r := e.ready(t, d.ID); len(r.Needed) != 0 {
		t.Fatalf("nothing changes, and %+v is needed", r.Needed)
	}
	if d, err = e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, nil); err != nil {
		t.Fatal(err)
	}
	if r := e.ready(t, d.ID); len(r.Needed) != 1 {
		t.Fatalf("the tests are gone, and %+v is needed", r.Needed)
	}
	e.rules(t, console.ApprovalRule{When: console.WhenAny, Only: []string{"login"}, Approvals: 1})
	if r := e.ready(t, d.ID); len(r.Needed) != 0 {
		t.Fatalf("a rule for a route: %+v", r.Needed)
	}
}
