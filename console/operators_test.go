package console_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

const password = "correct horse battery"

func (e *env) operator(t *testing.T, email string, role console.Role) console.Operator {
	t.Helper()
	o, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: email, Name: "Op", Role: role, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOperators_SignInWithTheRightPasswordAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleViewer)
	got, err := e.operators.SignIn(e.ctx, " ANN@example.com ", password, "192.0.2.1")
	if err != nil || got.ID != o.ID {
		t.Fatalf("got %+v (%v)", got, err)
	}
	if ev := e.events(t)[0]; ev.Action != "session.sign-in" || ev.ActorID != o.ID || ev.IP != "192.0.2.1" {
		t.Fatalf("event %+v", ev)
	}
	gone := e.operator(t, "gone@example.com", console.RoleViewer)
	if err := e.operators.Disable(e.ctx, owner, gone.ID); err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, c := range [][2]string{{"ann@example.com", "wrong password"}, {"nobody@example.com", password}, {"gone@example.com", password}, {"ann@example.com", ""}, {"", password}} {
		_, err := e.operators.SignIn(e.ctx, c[0], c[1], "192.0.2.1")
		texts[errorWith(t, err, console.CodeUnauthenticated).Public] = true
	}
	if len(texts) != 1 {
		t.Fatalf("the answers differ: %v", texts)
	}
}

func TestOperators_PasswordIsStoredAsArgon2id(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleViewer)
	if !strings.HasPrefix(o.PasswordHash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("hash %q", o.PasswordHash)
	}
	for _, ev := range e.events(t) {
		if strings.Contains(string(ev.After), "argon2id") {
			t.Fatal("the audit trail holds the hash")
		}
	}
}

func TestOperators_GuessesAtOneAccountAreBoundedPerHour(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.operator(t, "ann@example.com", console.RoleViewer)
	looked := 0
	for i := range 13 {
		// each guess from another network: the account's own bucket has to stop it
		_, err := e.operators.SignIn(e.ctx, "ann@example.com", "wrong", "10.0."+string(rune('0'+i%10))+"."+"1")
		if console.CodeOf(err) == console.CodeUnauthenticated {
			looked++
			continue
		}
		if got := errorWith(t, err, console.CodeRateLimited); got.RetryAfter < 1 || got.RetryAfter > 40 {
			t.Fatalf("retry after %d s", got.RetryAfter)
		}
	}
	if looked != 10 {
		t.Fatalf("%d guesses were looked at", looked)
	}
	_, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "203.0.113.1")
	wantCode(t, err, console.CodeRateLimited)
	e.clock.add(41 * time.Second) // 90 an hour
	if _, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "203.0.113.1"); err != nil {
		t.Fatalf("after the wait: %v", err)
	}
}

func TestOperators_StrangersGuessesKeepNobodyOutOfAKnownNetwork(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.operator(t, "ann@example.com", console.RoleViewer)
	if _, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "203.0.113.5"); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		_, _ = e.operators.SignIn(e.ctx, "ann@example.com", "wrong", "198.51.100.1")
	}
	_, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "198.51.100.1")
	wantCode(t, err, console.CodeRateLimited)
	if _, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "203.0.113.77"); err != nil {
		t.Fatalf("from the known network: %v", err)
	}
}

func TestOperators_SprayFromOneNetworkIsBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	looked := 0
	for i := range 60 {
		_, err := e.operators.SignIn(e.ctx, "user"+strings.Repeat("x", i)+"@example.com", "wrong", "198.51.100.9")
		if console.CodeOf(err) == console.CodeUnauthenticated {
			looked++
		}
	}
	if looked != 40 {
		t.Fatalf("%d guesses were looked at", looked)
	}
}

func TestOperators_RightPasswordsCostNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.operator(t, "ann@example.com", console.RoleViewer)
	for range 15 {
		if _, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOperators_BadInputNamesEachField(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: "Ann <ann@example.com>", Role: "root", Password: "short"})
	var fields []string
	for _, f := range errorWith(t, err, console.CodeInvalid).Fields {
		fields = append(fields, f.Field)
	}
	if want := []string{"email", "name", "role", "password"}; !slices.Equal(fields, want) {
		t.Fatalf("fields %v, want %v", fields, want)
	}
	e.operator(t, "ann@example.com", console.RoleViewer)
	_, err = e.operators.Create(e.ctx, owner, console.NewOperator{Email: "Ann@Example.com", Name: "A", Role: console.RoleViewer})
	if got := errorWith(t, err, console.CodeConflict); len(got.Fields) != 1 || got.Fields[0].Field != "email" {
		t.Fatalf("fields %v", got.Fields)
	}
}

func TestOperators_LastOwnerStays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.operator(t, "a@example.com", console.RoleOwner), e.operator(t, "b@example.com", console.RoleOwner)
	if err := e.operators.SetRole(e.ctx, owner, a.ID, console.RoleViewer); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.operators.SetRole(e.ctx, owner, b.ID, console.RoleViewer), console.CodeConflict)
	wantCode(t, e.operators.Disable(e.ctx, owner, b.ID), console.CodeConflict)
}

func TestOperators_TwoOwnersDemotedAtOnceLeaveOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var ids []string
	for _, name := range []string{"a", "b", "c"} {
		ids = append(ids, e.operator(t, name+"@example.com", console.RoleOwner).ID)
	}
	var won atomic.Int32
	for range 3 {
		for _, err := range atOnce(3, func(i int) error { return e.operators.SetRole(e.ctx, owner, ids[i], console.RoleEditor) }) {
			if err == nil {
				won.Add(1)
			} else if c := console.CodeOf(err); c != console.CodeConflict && c != console.CodeUnavailable {
				t.Errorf("loser got %v", err)
			}
		}
	}
	list, err := e.operators.List(e.ctx)
	owners := slices.DeleteFunc(list, func(o console.Operator) bool { return o.Role != console.RoleOwner })
	if err != nil || len(owners) != 1 {
		t.Fatalf("%d owners (%v)", len(owners), err)
	}
}

func TestTokens_AuthenticateWithThePresentRole(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	token, row, err := e.operators.IssueToken(e.ctx, owner, o.ID, "ci", nil)
	if err != nil || !strings.HasPrefix(token, "hg_ops_"+row.KID+"_") {
		t.Fatalf("row %+v (%v)", row, err)
	}
	actor, err := e.operators.Authenticate(e.ctx, token)
	if err != nil || actor.ID != o.ID || actor.Role != console.RoleEditor || actor.Via != console.ViaAPI {
		t.Fatalf("actor %+v (%v)", actor, err)
	}
	if err := e.operators.SetRole(e.ctx, owner, o.ID, console.RoleViewer); err != nil {
		t.Fatal(err)
	}
	if actor, _ = e.operators.Authenticate(e.ctx, token); actor.Role != console.RoleViewer {
		t.Fatalf("role %s after a demotion", actor.Role)
	}
	if list, _ := e.operators.ListTokens(e.ctx, o.ID); len(list) != 1 || list[0].LastUsedAt == nil {
		t.Fatalf("tokens %+v", list)
	}
}

func TestTokens_UnusableOnesAreAllRefusedAlike(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	issue := func(expires *time.Time) (string, string) {
		token, row, err := e.operators.IssueToken(e.ctx, owner, o.ID, "ci", expires)
		if err != nil {
			t.Fatal(err)
		}
		return token, row.KID
	}
	soon := e.clock.now().Add(time.Minute)
	expired, _ := issue(&soon)
	revoked, kid := issue(nil)
	good, _ := issue(nil)
	if err := e.operators.RevokeToken(e.ctx, owner, kid); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.operators.RevokeToken(e.ctx, owner, kid), console.CodeConflict)
	wantCode(t, e.operators.RevokeToken(e.ctx, as(console.RoleEditor), kid), console.CodeNotFound)
	e.clock.add(time.Minute)
	key := e.issue(t, e.tenant(t, "A").ID).Secret.Reveal()
	unknown := "hg_ops_000000000000_00000000000000000000000000000000"
	texts := map[string]bool{}
	for name, token := range map[string]string{"expired": expired, "revoked": revoked, "tenant's key": key, "malformed": "x", "cut": good[:len(good)-1], "unknown": unknown} {
		_, err := e.operators.Authenticate(e.ctx, token)
		if console.CodeOf(err) != console.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ce, _ := errors.AsType[*console.Error](err)
		texts[ce.Public] = true
	}
	if err := e.operators.Disable(e.ctx, owner, o.ID); err != nil {
		t.Fatal(err)
	}
	_, err := e.operators.Authenticate(e.ctx, good)
	texts[errorWith(t, err, console.CodeUnauthenticated).Public] = true
	if len(texts) != 1 {
		t.Fatalf("the answers differ: %v", texts)
	}
	_, _, err = e.operators.IssueToken(e.ctx, owner, o.ID, "n", nil)
	wantCode(t, err, console.CodeConflict)
}

// inOrder is a step of a test whose steps build on each other.
func inOrder(t *testing.T, name string, step func()) {
	t.Helper()
	t.Log(name)
	step()
}

func TestOperators_SetPasswordReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleViewer)
	wantCode(t, e.operators.SetPassword(e.ctx, owner, o.ID, "short"), console.CodeInvalid)
	wantCode(t, e.operators.SetPassword(e.ctx, owner, o.ID, ""), console.CodeInvalid)
	if err := e.operators.SetPassword(e.ctx, owner, o.ID, "another long one"); err != nil {
		t.Fatal(err)
	}
	_, err := e.operators.SignIn(e.ctx, "ann@example.com", password, "192.0.2.1")
	wantCode(t, err, console.CodeUnauthenticated)
	if _, err := e.operators.SignIn(e.ctx, "ann@example.com", "another long one", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
}
