package console_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/console"
)

// Whoever runs a tenant can make themselves a member of it under anybody's
// address. That their own password is right there must give them no guesses at
// the other account of the address, and must not lock its owner out.
func TestMembers_A03_AnAccountOfTheSameAddressElsewhereBuysNoGuesses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "A"), e.tenant(t, "B")
	s := console.NewMembers(e.deps)
	e.joined(t, a.ID, "kim@x.example", console.RoleTenantAdmin)
	i, err := s.Invite(e.ctx, owner, b.ID, console.NewInvitation{Email: "kim@x.example", Role: console.RoleTenantViewer})
	if err != nil {
		t.Fatal(err)
	}
	const theirs = "a password of the attacker"
	if _, err := s.Accept(e.ctx, i.Secret, "Not Kim", theirs, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignIn(e.ctx, a.ID, "kim@x.example", memberPassword, "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	guesses := 0
	for n := range 6 {
		ip := fmt.Sprintf("198.51.%d.7", n)
		_, _ = s.SignIn(e.ctx, "", "kim@x.example", theirs, ip)
		for try := range 30 {
			_, err := s.SignIn(e.ctx, []string{"", a.ID}[try%2], "kim@x.example", fmt.Sprint("guess ", n, try), ip)
			if console.CodeOf(err) == console.CodeUnauthenticated && try%2 == 1 {
				guesses++
			}
		}
	}
	if guesses > 10 {
		t.Errorf("%d guesses at the account at once", guesses)
	}
	for _, hint := range []string{"", a.ID} {
		if m, err := s.SignIn(e.ctx, hint, "kim@x.example", memberPassword, "192.0.2.7"); err != nil || m.TenantID != a.ID {
			t.Errorf("Kim is kept out: %v", err)
		}
	}
}

// A customer's system makes links for all of its people; who is one already is
// found however many there are.
func TestMembers_ALinkFindsItsMemberAmongMoreThanAListShows(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	e.sql(t, `INSERT INTO members (id, tenant_id, external_user, role, created_at, joined_at)
		SELECT 'mem_' || translate(lpad(i::text, 16, 'a'), '0189', 'zyxw'), '`+ten.ID+`', 'u' || i, 'tenant-viewer', now(), now() FROM generate_series(1, 1100) i`)
	s := console.NewMembers(e.deps)
	for _, who := range []string{"u1", "u999", "u1100"} {
		if l, err := s.IssueLink(e.ctx, owner, ten.ID, console.NewSignInLink{ExternalUser: who, Role: console.RoleTenantAdmin}); err != nil || l.Member.ExternalUser != who || l.Member.Role != console.RoleTenantViewer {
			t.Errorf("%s: %+v %v", who, l.Member, err)
		}
	}
}
