package console_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// An actor without a tenant, and one whose role is an operator's, read nothing.
func TestPortal_A05_ReadsNeedATenantAndARoleOfOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewPortal(e.deps, e.store)
	operator := owner
	operator.TenantID = ten.ID
	for name, c := range map[string]struct {
		actor console.Actor
		want  console.Code
	}{
		"operator":               {owner, console.CodeNotFound},
		"operator with a tenant": {operator, console.CodeForbidden},
		"unknown tenant":         {console.Actor{Role: console.RoleTenantViewer, TenantID: "ten_zzzzzzzzzzzzzzzz"}, console.CodeNotFound},
		"system":                 {console.SystemActor(), console.CodeNotFound},
		"viewer":                 {console.Actor{Role: console.RoleTenantViewer, TenantID: ten.ID}, ""},
	} {
		_, err := s.Tenant(e.ctx, c.actor)
		if got := console.CodeOf(err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestPortal_A05_MembersActOnTheirOwnThingsAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "A"), e.tenant(t, "B")
	s := console.NewPortal(e.deps, e.store)
	admin, viewer := actorOf(e.joined(t, a.ID, "a@a.example", console.RoleTenantAdmin)), actorOf(e.joined(t, a.ID, "v@a.example", console.RoleTenantViewer))
	mine, theirs := e.issue(t, a.ID), e.issue(t, b.ID)
	rot := e.rotate(t, theirs.Credential.ID, dayLong)
	kid := theirs.KeyVersion.KID
	for name, err := range map[string]error{
		"key":        second(s.Key(e.ctx, admin, kid)),
		"rotation":   second(s.Rotation(e.ctx, admin, rot.Rotation.ID)),
		"no id":      second(s.Rotation(e.ctx, admin, "")),
		"rotate":     second(s.StartRotation(e.ctx, admin, theirs.Credential.ID, console.NewRotation{Reason: "r"})),
		"extend":     second(s.ExtendRotation(e.ctx, admin, rot.Rotation.ID, time.Hour, "r")),
		"end":        second(s.EndRotation(e.ctx, admin, rot.Rotation.ID, "r")),
		"cancel":     second(s.CancelRotation(e.ctx, admin, rot.Rotation.ID, "r")),
		"revoke":     second(s.RevokeKey(e.ctx, admin, kid, "leak", theirs.Credential.Name)),
		"threshold":  s.RemoveThreshold(e.ctx, admin, "thr_zzzzzzzzzzzzzzzz"),
		"credential": third(s.Credential(e.ctx, admin, theirs.Credential.ID)),
		// The services themselves refuse as well.
		"keys.Revoke":     second(e.keys.Revoke(e.ctx, admin, kid, "leak")),
		"keys.Issue":      second(e.keys.IssueCredential(e.ctx, admin, b.ID, console.NewCredential{Name: "n", Environment: "live"})),
		"rotations.Start": second(e.rotations.Start(e.ctx, admin, theirs.Credential.ID, console.NewRotation{Reason: "r"})),
		"rotations.End":   second(e.rotations.End(e.ctx, admin, rot.Rotation.ID, "r")),
	} {
		if !console.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"issue":     second(s.IssueCredential(e.ctx, viewer, console.NewCredential{Name: "n", Environment: "live"})),
		"rotate":    second(s.StartRotation(e.ctx, viewer, mine.Credential.ID, console.NewRotation{Reason: "r"})),
		"revoke":    second(s.RevokeKey(e.ctx, viewer, mine.KeyVersion.KID, "leak", mine.Credential.Name)),
		"threshold": s.AddThreshold(e.ctx, viewer, console.ThresholdRefused, 5),
		"remove":    s.RemoveThreshold(e.ctx, viewer, "thr_zzzzzzzzzzzzzzzz"),
	} {
		wantCodeNamed(t, name, err, console.CodeForbidden)
	}
	k, err := s.Key(e.ctx, viewer, mine.KeyVersion.KID)
	if err != nil || k.Key.Digest != "" || k.Credential.ID != mine.Credential.ID {
		t.Errorf("%+v %v", k.Key, err)
	}
}

func second[T any](_ T, err error) error      { return err }
func third[T, U any](_ T, _ U, e error) error { return e }

func wantCodeNamed(t *testing.T, name string, err error, want console.Code) {
	t.Helper()
	if got := console.CodeOf(err); got != want {
		t.Errorf("%s: %q (%v), want %q", name, got, err, want)
	}
}

func TestPortal_RulesBoundKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewPortal(e.deps, e.store)
	admin := actorOf(e.joined(t, ten.ID, "a@a.example", console.RoleTenantAdmin))
	own := e.issue(t, ten.ID)
	set := func(r console.PortalRules) {
		t.Helper()
		if err := console.NewMembers(e.deps).SetRules(e.ctx, owner, "", &r); err != nil {
			t.Fatal(err)
		}
	}
	r := console.DefaultPortalRules()
	r.Credentials, r.MaxOverlap = 1, time.Hour
	set(r)
	wantCode(t, second(s.IssueCredential(e.ctx, admin, console.NewCredential{Name: "n", Environment: "live"})), console.CodeConflict)
	wantCode(t, second(s.StartRotation(e.ctx, admin, own.Credential.ID, console.NewRotation{Overlap: 2 * time.Hour, Reason: "r"})), console.CodeInvalid)
	rot, err := s.StartRotation(e.ctx, admin, own.Credential.ID, console.NewRotation{Overlap: 30 * time.Minute, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, second(s.ExtendRotation(e.ctx, admin, rot.Rotation.ID, time.Hour, "r")), console.CodeInvalid)
	if _, err := s.ExtendRotation(e.ctx, admin, rot.Rotation.ID, 10*time.Minute, "r"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, second(s.ExtendRotation(e.ctx, admin, rot.Rotation.ID, 10*time.Minute, "r")), console.CodeConflict) // once
	r.MayCreate, r.MayRotate, r.MayRevoke, r.Credentials = false, false, false, 10
	set(r)
	for name, err := range map[string]error{
		"create": second(s.IssueCredential(e.ctx, admin, console.NewCredential{Name: "n", Environment: "live"})),
		"rotate": second(s.StartRotation(e.ctx, admin, own.Credential.ID, console.NewRotation{Reason: "r"})),
		"end":    second(s.EndRotation(e.ctx, admin, rot.Rotation.ID, "r")),
		"cancel": second(s.CancelRotation(e.ctx, admin, rot.Rotation.ID, "r")),
		"extend": second(s.ExtendRotation(e.ctx, admin, rot.Rotation.ID, time.Minute, "r")),
		"revoke": second(s.RevokeKey(e.ctx, admin, own.KeyVersion.KID, "leak", own.Credential.Name)),
	} {
		wantCodeNamed(t, name, err, console.CodeForbidden)
	}
}

func TestPortal_ThresholdsAreBoundedAndEachOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewPortal(e.deps, e.store)
	admin := actorOf(e.joined(t, ten.ID, "a@a.example", console.RoleTenantAdmin))
	for _, c := range []struct {
		kind  console.ThresholdKind
		value int64
	}{{"nonsense", 5}, {console.ThresholdRefused, 0}, {console.ThresholdRefused, 101}, {console.ThresholdQuota, -1}, {console.ThresholdRequests, 2_000_000_000}} {
		wantCodeNamed(t, string(c.kind), s.AddThreshold(e.ctx, admin, c.kind, c.value), console.CodeInvalid)
	}
	for i := range int64(20) {
		if err := s.AddThreshold(e.ctx, admin, console.ThresholdRequests, i+1); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, s.AddThreshold(e.ctx, admin, console.ThresholdRequests, 500), console.CodeConflict)
	list, err := s.Thresholds(e.ctx, admin)
	if err != nil || len(list) != 20 {
		t.Fatalf("%d %v", len(list), err)
	}
	if err := s.RemoveThreshold(e.ctx, admin, list[0].ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.RemoveThreshold(e.ctx, admin, list[0].ID), console.CodeNotFound)
	wantCode(t, s.AddThreshold(e.ctx, admin, console.ThresholdRequests, list[1].Value), console.CodeConflict) // there already
}

func TestPortal_B5_RulesHoldAlsoWhenAllIsAskedForAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s, members := console.NewPortal(e.deps, e.store), console.NewMembers(e.deps)
	admin := actorOf(e.joined(t, ten.ID, "a@a.example", console.RoleTenantAdmin))
	r := console.DefaultPortalRules()
	r.Credentials, r.Members = 2, 3
	if err := members.SetRules(e.ctx, owner, "", &r); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_ = s.AddThreshold(e.ctx, admin, console.ThresholdRequests, int64(i+1))
			_, _ = s.IssueCredential(e.ctx, admin, console.NewCredential{Name: "n", Environment: "live"})
			_, _ = members.Invite(e.ctx, admin, ten.ID, console.NewInvitation{Email: fmt.Sprintf("x%d@a.example", i), Role: console.RoleTenantAdmin})
		})
	}
	wg.Wait()
	marks, err1 := s.Thresholds(e.ctx, admin)
	keys, err2 := s.Keys(e.ctx, admin)
	people, err3 := s.People(e.ctx, admin)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if len(marks) != 20 || keys.Live() != 2 || len(people.Members)+len(people.Invitations) != 3 {
		t.Errorf("%d marks, %d keys, %d members and %d invitations", len(marks), keys.Live(), len(people.Members), len(people.Invitations))
	}
}

func TestMemberSessions_A03_IdleAbsoluteAndOfAPersonWhoChangedMeanwhile(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewMemberSessions(e.deps)
	m := e.joined(t, ten.ID, "a@a.example", console.RoleTenantViewer)
	id, _, err := s.Create(e.ctx, m, "192.0.2.7", "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save(e.ctx, id, []byte(`{"flash":"x"}`)); err != nil {
		t.Fatal(err)
	}
	e.clock.add(29 * time.Minute)
	if row, who, err := s.Touch(e.ctx, id); err != nil || who.ID != m.ID || string(row.Data) != `{"flash":"x"}` {
		t.Fatalf("%+v %v", row, err)
	}
	e.clock.add(29 * time.Minute)
	if _, _, err := s.Peek(e.ctx, id); err != nil {
		t.Fatal(err)
	}
	e.clock.add(2 * time.Minute) // looking kept nothing alive
	wantCode(t, third(s.Touch(e.ctx, id)), console.CodeUnauthenticated)
	wantCode(t, third(s.Touch(e.ctx, "short")), console.CodeUnauthenticated)

	// Who signs in as they were before a change gets no session.
	if err := console.NewMembers(e.deps).SetRole(e.ctx, owner, ten.ID, m.ID, console.RoleTenantAdmin); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Create(e.ctx, m, "", "", nil)
	wantCode(t, err, console.CodeUnauthenticated)
	m.Role = console.RoleTenantAdmin
	if id, _, err = s.Create(e.ctx, m, "", "", nil); err != nil {
		t.Fatal(err)
	}
	e.clock.add(31 * time.Minute)
	if err := e.jobs.Sweep(e.ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(e.ctx, id, []byte("{}")); err != nil { // it never makes one
		t.Fatal(err)
	}
	e.clock.add(-31 * time.Minute)
	wantCode(t, third(s.Peek(e.ctx, id)), console.CodeUnauthenticated)
}
