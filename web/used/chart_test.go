package used_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/used"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	x, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func span(t *testing.T, a console.UsageAsk, now time.Time) console.UsageSpan {
	t.Helper()
	s, err := a.Span(now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// report answers a span with one sum a step.
func report(s console.UsageSpan, through time.Time, of func(i int, from time.Time) console.UsageSums) console.UsageReport {
	r := console.UsageReport{From: s.From, To: s.To, Starts: s.Starts(), Through: through}
	for i, from := range r.Starts {
		r.Steps = append(r.Steps, of(i, from))
		r.Total.Add(r.Steps[i])
	}
	return r
}

func TestChart_R112_TenOnOneDayAndOneOnTheNext(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-01-20T12:00:00Z")
	s := span(t, console.UsageAsk{From: "2026-01-15", To: "2026-01-16", ToLast: true, Zone: "Asia/Shanghai", Step: "day"}, now)
	starts := s.Starts()
	r := report(s, now, func(i int, _ time.Time) console.UsageSums {
		n := map[int]int64{s.Index(starts, at(t, "2026-01-15T15:59:59Z")): 10, s.Index(starts, at(t, "2026-01-15T16:00:00Z")): 1}[i]
		return console.UsageSums{Admitted: n}
	})
	c := used.Chart("c", s, used.Requests, now, r, nil)
	if len(c.Bars) != 2 || c.Bars[0].Main != 10 || c.Bars[1].Main != 1 || c.Bars[0].When != "Thu 15 Jan 2026" || c.Zone != "Asia/Shanghai" {
		t.Errorf("got %+v", c)
	}
}

func TestChart_UnknownIsNotZero(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-11-30T12:40:00Z")
	s := span(t, console.UsageAsk{Range: "24h"}, now)
	r := report(s, at(t, "2026-11-30T10:30:00Z"), func(i int, _ time.Time) console.UsageSums {
		if i > 21 {
			return console.UsageSums{}
		}
		return console.UsageSums{Admitted: 1}
	})
	c := used.Chart("c", s, used.Requests, now, r, nil)
	for i, want := range map[int]ui.Bar{20: {}, 21: {Open: true}, 22: {Future: true}, 23: {Future: true}} {
		if b := c.Bars[i]; b.Open != want.Open || b.Future != want.Future {
			t.Errorf("the step at %s: open %v, future %v", b.When, b.Open, b.Future)
		}
	}
	if n := used.Complete(s, s.Starts(), r.Through); n != 21 {
		t.Errorf("%d complete steps, want 21", n)
	}
}

func TestChart_BeforeStandsStepByStep(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-11-30T12:40:00Z")
	s := span(t, console.UsageAsk{Range: "24h"}, now)
	r := report(s, now, func(i int, _ time.Time) console.UsageSums { return console.UsageSums{Admitted: int64(i), Cost: 2} })
	b := report(s.Before(), now, func(i int, _ time.Time) console.UsageSums {
		return console.UsageSums{Admitted: int64(100 + i), Cost: 3}
	})
	c := used.Chart("c", s, used.Requests, now, r, &b)
	for i, bar := range c.Bars {
		if bar.Main != int64(i) || bar.Earlier != int64(100+i) {
			t.Fatalf("step %d: %+v", i, bar)
		}
	}
	if c := used.Chart("c", s, used.Cost, now, r, &b); c.Bars[3].Main != 2 || c.Bars[3].Earlier != 3 || c.Refused {
		t.Errorf("by cost: %+v", c.Bars[3])
	}
}

func TestSpread_KeepsEverySumWhateverWhereTheStepsBegin(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-11-30T12:40:00Z")
	s := span(t, console.UsageAsk{Range: "30d", Zone: "Europe/Berlin"}, now)
	starts := s.Starts()
	shifted := append([]time.Time{starts[0].Add(-time.Hour)}, starts[1:]...) // the first step may begin earlier
	sums := make([]console.UsageSums, len(starts))
	for i := range sums {
		sums[i].Admitted = 1
	}
	if total := used.Sum(used.Spread(s, starts, shifted, sums), len(starts)); total.Admitted != 30 {
		t.Errorf("30 sums became %d", total.Admitted)
	}
}

func TestHeat_IsAnAverageOfCompleteHoursByTheZonesClock(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-11-30T12:40:00Z")
	s := span(t, console.UsageAsk{Range: "7d", Zone: "Asia/Kolkata"}, now)
	r := report(s, now, func(_ int, from time.Time) console.UsageSums {
		return console.UsageSums{Admitted: int64(from.Hour()), Cost: 1}
	})
	h := used.Heat(s, used.Requests, r)
	if h == nil || len(h.Days) != 7 || h.Days[0].Name != "Monday" || h.Days[6].Name != "Sunday" {
		t.Fatalf("got %+v", h)
	}
	for _, d := range h.Days {
		for hour, c := range d.Hours {
			if c.Known && c.Value != int64(hour) {
				t.Errorf("%s %d: %+v", d.Name, hour, c)
			}
		}
	}
	// 30 November 2026 is a Monday; 18:00 in Kolkata is under way, and was complete a week before, which is out of range.
	if c := h.Days[0].Hours[18]; c.Known {
		t.Errorf("the hour under way is known: %+v", c)
	}
	if used.Heat(span(t, console.UsageAsk{Range: "24h"}, now), used.Requests, r) != nil {
		t.Error("one day has a heat map of weekdays")
	}
}

func TestChange_InWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		now, before int64
		want        string
	}{{5, 5, "±0 %"}, {5, 0, "new"}, {0, 5, "−100 %"}, {112, 100, "+12 %"}, {99, 100, "−1 %"}, {5000, 10, "× 500"}, {0, 0, "±0 %"}} {
		if got := used.Change(c.now, c.before); got != c.want {
			t.Errorf("%d after %d is %q, want %q", c.now, c.before, got, c.want)
		}
	}
}

func TestTicks_AreFewAndStandWhereDaysBegin(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-11-30T12:40:00Z")
	for _, r := range []string{"1h", "24h", "7d", "30d", "90d", "12m"} {
		s := span(t, console.UsageAsk{Range: r, Zone: "Europe/Berlin"}, now)
		c := used.Chart("c", s, used.Requests, now, report(s, now, func(int, time.Time) console.UsageSums { return console.UsageSums{} }), nil)
		n := 0
		for _, b := range c.Bars {
			if b.Tick != "" {
				n++
			}
		}
		if n == 0 || n > 9 {
			t.Errorf("%s: %d labels", r, n)
		}
	}
}
