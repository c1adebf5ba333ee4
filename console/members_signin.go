package console

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
)

// SignIn checks a member's password. tenantID may name the tenant, for those who
// are members of several; "" takes the one whose password it is. The answer for
// everybody else is the same and takes the same time, and wrong passwords are
// counted as at the operators' door.
func (s *Members) SignIn(ctx context.Context, tenantID, email, password, ip string) (Member, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	wrong := &Error{Code: CodeUnauthenticated, Public: "The e-mail address or the password is wrong."}
	if email == "" || password == "" || len(email) > 254 || len(password) > maxPassword || !utf8.ValidString(email) {
		return Member{}, wrong
	}
	leave, err := s.hasher.enter(ctx)
	if err != nil {
		return Member{}, err
	}
	defer leave() // one at a time: a guess is counted before the next is looked at
	network := networkOf(ip)
	var known []MemberOf
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		known, err = tx.MembersByEmail(ctx, tenantID, email)
		return err
	})
	if err != nil {
		return Member{}, err
	}
	known, ids, wait := s.open(known, email, network)
	if wait > 0 {
		return Member{}, tooManyPasswords(wait)
	}
	m, err := matching(known, password)
	if err != nil {
		return Member{}, err
	}
	if m == nil {
		s.guard.failed(ctx, email, network, ids...)
		s.d.Log.InfoContext(ctx, "member's sign-in refused", "network", network)
		return Member{}, wrong
	}
	s.guard.succeeded(m.ID, network)
	if !m.TenantActive {
		return Member{}, &Error{Code: CodeForbidden, Public: "The access of your organisation is suspended. Ask your contact."}
	}
	return m.Member, s.recordSignIn(ctx, m.Member, ip, "password")
}

// open leaves those accounts out at which nothing may be tried now; when that is
// all of them, or nobody is known, wait says for how long.
func (s *Members) open(known []MemberOf, email, network string) (open []MemberOf, ids []string, wait time.Duration) {
	if len(known) == 0 {
		return nil, nil, s.guard.wait(email, network)
	}
	for _, m := range known {
		if w := s.guard.wait(email, network, m.ID); w > 0 {
			wait = max(wait, w)
			continue
		}
		open, ids = append(open, m), append(ids, m.ID)
	}
	if len(open) > 0 {
		wait = 0
	}
	return open, ids, wait
}

// matching is the one of the accounts whose password it is. Each is compared,
// and at least one hash is computed.
func matching(known []MemberOf, password string) (*MemberOf, error) {
	if len(known) == 0 {
		_, err := argon2id.ComparePasswordAndHash(password, dummyHash)
		return nil, err
	}
	var found *MemberOf
	for i := range known {
		match, err := argon2id.ComparePasswordAndHash(password, known[i].PasswordHash)
		if err != nil {
			return nil, err
		}
		if match && found == nil {
			found = &known[i]
		}
	}
	return found, nil
}

func (s *Members) recordSignIn(ctx context.Context, m Member, ip, by string) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error { return s.signedIn(ctx, tx, m, ip, by) })
}

func (s *Members) signedIn(ctx context.Context, tx Tx, m Member, ip, by string) error {
	return s.d.record(ctx, tx, m.Actor(ip, ""), s.d.now(), event{
		action: "member.sign-in", object: "member", objectID: m.ID, tenantID: m.TenantID, after: map[string]string{"by": by},
	})
}

// badLink is one answer for links that never were, are used or too old.
func badLink() error {
	return &Error{Code: CodeNotFound, Public: "This link does not work: it was used already, is too old or was taken back. Ask for another."}
}

// Invited tells who is invited to what; CodeNotFound for a secret that is not,
// or no longer, good for anything.
func (s *Members) Invited(ctx context.Context, secret string) (i Invitation, tenant string, err error) {
	if len(secret) != secretLength {
		return Invitation{}, "", badLink()
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if i, err = tx.Invitation(ctx, sessionHash(secret)); err != nil {
			return err
		}
		t, err := tx.Tenant(ctx, i.TenantID)
		tenant = t.Name
		return err
	})
	if IsNotFound(err) || err == nil && !i.Open(s.d.now()) {
		return Invitation{}, "", badLink()
	}
	return i, tenant, err
}

// Accept makes a member of who holds an invitation's secret, once.
func (s *Members) Accept(ctx context.Context, secret, name, password, ip string) (Member, error) {
	i, _, err := s.Invited(ctx, secret)
	if err != nil {
		return Member{}, err
	}
	var p problems
	m := Member{TenantID: i.TenantID, Email: i.Email, Name: p.name("name", name), Role: i.Role}
	if n := utf8.RuneCountInString(password); n < minMemberPassword || len(password) > maxPassword || !utf8.ValidString(password) {
		p.add("password", "Between %d characters and %d bytes.", minMemberPassword, maxPassword)
	}
	if err := p.err(); err != nil {
		return Member{}, err
	}
	if m.ID, err = s.d.newID("mem"); err != nil {
		return Member{}, err
	}
	if m.PasswordHash, err = s.hasher.hash(ctx, password); err != nil {
		return Member{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		m.CreatedAt, m.JoinedAt = now, &now
		if _, err := active(ctx, tx, i.TenantID); err != nil {
			return err
		}
		if ok, err := tx.UseInvitation(ctx, i.ID, now); err != nil || !ok {
			return firstError(err, badLink())
		}
		if err := tx.InsertMember(ctx, m); err != nil {
			return err
		}
		return s.d.record(ctx, tx, m.Actor(ip, ""), now, event{
			action: "member.join", object: "member", objectID: m.ID, tenantID: m.TenantID, after: viewMember(m),
		})
	})
	return m, err
}

// IssueLink makes a link that signs one person in once. The customer's own
// system asks for it, by the API, when somebody there who is known to it wants
// to see the tenant's pages.
func (s *Members) IssueLink(ctx context.Context, actor Actor, tenantID string, in NewSignInLink) (SignInLink, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return SignInLink{}, err
	}
	fresh, ttl, err := newLink(tenantID, in)
	if err != nil {
		return SignInLink{}, err
	}
	if fresh.ID, err = s.d.newID("mem"); err != nil {
		return SignInLink{}, err
	}
	out := SignInLink{Secret: rand.Text()}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		if _, err := lockLiveTenant(ctx, tx, tenantID); err != nil {
			return err
		}
		if _, err := active(ctx, tx, tenantID); err != nil {
			return conflict("The tenant is suspended; its members cannot sign in.")
		}
		if out.Member, err = s.linked(ctx, tx, actor, fresh, now); err != nil {
			return err
		}
		out.ExpiresAt = now.Add(ttl)
		if err := tx.InsertSignInLink(ctx, out.Member, sessionHash(out.Secret), actor.Name, now, out.ExpiresAt); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "member.link", object: "member", objectID: out.Member.ID, tenantID: tenantID, after: map[string]any{"expires_at": out.ExpiresAt},
		})
	})
	return out, err
}

func newLink(tenantID string, in NewSignInLink) (Member, time.Duration, error) {
	var p problems
	m := Member{TenantID: tenantID, ExternalUser: p.text("external_user", in.ExternalUser, maxName, false), Name: p.text("name", in.Name, maxName, false), Role: p.tenantRole(in.Role)}
	if in.Email != "" {
		m.Email = p.email(in.Email)
	}
	if m.Email == "" && m.ExternalUser == "" {
		p.add("email", "Name a member by e-mail address, or a person by external_user.")
	}
	ttl := in.For
	if ttl == 0 {
		ttl = 5 * time.Minute
	}
	if ttl < MinLinkFor || ttl > MaxLinkFor {
		p.add("ttl", "Between 60 seconds and 15 minutes.")
	}
	return m, ttl, p.err()
}

// linked finds the member that a link is for, or makes one. The tenant is locked.
func (s *Members) linked(ctx context.Context, tx Tx, actor Actor, fresh Member, now time.Time) (Member, error) {
	m, err := tx.MemberKnownAs(ctx, fresh.TenantID, fresh.ExternalUser, fresh.Email)
	if !IsNotFound(err) {
		return m, err
	}
	fresh.CreatedAt, fresh.JoinedAt = now, &now
	if err := tx.InsertMember(ctx, fresh); err != nil {
		return Member{}, err
	}
	return fresh, s.d.record(ctx, tx, actor, now, event{
		action: "member.join", object: "member", objectID: fresh.ID, tenantID: fresh.TenantID, after: viewMember(fresh),
	})
}

// UseLink signs in who holds a one-time link's secret: of any number at the same
// time one.
func (s *Members) UseLink(ctx context.Context, secret, ip string) (m Member, err error) {
	if len(secret) != secretLength {
		return Member{}, badLink()
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		m, err = tx.UseSignInLink(ctx, sessionHash(secret), s.d.now())
		if IsNotFound(err) || err == nil && m.DisabledAt != nil {
			return badLink()
		}
		if err != nil {
			return err
		}
		if _, err := active(ctx, tx, m.TenantID); err != nil {
			return err
		}
		return s.signedIn(ctx, tx, m, ip, "link")
	})
	return m, err
}
