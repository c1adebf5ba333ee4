package console_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestRoles_TableIsWhatTheDocumentationSays(t *testing.T) {
	t.Parallel()
	const v, s, a, o = console.PermView, console.PermViewAsTenant, console.PermViewAudit, console.PermOwnSessions
	want := map[console.Role][]console.Permission{
		console.RoleViewer:    {v, s, a, o},
		console.RoleEditor:    {v, s, a, o, console.PermEditDrafts},
		console.RolePublisher: {v, s, a, o, console.PermEditDrafts, console.PermPublish, console.PermApprove, console.PermManageAlerts, console.PermSilenceAlerts},
		console.RoleSupport:   {v, s, a, o, console.PermBoost, console.PermUnlock, console.PermSeeSubjects, console.PermSilenceAlerts},
		console.RoleAuditor:   {v, s, a, o, console.PermExport, console.PermSeeSubjects},
		console.RoleKeyAdmin:  {v, s, a, o, console.PermManageTenants, console.PermManageKeys, console.PermBoost, console.PermUnlock, console.PermSeeSubjects, console.PermExport, console.PermManageAlerts, console.PermSilenceAlerts},
		console.RoleOwner:     console.Permissions(),
		"":                    nil,
		"root":                nil,
	}
	for role, allowed := range want {
		for _, p := range console.Permissions() {
			may := false
			for _, q := range allowed {
				may = may || p == q
			}
			if role.Can(p) != may {
				t.Errorf("%q may %s: %v", role, p, !may)
			}
		}
	}
	if console.Role("root").Valid() || !console.RoleKeyAdmin.Valid() {
		t.Error("Valid is wrong")
	}
}

// refuse makes calls as each role that lacks the permission; each must be
// forbidden and none may leave an event. Services check the role themselves, so
// that no door can forget it.
func (e *env) refuse(t *testing.T, perm console.Permission, calls ...func(console.Actor) error) {
	t.Helper()
	before := len(e.events(t))
	for _, role := range append(console.Roles(), "", "root") {
		if role.Can(perm) {
			continue
		}
		for i, call := range calls {
			if err := call(as(role)); console.CodeOf(err) != console.CodeForbidden {
				t.Errorf("%s, call %d as %q: %v", perm, i, role, err)
			}
		}
	}
	if after := len(e.events(t)); after != before {
		t.Fatalf("%d events were written by refused calls", after-before)
	}
}

func TestRoles_TenantsAndKeysAreForWhoMayManageThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	r := e.rotate(t, out.Credential.ID, dayLong)
	ctx, kid, rid := e.ctx, out.KeyVersion.KID, r.Rotation.ID
	e.refuse(t, console.PermManageTenants,
		func(a console.Actor) error {
			_, err := e.tenants.Create(ctx, a, console.NewTenant{Name: "n", Plan: "free"})
			return err
		},
		func(a console.Actor) error {
			_, err := e.tenants.Update(ctx, a, ten.ID, console.TenantPatch{})
			return err
		},
		func(a console.Actor) error { _, err := e.tenants.Suspend(ctx, a, ten.ID, "r"); return err },
		func(a console.Actor) error { _, err := e.tenants.Resume(ctx, a, ten.ID, "r"); return err },
		func(a console.Actor) error { _, err := e.tenants.Delete(ctx, a, ten.ID, "r"); return err },
	)
	e.refuse(t, console.PermManageKeys,
		func(a console.Actor) error {
			_, err := e.keys.IssueCredential(ctx, a, ten.ID, console.NewCredential{Name: "n", Environment: "live"})
			return err
		},
		func(a console.Actor) error { _, err := e.keys.Revoke(ctx, a, kid, "leak"); return err },
		func(a console.Actor) error { _, err := e.keys.Suspend(ctx, a, kid, "r"); return err },
		func(a console.Actor) error { _, err := e.keys.Resume(ctx, a, kid, "r"); return err },
		func(a console.Actor) error {
			_, err := e.rotations.Start(ctx, a, out.Credential.ID, console.NewRotation{Reason: "r"})
			return err
		},
		func(a console.Actor) error { _, err := e.rotations.Extend(ctx, a, rid, time.Hour, "r"); return err },
		func(a console.Actor) error { _, err := e.rotations.End(ctx, a, rid, "r"); return err },
		func(a console.Actor) error { _, err := e.rotations.Cancel(ctx, a, rid, "r"); return err },
	)
}

func TestRoles_PoliciesAndOperatorsAreForWhoMayManageThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := e.operator(t, "x@example.com", console.RoleViewer)
	ctx := e.ctx
	e.refuse(t, console.PermEditDrafts,
		func(a console.Actor) error { _, err := e.policies.CreateDraft(ctx, a, "n", nil); return err },
		func(a console.Actor) error {
			_, err := e.policies.SaveDraft(ctx, a, d.ID, d.ETag, document("20"))
			return err
		},
		func(a console.Actor) error { _, err := e.policies.RebaseDraft(ctx, a, d.ID, d.ETag); return err },
		func(a console.Actor) error { return e.policies.DeleteDraft(ctx, a, d.ID, d.ETag) },
	)
	e.refuse(t, console.PermPublish,
		func(a console.Actor) error {
			_, err := e.policies.Publish(ctx, a, document("20"), nil, 1, console.PublishOptions{})
			return err
		},
		func(a console.Actor) error {
			_, err := e.policies.PublishDraft(ctx, a, d.ID, d.ETag, console.PublishOptions{})
			return err
		},
		func(a console.Actor) error {
			_, err := e.policies.Rollback(ctx, a, 1, console.PublishOptions{})
			return err
		},
	)
	e.refuse(t, console.PermManageOperators,
		func(a console.Actor) error {
			_, err := e.operators.Create(ctx, a, console.NewOperator{Email: "n@example.com", Name: "n", Role: console.RoleViewer})
			return err
		},
		func(a console.Actor) error { return e.operators.SetRole(ctx, a, o.ID, console.RoleOwner) },
		func(a console.Actor) error { return e.operators.Disable(ctx, a, o.ID) },
		func(a console.Actor) error { return e.operators.SetPassword(ctx, a, o.ID, password) },
		func(a console.Actor) error { _, _, err := e.operators.IssueToken(ctx, a, o.ID, "n", nil); return err },
	)
}

func TestDeps_CheckListsEveryProblem(t *testing.T) {
	t.Parallel()
	err := console.Deps{Deployment: "Not OK"}.Check()
	want := "console: no store; no feed; no Ed25519 signing key; the deployment's name must match [a-z0-9-]{1,40}"
	if err == nil || err.Error() != want {
		t.Fatalf("error %v", err)
	}
}
