package console_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func TestKeys_ExpiryLiesInTheFutureAndEndsTheKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	now := e.clock.now()
	for _, at := range []time.Time{now, now.Add(-time.Second), {}} {
		_, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live", ExpiresAt: &at})
		fieldOf(t, at.String(), err, "expires_at")
	}
	at := now.Add(time.Hour + 1500*time.Nanosecond).In(time.FixedZone("", 3600))
	out, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "test", ExpiresAt: &at})
	if err != nil {
		t.Fatal(err)
	}
	stored := e.key(t, out.KeyVersion.KID)
	if want := now.Add(time.Hour + time.Microsecond); stored.NotAfter == nil || !stored.NotAfter.Equal(want) || !out.KeyVersion.NotAfter.Equal(want) {
		t.Errorf("stored %v, said %v, want %v", stored.NotAfter, out.KeyVersion.NotAfter, want)
	}
	if !strings.HasPrefix(out.Secret.Reveal(), "hg_test_"+out.KeyVersion.KID+"_") {
		t.Error("the secret is not of its environment and kid")
	}
}

func TestKeys_CountLeavesOutWhatHasEnded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	a, b := e.issue(t, ten.ID), e.issue(t, ten.ID)
	e.issue(t, ten.ID)
	if _, err := e.keys.Suspend(e.ctx, owner, a.KeyVersion.KID, "r"); err != nil {
		t.Fatal(err)
	}
	if n, err := e.keys.Count(e.ctx); err != nil || n != 3 {
		t.Fatalf("%d keys, one of them suspended (%v)", n, err)
	}
	if _, err := e.keys.Revoke(e.ctx, owner, b.KeyVersion.KID, "leak"); err != nil {
		t.Fatal(err)
	}
	if n, err := e.keys.Count(e.ctx); err != nil || n != 2 {
		t.Fatalf("%d keys after a revocation (%v)", n, err)
	}
}

func TestRotations_OverlapHasBounds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	for _, overlap := range []time.Duration{-1, console.MaxOverlap + 1, 1<<63 - 1} {
		_, err := e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: overlap, Reason: "r"})
		fieldOf(t, overlap.String(), err, "overlap")
	}
	r := e.rotate(t, out.Credential.ID, console.MaxOverlap).Rotation
	if !r.EndsAt.Equal(e.clock.now().Add(console.MaxOverlap)) {
		t.Fatalf("rotation %+v", r)
	}
	_, err := e.rotations.Extend(e.ctx, owner, r.ID, time.Second, "more")
	fieldOf(t, "beyond 90 days in all", err, "by")
	_, err = e.rotations.Extend(e.ctx, owner, r.ID, 1<<63-1, "for ever")
	if code := console.CodeOf(err); code != console.CodeInvalid && code != console.CodeConflict {
		t.Errorf("an extension for ever: %v", err)
	}
	if got, err := e.rotations.Get(e.ctx, r.ID); err != nil || !got.EndsAt.Equal(r.EndsAt) {
		t.Errorf("ends %v, want %v (%v)", got.EndsAt, r.EndsAt, err)
	}
}

func TestRotations_OnlyAWorkingKeyIsRotated(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	suspended, revoked := e.issue(t, ten.ID), e.issue(t, ten.ID)
	if _, err := e.keys.Suspend(e.ctx, owner, suspended.KeyVersion.KID, "r"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.keys.Revoke(e.ctx, owner, revoked.KeyVersion.KID, "leak"); err != nil {
		t.Fatal(err)
	}
	before := len(e.events(t))
	start := func(credential string) error {
		_, err := e.rotations.Start(e.ctx, owner, credential, console.NewRotation{Overlap: dayLong, Reason: "r"})
		return err
	}
	wantCode(t, start(suspended.Credential.ID), console.CodeConflict)
	wantCode(t, start(revoked.Credential.ID), console.CodeConflict)
	wantCode(t, start("crd_unknown"), console.CodeNotFound)
	if after := len(e.events(t)); after != before {
		t.Errorf("%d events of refused rotations", after-before)
	}
	if _, err := e.tenants.Delete(e.ctx, owner, ten.ID, "left"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, start(suspended.Credential.ID), console.CodeConflict)
}

func TestTenants_NoKeyOutlivesATenantThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 4 {
		ten := e.tenant(t, "A")
		rotated := e.issue(t, ten.ID).Credential.ID
		for i, err := range atOnce(6, func(i int) error {
			var err error
			switch {
			case i == 0:
				_, err = e.tenants.Delete(e.ctx, owner, ten.ID, "left")
			case i%2 == 0:
				_, err = e.rotations.Start(e.ctx, owner, rotated, console.NewRotation{Overlap: dayLong, Reason: "r"})
			default:
				_, err = e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live"})
			}
			return err
		}) {
			if c := console.CodeOf(err); err != nil && c != console.CodeConflict && c != console.CodeUnavailable {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if got, err := e.tenants.Get(e.ctx, ten.ID); err != nil || got.State != policy.TenantDeleted {
			t.Fatalf("tenant %+v (%v)", got, err)
		}
	}
	if n, err := e.keys.Count(e.ctx); err != nil || n != 0 {
		t.Errorf("%d keys of deleted tenants work (%v)", n, err)
	}
	if open, err := e.rotations.List(e.ctx, true); err != nil || len(open) != 0 {
		t.Errorf("rotations of deleted tenants run: %v (%v)", open, err)
	}
}

func TestKeys_RevocationAndRotationAtOnceLeaveNoRevokedKeyAtWork(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	for range 4 {
		out := e.issue(t, ten.ID)
		errs := atOnce(2, func(i int) error {
			var err error
			if i == 0 {
				_, err = e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "leak")
			} else {
				_, err = e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
			}
			return err
		})
		if errs[0] != nil || errs[1] != nil && console.CodeOf(errs[1]) != console.CodeConflict {
			t.Fatalf("revocation %v, rotation %v", errs[0], errs[1])
		}
		if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyRevoked {
			t.Errorf("the leaked key is %s", k.State)
		}
		c, err := e.keys.GetCredential(e.ctx, out.Credential.ID)
		if err != nil || errs[1] == nil && (len(c.Versions) != 2 || !slices.ContainsFunc(c.Versions, console.KeyVersion.Live)) {
			t.Errorf("the new key did not stay: %+v (%v)", c.Versions, err)
		}
	}
}

func TestTenants_UpdateChecksEachFieldThatIsNamed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten, other := e.tenant(t, "A"), e.tenant(t, "B")
	bad := map[string]console.TenantPatch{}
	empty, long, noPlan, mars, taken := "", strings.Repeat("x", 121), "No Plan", "Mars/Base", "x-1"
	bad["name"], bad["external_id"], bad["plan"], bad["time_zone"] = console.TenantPatch{Name: &empty}, console.TenantPatch{ExternalID: &long},
		console.TenantPatch{Plan: &noPlan}, console.TenantPatch{TimeZone: &mars}
	for field, patch := range bad {
		_, err := e.tenants.Update(e.ctx, owner, ten.ID, patch)
		fieldOf(t, field, err, field)
	}
	if _, err := e.tenants.Update(e.ctx, owner, other.ID, console.TenantPatch{ExternalID: &taken}); err != nil {
		t.Fatal(err)
	}
	_, err := e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{ExternalID: &taken})
	wantCode(t, err, console.CodeConflict)
	if got, err := e.tenants.Get(e.ctx, ten.ID); err != nil || !reflect.DeepEqual(got, ten) {
		t.Errorf("refused changes left %+v (%v)", got, err)
	}
	_, err = e.tenants.Update(e.ctx, owner, "ten_unknown", console.TenantPatch{Name: &taken})
	wantCode(t, err, console.CodeNotFound)
	if _, err := e.tenants.Delete(e.ctx, owner, ten.ID, "left"); err != nil {
		t.Fatal(err)
	}
	_, err = e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Name: &taken})
	wantCode(t, err, console.CodeConflict)
}
