package limiter

import (
	"errors"
	"testing"

	"github.com/headgate/headgate/policy"
)

func TestHeld_WaitsIsThatOfTheBucket(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 2, Period: 10, Burst: 5}
	for _, c := range []struct {
		units, cost, want int64
	}{{50, 5, 0}, {50, 6, -1}, {0, 1, 5}, {9, 1, 1}, {-10, 1, 10}, {10, 1, 0}} {
		h := Held{Numbers: n, Units: c.units}
		if got := h.Waits(c.cost); got != c.want {
			t.Errorf("%d units, cost %d: waits %d, want %d", c.units, c.cost, got, c.want)
		}
	}
	if got := (&Held{Numbers: policy.Numbers{Period: 1}}).Waits(1); got != -1 {
		t.Errorf("a limit of 0 waits %d", got)
	}
}

func TestAdjustment_UnitsStayWhatCanBeCounted(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 2, Period: 10, Burst: 5}
	least := n.Burst*n.Period + n.Tokens + 1 - policy.MaxUnits
	for _, c := range []struct {
		floor, ceiling, low, high int64
	}{{5, 5, 50, 50}, {99, 99, 50, 50}, {-3, 2, -30, 20}, {-policy.MaxUnits, -policy.MaxUnits, least, least}, {-policy.MaxUnits, 0, least, 0}} {
		a := Adjustment{Ask: Ask{Part: PartCharge, Numbers: n}, Floor: c.floor, Ceiling: c.ceiling}
		if low, high, err := a.Units(); err != nil || low != c.low || high != c.high {
			t.Errorf("%d to %d: %d to %d, %v", c.floor, c.ceiling, low, high, err)
		}
	}
	for name, a := range map[string]Adjustment{
		"no numbers":         {Ask: Ask{Part: PartCharge}},
		"a floor above":      {Ask: Ask{Part: PartCharge, Numbers: n}, Floor: 3, Ceiling: 2},
		"leases":             {Ask: Ask{Part: PartSlot, Numbers: n}},
		"a limit of nothing": {Ask: Ask{Part: PartCharge, Numbers: policy.Numbers{Period: 1}}},
	} {
		if _, _, err := a.Units(); !errors.Is(err, ErrCharges) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForgetGroup_FreesTheGroupAlone: the group of a subject is the same in every process.
func TestForgetGroup_FreesTheGroupAlone(t *testing.T) {
	t.Parallel()
	d := newDenied(64)
	n := policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 1}
	rows := []Row{{Kind: RowIP, Subject: "192.0.2.1"}, {Kind: RowIP, Subject: "192.0.2.2"}, {Kind: RowDimension, Tenant: "ten_a", Subject: "x"}}
	put := func() {
		for _, row := range rows {
			d.put(&denial{key: denyKey{row: row}, mark: d.mark(), until: 1 << 60, numbers: n})
		}
	}
	put()
	if DenyGroup(&rows[0]) == DenyGroup(&rows[1]) {
		t.Fatal("the two share a group: choose others")
	}
	d.forgetGroup(DenyGroup(&rows[0]))
	for i, want := range []bool{false, true, true} {
		if got := d.find(&denyKey{row: rows[i]}, 1) != nil; got != want {
			t.Errorf("%v is remembered: %t", rows[i], got)
		}
	}
	stale := &denial{key: denyKey{row: rows[0]}, mark: d.mark() - 1, until: 1 << 60, numbers: n}
	d.put(stale) // of a call that was under way when it was forgotten
	if d.find(&stale.key, 1) != nil {
		t.Error("an answer from before is believed")
	}
	if tenant := (Row{Kind: RowTenant, Tenant: "ten_a"}); DenyGroup(&rows[2]) != DenyGroup(&tenant) {
		t.Error("a tenant's rows are of several groups")
	}
	// The number is part of what travels between builds: it must not change.
	if got := DenyGroup(&rows[0]); got != 52 {
		t.Errorf("group %d", got)
	}
	l := &Limiter{denied: d}
	put()
	l.ForgetGroup(-1)
	for _, row := range rows {
		if d.find(&denyKey{row: row}, 1) != nil {
			t.Errorf("%v is remembered after a group that is none", row)
		}
	}
}
