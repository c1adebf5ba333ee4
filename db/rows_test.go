package db_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 123_456_000, time.UTC)

const crdA = "crd_aaaaaaaaaaaaaaaa"

// in runs fn in one transaction and fails the test on an error.
func in(t *testing.T, s *db.Store, fn func(ctx context.Context, tx console.Tx) error) {
	t.Helper()
	if err := s.InTx(t.Context(), func(tx console.Tx) error { return fn(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// same fails unless got is exactly want.
func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func credential() console.Credential {
	ends := at.Add(time.Hour)
	return console.Credential{ID: crdA, TenantID: tenA, Name: "main", Environment: "live", Scopes: []string{"read"}, Contact: "ops@a.example", ExpiresAt: &ends, CreatedAt: at}
}

func version(kid, c string) console.KeyVersion {
	return console.KeyVersion{
		KID: kid, CredentialID: crdA, TenantID: tenA, CredentialName: "main", TenantName: "A", Environment: "live", Digest: digest(c),
		State: policy.KeyActive, Scopes: []string{"read"}, Seq: 1, CreatedAt: at, ActivatedAt: at,
		IdleSince: at,
	}
}

func TestRows_CredentialAndVersionsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		c, old, fresh := credential(), version("old000000000", "a"), version("new000000000", "b")
		if err := errors.Join(tx.InsertTenant(ctx, tenant(tenA)), tx.InsertCredential(ctx, c), tx.InsertKey(ctx, old)); err != nil {
			return err
		}
		got, err := tx.LockCredential(ctx, crdA)
		same(t, got, c)
		ends, retired := at.Add(time.Hour), at.Add(time.Minute)
		old.State, old.ResumeState, old.RetiringAt, old.NotAfter, old.Seq = policy.KeySuspended, policy.KeyRetiring, &retired, &ends, 2
		old.Brownout = &policy.Brownout{Network: "198.51.100.0/24", From: at, Until: at.Add(time.Minute)}
		fresh.CreatedAt = at.Add(time.Second)
		fresh.IdleSince = fresh.CreatedAt
		if err := errors.Join(err, tx.UpdateKey(ctx, old), tx.InsertKey(ctx, fresh)); err != nil {
			return err
		}
		k, err := tx.Key(ctx, old.KID)
		same(t, k, old)
		list, err2 := tx.KeysOf(ctx, tenA, crdA)
		same(t, list, []console.KeyVersion{fresh, old})
		revoked := fresh
		revoked.State, revoked.RevokedAt, revoked.EndedAt, revoked.RevokeReason, revoked.Seq = policy.KeyRevoked, &ends, &ends, "leak", 2
		revoked.Leaked = true
		if err := errors.Join(err, err2, tx.UpdateKey(ctx, revoked)); err != nil {
			return err
		}
		k, err = tx.Key(ctx, fresh.KID)
		same(t, k, revoked)
		ids, err2 := tx.LiveCredentials(ctx, tenA)
		same(t, ids, []string{crdA})
		n, err3 := tx.CountKeys(ctx)
		same(t, n, int64(1))
		return errors.Join(err, err2, err3)
	})
}

func TestRows_RotationComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		old, fresh := version("old000000000", "a"), version("new000000000", "b")
		ends := at.Add(time.Hour)
		expired := old
		expired.State, expired.EndedAt = policy.KeyExpired, &ends
		err := errors.Join(tx.InsertTenant(ctx, tenant(tenA)), tx.InsertCredential(ctx, credential()), tx.InsertKey(ctx, old),
			tx.UpdateKey(ctx, expired), tx.InsertKey(ctx, fresh))
		if err != nil {
			return err
		}
		r := console.Rotation{
			ID: "rot_aaaaaaaaaaaaaaaa", CredentialID: crdA, TenantID: tenA, CredentialName: "main", TenantName: "A", OldKID: old.KID, NewKID: fresh.KID,
			State: console.RotationOverlap, Reason: "yearly", Overlap: time.Hour, OldNotAfter: &ends, StartedAt: at, EndsAt: ends,
		}
		if err := tx.InsertRotation(ctx, r); err != nil {
			return err
		}
		got, err := tx.OpenRotation(ctx, crdA)
		same(t, got, r)
		due, err2 := tx.DueCredentials(ctx, ends.Add(-time.Microsecond), 10)
		same(t, due, []string{})
		due, err3 := tx.DueCredentials(ctx, ends, 10)
		same(t, due, []string{crdA})
		r.State, r.EndedAt, r.EndReason, r.Extensions = console.RotationForced, &ends, "early", 1
		if err := errors.Join(err, err2, err3, tx.UpdateRotation(ctx, r)); err != nil {
			return err
		}
		got, err = tx.Rotation(ctx, r.ID)
		same(t, got, r)
		list, err2 := tx.Rotations(ctx, true, 10)
		same(t, list, []console.Rotation{})
		return errors.Join(err, err2)
	})
}

func TestRows_VersionsHeadAndDraftsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		number, err := tx.LockHead(ctx)
		same(t, number, int64(0))
		changes := []policy.Change{{Path: "routes[0]", Kind: "added", Effect: "neutral", Text: "route \"x\" <&> is added"}}
		first := console.Version{
			Number: 3, Digest: policy.DigestOf([]byte("{}")), Body: []byte("{}"), Note: "n", Author: "Ann", Kind: console.KindPublish, CreatedAt: at, Changes: []console.RatedChange{{Change: changes[0]}},
		}
		second := first
		second.Number, second.Parent, second.Kind, second.RollbackOf = 5, first.Digest, console.KindRollback, 3
		second.AuthorID, second.Tests = "opr_x", "tests: []\n"
		second.Proof = console.Proof{
			Digest: first.Digest, Tests: []scenario.Result{{Name: "t", Passed: true, Steps: []scenario.StepResult{{Route: "r", Admitted: 5}}}},
			Approvals: []console.Approval{{ActorID: "opr_y", Actor: "Bob", Digest: first.Digest, Base: 3, Note: "fine", At: at}},
			Confirmed: []console.Confirmation{{Code: "no-routes", Text: "t", Word: "0 routes"}}, BreakGlass: "night", Trial: "sim_x", Scheduled: &at,
			Missing: []console.Needed{{Rule: console.ApprovalRule{When: "any", Only: []string{"login"}, Approvals: 2}, Why: "w", Have: 1}},
		}
		err = errors.Join(err, tx.InsertVersion(ctx, first), tx.InsertVersion(ctx, second), tx.SetHead(ctx, 3, at), tx.SetHead(ctx, 5, at))
		if err != nil {
			return err
		}
		head, err := tx.Head(ctx)
		same(t, head, second)
		n, dig, err2 := tx.HeadNumber(ctx)
		same(t, fmt.Sprint(n, dig), fmt.Sprint(5, second.Digest))
		first.Body, second.Body, second.Tests, second.Proof.Tests = nil, nil, "", nil // a list is without them
		list, err3 := tx.Versions(ctx, 0, 10)
		same(t, list, []console.Version{second, first})
		list, err4 := tx.Versions(ctx, 5, 10)
		same(t, list, []console.Version{first})
		d := console.Draft{ID: "drf_aaaaaaaaaaaaaaaa", Name: "d", Base: 5, Source: "a: 1\n", Tests: "tests: []\n", ETag: "e1", AuthorID: "opr_x", Author: "Ann", CreatedAt: at, UpdatedAt: at}
		if err := errors.Join(err, err2, err3, err4, tx.InsertDraft(ctx, d)); err != nil {
			return err
		}
		got, err := tx.Draft(ctx, d.ID)
		same(t, got, d)
		changed := d
		changed.Name, changed.Source, changed.Tests, changed.ETag, changed.UpdatedAt = "e", "a: 2\n", "", "e2", at.Add(time.Second)
		ok, err2 := tx.UpdateDraft(ctx, changed, "stale")
		same(t, ok, false)
		ok, err3 = tx.UpdateDraft(ctx, changed, "e1")
		same(t, ok, true)
		got, err4 = tx.Draft(ctx, d.ID)
		same(t, got, changed)
		return errors.Join(err, err2, err3, err4)
	})
}

func TestRows_OutboxAndPlaceComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		var ids []int64
		for _, ref := range []string{"a", "b", "c"} {
			id, err := tx.InsertOutbox(ctx, console.OutboxKey, ref, at)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		place := policy.Place{Epoch: "e", Seq: 9}
		err := errors.Join(tx.FailOutbox(ctx, ids, "refused"), tx.FinishOutbox(ctx, ids[:2], place, "sent", at), tx.SetFeedPlace(ctx, place, at))
		if err != nil {
			return err
		}
		done := at
		got, err := tx.Outbox(ctx, ids[0])
		same(t, got, console.OutboxRow{ID: ids[0], Kind: console.OutboxKey, Ref: "a", CreatedAt: at, DoneAt: &done, Place: place, Result: "sent", Attempts: 1})
		pending, err2 := tx.PendingOutbox(ctx, 10)
		same(t, pending, []console.OutboxRow{{ID: ids[2], Kind: console.OutboxKey, Ref: "c", CreatedAt: at, Attempts: 1, LastError: "refused"}})
		n, err3 := tx.CountPendingOutbox(ctx)
		same(t, n, int64(1))
		reached, err4 := tx.FeedPlace(ctx)
		same(t, reached, place)
		if err := errors.Join(err, err2, err3, err4, swept(tx.DeleteDoneOutbox(ctx, at.Add(time.Second), 10))); err != nil {
			return err
		}
		if _, err := tx.Outbox(ctx, ids[0]); !console.IsNotFound(err) {
			t.Errorf("a row that was done is kept: %v", err)
		}
		_, err = tx.Outbox(ctx, ids[2])
		return err
	})
}

func TestRows_OperatorsSessionsAndTokensComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		o := console.Operator{ID: "opr_aaaaaaaaaaaaaaaa", Email: "Ann@example.com", Name: "Ann", Role: console.RoleEditor, PasswordHash: "$argon2id$x", CreatedAt: at}
		ends := at.Add(time.Hour)
		row := console.Session{Hash: strings.Repeat("a", 64), OperatorID: o.ID, Data: []byte("{}"), IP: "::1", UserAgent: "Mozilla", CreatedAt: at, SeenAt: at, ExpiresAt: ends}
		token := console.APIToken{KID: "tok000000000", OperatorID: o.ID, Name: "ci", Digest: digest("d"), CreatedAt: at, ExpiresAt: &ends}
		if err := errors.Join(tx.InsertOperator(ctx, o), tx.InsertSession(ctx, row), tx.InsertToken(ctx, token)); err != nil {
			return err
		}
		byEmail, err := tx.OperatorByEmail(ctx, "aNN@example.com")
		same(t, byEmail, o)
		gotRow, gotOp, err2 := tx.Session(ctx, row.Hash, at, at.Add(-time.Minute))
		same(t, gotRow, row)
		same(t, gotOp, o)
		gotToken, _, err3 := tx.Token(ctx, token.KID)
		same(t, gotToken, token)
		seen := at.Add(time.Minute)
		if err := errors.Join(err, err2, err3, tx.SeeToken(ctx, token.KID, seen), tx.SeeSession(ctx, row.Hash, seen), tx.SaveSession(ctx, row.Hash, []byte("{1}"))); err != nil {
			return err
		}
		ok, err := tx.RevokeToken(ctx, token.KID, seen)
		same(t, ok, true)
		ok, err2 = tx.RevokeToken(ctx, token.KID, seen)
		same(t, ok, false)
		token.LastUsedAt, token.RevokedAt = &seen, &seen
		tokens, err3 := tx.Tokens(ctx, o.ID)
		same(t, tokens, []console.APIToken{token})
		row.SeenAt, row.Data = seen, []byte("{1}")
		rows, err4 := tx.Sessions(ctx, o.ID, seen, at)
		same(t, rows, []console.Session{row})
		for name, when := range map[string]time.Time{"idle": seen.Add(31 * time.Minute), "too old": ends} {
			if _, _, err := tx.Session(ctx, row.Hash, when, when.Add(-30*time.Minute)); !console.IsNotFound(err) {
				t.Errorf("%s session: %v", name, err)
			}
		}
		o.DisabledAt = &seen
		if err := errors.Join(err, err2, err3, err4, tx.UpdateOperator(ctx, o)); err != nil {
			return err
		}
		if _, _, err := tx.Session(ctx, row.Hash, seen, at); !console.IsNotFound(err) {
			t.Errorf("session of a disabled operator: %v", err)
		}
		return tx.DeleteDeadSessions(ctx, ends, at)
	})
}

func TestRows_AuditEventsComeBackToTheByte(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		seq, prev, err := tx.LockAuditHead(ctx)
		if err != nil || seq != 0 || len(prev) != 32 {
			return fmt.Errorf("empty trail: %d %x %w", seq, prev, err)
		}
		e := console.AuditEvent{
			Seq: 1, At: at, ActorID: "opr_x", Actor: "Ann", Role: console.RoleOwner, Via: console.ViaAPI, Action: "tenant.update", Object: "tenant", ObjectID: tenA,
			TenantID: tenA, Before: []byte(`{"b": 1,   "a":2}`), After: []byte("null"), Changes: []policy.Change{{Path: "p", Kind: "added", Effect: "neutral", Text: "t"}},
			Reason: "r", IP: "::1", RequestID: "req", PrevHash: prev,
		}
		e.Hash = console.AuditHash(e)
		if err := tx.InsertAudit(ctx, e); err != nil {
			return err
		}
		list, err := tx.AuditForward(ctx, 0, 10)
		same(t, list, []console.AuditEvent{e})
		list, err2 := tx.AuditEvents(ctx, console.AuditQuery{TenantID: tenA, Action: "tenant"}, 0, 10)
		same(t, list, []console.AuditEvent{e})
		if !slices.Equal(console.AuditHash(list[0]), e.Hash) {
			t.Error("the hash does not survive storage")
		}
		return errors.Join(err, err2)
	})
}

func TestRows_DirectoryIsListedInStepsWithoutWhatEndedLongAgo(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		var want []string
		for i := range 5 {
			ten := tenant("ten_" + strings.Repeat(string(rune('a'+i)), 16))
			want = append(want, ten.ID)
			if err := tx.InsertTenant(ctx, ten); err != nil {
				return err
			}
		}
		long := tenant("ten_zzzzzzzzzzzzzzzz")
		long.State, long.UpdatedAt = policy.TenantDeleted, at.Add(-1000*time.Hour)
		if err := tx.InsertTenant(ctx, long); err != nil {
			return err
		}
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			step, err := tx.DirectoryTenants(ctx, after, at.Add(-720*time.Hour), 2)
			if err != nil {
				return err
			}
			if len(step) == 0 {
				break
			}
			for _, ten := range step {
				got = append(got, ten.ID)
			}
		}
		same(t, got, want)
		names, err := tx.TenantNames(ctx, want[:2])
		same(t, names, map[string]string{want[0]: "A", want[1]: "A"})
		return err
	})
}
