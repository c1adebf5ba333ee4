package usage_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/usage"
)

// ledger is Live without rings and bounds: a list of rows.
type ledger []usage.Row

func (l ledger) points(from, to time.Time, step int64, counts func(usage.Row) bool) []usage.Point {
	var out []usage.Point
	for at := from.Unix(); at < to.Unix(); at += step {
		p := usage.Point{At: time.Unix(at, 0).UTC()}
		for _, r := range l {
			if r.Second >= at && r.Second < at+step {
				p.Reported = true
				if counts(r) {
					enter(&p, r)
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// enter says in plain words which column a row belongs to.
func enter(p *usage.Point, r usage.Row) {
	switch r.Outcome {
	case usage.OutcomeAdmitted, usage.OutcomeFallbackAdmitted:
		p.Admitted += r.Requests
		p.Cost += r.Cost
	case usage.OutcomeLimited, usage.OutcomeBlocked, usage.OutcomeFallbackRefused, usage.OutcomeClosed:
		p.Refused += r.Requests
	default:
		p.Invalid += r.Requests
	}
	switch r.Outcome {
	case usage.OutcomeFallbackAdmitted, usage.OutcomeFallbackRefused, usage.OutcomeClosed, usage.OutcomeUnavailable:
		p.Degraded += r.Requests
	default:
	}
}

// refused sums refusals by a name of the row.
func (l ledger) refused(name func(usage.Row) string) map[string]int64 {
	out := map[string]int64{}
	for _, r := range l {
		if r.Outcome.Refused() {
			out[name(r)] += r.Requests
		}
	}
	return out
}

func anyRow() *rapid.Generator[usage.Row] {
	return rapid.Custom(func(t *rapid.T) usage.Row {
		r := usage.Row{
			Second:   at(rapid.IntRange(0, 899).Draw(t, "second")).Unix(),
			Tenant:   rapid.SampledFrom([]string{"", "ten_a", "ten_b", "ten_c"}).Draw(t, "tenant"),
			Route:    rapid.SampledFrom([]string{"", "report", "login"}).Draw(t, "route"),
			Outcome:  rapid.SampledFrom(usage.Outcomes()).Draw(t, "outcome"),
			Requests: rapid.Int64Range(1, 1000).Draw(t, "requests"),
			Cost:     rapid.Int64Range(0, 1000).Draw(t, "cost"),
		}
		if r.Outcome.Refused() {
			r.Limit = rapid.SampledFrom([]string{"global.all", "plan.requests", "route:login.tries"}).Draw(t, "limit")
		}
		return r
	})
}

// TestLive_AgreesWithALedger compares all views with sums over the plain rows.
func TestLive_AgreesWithALedger(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := at(900)
		l := newLive(&now, 0)
		var all ledger
		for i := range rapid.IntRange(1, 12).Draw(t, "replicas") {
			rows := rapid.SliceOfN(anyRow(), 0, 20).Draw(t, "rows")
			l.Apply(usage.Batch{Replica: fmt.Sprintf("gw_%d", i), Boot: "b", Seq: 1, Rows: rows})
			all = append(all, rows...)
		}
		step := rapid.SampledFrom([]int64{5, 15, 60, 300}).Draw(t, "step")
		same(t, "totals", l.Totals(at(0), at(900), time.Duration(step)*time.Second), all.points(at(0), at(900), step, func(usage.Row) bool { return true }))
		same(t, "of a tenant", l.TenantSeries("ten_a", at(0), at(900), time.Duration(step)*time.Second),
			all.points(at(0), at(900), step, func(r usage.Row) bool { return r.Tenant == "ten_a" }))
		tenants := map[string]int64{}
		for _, r := range l.TopRefused(at(0), 99) {
			tenants[r.Tenant] = r.Refused
		}
		want := all.refused(func(r usage.Row) string { return r.Tenant })
		delete(want, "") // has no name to list it under
		same(t, "tenants", tenants, want)
		limits := map[string]int64{}
		for _, r := range l.TopLimits(at(0), 99) {
			limits[r.Limit] = r.Refused
		}
		same(t, "limits", limits, all.refused(func(r usage.Row) string { return r.Limit }))
		routes := map[string]int64{}
		for _, r := range l.Routes(at(0)) {
			if r.Refused > 0 {
				routes[r.Route] = r.Refused
			}
		}
		same(t, "routes", routes, all.refused(func(r usage.Row) string { return r.Route }))
	})
}

func same(t *rapid.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("%s: got\n%s\nwant\n%s", what, g, w)
	}
}

// TestCounter_WhatIsCountedArrives sends random requests through the wire form.
func TestCounter_WhatIsCountedArrives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := at(900)
		l, c := newLive(&now, 0), usage.NewCounter("gw_a", "boot")
		want := map[usage.Outcome]int64{}
		for second := range rapid.IntRange(1, 20).Draw(t, "seconds") {
			for _, o := range rapid.SliceOfN(rapid.SampledFrom(usage.Outcomes()), 0, 10).Draw(t, "outcomes") {
				c.Add(at(second), "ten_a", "report", o, "", 3)
				want[o]++
			}
			raw, err := json.Marshal(c.Cut(at(second + 1)))
			if err != nil {
				t.Fatal(err)
			}
			var b usage.Batch
			if err := json.Unmarshal(raw, &b); err != nil {
				t.Fatal(err)
			}
			l.Apply(b)
		}
		var expected, got usage.Point
		for o, n := range want {
			enter(&expected, usage.Row{Outcome: o, Requests: n, Cost: 3 * n})
		}
		for _, p := range l.Totals(at(0), at(60), time.Minute) {
			got.Admitted, got.Refused, got.Degraded = got.Admitted+p.Admitted, got.Refused+p.Refused, got.Degraded+p.Degraded
			got.Invalid, got.Cost = got.Invalid+p.Invalid, got.Cost+p.Cost
		}
		same(t, "sums", got, expected)
	})
}

// TestBatch_StandsInJSONAsDocumented: consoles and gateways of different builds
// read each other's batches.
func TestBatch_StandsInJSONAsDocumented(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(usage.Batch{Replica: "gw_a", Boot: "boot", Seq: 7, Through: 1700000001, Rows: []usage.Row{
		{Second: 1700000000, Tenant: "ten_a", Route: "report", Outcome: usage.OutcomeLimited, Limit: "plan.requests", Requests: 3, Cost: 60},
		{Second: 1700000001, Outcome: usage.OutcomeNoRoute, Requests: 1},
	}})
	const want = `{"replica":"gw_a","boot":"boot","seq":7,"through":1700000001,"rows":[` +
		`{"s":1700000000,"t":"ten_a","r":"report","o":"limited","l":"plan.requests","n":3,"c":60},` +
		`{"s":1700000001,"o":"no-route","n":1}]}`
	if err != nil || string(raw) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, raw, want)
	}
}
