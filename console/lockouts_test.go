package console_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

func TestLockouts_EachKindIsListedWithWhatRefusesAndUntilWhen(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	list := w.list(owner, console.LockoutQuery{})
	if !list.Known || list.Reported != 1 || list.Replicas != 2 || len(list.Items) != 4 || list.Counts[console.LockoutIPs] != 1 {
		t.Fatalf("%+v", list)
	}
	want := map[console.LockoutKind]string{console.LockoutTenants: w.tenant.ID, console.LockoutIPs: "203.0.113.77",
		console.LockoutAccounts: "body:username=alice@example.com", console.LockoutGlobal: "everything together"}
	for _, l := range list.Items {
		if l.Subject != want[l.Kind] || l.Masked || !l.Verified || l.Left != 0 || l.Until == nil || !l.CanUnlock || l.Refusals != 3 {
			t.Errorf("%+v", l)
		}
	}
	if l := w.only("plan.requests"); l.TenantName != "Acme" || l.Most != 60 || l.Until.Sub(l.At) > time.Minute || l.Until.Sub(l.At) < 50*time.Second {
		t.Errorf("of the tenant: %+v", l)
	}
	if got := w.list(owner, console.LockoutQuery{Kind: console.LockoutIPs}); len(got.Items) != 1 || got.Items[0].Limit != "route:login.per-ip" {
		t.Errorf("tab of addresses: %+v", got.Items)
	}
	if n, _, known := w.lockouts.Count(); n != 4 || !known {
		t.Errorf("count %d, %t", n, known)
	}
}

// TestLockouts_ACandidateIsShownOnlyWhileRedisRefusesIt: what a replica told may be over.
func TestLockouts_ACandidateIsShownOnlyWhileRedisRefusesIt(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.tell("gw_a", map[string][]usage.RefusedCount{"plan.requests": {rateRefusal(tenantRow(w.tenant.ID))}, "route:gone.limit": {rateRefusal(ipRow("203.0.113.1"))}})
	if list := w.list(owner, console.LockoutQuery{}); len(list.Items) != 0 || list.Candidates != 2 {
		t.Errorf("a full bucket and a limit that the policy lacks: %+v", list)
	}
	w.draw(tenantRow(w.tenant.ID), "plan.requests", perHour(60), 60)
	w.only("plan.requests")
	if _, err := console.NewOverrides(w.deps).Boost(w.ctx, owner, w.tenant.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour, Reason: "sale"}); err != nil {
		t.Fatal(err)
	}
	w.admin2("plan.requests", 10)
	if list := w.list(owner, console.LockoutQuery{}); len(list.Items) != 0 {
		t.Errorf("boosted and refilled: %+v", list.Items)
	}
}

// admin2 gives the tenant's bucket some tokens.
func (w *lockWorld) admin2(limit string, tokens int64) {
	w.t.Helper()
	ask := limiter.Ask{Part: limiter.PartCharge, Row: limiter.Row{Kind: limiter.RowTenant, Tenant: w.tenant.ID}, Hash: policy.LimitHash(limit), Numbers: perHour(60)}
	if _, err := w.admin.Adjust(w.ctx, []limiter.Adjustment{{Ask: ask, Floor: tokens, Ceiling: 60}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestLockouts_SubjectsAreMaskedByRole: the test goes red when masking is taken out.
func TestLockouts_SubjectsAreMaskedByRole(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	for _, role := range console.Roles() {
		full := slices.Contains([]console.Role{console.RoleSupport, console.RoleKeyAdmin, console.RoleOwner, console.RoleAuditor}, role)
		for _, l := range w.list(as(role), console.LockoutQuery{}).Items {
			secret := l.Kind == console.LockoutIPs || l.Kind == console.LockoutAccounts
			shows := strings.Contains(l.Subject, "203.0.113.77") || strings.Contains(l.Subject, "alice")
			if secret && (shows != full || l.Masked == full) {
				t.Errorf("%s sees %q, masked %t", role, l.Subject, l.Masked)
			}
			one, err := w.lockouts.Get(w.ctx, as(role), l.ID)
			if err != nil || one.Subject != l.Subject {
				t.Errorf("%s by id: %q, %v", role, one.Subject, err)
			}
			if held, _, err := w.lockouts.OfLockout(w.ctx, as(role), l.ID); err != nil || held.Subject != l.Subject {
				t.Errorf("%s with its state: %q, %v", role, held.Subject, err)
			}
			if strings.Contains(l.ID, "alice") || strings.Contains(l.ID, "203") {
				t.Errorf("the id tells: %s", l.ID)
			}
		}
	}
	masked := map[string]bool{}
	for _, l := range w.list(as(console.RoleViewer), console.LockoutQuery{}).Items {
		masked[l.Subject] = true
	}
	for _, want := range []string{"203.0.113.0/24", "body:username=a…", w.tenant.ID, "everything together"} {
		if !masked[want] {
			t.Errorf("a viewer sees %v, not %q", masked, want)
		}
	}
}

func TestLockouts_AnUnlockFillsTheBucketAndHasGatewaysForget(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	run(t, console.NewRelay(w.deps, w.env.store).Run)
	l := w.only("route:login.per-ip")
	done, err := w.lockouts.Unlock(w.ctx, as(console.RoleSupport), console.LockoutRef{ID: l.ID}, "they called")
	if err != nil || done.Before != 0 || done.After != 20 || done.OutboxID == 0 || done.Until != nil {
		t.Fatalf("%+v, %v", done, err)
	}
	if !w.draw(ipRow("203.0.113.77"), "route:login.per-ip", perHour(20), 20) {
		t.Error("one request after the unlock is refused")
	}
	row := limiterRow(ipRow("203.0.113.77"))
	w.feed.until(t, "the group to be announced", func() bool {
		return slices.Contains(w.forgotten(), limiter.DenyGroup(&row))
	})
	// A tenant's limits are forgotten by its record.
	before := w.feed.puts
	if _, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{Limit: "plan.requests", Subject: w.tenant.ID}, "they called, too"); err != nil {
		t.Fatal(err)
	}
	w.feed.until(t, "the tenant's record", func() bool { return w.feed.puts > before })
	if !w.draw(tenantRow(w.tenant.ID), "plan.requests", perHour(60), 60) {
		t.Error("the tenant is refused still")
	}
}

func (w *lockWorld) forgotten() []int {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	return slices.Clone(w.feed.forgotten)
}

func TestLockouts_AnUnlockLeavesOtherLimitsOfTheSubjectAlone(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	w.draw(tenantRow(w.tenant.ID), "other", perHour(60), 50)
	if _, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{Limit: "plan.requests", Subject: w.tenant.ID}, "r"); err != nil {
		t.Fatal(err)
	}
	if w.draw(tenantRow(w.tenant.ID), "other", perHour(60), 11) {
		t.Error("another limit was filled, too")
	}
}

// TestLockouts_ALimitOfZeroIsNeverUnlocked: nor is one that the cost can never pass, a
// concurrency limit or a quota; each says what helps.
func TestLockouts_ALimitOfZeroIsNeverUnlocked(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	none, err := w.tenants.Create(w.ctx, owner, console.NewTenant{Name: "None", Plan: "none"})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(w.clock.now().Year(), w.clock.now().Month(), 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 1, 0)
	if _, err := w.store.Take(w.ctx, &limiter.Draw{Quotas: []limiter.Quota{{Row: limiter.Row{Kind: limiter.RowTenant, Tenant: w.tenant.ID}, LimitID: policy.QuotaID,
		Hash: policy.LimitHash(policy.QuotaID), Start: start.UnixMicro(), End: end.UnixMicro(), Cost: 100, Amount: 100, Most: 100}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AAAAAAAAAAAAAAAAAAAAAAAAAA", limiter.LeaseName(limiter.LeaseTag("gw_b"), w.clock.now().Unix()-5, strings.Repeat("B", 13))} {
		lease := limiter.Slot{Row: limiter.Row{Kind: limiter.RowTenant, Tenant: w.tenant.ID}, LimitID: "route:api.concurrency", Hash: policy.LimitHash("route:api.concurrency"), Max: 2, HoldMicros: 60_000_000, Lease: name}
		if _, err := w.store.Take(w.ctx, &limiter.Draw{Slots: []limiter.Slot{lease}}); err != nil {
			t.Fatal(err)
		}
	}
	blocked := rateRefusal(tenantRow(none.ID))
	blocked.Blocked = true
	quota := usage.RefusedCount{Refused: usage.Refused{Row: tenantRow(w.tenant.ID), Part: "quota", Most: 100, Start: start.UnixMicro(), End: end.UnixMicro()}}
	slot := usage.RefusedCount{Refused: usage.Refused{Row: tenantRow(w.tenant.ID), Part: "concurrency", Most: 2}}
	w.tell("gw_b", map[string][]usage.RefusedCount{"plan.requests": {blocked}, policy.QuotaID: {quota}, "route:api.concurrency": {slot}})
	for limit, word := range map[string]string{"plan.requests": "admits nothing", policy.QuotaID: "ledger", "route:api.concurrency": "place"} {
		l := w.only(limit)
		if l.CanUnlock || !strings.Contains(l.Why, word) {
			t.Errorf("%s: %+v", limit, l)
		}
		_, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{ID: l.ID}, "r")
		if e := errorWith(t, err, console.CodeConflict); !strings.Contains(e.Public, word) {
			t.Errorf("%s: %s", limit, e.Public)
		}
	}
	if l := w.only("plan.requests"); !l.Never || l.Until != nil {
		t.Errorf("blocked: %+v", l)
	}
	if l := w.only(policy.QuotaID); l.Until == nil || !l.Until.Equal(end) || l.Left != 0 {
		t.Errorf("quota: %+v", l)
	}
	w.leases()
}

// leases looks at the two places that are taken, and gives one back.
func (w *lockWorld) leases() {
	t := w.t
	l := w.only("route:api.concurrency")
	_, held, err := w.lockouts.OfLockout(w.ctx, owner, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(held, func(h console.HeldLimit) bool { return h.Part == console.LockoutConcurrency })
	if at < 0 || held[at].Used != 2 || len(held[at].Leases) != 2 {
		t.Fatalf("%+v", held)
	}
	owned := slices.IndexFunc(held[at].Leases, func(l console.LeaseHeld) bool { return l.Replica == "gw_b" })
	if owned < 0 || held[at].Leases[owned].Since == nil || held[at].Leases[1-owned].Replica != "" || held[at].Leases[1-owned].Since == nil && owned < 0 {
		t.Fatalf("owners: %+v", held[at].Leases)
	}
	done, err := w.lockouts.ReleaseTenant(w.ctx, as(console.RoleSupport), w.tenant.ID, "route:api.concurrency", []string{held[at].Leases[owned].ID}, "it hangs")
	if err != nil || done.Before != 0 || done.After != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if list := w.list(owner, console.LockoutQuery{Limit: "route:api.concurrency"}); len(list.Items) != 0 {
		t.Errorf("with a free place it is a lockout still: %+v", list.Items)
	}
	_, err = w.lockouts.ReleaseTenant(w.ctx, owner, w.tenant.ID, "plan.requests", []string{"x"}, "r")
	wantCode(t, err, console.CodeInvalid)
	_, err = w.lockouts.ReleaseTenant(w.ctx, owner, w.tenant.ID, "route:api.concurrency", nil, "r")
	wantCode(t, err, console.CodeInvalid)
}

func TestLockouts_AnExtensionHoldsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	l := w.only("route:login.per-ip")
	done, err := w.lockouts.Extend(w.ctx, as(console.RoleSupport), console.LockoutRef{ID: l.ID}, 4*time.Hour, "an attack")
	if err != nil {
		t.Fatal(err)
	}
	if left := done.Until.Sub(w.only("route:login.per-ip").At); left < 4*time.Hour-time.Minute || left > 4*time.Hour+4*time.Minute || done.After >= 0 {
		t.Errorf("until in %v, %d tokens", left, done.After)
	}
	again, err := w.lockouts.Extend(w.ctx, owner, console.LockoutRef{ID: l.ID}, time.Minute, "shorter")
	if err != nil || again.Until.Before(done.Until.Add(-time.Second)) {
		t.Errorf("a shorter one ended the longer: %+v, %v", again, err)
	}
	if _, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{ID: l.ID}, "over"); err != nil || !w.draw(ipRow("203.0.113.77"), "route:login.per-ip", perHour(20), 20) {
		t.Errorf("an unlock does not end it: %v", err)
	}
	for name, try := range map[string]func() error{
		"global": func() error {
			_, err := w.lockouts.Extend(w.ctx, owner, console.LockoutRef{ID: w.only("route:login.everyone").ID}, time.Hour, "r")
			return err
		},
	} {
		if err := try(); console.CodeOf(err) != console.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = w.lockouts.Extend(w.ctx, owner, console.LockoutRef{ID: w.only("plan.requests").ID}, 25*time.Hour, "r")
	wantCode(t, err, console.CodeInvalid)
}

func TestLockouts_AResetShowsWhatIsLostAndDropsIt(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.draw(tenantRow(w.tenant.ID), "plan.requests", perHour(60), 45)
	held, err := w.lockouts.OfTenant(w.ctx, as(console.RoleViewer), w.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(held, func(h console.HeldLimit) bool { return h.Limit == "plan.requests" })
	if at < 0 || held[at].Used != 45 || held[at].Most != 60 || held[at].Full == nil || !held[at].Counts {
		t.Fatalf("%+v", held)
	}
	done, err := w.lockouts.ResetTenant(w.ctx, as(console.RoleSupport), w.tenant.ID, []string{"plan.requests"}, "a test ran wild")
	if err != nil || len(done) != 1 || done[0].Before != 15 || done[0].After != 60 {
		t.Fatalf("%+v, %v", done, err)
	}
	if !w.draw(tenantRow(w.tenant.ID), "plan.requests", perHour(60), 60) {
		t.Error("the bucket is not full after a reset")
	}
	for _, limits := range [][]string{nil, {"route:login.per-ip"}} {
		_, err := w.lockouts.ResetTenant(w.ctx, owner, w.tenant.ID, limits, "r")
		wantCode(t, err, console.CodeInvalid)
	}
	_, err = w.lockouts.OfTenant(w.ctx, owner, "ten_aaaaaaaaaaaaaaaa")
	wantCode(t, err, console.CodeNotFound)
}

func TestLockouts_EachActIsAnEventWithoutTheSubject(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	ip, name := w.only("route:login.per-ip"), w.only("route:login.per-account")
	if _, err := w.lockouts.Extend(w.ctx, owner, console.LockoutRef{ID: ip.ID}, time.Hour, "more"); err != nil {
		t.Fatal(err)
	}
	for _, l := range []console.Lockout{ip, name} {
		if _, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{ID: l.ID}, "they called"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.lockouts.ResetTenant(w.ctx, owner, w.tenant.ID, []string{"plan.requests"}, "wild"); err != nil {
		t.Fatal(err)
	}
	got := w.actions(t)
	if want := []string{"lockout.extend", "lockout.unlock", "lockout.unlock", "lockout.reset"}; !slices.Equal(got[len(got)-4:], want) {
		t.Errorf("%q", got)
	}
	for _, e := range w.events(t) {
		text := string(e.Before) + string(e.After) + e.ObjectID
		if strings.Contains(text, "alice") || strings.Contains(text, "203.0.113.77") {
			t.Errorf("%s tells who it was: %s", e.Action, text)
		}
		if strings.HasPrefix(e.Action, "lockout.") && (e.Reason == "" || !strings.HasPrefix(e.ObjectID, "lko_")) {
			t.Errorf("%+v", e)
		}
	}
	if dump := w.dump(t); strings.Contains(dump, "alice@") || strings.Contains(dump, "203.0.113.77") {
		t.Error("PostgreSQL holds a subject")
	}
}

func TestLockouts_ActsNeedARole(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	id := w.only("route:login.per-ip").ID
	w.refuse(t, console.PermUnlock,
		func(a console.Actor) error {
			_, err := w.lockouts.Unlock(w.ctx, a, console.LockoutRef{ID: id}, "r")
			return err
		},
		func(a console.Actor) error {
			_, err := w.lockouts.Extend(w.ctx, a, console.LockoutRef{ID: id}, time.Hour, "r")
			return err
		},
		func(a console.Actor) error {
			_, err := w.lockouts.ResetTenant(w.ctx, a, w.tenant.ID, []string{"plan.requests"}, "r")
			return err
		},
		func(a console.Actor) error {
			_, err := w.lockouts.ResetLockout(w.ctx, a, id, []string{"route:login.per-ip"}, "r")
			return err
		},
		func(a console.Actor) error {
			_, err := w.lockouts.ReleaseTenant(w.ctx, a, w.tenant.ID, "route:api.concurrency", []string{"x"}, "r")
			return err
		},
		func(a console.Actor) error {
			_, err := w.lockouts.ReleaseLockout(w.ctx, a, id, "x", []string{"x"}, "r")
			return err
		},
		func(a console.Actor) error { _, err := w.lockouts.RepairStrays(w.ctx, a, "r"); return err },
	)
	w.refuse(t, console.PermView,
		func(a console.Actor) error { _, err := w.lockouts.List(w.ctx, a, console.LockoutQuery{}); return err },
		func(a console.Actor) error { _, err := w.lockouts.Get(w.ctx, a, id); return err },
		func(a console.Actor) error { _, err := w.lockouts.OfTenant(w.ctx, a, w.tenant.ID); return err },
		func(a console.Actor) error { _, _, err := w.lockouts.OfLockout(w.ctx, a, id); return err },
	)
}

func TestLockouts_BadInputNamesTheField(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	for field, ref := range map[string]console.LockoutRef{"reason": {ID: "lko_x"}, "limit": {Subject: "x"}, "subject": {Limit: "plan.requests"}} {
		reason := "r"
		if field == "reason" {
			reason = " "
		}
		_, err := w.lockouts.Unlock(w.ctx, owner, ref, reason)
		e := errorWith(t, err, console.CodeInvalid)
		if !slices.ContainsFunc(e.Fields, func(f console.FieldError) bool { return f.Field == field }) {
			t.Errorf("%s: %+v", field, e.Fields)
		}
	}
	for _, ref := range []console.LockoutRef{{ID: "lko_unknown"}, {Limit: "plan.requests", Subject: "nobody"}, {Limit: "route:login.per-ip", Subject: w.tenant.ID},
		{Limit: "plan.requests", Subject: "ten_aaaaaaaaaaaaaaaa"}, {Limit: "nothing", Subject: "192.0.2.1"}} {
		_, err := w.lockouts.Unlock(w.ctx, owner, ref, "r")
		wantCode(t, err, console.CodeNotFound)
	}
}

func TestLockouts_WithoutRedisNobodyKnowsAndActsSayTheyFailed(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.exhausted()
	id := w.only("route:login.per-ip").ID
	w.redis.Kill()
	list := w.list(owner, console.LockoutQuery{})
	if list.Known || len(list.Items) != 0 || list.Problem == "" {
		t.Errorf("%+v", list)
	}
	if _, _, known := w.lockouts.Count(); known {
		t.Error("the count is known")
	}
	_, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{ID: id}, "r")
	wantCode(t, err, console.CodeUnavailable)
	_, err = w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{Limit: "plan.requests", Subject: w.tenant.ID}, "r")
	wantCode(t, err, console.CodeUnavailable)
	if got := w.actions(t); got[len(got)-1] != "lockout.failed" {
		t.Errorf("%q", got)
	}
}

func TestLockouts_CredentialsAreEachReplicasOwnAndAreForgottenByGroup(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	run(t, console.NewRelay(w.deps, w.env.store).Run)
	w.tell("gw_a", map[string][]usage.RefusedCount{"credentials.invalid": {
		{Refused: usage.Refused{Row: ipRow("203.0.113.9"), Part: "credentials", Until: w.clock.now().Add(time.Minute).UnixMicro()}},
		{Refused: usage.Refused{Row: ipRow("203.0.113.8"), Part: "credentials", Until: w.clock.now().Add(-time.Minute).UnixMicro()}},
	}})
	l := w.only("credentials.invalid")
	if l.Verified || l.Subject != "203.0.113.9" || !l.CanUnlock {
		t.Errorf("%+v", l)
	}
	if _, err := w.lockouts.Unlock(w.ctx, owner, console.LockoutRef{ID: l.ID}, "r"); err != nil {
		t.Fatal(err)
	}
	row := limiterRow(ipRow("203.0.113.9"))
	w.feed.until(t, "the group", func() bool { return slices.Contains(w.forgotten(), limiter.DenyGroup(&row)) })
}

func TestLockouts_StateWithoutATTLIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	w.draw(tenantRow(w.tenant.ID), "plan.requests", perHour(60), 45)
	key := w.store.RowKey(limiter.Row{Kind: limiter.RowTenant, Tenant: w.tenant.ID})
	if err := w.client.Persist(w.ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := w.lockouts.RepairStrays(w.ctx, owner, "r")
	wantCode(t, err, console.CodeConflict)
	ctx, stop := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- w.lockouts.Run(ctx) }()
	for len(w.lockouts.Strays().Keys) == 0 {
		time.Sleep(5 * time.Millisecond) // the looking has no signal
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_, err = w.lockouts.RepairStrays(w.ctx, owner, "")
	wantCode(t, err, console.CodeInvalid)
	n, err := w.lockouts.RepairStrays(w.ctx, as(console.RoleSupport), "somebody planted it")
	if err != nil || n != 1 || w.client.PTTL(w.ctx, key).Val() <= 0 || len(w.lockouts.Strays().Keys) != 0 {
		t.Errorf("repaired %d, TTL %v, %v", n, w.client.PTTL(w.ctx, key).Val(), err)
	}
	if got := w.actions(t); got[len(got)-1] != "state.repair" {
		t.Errorf("%q", got)
	}
	if held, err := w.lockouts.OfTenant(w.ctx, owner, w.tenant.ID); err != nil || held[0].Used != 45 {
		t.Errorf("%+v, %v", held, err)
	}
}

// TestLockouts_HostileSubjectsStayText: whatever a caller sent is told as text that can be
// shown, and reports that make no sense hurt nobody.
func TestLockouts_HostileSubjectsStayText(t *testing.T) {
	t.Parallel()
	w := newLockWorld(t)
	rows := []usage.RefusedRow{account(`"><img src=x onerror=alert(1)>`), account("a\u202egnp.exe"), account("\xff\xfe"), account(""),
		{Kind: "d", Subject: "#not an encoding"}, {Kind: "d", Subject: "\x00"}, {Kind: "d"}, {Kind: "d", Subject: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}, {Kind: "d", Subject: "\x01a\x03short"}}
	var counts []usage.RefusedCount
	for _, row := range rows {
		w.draw(row, "route:login.per-account", perHour(5), 5)
		counts = append(counts, rateRefusal(row))
	}
	w.tell("gw_a", map[string][]usage.RefusedCount{"route:login.per-account": counts})
	for _, actor := range []console.Actor{owner, as(console.RoleViewer)} {
		list := w.list(actor, console.LockoutQuery{})
		if len(list.Items) != len(rows) {
			t.Fatalf("%d of %d are listed", len(list.Items), len(rows))
		}
		for _, l := range list.Items {
			if l.Subject == "" || strings.ContainsAny(l.Subject, "\u202e\x00\xff") || l.Kind != console.LockoutAccounts {
				t.Errorf("%q", l.Subject)
			}
		}
	}
}
