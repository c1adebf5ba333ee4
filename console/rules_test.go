package console_test

import (
	"bytes"
	"errors"
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
	if got, err := e.tenants.Get(e.ctx, ten.ID); err != nil || got != ten {
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

func TestDrafts_NeedANameAndAreListedLastChangedFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, name := range []string{"", strings.Repeat("x", 121), "two\nlines"} {
		_, err := e.policies.CreateDraft(e.ctx, owner, name, nil)
		fieldOf(t, name, err, "name")
	}
	var drafts []console.Draft
	for _, name := range []string{"a", "b", "c"} {
		e.clock.add(time.Second)
		d, err := e.policies.CreateDraft(e.ctx, owner, name, document("10"))
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, d)
	}
	e.clock.add(time.Second)
	if _, err := e.policies.SaveDraft(e.ctx, owner, drafts[0].ID, drafts[0].ETag, document("20")); err != nil {
		t.Fatal(err)
	}
	list, err := e.policies.ListDrafts(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
		if d.Source != "" {
			t.Error("a list loads sources")
		}
	}
	if !slices.Equal(names, []string{"a", "c", "b"}) {
		t.Errorf("drafts %v", names)
	}
}

func TestDrafts_EachChangeHasItsEventWithoutTheSource(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", document("10"))
	if err != nil {
		t.Fatal(err)
	}
	if d, err = e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("20")); err != nil {
		t.Fatal(err)
	}
	if d, err = e.policies.RebaseDraft(e.ctx, owner, d.ID, d.ETag); err != nil || d.Base != 0 {
		t.Fatalf("draft %+v (%v)", d, err)
	}
	if err := e.policies.DeleteDraft(e.ctx, owner, d.ID, d.ETag); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.policies.DeleteDraft(e.ctx, owner, d.ID, d.ETag), console.CodeNotFound)
	if got := e.actions(t); !slices.Equal(got, []string{"draft.create", "draft.save", "draft.rebase", "draft.delete"}) {
		t.Fatalf("actions %v", got)
	}
	for _, ev := range e.events(t) {
		if ev.ObjectID != d.ID || bytes.Contains(ev.After, []byte("everything")) || bytes.Contains(ev.Before, []byte("everything")) {
			t.Errorf("event %s of %s: %s → %s", ev.Action, ev.ObjectID, ev.Before, ev.After)
		}
	}
}

func TestPolicies_ValidateSaysWhatItCouldNotCheck(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.store.Close()
	doc, report := e.policies.Validate(e.ctx, document("10"))
	if doc == nil || !report.OK() || len(report.Warnings) == 0 || report.Warnings[len(report.Warnings)-1].Path != "plans" {
		t.Fatalf("report %+v", report)
	}
}

func TestLists_CursorOfAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 3 {
		e.tenant(t, "A")
	}
	_, tenants, err := e.tenants.List(e.ctx, console.TenantQuery{Page: console.Page{Limit: 1}})
	if err != nil || tenants == "" {
		t.Fatalf("cursor %q (%v)", tenants, err)
	}
	page := console.Page{After: tenants}
	_, _, err = e.policies.Versions(e.ctx, page)
	fieldOf(t, "versions", err, "cursor")
	_, _, err = e.audit.List(e.ctx, console.AuditQuery{Page: page})
	fieldOf(t, "audit", err, "cursor")
	_, _, err = e.keys.ListKeys(e.ctx, console.KeyQuery{Page: console.Page{After: "no cursor"}})
	fieldOf(t, "keys", err, "cursor")
}

// brokenRand is a source of randomness that has none.
type brokenRand struct{}

var errNoRandomness = errors.New("no randomness")

func (brokenRand) Read([]byte) (int, error) { return 0, errNoRandomness }

func TestDeps_WithoutRandomnessNothingIsMade(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	before := e.actions(t)
	d := e.deps
	d.Rand = brokenRand{}
	for name, act := range map[string]func() error{
		"tenant": func() error {
			_, err := console.NewTenants(d).Create(e.ctx, owner, console.NewTenant{Name: "B", Plan: "free"})
			return err
		},
		"credential": func() error {
			_, err := console.NewKeys(d).IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live"})
			return err
		},
		"rotation": func() error {
			_, err := console.NewRotations(d).Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Reason: "r"})
			return err
		},
		"draft": func() error { _, err := console.NewPolicies(d).CreateDraft(e.ctx, owner, "d", nil); return err },
		"operator": func() error {
			_, err := console.NewOperators(d).Create(e.ctx, owner, console.NewOperator{Email: "a@example.com", Name: "A", Role: console.RoleViewer})
			return err
		},
	} {
		if err := act(); !errors.Is(err, errNoRandomness) || console.CodeOf(err) != console.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := e.actions(t); !slices.Equal(after, before) {
		t.Errorf("events %v, before %v", after, before)
	}
}

func TestHealth_WithoutPostgreSQLTheLastKnownStays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{e.feed.beat("gw", 1, v.Digest, 0)} })
	if h := e.fleet.Health(e.ctx); !h.PostgresUp || h.Version != 1 || h.InSync != 1 {
		t.Fatalf("health %+v", h)
	}
	e.store.Close()
	e.clock.add(10 * time.Second)
	h := e.fleet.Health(e.ctx)
	if h.PostgresUp || !h.PostgresSince.Equal(e.clock.now()) || h.Version != 1 || h.Digest != v.Digest || h.InSync != 1 || !h.RedisUp {
		t.Errorf("health %+v", h)
	}
	since := h.PostgresSince
	e.clock.add(10 * time.Second)
	if h := e.fleet.Health(e.ctx); !h.PostgresSince.Equal(since) {
		t.Errorf("down since %v, then since %v", since, h.PostgresSince)
	}
}

func TestHealth_HistoryIsOneHourAndNoMore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 365 {
		e.fleet.Health(e.ctx)
		e.clock.add(10 * time.Second)
	}
	h := e.fleet.History()
	if len(h) != 360 {
		t.Fatalf("%d samples", len(h))
	}
	for i := range h[1:] {
		if got := h[i+1].At.Sub(h[i].At); got != 10*time.Second {
			t.Fatalf("sample %d comes %v after the one before", i+1, got)
		}
	}
}
