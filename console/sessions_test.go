package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// browser makes a session of an operator and returns its cookie id.
func (e *env) browser(t *testing.T, o console.Operator) string {
	t.Helper()
	id, row, err := e.sessions.Create(e.ctx, o, "192.0.2.1", "Mozilla", []byte(`{"a":1}`))
	if err != nil || len(id) != 26 || strings.Contains(row.Hash, id) {
		t.Fatalf("row %+v (%v)", row, err)
	}
	return id
}

// alive reports whether a cookie id opens a session of the operator.
func (e *env) alive(t *testing.T, o console.Operator, id string) bool {
	t.Helper()
	_, got, err := e.sessions.Peek(e.ctx, id)
	if err != nil {
		wantCode(t, err, console.CodeUnauthenticated)
	}
	return err == nil && got.ID == o.ID
}

func TestSessions_SaveKeepsDataAndNeverMakesASession(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	id := e.browser(t, o)
	if err := e.sessions.Save(e.ctx, id, []byte(`{"b":2}`)); err != nil {
		t.Fatal(err)
	}
	row, _, err := e.sessions.Touch(e.ctx, id)
	if err != nil || string(row.Data) != `{"b":2}` {
		t.Fatalf("data %s (%v)", row.Data, err)
	}
	if err := e.sessions.Delete(e.ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := e.sessions.Save(e.ctx, id, []byte(`{}`)); err != nil || e.alive(t, o, id) {
		t.Fatalf("a save revived the session (%v)", err)
	}
}

func TestSessions_EndWhenIdleAndAfterTwelveHours(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	used, idle := e.browser(t, o), e.browser(t, o)
	for range 3 {
		e.clock.add(11 * time.Minute)
		if _, _, err := e.sessions.Touch(e.ctx, used); err != nil {
			t.Fatal(err)
		}
		_, _, _ = e.sessions.Peek(e.ctx, idle) // does not count as use
	}
	if !e.alive(t, o, used) || e.alive(t, o, idle) {
		t.Fatalf("used %v, idle %v", e.alive(t, o, used), e.alive(t, o, idle))
	}
	id := e.browser(t, o)
	for range 12*3 - 1 {
		e.clock.add(20 * time.Minute)
		if _, _, err := e.sessions.Touch(e.ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	e.clock.add(20 * time.Minute)
	if e.alive(t, o, id) {
		t.Fatal("alive after 12 hours")
	}
}

func TestSessions_OthersOfTheSameOperatorEndAndNobodyElses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o, bob := e.operator(t, "ann@example.com", console.RoleEditor), e.operator(t, "bob@example.com", console.RoleEditor)
	keep, other, bobs := e.browser(t, o), e.browser(t, o), e.browser(t, bob)
	self := console.Actor{ID: o.ID, Name: "Op", Role: console.RoleViewer, Via: console.ViaConsole}
	n, err := e.sessions.DeleteOf(e.ctx, self, o.ID, keep)
	if err != nil || n != 1 || !e.alive(t, o, keep) || e.alive(t, o, other) || !e.alive(t, bob, bobs) {
		t.Fatalf("ended %d (%v)", n, err)
	}
	if list, _ := e.sessions.List(e.ctx, o.ID); len(list) != 1 {
		t.Fatalf("%d sessions", len(list))
	}
	if ev := e.events(t)[0]; ev.Action != "session.end" || ev.ObjectID != o.ID || string(ev.After) != `{"ended": 1}` && string(ev.After) != `{"ended":1}` {
		t.Fatalf("event %+v with %s", ev, ev.After)
	}
	_, err = e.sessions.DeleteOf(e.ctx, as(console.RoleViewer), o.ID, "")
	wantCode(t, err, console.CodeForbidden)
	if n, err := e.sessions.DeleteOf(e.ctx, owner, bob.ID, ""); err != nil || n != 1 || e.alive(t, bob, bobs) {
		t.Fatalf("an owner ended %d of bob's (%v)", n, err)
	}
}

func TestSessions_ChangeOfRoleAndDisablingEndThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	id := e.browser(t, o)
	if err := e.operators.SetRole(e.ctx, owner, o.ID, console.RoleViewer); err != nil || e.alive(t, o, id) {
		t.Fatalf("alive after a change of role (%v)", err)
	}
	id = e.browser(t, o)
	if err := e.operators.SetPassword(e.ctx, owner, o.ID, "another long one"); err != nil || e.alive(t, o, id) {
		t.Fatalf("alive after a new password (%v)", err)
	}
	o, err := e.operators.Get(e.ctx, o.ID)
	if err != nil {
		t.Fatal(err)
	}
	id = e.browser(t, o)
	if err := e.operators.Disable(e.ctx, owner, o.ID); err != nil || e.alive(t, o, id) {
		t.Fatalf("alive after disabling (%v)", err)
	}
}

func TestSessions_MadeUpIDsOpenNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	e.browser(t, o)
	for _, id := range []string{"", "x", strings.Repeat("A", 26), strings.Repeat("A", 5000), strings.Repeat("A", 25) + "\x00", "' OR ''='' --aaaaaaaaaaaaaa"} {
		if e.alive(t, o, id) {
			t.Errorf("%.30q opens a session", id)
		}
	}
}

func TestSessions_HashOfTheTableOpensNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	e.browser(t, o)
	list, err := e.sessions.List(e.ctx, o.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("list %v (%v)", list, err)
	}
	for _, id := range []string{list[0].Hash, list[0].Hash[:26]} {
		if e.alive(t, o, id) {
			t.Errorf("%q opens a session", id)
		}
	}
}

func TestSessions_LastUseIsWrittenAtMostEveryFifteenSeconds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	id := e.browser(t, o)
	made := e.clock.now()
	seen := func() time.Time {
		t.Helper()
		if _, _, err := e.sessions.Touch(e.ctx, id); err != nil {
			t.Fatal(err)
		}
		list, err := e.sessions.List(e.ctx, o.ID)
		if err != nil || len(list) != 1 {
			t.Fatalf("list %v (%v)", list, err)
		}
		return list[0].SeenAt
	}
	e.clock.add(14 * time.Second)
	if got := seen(); !got.Equal(made) {
		t.Errorf("written after 14 s: %v", got)
	}
	e.clock.add(time.Second)
	if got := seen(); !got.Equal(e.clock.now()) {
		t.Errorf("not written after 15 s: %v", got)
	}
}

func TestSessions_BrowsersNameIsBoundedAndPlain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	for in, want := range map[string]string{strings.Repeat("ü", 500): strings.Repeat("ü", 400), "\xff\xfe": "", "Mozilla/5.0": "Mozilla/5.0"} {
		_, row, err := e.sessions.Create(e.ctx, o, "192.0.2.1", in, nil)
		if err != nil || row.UserAgent != want {
			t.Errorf("%.20q is kept as %.20q (%v)", in, row.UserAgent, err)
		}
	}
}

func TestJobs_SweepRemovesWhatIsOverAndNothingElse(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.operator(t, "ann@example.com", console.RoleEditor)
	idem := console.NewIdempotency(e.deps)
	dead := e.browser(t, o)
	if _, _, err := idem.Claim(e.ctx, owner, "s", "old", "f"); err != nil {
		t.Fatal(err)
	}
	e.clock.add(23 * time.Hour)
	living := e.browser(t, o)
	if _, _, err := idem.Claim(e.ctx, owner, "s", "new", "f"); err != nil {
		t.Fatal(err)
	}
	pending := e.issue(t, e.tenant(t, "A").ID)
	e.clock.add(time.Hour + time.Second)
	if _, _, err := e.sessions.Touch(e.ctx, living); err == nil {
		t.Fatal("an idle session goes on")
	}
	living = e.browser(t, o)
	if err := e.jobs.Sweep(e.ctx); err != nil {
		t.Fatal(err)
	}
	if e.alive(t, o, dead) || !e.alive(t, o, living) {
		t.Error("the wrong session is gone")
	}
	if fresh, _, err := idem.Claim(e.ctx, owner, "s", "old", "f"); err != nil || !fresh {
		t.Errorf("a key of yesterday is remembered (%v)", err)
	}
	if fresh, _, err := idem.Claim(e.ctx, owner, "s", "new", "f"); err != nil || fresh {
		t.Errorf("a key of an hour ago is forgotten (%v)", err)
	}
	err := e.store.Read(e.ctx, func(tx console.Tx) error {
		row, err := tx.Outbox(e.ctx, pending.Change.OutboxID)
		if err == nil && row.DoneAt != nil {
			t.Error("a pending change counts as sent")
		}
		return err
	})
	if err != nil {
		t.Errorf("a pending change was swept away: %v", err)
	}
}
