package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

const memberPassword = "a long enough password"

// joined makes a member by an invitation.
func (e *env) joined(t *testing.T, tenantID, email string, role console.Role) console.Member {
	t.Helper()
	s := console.NewMembers(e.deps)
	i, err := s.Invite(e.ctx, owner, tenantID, console.NewInvitation{Email: email, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Accept(e.ctx, i.Secret, "Kim", memberPassword, "192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func actorOf(m console.Member) console.Actor { return m.Actor("192.0.2.7", "req-1") }

func TestMembers_InvitationsAreForWhoMayAndForValidPeople(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten, other := e.tenant(t, "A"), e.tenant(t, "B")
	s := console.NewMembers(e.deps)
	admin := e.joined(t, ten.ID, "admin@a.example", console.RoleTenantAdmin)
	viewer := e.joined(t, ten.ID, "viewer@a.example", console.RoleTenantViewer)
	in := console.NewInvitation{Email: "new@a.example", Role: console.RoleTenantViewer}
	for name, c := range map[string]struct {
		actor  console.Actor
		tenant string
		in     console.NewInvitation
		want   console.Code
	}{
		"operator who only looks":  {as(console.RoleViewer), ten.ID, in, console.CodeForbidden},
		"support":                  {as(console.RoleSupport), ten.ID, in, console.CodeForbidden},
		"viewer of the tenant":     {actorOf(viewer), ten.ID, in, console.CodeForbidden},
		"admin of another tenant":  {actorOf(admin), other.ID, in, console.CodeNotFound},
		"no such tenant":           {owner, "ten_zzzzzzzzzzzzzzzz", in, console.CodeNotFound},
		"no address":               {owner, ten.ID, console.NewInvitation{Role: console.RoleTenantViewer}, console.CodeInvalid},
		"an operator's role":       {owner, ten.ID, console.NewInvitation{Email: "x@a.example", Role: console.RoleOwner}, console.CodeInvalid},
		"a member already":         {owner, ten.ID, console.NewInvitation{Email: "ADMIN@a.example", Role: console.RoleTenantViewer}, console.CodeInvalid},
		"admin of the tenant":      {actorOf(admin), ten.ID, in, ""},
		"operator for another one": {owner, other.ID, console.NewInvitation{Email: "admin@a.example", Role: console.RoleTenantAdmin}, ""},
	} {
		_, err := s.Invite(e.ctx, c.actor, c.tenant, c.in)
		if got := console.CodeOf(err); got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func TestMembers_PlacesAreBoundedForTenantsAndNotForOperators(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewMembers(e.deps)
	rules := console.DefaultPortalRules()
	rules.Members = 2
	if err := s.SetRules(e.ctx, owner, "plan:"+ten.Plan, &rules); err != nil {
		t.Fatal(err)
	}
	admin := actorOf(e.joined(t, ten.ID, "admin@a.example", console.RoleTenantAdmin))
	one := console.NewInvitation{Email: "one@a.example", Role: console.RoleTenantViewer}
	if _, err := s.Invite(e.ctx, admin, ten.ID, one); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Invite(e.ctx, admin, ten.ID, one); err != nil {
		t.Errorf("the same address again: %v", err)
	}
	two := console.NewInvitation{Email: "two@a.example", Role: console.RoleTenantViewer}
	_, err := s.Invite(e.ctx, admin, ten.ID, two)
	wantCode(t, err, console.CodeConflict)
	if _, err := s.Invite(e.ctx, owner, ten.ID, two); err != nil {
		t.Error(err)
	}
}

func TestMembers_SamePersonInTwoTenantsIsLetInWhereThePasswordFits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "A"), e.tenant(t, "B")
	s := console.NewMembers(e.deps)
	e.joined(t, a.ID, "kim@x.example", console.RoleTenantAdmin)
	i, err := s.Invite(e.ctx, owner, b.ID, console.NewInvitation{Email: "kim@x.example", Role: console.RoleTenantViewer})
	if err != nil {
		t.Fatal(err)
	}
	const second = "another good password"
	if _, err := s.Accept(e.ctx, i.Secret, "Kim", second, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ hint, password, want string }{{"", memberPassword, a.ID}, {"", second, b.ID}, {a.ID, memberPassword, a.ID}, {a.ID, second, ""}, {"ten_nonsense", second, ""}} {
		m, err := s.SignIn(e.ctx, c.hint, " Kim@X.example ", c.password, "192.0.2.7")
		if m.TenantID != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %s %v", c, m.TenantID, err)
		}
	}
}

func TestMembers_SignInRefusesTheSameWayWhateverIsWrong(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewMembers(e.deps)
	m := e.joined(t, ten.ID, "kim@a.example", console.RoleTenantViewer)
	if _, err := s.IssueLink(e.ctx, owner, ten.ID, console.NewSignInLink{Email: "link@a.example", Role: console.RoleTenantViewer}); err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, c := range [][2]string{{"kim@a.example", "wrong"}, {"nobody@a.example", memberPassword}, {"link@a.example", ""}, {"link@a.example", "x"}, {"", memberPassword}, {"kim@a.example", strings.Repeat("x", 201)}, {"kim\xff@a.example", "x"}} {
		_, err := s.SignIn(e.ctx, "", c[0], c[1], "192.0.2.7")
		wantCode(t, err, console.CodeUnauthenticated)
		texts[err.Error()] = true
	}
	if len(texts) != 1 {
		t.Errorf("different texts: %v", texts)
	}
	if err := s.Remove(e.ctx, owner, ten.ID, m.ID); err != nil {
		t.Fatal(err)
	}
	_, err := s.SignIn(e.ctx, "", "kim@a.example", memberPassword, "192.0.2.7")
	wantCode(t, err, console.CodeUnauthenticated)
	if again := e.joined(t, ten.ID, "kim@a.example", console.RoleTenantViewer); again.ID == m.ID {
		t.Error("who was removed came back as the same member")
	}
}

func TestMembers_RolesChangeWithinTheTenantAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "A"), e.tenant(t, "B")
	s := console.NewMembers(e.deps)
	one, two := e.joined(t, a.ID, "one@a.example", console.RoleTenantAdmin), e.joined(t, a.ID, "two@a.example", console.RoleTenantViewer)
	foreign := e.joined(t, b.ID, "x@b.example", console.RoleTenantAdmin)
	wantCode(t, s.SetRole(e.ctx, actorOf(foreign), a.ID, two.ID, console.RoleTenantAdmin), console.CodeNotFound)
	wantCode(t, s.SetRole(e.ctx, actorOf(one), a.ID, foreign.ID, console.RoleTenantViewer), console.CodeNotFound)
	wantCode(t, s.SetRole(e.ctx, actorOf(one), b.ID, foreign.ID, console.RoleTenantViewer), console.CodeNotFound)
	wantCode(t, s.SetRole(e.ctx, actorOf(two), a.ID, two.ID, console.RoleTenantAdmin), console.CodeForbidden)
	wantCode(t, s.SetRole(e.ctx, actorOf(one), a.ID, two.ID, console.RoleOwner), console.CodeInvalid)
	wantCode(t, s.SetRole(e.ctx, actorOf(one), a.ID, one.ID, console.RoleTenantViewer), console.CodeConflict) // the last admin
	wantCode(t, s.Remove(e.ctx, owner, a.ID, one.ID), console.CodeConflict)
	if err := s.SetRole(e.ctx, actorOf(one), a.ID, two.ID, console.RoleTenantAdmin); err != nil {
		t.Fatal(err)
	}
	two.Role = console.RoleTenantAdmin
	if err := s.Remove(e.ctx, actorOf(two), a.ID, one.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Remove(e.ctx, actorOf(two), a.ID, one.ID), console.CodeNotFound)
	_, _, err := s.List(e.ctx, actorOf(foreign), a.ID)
	wantCode(t, err, console.CodeNotFound)
	list, _, err := s.List(e.ctx, actorOf(two), a.ID)
	if err != nil || len(list) != 1 || list[0].ID != two.ID {
		t.Errorf("%+v %v", list, err)
	}
}

func TestMembers_LinksSayWhatIsWrongAndNeedAnActiveTenant(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewMembers(e.deps)
	for name, in := range map[string]console.NewSignInLink{
		"email": {Role: console.RoleTenantViewer}, "role": {ExternalUser: "u", Role: console.RoleViewer},
		"ttl": {ExternalUser: "u", Role: console.RoleTenantViewer, For: time.Second}, "external_user": {ExternalUser: strings.Repeat("u", 121), Role: console.RoleTenantViewer},
		"name": {ExternalUser: "u", Name: "a\x00b", Role: console.RoleTenantViewer},
	} {
		_, err := s.IssueLink(e.ctx, owner, ten.ID, in)
		if got := errorWith(t, err, console.CodeInvalid); len(got.Fields) != 1 || got.Fields[0].Field != name {
			t.Errorf("%s: %+v", name, got.Fields)
		}
	}
	good := console.NewSignInLink{ExternalUser: "u-1", Name: "Kim", Role: console.RoleTenantViewer}
	l, err := s.IssueLink(e.ctx, owner, ten.ID, good)
	if err != nil || !l.ExpiresAt.Equal(e.clock.now().Add(5*time.Minute)) {
		t.Fatalf("%+v %v", l, err)
	}
	if m, err := s.UseLink(e.ctx, l.Secret, "192.0.2.7"); err != nil || m.ID != l.Member.ID || m.Label() != "Kim" {
		t.Fatalf("%+v %v", m, err)
	}
	_, err = s.UseLink(e.ctx, l.Secret, "192.0.2.7")
	wantCode(t, err, console.CodeNotFound)
	if l, err = s.IssueLink(e.ctx, owner, ten.ID, good); err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Suspend(e.ctx, owner, ten.ID, "unpaid"); err != nil {
		t.Fatal(err)
	}
	_, err = s.UseLink(e.ctx, l.Secret, "192.0.2.7") // it ended with the suspension
	wantCode(t, err, console.CodeNotFound)
	_, err = s.IssueLink(e.ctx, owner, ten.ID, good)
	wantCode(t, err, console.CodeConflict)
	for _, secret := range []string{"", "short", strings.Repeat("A", 26), l.Secret + "A"} {
		_, err = s.UseLink(e.ctx, secret, "")
		wantCode(t, err, console.CodeNotFound)
	}
}

func TestMembers_AuditTellsEachStepAndNoSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewMembers(e.deps)
	m := e.joined(t, ten.ID, "kim@a.example", console.RoleTenantAdmin)
	if _, err := s.SignIn(e.ctx, "", "kim@a.example", memberPassword, "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	l, err := s.IssueLink(e.ctx, owner, ten.ID, console.NewSignInLink{ExternalUser: "u", Role: console.RoleTenantViewer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.UseLink(e.ctx, l.Secret, "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetRole(e.ctx, actorOf(m), ten.ID, l.Member.ID, console.RoleTenantAdmin); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(e.ctx, actorOf(m), ten.ID, l.Member.ID); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, ev := range e.events(t) {
		got[ev.Action]++
		if strings.Contains(string(ev.Before)+string(ev.After), "argon2id") || strings.Contains(string(ev.After), l.Secret) {
			t.Errorf("%s tells a secret: %s", ev.Action, ev.After)
		}
		if strings.HasPrefix(ev.Action, "member.") && ev.TenantID != ten.ID {
			t.Errorf("%s is told of tenant %q", ev.Action, ev.TenantID)
		}
	}
	for action, n := range map[string]int{"member.invite": 1, "member.join": 2, "member.sign-in": 2, "member.link": 1, "member.set-role": 1, "member.remove": 1} {
		if got[action] != n {
			t.Errorf("%s is told %d times, want %d", action, got[action], n)
		}
	}
}

func TestPortalRules_TheNarrowestHoldAndNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	s := console.NewMembers(e.deps)
	want := func(credentials int) {
		t.Helper()
		if r, err := s.RulesFor(e.ctx, ten.ID); err != nil || r.Credentials != credentials {
			t.Errorf("%d keys (%v), want %d", r.Credentials, err, credentials)
		}
	}
	set := func(scope string, n int) {
		t.Helper()
		r := console.DefaultPortalRules()
		r.Credentials = n
		if err := s.SetRules(e.ctx, owner, scope, &r); err != nil {
			t.Fatal(err)
		}
	}
	want(20)
	set("", 5)
	want(5)
	set(ten.ID, 7)
	want(7)
	set("plan:"+ten.Plan, 6)
	want(7)
	for _, scope := range []string{ten.ID, "plan:" + ten.Plan} {
		if err := s.SetRules(e.ctx, owner, scope, nil); err != nil {
			t.Fatal(err)
		}
	}
	want(5)
	bad := console.PortalRules{Credentials: -1, Members: 0, MaxOverlap: 91 * 24 * time.Hour, AskFactor: 1000, AskDays: 31, AskMonthly: 101}
	if got := errorWith(t, s.SetRules(e.ctx, owner, "", &bad), console.CodeInvalid); len(got.Fields) != 6 {
		t.Errorf("%+v", got.Fields)
	}
	good := console.DefaultPortalRules()
	for _, scope := range []string{"plan:", "plan:No", "free", "tenant"} {
		wantCode(t, s.SetRules(e.ctx, owner, scope, &good), console.CodeInvalid)
	}
	wantCode(t, s.SetRules(e.ctx, owner, "ten_zzzzzzzzzzzzzzzz", &good), console.CodeNotFound)
	wantCode(t, s.SetRules(e.ctx, as(console.RoleSupport), "", &good), console.CodeForbidden)
}
