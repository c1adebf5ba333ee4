package console_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// TestRotations_C07_I19_CutAtAnyStepTheTenantKeepsAKeyThatWorks cuts each step of
// a rotation's beginning, extension, end and taking back at each of its statements,
// before and after their effect, as a console does that is killed there: the
// versions are as they were, one of them works, and the step can be done again.
func TestRotations_C07_I19_CutAtAnyStepTheTenantKeepsAKeyThatWorks(t *testing.T) {
	t.Parallel()
	steps := map[string]func(*env, console.Deps, string, string) error{
		"start": func(e *env, d console.Deps, credential, _ string) error {
			_, err := console.NewRotations(d).Start(e.ctx, owner, credential, console.NewRotation{Overlap: dayLong, Reason: "r"})
			return err
		},
		"extend": func(e *env, d console.Deps, _, id string) error {
			_, err := console.NewRotations(d).Extend(e.ctx, owner, id, time.Hour, "r")
			return err
		},
		"end": func(e *env, d console.Deps, _, id string) error {
			_, err := console.NewRotations(d).End(e.ctx, owner, id, "r")
			return err
		},
		"cancel": func(e *env, d console.Deps, _, id string) error {
			_, err := console.NewRotations(d).Cancel(e.ctx, owner, id, "r")
			return err
		},
	}
	for name, step := range steps {
		for _, at := range []string{"InsertKey", "UpdateKey", "InsertRotation", "UpdateRotation", "InsertAudit"} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s cut at %s, after: %v", name, at, after), func(t *testing.T) {
					t.Parallel()
					e := newEnv(t)
					out := e.issue(t, e.tenant(t, "A").ID)
					id := ""
					if name != "start" {
						id = e.rotate(t, out.Credential.ID, dayLong).Rotation.ID
					}
					before, hits := working(t, e, out.Credential.ID), 0
					broken := e.deps
					broken.Store = brokenStore{Store: e.store, at: at, after: after, hits: &hits}
					err := step(e, broken, out.Credential.ID, id)
					if hits == 0 {
						return // the step has no such statement, and was done
					}
					if now := working(t, e, out.Credential.ID); !errors.Is(err, errFailPoint) || now != before || now == 0 {
						t.Fatalf("%d versions worked, %d do (%v)", before, now, err)
					}
					if err := step(e, e.deps, out.Credential.ID, id); err != nil || working(t, e, out.Credential.ID) == 0 {
						t.Fatalf("again: %v", err)
					}
				})
			}
		}
	}
}

// working counts versions of a credential that gateways accept.
func working(t *testing.T, e *env, credentialID string) (n int) {
	t.Helper()
	c, err := e.keys.GetCredential(e.ctx, credentialID)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Versions {
		if (v.State == policy.KeyActive || v.State == policy.KeyRetiring) && (v.NotAfter == nil || v.NotAfter.After(e.clock.now())) {
			n++
		}
	}
	return n
}
