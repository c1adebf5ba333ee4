package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// memberOf is a member of a tenant, on the tenant's own pages.
func memberOf(tenantID string, r console.Role) console.Actor {
	return console.Actor{ID: "mem_" + strings.Repeat("b", 16), Name: "Mia", Role: r, Via: console.ViaPortal, TenantID: tenantID, IP: "198.51.100.7"}
}

func TestMembers_IssueRotateExtendAndRevokeTheirOwnKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	mia := memberOf(e.tenant(t, "A").ID, console.RoleTenantAdmin)
	issued, err := e.keys.IssueCredential(e.ctx, mia, mia.TenantID, console.NewCredential{Name: "mine", Environment: "live", Contact: "ops@a.example"})
	if err != nil || issued.Credential.Contact != "ops@a.example" {
		t.Fatalf("%+v, %v", issued.Credential, err)
	}
	started, err := e.rotations.Start(e.ctx, mia, issued.Credential.ID, console.NewRotation{Overlap: time.Hour, Reason: "r", MaxOverlap: dayLong})
	if err != nil {
		t.Fatal(err)
	}
	id := started.Rotation.ID
	if _, err := e.rotations.ExtendWithin(e.ctx, mia, id, console.RotationExtension{By: 48 * time.Hour, Reason: "r", MaxOverlap: dayLong}); console.CodeOf(err) != console.CodeInvalid {
		t.Fatalf("beyond the tenant's cap: %v", err)
	}
	if _, err := e.rotations.Extend(e.ctx, mia, id, time.Hour, "r"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.rotations.Extend(e.ctx, mia, id, time.Hour, "r"); console.CodeOf(err) != console.CodeConflict {
		t.Fatalf("a second extension: %v", err)
	}
	for range 2 { // an operator may do it again and again
		if _, err := e.rotations.Extend(e.ctx, owner, id, time.Hour, "they asked"); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := e.rotations.GetFor(e.ctx, mia, id); err != nil || r.Extensions != 3 || r.MemberExtensions != 1 || !r.EndsAt.Equal(r.StartedAt.Add(4*time.Hour)) {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := e.rotations.End(e.ctx, mia, id, "r"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.keys.Revoke(e.ctx, mia, started.KeyVersion.KID, "leak"); err != nil {
		t.Fatal(err)
	}
	if k := e.key(t, started.KeyVersion.KID); k.State != policy.KeyRevoked || !k.Leaked {
		t.Fatalf("%+v", k)
	}
	for _, ev := range e.events(t) {
		if ev.ActorID == mia.ID && (ev.Via != console.ViaPortal || ev.TenantID != mia.TenantID) {
			t.Errorf("event %+v", ev)
		}
	}
}

// What belongs to another tenant is refused in the very words in which what does
// not exist is, and before any lock is taken.
func TestMembers_AnotherTenantsThingsDoNotExist(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	mine, theirs := e.tenant(t, "A"), e.tenant(t, "B")
	out := e.issue(t, theirs.ID)
	started := e.rotate(t, out.Credential.ID, dayLong)
	for _, role := range []console.Role{console.RoleTenantAdmin, console.RoleTenantViewer} {
		mia := memberOf(mine.ID, role)
		calls := map[string]func(kid, credential, rotation string) error{
			"get key":    func(kid, _, _ string) error { _, err := e.keys.GetFor(e.ctx, mia, kid); return err },
			"credential": func(_, c, _ string) error { _, err := e.keys.CredentialFor(e.ctx, mia, c); return err },
			"rotation":   func(_, _, r string) error { _, err := e.rotations.GetFor(e.ctx, mia, r); return err },
			"evidence":   func(_, _, r string) error { _, err := e.rotations.Evidence(e.ctx, mia, r); return err },
			"revoke":     func(kid, _, _ string) error { _, err := e.keys.Revoke(e.ctx, mia, kid, "leak"); return err },
			"suspend":    func(kid, _, _ string) error { _, err := e.keys.Suspend(e.ctx, mia, kid, "r"); return err },
			"resume":     func(kid, _, _ string) error { _, err := e.keys.Resume(e.ctx, mia, kid, "r"); return err },
			"start": func(_, c, _ string) error {
				_, err := e.rotations.Start(e.ctx, mia, c, console.NewRotation{Reason: "r"})
				return err
			},
			"extend": func(_, _, r string) error { _, err := e.rotations.Extend(e.ctx, mia, r, time.Hour, "r"); return err },
			"end":    func(_, _, r string) error { _, err := e.rotations.End(e.ctx, mia, r, "r"); return err },
			"cancel": func(_, _, r string) error { _, err := e.rotations.Cancel(e.ctx, mia, r, "r"); return err },
			"stop":   func(_, _, r string) error { _, err := e.rotations.StopBrownout(e.ctx, mia, r); return err },
		}
		for name, call := range calls {
			foreign := errorWith(t, call(out.KeyVersion.KID, out.Credential.ID, started.Rotation.ID), console.CodeNotFound)
			unknown := errorWith(t, call("0123456789AB", "crd_aaaaaaaaaaaaaaaa", "rot_aaaaaaaaaaaaaaaa"), console.CodeNotFound)
			if foreign.Public != unknown.Public || len(foreign.Fields) != 0 {
				t.Errorf("%s: foreign %q, unknown %q", name, foreign.Public, unknown.Public)
			}
		}
		_, err := e.keys.IssueCredential(e.ctx, mia, theirs.ID, console.NewCredential{Name: "x", Environment: "live"})
		wantCode(t, err, console.CodeNotFound)
	}
	if r, _ := e.rotations.Get(e.ctx, started.Rotation.ID); !r.Open() || r.Extensions != 0 {
		t.Fatalf("rotation %+v", r)
	}
}

func TestMembers_ViewersChangeNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	vic := memberOf(out.Credential.TenantID, console.RoleTenantViewer)
	if _, err := e.keys.GetFor(e.ctx, vic, out.KeyVersion.KID); err != nil {
		t.Fatal(err)
	}
	_, err := e.keys.Revoke(e.ctx, vic, out.KeyVersion.KID, "leak")
	wantCode(t, err, console.CodeForbidden)
	_, err = e.rotations.Start(e.ctx, vic, out.Credential.ID, console.NewRotation{Reason: "r"})
	wantCode(t, err, console.CodeForbidden)
	_, err = e.keys.IssueCredential(e.ctx, vic, vic.TenantID, console.NewCredential{Name: "x", Environment: "live"})
	wantCode(t, err, console.CodeForbidden)
}

// TestMembers_B5_ACapOfCredentialsHoldsUnderMany: of fifty at once, as many are
// issued as the cap has room for.
func TestMembers_B5_ACapOfCredentialsHoldsUnderMany(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	mia := memberOf(e.tenant(t, "A").ID, console.RoleTenantAdmin)
	const most = 3
	results := make(chan error, 50)
	for range cap(results) {
		go func() {
			_, err := e.keys.IssueCredential(e.ctx, mia, mia.TenantID, console.NewCredential{Name: "n", Environment: "test", MaxCredentials: most})
			results <- err
		}()
	}
	good := 0
	for range cap(results) {
		switch err := <-results; console.CodeOf(err) {
		case "":
			good++
		case console.CodeConflict, console.CodeUnavailable: // no room, or too many waited for the lock
		default:
			t.Error(err)
		}
	}
	if good != most {
		t.Errorf("%d were issued, %d are allowed", good, most)
	}
}
