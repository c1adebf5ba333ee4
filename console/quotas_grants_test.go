package console_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// granted waits until gateways are told of grants.
func (w *quotaWorld) granted(ten console.Tenant, want ...policy.Grant) {
	w.t.Helper()
	run(w.t, console.NewRelay(w.deps, w.store).Run)
	w.redis.until(w.t, "a record with the grants", func() bool {
		var r policy.TenantRecord
		return json.Unmarshal(w.redis.records[ten.ID].Body, &r) == nil && slices.Equal(r.Grants, want)
	})
}

// TestQuotas_R111_AGrantIsOnTopOfItsPeriodAndTravelsToGateways.
func TestQuotas_R111_AGrantIsOnTopOfItsPeriodAndTravelsToGateways(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	for _, units := range []int64{50, 7} {
		out, err := w.quotas.Grant(w.ctx, owner, ten.ID, console.NewQuotaGrant{Units: units, Reason: "incident of Tuesday"})
		if err != nil || out.Change.OutboxID == 0 || out.Grant.Units != units {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	january := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	w.granted(ten, policy.Grant{Start: january, Amount: 57})
	w.firstMarks()
	w.later(20 * time.Second)
	w.work()
	if s := w.standing(ten); s.Amount != 1057 || s.Granted != 57 {
		t.Errorf("standing %+v", s)
	}
	grants, err := w.quotas.Grants(w.ctx, owner, ten.ID)
	if err != nil || len(grants) != 2 || grants[0].Units+grants[1].Units != 57 || grants[0].Author != "Ann" || grants[0].Reason != "incident of Tuesday" {
		t.Errorf("grants %+v, %v", grants, err)
	}
	w.later(17 * 24 * time.Hour)
	w.work()
	if s := w.standing(ten); s.Amount != 1000 || s.Granted != 0 || !s.Start.Equal(january.AddDate(0, 1, 0)) {
		t.Errorf("in February: %+v", s)
	}
	last := w.events(t)[0]
	if last.Action != "quota.grant" || last.TenantID != ten.ID || last.Reason != "incident of Tuesday" || !strings.Contains(string(last.After), `"granted":57`) {
		t.Errorf("event %+v", last)
	}
}

func TestQuotas_R111_AGrantNeverTakesAway(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	for _, units := range []int64{0, -50, math.MaxInt64, policy.MaxAmount, policy.MaxAmount - 999} {
		_, err := w.quotas.Grant(w.ctx, owner, ten.ID, console.NewQuotaGrant{Units: units, Reason: "r"})
		if e := errorWith(t, err, console.CodeInvalid); len(e.Fields) != 1 || e.Fields[0].Field != "units" {
			t.Errorf("%d units: %+v", units, e)
		}
	}
	_, err := w.quotas.Grant(w.ctx, owner, ten.ID, console.NewQuotaGrant{Units: 5})
	wantCode(t, err, console.CodeInvalid)
	_, err = w.quotas.Grant(w.ctx, owner, w.on("none", console.NewTenant{}).ID, console.NewQuotaGrant{Units: 5, Reason: "r"})
	wantCode(t, err, console.CodeNotFound)
	if _, err = w.quotas.Grant(w.ctx, owner, ten.ID, console.NewQuotaGrant{Units: policy.MaxAmount - 1000, Reason: "all there is"}); err != nil {
		t.Error(err)
	}
	_, err = w.quotas.Grant(w.ctx, owner, ten.ID, console.NewQuotaGrant{Units: 1, Reason: "one more"})
	wantCode(t, err, console.CodeInvalid)
}

// TestQuotas_R106_ALifetimeIsBegunAnewByHandAlone: the ledger keeps what was used, and the counter does
// not come back from it.
func TestQuotas_R106_ALifetimeIsBegunAnewByHandAlone(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("life", console.NewTenant{})
	w.beat("gw_1", 0)
	w.firstMarks()
	w.count(ten, 5)
	w.used(ten, 3) // the others are on their way
	w.later(400 * 24 * time.Hour)
	w.beat("gw_1", time.Minute)
	w.work()
	r, err := w.quotas.Reset(w.ctx, owner, ten.ID, "trial prolonged")
	if err != nil || r.Units != 5 || w.counter(ten) != 0 {
		t.Fatalf("%+v, %v, counter %d", r, err, w.counter(ten))
	}
	w.used(ten, 5)
	for range 4 {
		w.later(20 * time.Second)
		w.beat("gw_1", 0)
		w.work()
	}
	if s := w.standing(ten); w.counter(ten) != 0 || s.Ledger != 0 || s.Drift() != 0 {
		t.Errorf("it came back: counter %d, %+v", w.counter(ten), s)
	}
	w.count(ten, 2)
	w.used(ten, 7)
	w.redis.flush()
	w.work()
	for range 8 {
		w.later(time.Second)
		w.beat("gw_1", 0)
		w.work()
	}
	if w.counter(ten) != 2 {
		t.Errorf("after a loss it is %d, want the two since the reset", w.counter(ten))
	}
	if last := w.events(t)[0]; last.Action != "quota.reset" || last.TenantID != ten.ID || last.Reason != "trial prolonged" {
		t.Errorf("event %+v", last)
	}
}

func TestQuotas_R106_OnlyALifetimeIsReset(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	month, life := w.on("month", console.NewTenant{}), w.on("life", console.NewTenant{})
	_, err := w.quotas.Reset(w.ctx, owner, month.ID, "r")
	if e := errorWith(t, err, console.CodeConflict); !strings.Contains(e.Public, "1 February 2027") {
		t.Errorf("a month: %s", e.Public)
	}
	_, err = w.quotas.Reset(w.ctx, owner, life.ID, "r")
	wantCode(t, err, console.CodeConflict) // nothing used
	w.used(life, 4)
	_, err = w.quotas.Reset(w.ctx, owner, life.ID, " ")
	wantCode(t, err, console.CodeInvalid)
	if _, err = w.quotas.Reset(w.ctx, owner, life.ID, "by the ledger, with the counter lost"); err != nil {
		t.Error(err)
	}
	_, err = w.quotas.Reset(w.ctx, owner, life.ID, "twice")
	wantCode(t, err, console.CodeConflict)
}

func TestQuotas_RolesAndTenants(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten, other := w.on("life", console.NewTenant{}), w.on("life", console.NewTenant{})
	w.used(ten, 5)
	w.firstMarks()
	w.later(20 * time.Second)
	w.work()
	w.refuse(t, console.PermManageTenants,
		func(a console.Actor) error {
			_, err := w.quotas.Grant(w.ctx, a, ten.ID, console.NewQuotaGrant{Units: 1, Reason: "r"})
			return err
		},
		func(a console.Actor) error { _, err := w.quotas.Reset(w.ctx, a, ten.ID, "r"); return err },
	)
	w.refuse(t, console.PermView,
		func(a console.Actor) error { _, err := w.quotas.Compared(w.ctx, a, console.Page{}); return err },
		func(a console.Actor) error { _, err := w.quotas.Standing(w.ctx, a, ten.ID); return err },
		func(a console.Actor) error { _, err := w.quotas.Forecast(w.ctx, a, ten.ID); return err },
	)
	member := console.Actor{ID: "mem_" + strings.Repeat("a", 16), Role: console.RoleTenantViewer, Via: console.ViaPortal, TenantID: ten.ID}
	if _, err := w.quotas.Standing(w.ctx, member, ten.ID); err != nil {
		t.Errorf("a member's own: %v", err)
	}
	_, err := w.quotas.Standing(w.ctx, member, other.ID)
	wantCode(t, err, console.CodeNotFound)
	_, err = w.quotas.Grants(w.ctx, member, other.ID)
	wantCode(t, err, console.CodeNotFound)
	_, err = w.quotas.Forecast(w.ctx, member, other.ID)
	wantCode(t, err, console.CodeNotFound)
	_, err = w.quotas.Grant(w.ctx, member, ten.ID, console.NewQuotaGrant{Units: 1, Reason: "r"})
	wantCode(t, err, console.CodeForbidden)
}
