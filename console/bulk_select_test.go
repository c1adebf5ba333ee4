package console_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func TestBulk_OnlyUnusedKeysAreRevoked(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	never, long, lately, rotating := e.issue(t, acme.ID), e.issue(t, acme.ID), e.issue(t, acme.ID), e.issue(t, acme.ID)
	e.clock.add(100 * 24 * time.Hour)
	young := e.issue(t, acme.ID)
	if _, err := e.rotations.Start(e.ctx, owner, rotating.Credential.ID, console.NewRotation{Overlap: time.Hour, Reason: "routine"}); err != nil {
		t.Fatal(err)
	}
	now := e.clock.now()
	e.uses.set(func() {
		e.uses.age.Through = now
		e.uses.known[long.KeyVersion.KID] = console.KeyUse{LastUsedAt: new(now.AddDate(0, 0, -91))}
		e.uses.known[lately.KeyVersion.KID] = console.KeyUse{LastUsedAt: new(now.AddDate(0, 0, -89))}
	})
	j := e.selected(t, console.BulkRevokeUnused, console.BulkSelection{UnusedDays: 90})
	if j.Name != "Keys unused for 90 days" {
		t.Errorf("it is called %q", j.Name)
	}
	e.work(t)
	if j = e.get(t, j.ID); j.WouldDo != 2 || j.Bad != 1 || j.Total != 3 {
		t.Fatalf("got %+v: %s", j, messages(e.rows(t, j.ID, "")))
	}
	// One of them is used between check and run.
	e.uses.set(func() { e.uses.known[long.KeyVersion.KID] = console.KeyUse{LastUsedAt: new(now.Add(-time.Second))} })
	j = e.done(t, j.ID)
	if j.Done != 1 || j.Failed != 1 {
		t.Errorf("got %+v", j)
	}
	for _, want := range []struct {
		key   console.Issued
		state policy.KeyState
	}{{never, policy.KeyRevoked}, {long, policy.KeyActive}, {lately, policy.KeyActive}, {young, policy.KeyActive}, {rotating, policy.KeyRetiring}} {
		if got := e.key(t, want.key.KeyVersion.KID); got.State != want.state {
			t.Errorf("%s is %s, want %s", got.KID, got.State, want.state)
		}
	}
	revoked := e.key(t, never.KeyVersion.KID)
	if revoked.Seq != 2 || revoked.RevokeReason != console.RevokeOther || revoked.EndedAt == nil {
		t.Errorf("got %+v", revoked)
	}
	if got := messages(e.rows(t, j.ID, console.RowFailed)); !strings.Contains(got, "It stays: it was used again, last used") {
		t.Errorf("got %s", got)
	}
}

// Nobody may take "not heard of" for "not used".
func TestBulk_I18_NothingIsUnusedWhileNobodyKnows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		age        func(now time.Time) console.UseAge
	}{
		{"behind", "is behind", func(now time.Time) console.UseAge {
			return console.UseAge{Since: now.AddDate(-1, 0, 0), Through: now.Add(-2 * time.Minute), Behind: true}
		}},
		{"nothing yet", "is known since never", func(time.Time) console.UseAge { return console.UseAge{} }},
		{"too short", "is not long enough", func(now time.Time) console.UseAge {
			return console.UseAge{Since: now.AddDate(0, 0, -89), Through: now}
		}},
		{"lost", "was lost", func(now time.Time) console.UseAge {
			return console.UseAge{Since: now.AddDate(-1, 0, 0), Through: now, Missing: &console.UseGap{Replica: "gw_1", From: now.AddDate(0, 0, -3), To: now.AddDate(0, 0, -3).Add(2 * time.Minute)}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newBulkEnv(t)
			key := e.issue(t, e.tenant(t, "Acme").ID)
			e.clock.add(100 * 24 * time.Hour)
			e.uses.set(func() { e.uses.age = c.age(e.clock.now()) })
			j := e.selected(t, console.BulkRevokeUnused, console.BulkSelection{UnusedDays: 90})
			e.work(t)
			if j = e.get(t, j.ID); j.State != console.BulkChecking || !strings.Contains(j.Problem, c.says) || j.Total != 0 {
				t.Fatalf("got %+v", j)
			}
			e.uses.set(func() { e.uses.age = console.UseAge{Since: e.clock.now().AddDate(-1, 0, 0), Through: e.clock.now()} })
			e.clock.add(6 * time.Second)
			e.work(t)
			if j = e.get(t, j.ID); j.State != console.BulkReady || j.Problem != "" || j.WouldDo != 1 {
				t.Fatalf("got %+v", j)
			}
			e.start(t, j.ID)
			e.uses.set(func() { e.uses.age = c.age(e.clock.now()) })
			e.work(t)
			if j = e.get(t, j.ID); j.State != console.BulkRunning || j.Problem == "" || e.key(t, key.KeyVersion.KID).State != policy.KeyActive {
				t.Errorf("got %+v", j)
			}
		})
	}
}

func TestBulk_WithoutAnybodyWhoKnowsNoKeyIsRevoked(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	e.deps.KeyUse = nil
	e.bulk = console.NewBulkJobs(e.deps)
	j := e.selected(t, console.BulkRevokeUnused, console.BulkSelection{UnusedDays: 1})
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkChecking || !strings.Contains(j.Problem, "Nobody knows") {
		t.Errorf("got %+v", j)
	}
}

func TestBulk_SetExpiryOnlyShortensUnlessAsked(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme, beta := e.tenant(t, "Acme"), e.tenant(t, "Beta")
	soon, at := e.clock.now().Add(24*time.Hour), e.clock.now().Add(30*24*time.Hour)
	open, same := e.issue(t, acme.ID), e.issue(t, beta.ID)
	early, err := e.keys.IssueCredential(e.ctx, owner, acme.ID, console.NewCredential{Name: "early", Environment: "test", ExpiresAt: &soon})
	if err != nil {
		t.Fatal(err)
	}
	j := e.done(t, e.selected(t, console.BulkSetExpiry, console.BulkSelection{Tenants: []string{acme.ID}, ExpiresAt: &at}).ID)
	if j.Done != 1 || j.WouldSkip != 1 {
		t.Errorf("got %+v: %s", j, messages(e.rows(t, j.ID, "")))
	}
	if got := e.key(t, open.KeyVersion.KID); got.NotAfter == nil || !got.NotAfter.Equal(at) || got.Seq != 2 {
		t.Errorf("got %+v", got)
	}
	if got := e.key(t, early.KeyVersion.KID); !got.NotAfter.Equal(soon) {
		t.Errorf("got %+v", got)
	}
	if got := e.key(t, same.KeyVersion.KID); got.NotAfter != nil {
		t.Errorf("another tenant's key expires %v", got.NotAfter)
	}
	c, err := e.keys.GetCredential(e.ctx, open.Credential.ID)
	if err != nil || c.ExpiresAt == nil || !c.ExpiresAt.Equal(at) {
		t.Errorf("the credential: %+v, %v", c, err)
	}
	j = e.done(t, e.selected(t, console.BulkSetExpiry, console.BulkSelection{Environment: "test", ExpiresAt: &at, Extend: true}).ID)
	if got := e.key(t, early.KeyVersion.KID); j.Done != 1 || !got.NotAfter.Equal(at) {
		t.Errorf("got %+v, %+v", j, got)
	}
}

func TestBulk_AnExpiryThatHasPassedIsNotSet(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	e.issue(t, e.tenant(t, "Acme").ID)
	at := e.clock.now().Add(time.Hour)
	j := e.selected(t, console.BulkSetExpiry, console.BulkSelection{ExpiresAt: &at})
	e.work(t)
	e.start(t, j.ID)
	e.clock.add(2 * time.Hour)
	e.work(t)
	if j = e.get(t, j.ID); j.Done != 0 || j.State != console.BulkRunning || !strings.Contains(j.Problem, "has passed") {
		t.Errorf("got %+v", j)
	}
}

func TestBulk_PlanChangesSayWhatTheyDoToLimits(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	a, b := e.tenant(t, "Acme"), e.tenant(t, "Beta")
	pro, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Pro", Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	j := e.selected(t, console.BulkChangePlan, console.BulkSelection{ToPlan: "pro"})
	e.work(t)
	moves, err := e.bulk.Moves(e.ctx, j.ID)
	if err != nil || len(moves) != 1 || moves[0].From != "free" || moves[0].To != "pro" || moves[0].Tenants != 2 {
		t.Fatalf("got %+v, %v", moves, err)
	}
	var texts []string
	for _, c := range moves[0].Changes {
		texts = append(texts, c.Text)
	}
	if got := strings.Join(texts, "; "); !strings.Contains(got, "60/minute → 600/minute") || !strings.Contains(got, "60 → 100") {
		t.Errorf("it says %q", got)
	}
	j = e.done(t, j.ID)
	if j.Done != 2 || j.WouldSkip != 1 {
		t.Errorf("got %+v", j)
	}
	for _, id := range []string{a.ID, b.ID, pro.ID} {
		if got, err := e.tenants.Get(e.ctx, id); err != nil || got.Plan != "pro" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if got := messages(e.rows(t, j.ID, console.RowDone)); !strings.Contains(got, "Acme: free → pro") {
		t.Errorf("got %s", got)
	}
}

func TestBulk_TenantsAreSuspendedAndResumed(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	a, b, gone := e.tenant(t, "Acme"), e.tenant(t, "Beta"), e.tenant(t, "Gone")
	pro, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Pro", Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Suspend(e.ctx, owner, b.ID, "it was before"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Delete(e.ctx, owner, gone.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	state := func(id string) console.Tenant {
		got, err := e.tenants.Get(e.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	j := e.selected(t, console.BulkSuspend, console.BulkSelection{Plan: "free"})
	e.work(t)
	if got := state(a.ID); got.State != policy.TenantActive {
		t.Fatalf("before its start it changed %+v", got)
	}
	j = e.done(t, j.ID)
	if j.Done != 1 || j.WouldSkip != 1 {
		t.Errorf("got %+v", j)
	}
	if got := state(a.ID); got.State != policy.TenantSuspended || got.Reason != j.Reason || got.Seq <= a.Seq {
		t.Errorf("Acme is %+v", got)
	}
	if got := state(b.ID); got.Reason != "it was before" {
		t.Errorf("Beta is %+v", got)
	}
	if got := state(pro.ID); got.State != policy.TenantActive {
		t.Errorf("Pro is %+v", got)
	}
	j = e.selected(t, console.BulkResume, console.BulkSelection{Tenants: []string{a.ID, pro.ID}})
	e.work(t)
	if j = e.done(t, j.ID); j.Done != 1 || j.WouldSkip != 1 {
		t.Errorf("got %+v", j)
	}
	if got := state(a.ID); got.State != policy.TenantActive || got.Reason != "" {
		t.Errorf("Acme is %+v", got)
	}
}

func TestBulk_AllTenantsAtOnceAreNotSuspended(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	for _, k := range []console.BulkKind{console.BulkSuspend, console.BulkResume} {
		for want, sel := range map[string]console.BulkSelection{
			"selection":         {},
			"selection.to_plan": {Plan: "free", ToPlan: "pro"},
		} {
			_, err := e.bulk.Create(e.ctx, owner, console.NewBulk{Kind: k, Reason: "r", Selection: sel})
			var ce *console.Error
			if !errors.As(err, &ce) || ce.Code != console.CodeInvalid || !strings.Contains(fmt.Sprint(ce.Fields), want) {
				t.Errorf("%s of %+v: %v", k, sel, err)
			}
		}
	}
}

func TestBulk_ChangeToAPlanThatIsGoneWaits(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	e.tenant(t, "Acme")
	j := e.selected(t, console.BulkChangePlan, console.BulkSelection{ToPlan: "gold"})
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkChecking || j.Problem != "The policy in force has no plan gold." {
		t.Errorf("got %+v", j)
	}
}
