package console_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
)

// sql runs statements as the database's superuser, past all triggers.
func (e *env) sql(t *testing.T, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(e.ctx, e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, s := range append([]string{"SET session_replication_role = replica"}, statements...) {
		if _, err := conn.Exec(e.ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestAudit_EachChangeHasItsEventInOneChain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	name := "B"
	if _, err := e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Name: &name}); err != nil {
		t.Fatal(err)
	}
	out := e.issue(t, ten.ID)
	r := e.rotate(t, out.Credential.ID, dayLong)
	if _, err := e.rotations.End(e.ctx, owner, r.Rotation.ID, "r"); err != nil {
		t.Fatal(err)
	}
	e.publish(t, "10", 0)
	want := []string{"tenant.create", "tenant.update", "credential.issue", "rotation.start", "rotation.end", "policy.publish"}
	if got := e.actions(t); !slices.Equal(got, want) {
		t.Fatalf("actions %v, want %v", got, want)
	}
	events := e.events(t)
	update := events[len(events)-2]
	if !bytes.Contains(update.Before, []byte(`"name":"A"`)) || !bytes.Contains(update.After, []byte(`"name":"B"`)) {
		t.Fatalf("before %s, after %s", update.Before, update.After)
	}
	if update.Actor != "Ann" || update.IP != "192.0.2.7" || update.RequestID != "req-12345" || update.Role != console.RoleOwner || update.Via != console.ViaConsole {
		t.Fatalf("event %+v", update)
	}
	good, head, problem, err := e.audit.Verify(e.ctx)
	if err != nil || problem != nil || good != int64(len(want)) || !bytes.Equal(head, events[0].Hash) {
		t.Fatalf("good %d, problem %+v (%v)", good, problem, err)
	}
}

func TestAudit_ConcurrentChangesMakeOneChainWithoutGaps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 24
	made := 0
	for _, err := range atOnce(n, func(int) error {
		_, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "T", Plan: "free"})
		return err
	}) {
		if err == nil {
			made++
		}
	}
	good, _, problem, err := e.audit.Verify(e.ctx)
	count, _ := e.tenants.Count(e.ctx)
	if err != nil || problem != nil || good != int64(made) || count != int64(made) {
		t.Fatalf("%d made, %d counted, %d good, problem %+v (%v)", made, count, good, problem, err)
	}
}

func TestAudit_TamperingIsFoundAtTheFirstBadRow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want int64
	}{
		"changed":  {`UPDATE audit_events SET actor = 'someone else' WHERE seq = 3`, 3},
		"view":     {`UPDATE audit_events SET after = '{"name":"x"}' WHERE seq = 2`, 2},
		"removed":  {`DELETE FROM audit_events WHERE seq = 3`, 3},
		"first":    {`DELETE FROM audit_events WHERE seq = 1`, 1},
		"swapped":  {`UPDATE audit_events SET seq = CASE seq WHEN 3 THEN 104 ELSE 103 END WHERE seq IN (3, 4); UPDATE audit_events SET seq = seq - 100 WHERE seq > 100`, 3},
		"rehashed": {`UPDATE audit_events SET hash = sha256('x') WHERE seq = 4`, 4},
		"moved":    {`UPDATE audit_events SET at = at + interval '1 microsecond' WHERE seq = 5`, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			for range 5 {
				e.tenant(t, "T")
			}
			e.sql(t, c.sql)
			_, _, problem, err := e.audit.Verify(e.ctx)
			if err != nil || problem == nil || problem.Seq != c.want {
				t.Fatalf("problem %+v (%v), want seq %d", problem, err, c.want)
			}
		})
	}
}

// What cannot be written down does not happen.
func TestAudit_ChangeWhoseEventFailsIsUndone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	e.publish(t, "10", 0)
	e.sql(t, `ALTER TABLE audit_events ADD CONSTRAINT nothing_more CHECK (false) NOT VALID`)
	for name, fn := range map[string]func() error{
		"tenant": func() error {
			_, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "B", Plan: "free"})
			return err
		},
		"revoke": func() error { _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "leak"); return err },
		"rotate": func() error {
			_, err := e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
			return err
		},
		"publish": func() error {
			_, err := e.policies.Publish(e.ctx, owner, document("20"), nil, 1, console.PublishOptions{})
			return err
		},
		"draft": func() error { _, err := e.policies.CreateDraft(e.ctx, owner, "d", nil); return err },
	} {
		if err := fn(); console.CodeOf(err) != console.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
	count, _ := e.tenants.Count(e.ctx)
	head, _, _ := e.policies.Head(e.ctx)
	drafts, _ := e.policies.ListDrafts(e.ctx)
	c, _ := e.keys.GetCredential(e.ctx, out.Credential.ID)
	if count != 1 || head.Number != 1 || len(drafts) != 0 || len(c.Versions) != 1 || !c.Versions[0].Live() {
		t.Fatalf("something happened: %d tenants, v%d, %d drafts, %+v", count, head.Number, len(drafts), c.Versions)
	}
}

func TestAudit_ListIsFilteredAndPaged(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "A"), e.tenant(t, "B")
	e.issue(t, a.ID)
	bob, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: "bob@example.com", Name: "Bob", Role: console.RoleOwner})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Suspend(e.ctx, console.Actor{ID: bob.ID, Name: "Bob", Role: console.RoleOwner, Via: console.ViaAPI}, b.ID, "r"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    console.AuditQuery
		want int
	}{
		"all": {console.AuditQuery{}, 5}, "tenant": {console.AuditQuery{TenantID: a.ID}, 2}, "action": {console.AuditQuery{Action: "tenant.create"}, 2},
		"actions of one kind": {console.AuditQuery{Action: "tenant"}, 3}, "no part of a word": {console.AuditQuery{Action: "ten"}, 0},
		"actor by name": {console.AuditQuery{Actor: "bo"}, 1}, "actor by id": {console.AuditQuery{Actor: bob.ID}, 1},
		"actor by address": {console.AuditQuery{Actor: "bob@exa"}, 1}, "nobody's name": {console.AuditQuery{Actor: "carol"}, 0}, "actor and action": {console.AuditQuery{Actor: "bob", Action: "tenant"}, 1},
		"object": {console.AuditQuery{Object: "credential"}, 1}, "object id": {console.AuditQuery{Object: "tenant", ObjectID: b.ID}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seqs []int64
			page := console.Page{Limit: 1}
			for {
				c.q.Page = page
				items, next, err := e.audit.List(e.ctx, c.q)
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range items {
					seqs = append(seqs, ev.Seq)
				}
				if page.After = next; next == "" {
					break
				}
			}
			if len(seqs) != c.want || !slices.IsSortedFunc(seqs, func(a, b int64) int { return int(b - a) }) {
				t.Fatalf("seqs %v, want %d", seqs, c.want)
			}
		})
	}
	for _, after := range []string{"x", strings.Repeat("A", 40)} {
		_, _, err := e.audit.List(e.ctx, console.AuditQuery{Page: console.Page{After: after}})
		wantCode(t, err, console.CodeInvalid)
	}
}

func TestIdempotency_RepeatHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := console.NewIdempotency(e.deps)
	wins := 0
	for _, err := range atOnce(20, func(int) error {
		fresh, _, err := s.Claim(e.ctx, owner, "tenants.create", "k1", "f")
		if err == nil && !fresh {
			err = context.Canceled
		}
		return err
	}) {
		if err == nil {
			wins++
		}
	}
	if wins != 1 {
		t.Fatalf("%d claims won", wins)
	}
	if err := s.Finish(e.ctx, owner, "tenants.create", "k1", []byte("answer")); err != nil {
		t.Fatal(err)
	}
	fresh, answer, err := s.Claim(e.ctx, owner, "tenants.create", "k1", "f")
	if fresh || string(answer) != "answer" || err != nil {
		t.Fatalf("fresh %v, answer %q (%v)", fresh, answer, err)
	}
	_, _, err = s.Claim(e.ctx, owner, "tenants.create", "k1", "other request")
	wantCode(t, err, console.CodeInvalid)
	for _, scope := range []string{"keys.issue"} {
		if fresh, _, err := s.Claim(e.ctx, owner, scope, "k1", "f"); !fresh || err != nil {
			t.Fatalf("another scope: %v (%v)", fresh, err)
		}
	}
	if err := s.Release(e.ctx, owner, "keys.issue", "k1"); err != nil {
		t.Fatal(err)
	}
	if fresh, _, _ := s.Claim(e.ctx, owner, "keys.issue", "k1", "f"); !fresh {
		t.Fatal("a released key is taken")
	}
	if err := s.Release(e.ctx, owner, "tenants.create", "k1"); err != nil {
		t.Fatal(err)
	}
	if fresh, _, _ := s.Claim(e.ctx, owner, "tenants.create", "k1", "f"); fresh {
		t.Fatal("a finished key was released")
	}
	for _, key := range []string{"", "a b", strings.Repeat("x", 256)} {
		_, _, err := s.Claim(e.ctx, owner, "s", key, "f")
		wantCode(t, err, console.CodeInvalid)
	}
	e.clock.add(25 * 60 * 60 * 1e9)
	if err := e.jobs.Sweep(e.ctx); err != nil {
		t.Fatal(err)
	}
	if fresh, _, _ := s.Claim(e.ctx, owner, "tenants.create", "k1", "f"); !fresh {
		t.Fatal("a key is remembered after a day")
	}
}
