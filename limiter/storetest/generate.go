package storetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// What traces are drawn from.
//
//nolint:gochecknoglobals // tables that nothing writes to
var (
	somePeriods = []int64{1, 3, 7, 1000, 999_983, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 2_678_400_000_000}
	someTokens  = []int64{1, 2, 3, 10, 997, 1_000_000, 1 << 30, 1<<40 - 87}
	someRows    = []limiter.Row{
		Tenant("ten_a"), Tenant("ten_b"), {Kind: limiter.RowGlobal},
		{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_1"}, {Kind: limiter.RowIP, Subject: "192.0.2.1"},
		inTenant("ten_a", "u1"), inTenant("ten_a", "u2"), inTenant("ten_a", "u3"), inTenant("ten_a", "u4"), inTenant("ten_b", "u1"),
		inTenant("", "u1"), inTenant("", "u2"), inTenant("", "u3"),
	}
	someLimits = []string{"plan.requests", "shared:search", "route:report.reports", "global.all"}
	// Periods of quotas in µs, by the place of their name; 0: a lifetime.
	someQuotas = []string{"quota.hour", "quota.day", "quota.month", "quota.life"}
	quotaSpans = []int64{3_600_000_000, 86_400_000_000, 30 * 86_400_000_000, 0}
)

// inTenant is the row of a dimension counted within a tenant, or within none.
func inTenant(tenant, subject string) limiter.Row {
	return limiter.Row{Kind: limiter.RowDimension, Tenant: tenant, Subject: subject}
}

func leaseName(i int) string { return fmt.Sprintf("lease-of-request-%d", i) }

// anyNumbers draws numbers from one token a month to a token a µs, with bursts
// up to what can be counted.
func anyNumbers(t *rapid.T) policy.Numbers {
	n := policy.Numbers{
		Tokens: rapid.SampledFrom(someTokens).Draw(t, "tokens"),
		Period: rapid.SampledFrom(somePeriods).Draw(t, "period"),
	}
	most := min((policy.MaxUnits-1-n.Tokens)/n.Period, 1<<48-1)
	if rapid.Bool().Draw(t, "small burst") {
		most = min(most, 12)
	}
	n.Burst = rapid.Int64Range(1, most).Draw(t, "burst")
	return n
}

// anyUnits draws a small or a very large count, negative ones too.
func anyUnits(t *rapid.T) int64 {
	if rapid.IntRange(0, 7).Draw(t, "huge") == 0 {
		return rapid.Int64Range(1-policy.MaxUnits, policy.MaxUnits-1).Draw(t, "units")
	}
	return rapid.Int64Range(-12, 12).Draw(t, "units")
}

// choose picks the rows that a call may name: those of one lane, where the store
// has lanes.
func (tr *trace) choose() {
	tr.lane = someRows
	if tr.Lane == nil {
		return
	}
	first := tr.Lane(rapid.SampledFrom(someRows).Draw(tr.rt, "lane of"))
	tr.lane = nil
	for _, row := range someRows {
		if tr.Lane(row) == first {
			tr.lane = append(tr.lane, row)
		}
	}
}

// rows draws the row of each part of a call.
func (tr *trace) rows(n int) []limiter.Row {
	return rapid.SliceOfN(rapid.SampledFrom(tr.lane), n, n).Draw(tr.rt, "rows")
}

// draw draws a request: mostly limits, now and then slots or quotas with them
// or alone. In a plain trace it is mostly one limit, because stores have shorter
// ways for those.
func (tr *trace) draw() *limiter.Draw {
	d := &limiter.Draw{}
	if tr.plain && rapid.IntRange(0, 9).Draw(tr.rt, "more") > 0 {
		n := rapid.SampledFrom(tr.numbers).Draw(tr.rt, "numbers")
		cost := rapid.Int64Range(1, min(n.Burst, 3)).Draw(tr.rt, "cost")
		d.Charges = []limiter.Charge{Draw(tr.rows(1)[0], someLimits[0], n, cost)}
		return d
	}
	charges := rapid.IntRange(0, 4).Draw(tr.rt, "charges")
	slots := max(0, rapid.IntRange(-3, 2).Draw(tr.rt, "slots"))
	quotas := max(0, rapid.IntRange(-3, 2).Draw(tr.rt, "quotas"))
	rows := tr.rows(charges + slots + quotas)
	for i := range charges {
		d.Charges = append(d.Charges, tr.charge(i, rows[i]))
	}
	for i := range slots {
		d.Slots = append(d.Slots, tr.slot(i, rows[charges+i]))
	}
	for i := range quotas {
		d.Quotas = append(d.Quotas, tr.quota(rows[charges+slots+i], i))
	}
	return d
}

func (tr *trace) charge(i int, row limiter.Row) limiter.Charge {
	n := rapid.SampledFrom(tr.numbers).Draw(tr.rt, "numbers")
	most := n.Burst
	if rapid.Bool().Draw(tr.rt, "small cost") {
		most = min(most, 3)
	}
	c := Draw(row, someLimits[i], n, rapid.Int64Range(1, most).Draw(tr.rt, "cost"))
	c.Extra = max(0, rapid.Int64Range(-8, 8).Draw(tr.rt, "extra"))
	c.Shadow = rapid.IntRange(0, 4).Draw(tr.rt, "shadow") == 0
	if row.Kind == limiter.RowIP || row.Kind == limiter.RowDimension {
		c.Identifiers = rapid.SampledFrom([]int64{0, 2, 4, 4, 4, 1 << 40}).Draw(tr.rt, "identifiers")
	}
	return c
}

func (tr *trace) lease(limit int, row limiter.Row) limiter.Lease {
	return limiter.Lease{
		Row:        row,
		Hash:       hash(someLimits[limit]),
		Max:        rapid.Int64Range(1, 3).Draw(tr.rt, "max"),
		ID:         leaseName(rapid.IntRange(0, 4).Draw(tr.rt, "lease")),
		HoldMicros: rapid.SampledFrom([]int64{1, 1000, 1_000_000, 30_000_000, 30_000_000, 86_400_000_000}).Draw(tr.rt, "hold"),
	}
}

func (tr *trace) slot(i int, row limiter.Row) limiter.Slot {
	l := tr.lease(i, row)
	return limiter.Slot{
		Row: row, LimitID: someLimits[i], Hash: l.Hash, Max: l.Max, Lease: l.ID, HoldMicros: l.HoldMicros,
		Shadow: rapid.IntRange(0, 4).Draw(tr.rt, "shadow") == 0,
	}
}

// leases draws what a call of Renew or Release names.
func (tr *trace) leases() []limiter.Lease {
	var leases []limiter.Lease
	for _, row := range tr.rows(rapid.IntRange(0, 4).Draw(tr.rt, "leases")) {
		leases = append(leases, tr.lease(rapid.IntRange(0, 1).Draw(tr.rt, "limit"), row))
	}
	return leases
}

// period draws a quota's period that holds the present. A trace with large jumps
// has no lifetime quotas: their counters go after 400 days of silence.
func (tr *trace) period(from, to int) (limit string, begin, end int64) {
	if !tr.calm {
		to = min(to, len(quotaSpans)-2)
	}
	i := rapid.IntRange(from, to).Draw(tr.rt, "quota")
	if quotaSpans[i] == 0 {
		return someQuotas[i], 0, 0
	}
	begin = tr.Clock.Now() / quotaSpans[i] * quotaSpans[i]
	return someQuotas[i], begin, begin + quotaSpans[i]
}

// quota draws the i-th quota of a draw; the first and the second never have one
// name.
func (tr *trace) quota(row limiter.Row, i int) limiter.Quota {
	q := limiter.Quota{Row: row, Cost: max(1, anyUnits(tr.rt))}
	q.LimitID, q.Start, q.End = tr.period(2*i, 2*i+1)
	q.Hash = hash(q.LimitID)
	q.Amount = rapid.SampledFrom([]int64{0, 5, 20, 1000, policy.MaxUnits - 1}).Draw(tr.rt, "amount")
	q.Most = rapid.SampledFrom([]int64{0, 0, 7, 40, policy.MaxUnits - 1}).Draw(tr.rt, "most")
	q.Bill = rapid.Bool().Draw(tr.rt, "bill")
	q.Recorded = rapid.IntRange(0, 3).Draw(tr.rt, "recorded") == 0
	q.Shadow = rapid.IntRange(0, 4).Draw(tr.rt, "shadow") == 0
	return q
}

func (tr *trace) amendments() []limiter.Amendment {
	var all []limiter.Amendment
	for _, row := range tr.rows(rapid.IntRange(0, 3).Draw(tr.rt, "corrections")) {
		a := limiter.Amendment{Row: row, Tokens: anyUnits(tr.rt)}
		if a.Quota = rapid.IntRange(0, 3).Draw(tr.rt, "of a quota") == 0; a.Quota {
			limit, begin, end := tr.period(0, 3)
			a.Hash, a.Start, a.End = hash(limit), begin, end
		} else {
			a.Hash = hash(rapid.SampledFrom(someLimits).Draw(tr.rt, "limit"))
			a.Numbers = rapid.SampledFrom(tr.numbers).Draw(tr.rt, "numbers")
			out := rapid.SampledFrom([]int64{-1, 0, 1, 700, 50_000, 3_000_000, 1 << 50}).Draw(tr.rt, "out for")
			if rapid.Bool().Draw(tr.rt, "was out") {
				a.Since = tr.Clock.Now() - out
			}
		}
		all = append(all, a)
	}
	return all
}
