package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func errorParts() []part {
	return []part{
		{"R016_UncountableDrawsAreErrors", uncountableDraws},
		{"R031_UncountableCorrectionsAndLeasesAreErrors", uncountableOthers},
		{"EndedContextIsAnError", endedContext},
		{"PingSucceeds", pings},
	}
}

// uncountable wants an error that says so, and no other.
func uncountable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, limiter.ErrStore) || !errors.Is(err, limiter.ErrCharges) {
		t.Errorf("%s: error %v, want ErrStore and ErrCharges", what, err)
	}
}

func uncountableDraws(t *testing.T, w World) {
	good := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	row, user := Tenant("ten_a"), inTenant("ten_a", "u")
	bounded := func(row limiter.Row, most int64) limiter.Charge {
		c := Draw(row, "l", good, 1)
		c.Identifiers = most
		return c
	}
	slot := limiter.Slot{Row: row, LimitID: "l", Hash: 1, Max: 1, Lease: leaseName(1), HoldMicros: 1}
	quota := limiter.Quota{Row: row, LimitID: "l", Hash: 1, Cost: 1, Amount: 1}
	freeQuota := quota
	freeQuota.Cost = 0
	short := slot
	short.Lease = "short"
	for name, draw := range map[string]limiter.Draw{
		"no tokens":              {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Period: 1000, Burst: 5}, 1)}},
		"no burst":               {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Tokens: 1, Period: 1000}, 1)}},
		"no period":              {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Tokens: 1, Burst: 5}, 1)}},
		"period too long":        {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Tokens: 1, Period: policy.MaxPeriod.Microseconds() + 1, Burst: 1}, 1)}},
		"negative tokens":        {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Tokens: -1, Period: 1, Burst: 5}, 1)}},
		"negative burst":         {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Tokens: 1, Period: 1, Burst: -5}, 1)}},
		"over 2^53":              {Charges: []limiter.Charge{Draw(row, "l", policy.Numbers{Tokens: 1, Period: 1 << 40, Burst: 1 << 13}, 1)}},
		"cost 0":                 {Charges: []limiter.Charge{Draw(row, "l", good, 0)}},
		"negative cost":          {Charges: []limiter.Charge{Draw(row, "l", good, -1)}},
		"cost over burst":        {Charges: []limiter.Charge{Draw(row, "l", good, 6)}},
		"limit named twice":      {Charges: []limiter.Charge{Draw(row, "l", good, 1), Draw(row, "l", good, 1)}},
		"a tenant's identifiers": {Charges: []limiter.Charge{bounded(row, 5)}},
		"negative identifiers":   {Charges: []limiter.Charge{bounded(user, -1)}},
		"one gate twice":         {Charges: []limiter.Charge{bounded(user, 5), bounded(inTenant("ten_a", "v"), 5)}},
		"slot named twice":       {Slots: []limiter.Slot{slot, slot}},
		"short lease":            {Slots: []limiter.Slot{short}},
		"quota named twice":      {Quotas: []limiter.Quota{quota, quota}},
		"quota for nothing":      {Quotas: []limiter.Quota{freeQuota}},
	} {
		_, err := w.Store.Take(context.Background(), &draw)
		uncountable(t, name, err)
	}
}

func uncountableOthers(t *testing.T, w World) {
	good := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	for name, a := range map[string]limiter.Amendment{
		"no numbers":     {Tokens: 1},
		"over 2^53":      {Tokens: 1, Numbers: policy.Numbers{Tokens: 1, Period: 1 << 40, Burst: 1 << 13}},
		"tokens":         {Tokens: policy.MaxUnits, Numbers: good},
		"negative units": {Tokens: -policy.MaxUnits, Quota: true},
		"period":         {Tokens: 1, Quota: true, Start: 5, End: 5},
	} {
		uncountable(t, name, w.Store.Amend(context.Background(), "", []limiter.Amendment{a}))
	}
	for name, l := range map[string]limiter.Lease{
		"no place": {ID: leaseName(1), HoldMicros: 1},
		"no name":  {Max: 1, HoldMicros: 1},
		"no hold":  {ID: leaseName(1), Max: 1},
	} {
		_, err := w.Store.Renew(context.Background(), []limiter.Lease{l})
		uncountable(t, name, err)
	}
}

func endedContext(t *testing.T, w World) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	lease := limiter.Lease{Row: Tenant("ten_a"), Max: 1, ID: leaseName(1), HoldMicros: 1}
	_, take := w.Store.Take(ctx, &limiter.Draw{Charges: []limiter.Charge{Draw(Tenant("ten_a"), "l", n, 1)}})
	_, renew := w.Store.Renew(ctx, []limiter.Lease{lease})
	for name, err := range map[string]error{
		"take":    take,
		"amend":   w.Store.Amend(ctx, "", []limiter.Amendment{{Row: Tenant("ten_a"), Numbers: n, Tokens: 1}}),
		"renew":   renew,
		"release": w.Store.Release(ctx, []limiter.Lease{lease}),
		"ping":    w.Store.Ping(ctx),
	} {
		if !errors.Is(err, limiter.ErrStore) {
			t.Errorf("%s: error %v, want ErrStore", name, err)
		}
	}
	wants(t, "nothing was charged", w.take(t, Draw(Tenant("ten_a"), "l", n, 5)), true, limiter.Level{})
}

func pings(t *testing.T, w World) {
	for range 3 {
		if err := w.Store.Ping(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
