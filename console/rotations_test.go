package console_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

func (e *env) rotate(t *testing.T, credentialID string, overlap time.Duration) console.Started {
	t.Helper()
	out, err := e.rotations.Start(e.ctx, owner, credentialID, console.NewRotation{Overlap: overlap, Reason: "yearly"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRotations_BothVersionsWorkUntilTheOverlapEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	r := e.rotate(t, out.Credential.ID, dayLong)
	ends := e.clock.now().Add(dayLong)
	if !r.Rotation.EndsAt.Equal(ends) || r.Rotation.OldKID != out.KeyVersion.KID || !r.Rotation.Open() {
		t.Fatalf("rotation %+v", r.Rotation)
	}
	if !apikey.Equal(e.key(t, r.KeyVersion.KID).Digest, r.Secret.Reveal()) {
		t.Fatal("the new secret is not the new version's")
	}
	old := e.key(t, out.KeyVersion.KID)
	if old.State != policy.KeyRetiring || !old.NotAfter.Equal(ends) || !old.RetiringAt.Equal(e.clock.now()) {
		t.Fatalf("old version %+v", old)
	}
	e.clock.add(dayLong - time.Microsecond)
	if err := e.jobs.Expire(e.ctx); err != nil {
		t.Fatal(err)
	}
	if k := e.key(t, old.KID); k.State != policy.KeyRetiring {
		t.Fatalf("ended early: %+v", k)
	}
	e.clock.add(time.Microsecond)
	if err := e.jobs.Expire(e.ctx); err != nil {
		t.Fatal(err)
	}
	got, _ := e.rotations.Get(e.ctx, r.Rotation.ID)
	if got.State != console.RotationCompleted || !got.EndedAt.Equal(ends) {
		t.Fatalf("rotation %+v", got)
	}
	if k := e.key(t, old.KID); k.State != policy.KeyExpired || !k.EndedAt.Equal(ends) {
		t.Fatalf("old version %+v", k)
	}
	if k := e.key(t, r.KeyVersion.KID); k.State != policy.KeyActive || k.NotAfter != nil {
		t.Fatalf("new version %+v", k)
	}
}

func TestRotations_SecondOneWhileOneRunsIsAConflict(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	e.rotate(t, out.Credential.ID, dayLong)
	_, err := e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
	wantCode(t, err, console.CodeConflict)
}

func TestRotations_B5_R058_OfFiftyAtOnceExactlyOneWins(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	errs := atOnce(50, func(int) error {
		_, err := e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
		return err
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if c := console.CodeOf(err); c != console.CodeConflict && c != console.CodeUnavailable {
			t.Errorf("loser got %v", err)
		}
	}
	if won != 1 {
		t.Fatalf("%d rotations were started", won)
	}
	c, err := e.keys.GetCredential(e.ctx, out.Credential.ID)
	if err != nil || len(c.Versions) != 2 {
		t.Fatalf("%d versions (%v)", len(c.Versions), err)
	}
}

// atOnce runs fn n times at once and returns the errors.
func atOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var wg, ready sync.WaitGroup
	ready.Add(n)
	for i := range n {
		wg.Go(func() {
			ready.Done()
			ready.Wait()
			errs[i] = fn(i)
		})
	}
	wg.Wait()
	return errs
}

func TestRotations_OverlapNowEndsTheOldVersionAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	r := e.rotate(t, out.Credential.ID, 0)
	if r.Rotation.State != console.RotationCompleted || r.Rotation.EndedAt == nil {
		t.Fatalf("rotation %+v", r.Rotation)
	}
	if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyExpired {
		t.Fatalf("old version %+v", k)
	}
	e.rotate(t, out.Credential.ID, dayLong) // nothing runs, so the next may start
}

func TestRotations_OverlapNeverOutlivesTheOldKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	at := e.clock.now().Add(time.Hour)
	out, err := e.keys.IssueCredential(e.ctx, owner, e.tenant(t, "A").ID, console.NewCredential{Name: "n", Environment: "live", ExpiresAt: &at})
	if err != nil {
		t.Fatal(err)
	}
	r := e.rotate(t, out.Credential.ID, dayLong)
	if !r.Rotation.EndsAt.Equal(at) {
		t.Fatalf("ends at %s, want %s", r.Rotation.EndsAt, at)
	}
	_, err = e.rotations.Extend(e.ctx, owner, r.Rotation.ID, time.Hour, "more")
	wantCode(t, err, console.CodeConflict)
}

func TestRotations_ExtendMovesTheOldKeysDeadline(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	r := e.rotate(t, out.Credential.ID, time.Hour)
	c, err := e.rotations.Extend(e.ctx, owner, r.Rotation.ID, time.Hour, "they need time")
	if err != nil || c.OutboxID == 0 {
		t.Fatalf("change %+v (%v)", c, err)
	}
	want := e.clock.now().Add(2 * time.Hour)
	got, _ := e.rotations.Get(e.ctx, r.Rotation.ID)
	if !got.EndsAt.Equal(want) || got.Extensions != 1 || !e.key(t, out.KeyVersion.KID).NotAfter.Equal(want) {
		t.Fatalf("rotation %+v", got)
	}
	for _, by := range []time.Duration{0, -time.Hour, console.MaxOverlap} {
		_, err := e.rotations.Extend(e.ctx, owner, r.Rotation.ID, by, "r")
		wantCode(t, err, console.CodeInvalid)
	}
	_, err = e.rotations.Extend(e.ctx, owner, r.Rotation.ID, time.Hour, "")
	wantCode(t, err, console.CodeInvalid)
}

func TestRotations_EndRefusesTheOldVersionFromNowOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	r := e.rotate(t, out.Credential.ID, dayLong)
	e.clock.add(time.Minute)
	c, err := e.rotations.End(e.ctx, owner, r.Rotation.ID, "done early")
	if err != nil || c.OutboxID == 0 {
		t.Fatalf("change %+v (%v)", c, err)
	}
	got, _ := e.rotations.Get(e.ctx, r.Rotation.ID)
	if got.State != console.RotationForced || got.EndReason != "done early" || !got.EndsAt.Equal(e.clock.now()) {
		t.Fatalf("rotation %+v", got)
	}
	if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyExpired {
		t.Fatalf("old version %+v", k)
	}
	_, err = e.rotations.End(e.ctx, owner, r.Rotation.ID, "r")
	wantCode(t, err, console.CodeConflict)
	_, err = e.rotations.Cancel(e.ctx, owner, r.Rotation.ID, "r")
	wantCode(t, err, console.CodeConflict)
}

func TestRotations_CancelGivesTheOldVersionItsPlaceBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	at := e.clock.now().Add(48 * time.Hour)
	out, err := e.keys.IssueCredential(e.ctx, owner, e.tenant(t, "A").ID, console.NewCredential{Name: "n", Environment: "live", ExpiresAt: &at})
	if err != nil {
		t.Fatal(err)
	}
	r := e.rotate(t, out.Credential.ID, time.Hour)
	if _, err := e.rotations.Cancel(e.ctx, owner, r.Rotation.ID, "wrong customer"); err != nil {
		t.Fatal(err)
	}
	old, fresh := e.key(t, out.KeyVersion.KID), e.key(t, r.KeyVersion.KID)
	if old.State != policy.KeyActive || !old.NotAfter.Equal(at) || old.RetiringAt != nil {
		t.Fatalf("old version %+v", old)
	}
	if fresh.State != policy.KeyRevoked || fresh.RevokeReason != console.RevokeSuperseded {
		t.Fatalf("new version %+v", fresh)
	}
	if got := e.actions(t); !slices.Equal(got[len(got)-3:], []string{"key.revoke", "key.reactivate", "rotation.cancel"}) {
		t.Fatalf("actions %v", got)
	}
	e.rotate(t, out.Credential.ID, time.Hour)
}

// At every step of a rotation's life the tenant keeps a key that works, until
// it is revoked on purpose.
func TestRotations_RevokingOneVersionLeavesTheOther(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	t.Run("the old one", func(t *testing.T) {
		t.Parallel()
		out := e.issue(t, ten.ID)
		r := e.rotate(t, out.Credential.ID, dayLong)
		if _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "leak"); err != nil {
			t.Fatal(err)
		}
		if k := e.key(t, r.KeyVersion.KID); k.State != policy.KeyActive {
			t.Fatalf("new version %+v", k)
		}
		if got, _ := e.rotations.Get(e.ctx, r.Rotation.ID); got.State != console.RotationForced {
			t.Fatalf("rotation %+v", got)
		}
	})
	t.Run("the new one", func(t *testing.T) {
		t.Parallel()
		out := e.issue(t, ten.ID)
		r := e.rotate(t, out.Credential.ID, dayLong)
		if _, err := e.keys.Revoke(e.ctx, owner, r.KeyVersion.KID, "leak"); err != nil {
			t.Fatal(err)
		}
		if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyActive || k.NotAfter != nil {
			t.Fatalf("old version %+v", k)
		}
		if k := e.key(t, r.KeyVersion.KID); k.State != policy.KeyRevoked || k.RevokeReason != console.RevokeLeak {
			t.Fatalf("new version %+v", k)
		}
		if got, _ := e.rotations.Get(e.ctx, r.Rotation.ID); got.State != console.RotationCancelled {
			t.Fatalf("rotation %+v", got)
		}
	})
	t.Run("the new one while the old one is suspended", func(t *testing.T) {
		t.Parallel()
		out := e.issue(t, ten.ID)
		r := e.rotate(t, out.Credential.ID, dayLong)
		if _, err := e.keys.Suspend(e.ctx, owner, out.KeyVersion.KID, "r"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.keys.Revoke(e.ctx, owner, r.KeyVersion.KID, "mistake"); err != nil {
			t.Fatal(err)
		}
		if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeySuspended || k.ResumeState != policy.KeyActive {
			t.Fatalf("old version %+v", k)
		}
	})
}

func TestRotations_ListIsNewestFirstAndOpenOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	var ids []string
	for range 3 {
		ids = append(ids, e.rotate(t, e.issue(t, ten.ID).Credential.ID, dayLong).Rotation.ID)
		e.clock.add(time.Minute)
	}
	if _, err := e.rotations.End(e.ctx, owner, ids[1], "r"); err != nil {
		t.Fatal(err)
	}
	idsOf := func(open bool) (out []string) {
		list, err := e.rotations.List(e.ctx, open)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			out = append(out, r.ID)
		}
		return out
	}
	if got := idsOf(false); !slices.Equal(got, []string{ids[2], ids[1], ids[0]}) {
		t.Fatalf("all %v", got)
	}
	if got := idsOf(true); !slices.Equal(got, []string{ids[2], ids[0]}) {
		t.Fatalf("open %v", got)
	}
}

func TestRotation_OverdueInItsLastDay(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := console.Rotation{State: console.RotationOverlap, StartedAt: at, EndsAt: at.Add(7 * dayLong)}
	for after, want := range map[time.Duration]bool{0: false, 6 * dayLong: false, 6*dayLong + time.Second: true} {
		if r.Overdue(at.Add(after)) != want {
			t.Errorf("after %s: %v", after, !want)
		}
	}
	r.EndsAt = at.Add(time.Hour)
	if r.Overdue(at) {
		t.Error("a rotation of an hour is overdue at its start")
	}
}
