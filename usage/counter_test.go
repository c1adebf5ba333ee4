package usage_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// at is t0 and some seconds.
func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func requests(rows []usage.Row) (n, cost int64) {
	for _, r := range rows {
		n += r.Requests
		cost += r.Cost
	}
	return n, cost
}

func TestCounter_CutTakesCompletedSecondsOnly(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	c.Add(at(0), "ten_a", "report", usage.OutcomeAdmitted, "", 20)
	c.Add(at(0), "ten_a", "report", usage.OutcomeAdmitted, "", 20)
	c.Add(at(1), "ten_a", "report", usage.OutcomeLimited, "plan.requests", 20)

	first := c.Cut(at(1).Add(900 * time.Millisecond))
	want := usage.Row{Second: t0.Unix(), Tenant: "ten_a", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 2, Cost: 40}
	if len(first.Rows) != 1 || first.Rows[0] != want {
		t.Fatalf("first cut has rows %+v, want just %+v", first.Rows, want)
	}
	if first.Replica != "gw_a" || first.Boot != "boot" || first.Seq != 1 || first.Through != t0.Unix() {
		t.Fatalf("first cut is %+v", first)
	}
	second := c.Cut(at(2))
	want = usage.Row{Second: at(1).Unix(), Tenant: "ten_a", Route: "report", Outcome: usage.OutcomeLimited, Limit: "plan.requests", Requests: 1, Cost: 20}
	if len(second.Rows) != 1 || second.Rows[0] != want || second.Seq != 2 {
		t.Fatalf("second cut is %+v, want row %+v", second, want)
	}
}

func TestCounter_EmptyCutStillHasNumberAndTime(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	c.Cut(at(1))
	b := c.Cut(at(5))
	if b.Seq != 2 || b.Through != at(4).Unix() || len(b.Rows) != 0 {
		t.Fatalf("empty cut is %+v", b)
	}
	if back := c.Cut(at(3)); back.Through != at(4).Unix() {
		t.Fatalf("a clock that steps back takes Through back to %d", back.Through)
	}
}

func TestCounter_UnknownOutcomeIsInvalid(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	c.Add(at(0), "ten_a", "report", "made up", "", 1)
	if rows := c.Cut(at(1)).Rows; len(rows) != 1 || rows[0].Outcome != usage.OutcomeInvalid {
		t.Fatalf("rows are %+v, want outcome %q", rows, usage.OutcomeInvalid)
	}
}

func TestCounter_BatchIsBoundedAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, spread := range map[string]struct{ tenants, routes, seconds int }{
		"many tenants":                      {5000, 1, 1},
		"many tenants and routes":           {3000, 500, 1},
		"many of all, not cut for a minute": {2000, 50, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := usage.NewCounter("gw_a", "boot")
			n := int64(0)
			for i := range spread.tenants {
				for s := range spread.seconds {
					c.Add(at(s), fmt.Sprintf("ten_%d", i), fmt.Sprintf("route-%d", i%spread.routes), usage.OutcomeAdmitted, "", 3)
					n++
				}
			}
			for range 500 {
				c.Add(at(0), "ten_busy", "route-0", usage.OutcomeAdmitted, "", 3)
				n++
			}
			b := c.Cut(at(spread.seconds))
			if len(b.Rows) > usage.MaxRows {
				t.Fatalf("batch has %d rows, more than %d", len(b.Rows), usage.MaxRows)
			}
			if got, cost := requests(b.Rows); got != n || cost != 3*n {
				t.Fatalf("batch has %d requests of cost %d, want %d of %d", got, cost, n, 3*n)
			}
			if spread.seconds == 1 && !hasTenant(b.Rows, "ten_busy", 500) {
				t.Fatal("the busiest tenant is not told apart")
			}
			if !hasTenant(b.Rows, usage.Rest, 1) {
				t.Fatal("nothing was added up under the rest")
			}
		})
	}
}

func hasTenant(rows []usage.Row, tenant string, atLeast int64) bool {
	var n int64
	for _, r := range rows {
		if r.Tenant == tenant {
			n += r.Requests
		}
	}
	return n >= atLeast
}

// TestCounter_ConcurrentAddsAndCutsCountEachOnce also proves freedom from races
// when run with the race detector.
func TestCounter_ConcurrentAddsAndCutsCountEachOnce(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	const workers, each = 8, 2000
	var adding sync.WaitGroup
	for w := range workers {
		adding.Go(func() {
			for i := range each {
				c.Add(at(i%7), fmt.Sprintf("ten_%d", i%30), fmt.Sprintf("r%d", w%3), usage.OutcomeAdmitted, "", 1)
			}
		})
	}
	var total int64
	for i := range 50 {
		n, _ := requests(c.Cut(at(i % 9)).Rows)
		total += n
	}
	adding.Wait()
	last := c.Cut(at(100))
	n, _ := requests(last.Rows)
	if total+n != workers*each {
		t.Fatalf("counted %d requests, want %d", total+n, workers*each)
	}
	if last.Seq != 51 {
		t.Fatalf("last batch has number %d, want 51", last.Seq)
	}
}

func TestBatch_SurvivesJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := usage.Batch{Replica: "gw_a", Boot: "b", Seq: rapid.Int64Range(1, 1<<50).Draw(t, "seq"), Through: t0.Unix(), Rows: []usage.Row{}}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			b.Rows = append(b.Rows, usage.Row{
				Second: rapid.Int64().Draw(t, "second"), Tenant: rapid.StringMatching(`[a-z_…]{0,9}`).Draw(t, "tenant"),
				Route: "r", Outcome: rapid.SampledFrom(usage.Outcomes()).Draw(t, "outcome"), Requests: rapid.Int64().Draw(t, "n"),
			})
		}
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var back usage.Batch
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", b) {
			t.Fatalf("%+v came back as %+v", b, back)
		}
	})
}

func TestOutcomes_EachBelongsToOneGroup(t *testing.T) {
	t.Parallel()
	for _, o := range usage.Outcomes() {
		if o.Admitted() && o.Refused() {
			t.Errorf("%s is both admitted and refused", o)
		}
	}
	if usage.OutcomeUnavailable.Refused() || !usage.OutcomeUnavailable.Degraded() {
		t.Error("unavailable is a degraded answer and no limit's refusal")
	}
}

func BenchmarkCounter_Add(b *testing.B) {
	c := usage.NewCounter("gw_a", "boot")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Add(t0, "ten_a", "report", usage.OutcomeAdmitted, "", int64(i&7))
		}
	})
}
