package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// forecastWith is the forecast of a tenant on the monthly plan that used so much each hour.
func forecastWith(t *testing.T, w *quotaWorld, ten console.Tenant, hours []int64) console.QuotaForecast {
	t.Helper()
	w.ledger.report = console.UsageReport{Steps: make([]console.UsageSums, len(hours))}
	for i, n := range hours {
		w.ledger.report.Steps[i] = console.UsageSums{Cost: n, Admitted: n}
	}
	f, err := w.quotas.Forecast(w.ctx, owner, ten.ID)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestForecast_IsUnknownWithLessThanAWeek(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	hours := make([]int64, 28*24)
	if f := forecastWith(t, w, ten, hours); f.Known || !strings.Contains(f.Why, "nothing was used") {
		t.Errorf("no use: %+v", f)
	}
	hours[len(hours)-7*24+1] = 1
	if f := forecastWith(t, w, ten, hours); f.Known || !strings.Contains(f.Why, "less than a week") {
		t.Errorf("an hour less than a week: %+v", f)
	}
	hours[len(hours)-7*24] = 1
	if f := forecastWith(t, w, ten, hours); !f.Known || f.Days != 7 || f.Why != "" {
		t.Errorf("a week: %+v", f)
	}
}

// TestForecast_OfSteadyUseIsExact: without irregularity there is nothing to doubt.
func TestForecast_OfSteadyUseIsExact(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	hours := make([]int64, 28*24)
	for i := range hours {
		hours[i] = 2
	}
	w.used(ten, 600) // 8:00 on 15 January; 16 days and 16 hours are left: 400 hours, 800 units
	f := forecastWith(t, w, ten, hours)
	if f.Use != 1400 || f.Low != 1400 || f.High != 1400 || f.Chance != 100 {
		t.Errorf("%+v", f)
	}
	if f.RunsOut == nil || !f.RunsOut.Equal(january.Add(199*time.Hour)) || !f.Earliest.Equal(*f.RunsOut) {
		t.Errorf("runs out at %v, %v at the earliest", f.RunsOut, f.Earliest)
	}
	w.used(ten, 100)
	if f := forecastWith(t, w, ten, hours); f.Use != 900 || f.Chance != 0 || f.RunsOut != nil || f.Earliest != nil {
		t.Errorf("enough: %+v", f)
	}
	w.used(ten, 1000)
	if f := forecastWith(t, w, ten, hours); f.Chance != 100 || f.RunsOut == nil || !f.RunsOut.Equal(january) {
		t.Errorf("used up: %+v", f)
	}
}

// TestForecast_KnowsWeekends: the amount runs out on a working day, not in the night or at the weekend
// when nobody works.
func TestForecast_KnowsWeekends(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	hours := make([]int64, 28*24)
	begin := january.Add(-28 * 24 * time.Hour)
	for i := range hours {
		at := begin.Add(time.Duration(i) * time.Hour)
		if day := at.Weekday(); day != time.Saturday && day != time.Sunday && at.Hour() >= 9 && at.Hour() < 17 {
			hours[i] = 5
		}
	}
	w.used(ten, 700)
	f := forecastWith(t, w, ten, hours)
	if f.RunsOut == nil || f.RunsOut.Weekday() == time.Saturday || f.RunsOut.Weekday() == time.Sunday || f.RunsOut.Hour() < 9 || f.RunsOut.Hour() >= 17 {
		t.Errorf("%+v, %v", f, f.RunsOut)
	}
	if f.Low > f.Use || f.Use > f.High || f.High > 700+12*40*3 {
		t.Errorf("%+v", f)
	}
}

// TestForecast_IntervalsHoldWhatTheySay: on histories with noise the truth lies within four of
// five intervals, roughly.
func TestForecast_IntervalsHoldWhatTheySay(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("month", console.NewTenant{})
	w.used(ten, 0)
	within, total := 0, 60
	state := uint64(1)
	noise := func() int64 { // xorshift: days between 0 and 7 units an hour
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		return int64(state % 8)
	}
	day := func() []int64 {
		out, n := make([]int64, 24), noise()
		for i := range out {
			out[i] = n
		}
		return out
	}
	for range total {
		var hours []int64
		for range 28 {
			hours = append(hours, day()...)
		}
		f := forecastWith(t, w, ten, hours)
		truth := int64(0)
		for range 17 { // to the end of the month, in whole days but for the last
			for i, n := range day() {
				if i < 24 && truth >= 0 {
					truth += n
				}
			}
		}
		truth = truth * 400 / (17 * 24)
		if f.Low <= truth && truth <= f.High {
			within++
		}
	}
	if within < total*65/100 {
		t.Errorf("%d of %d truths lie within intervals that say 80 %%", within, total)
	}
}

// TestForecast_OfALifetimeLooksAYearAhead, and is the same whenever it is asked.
func TestForecast_OfALifetimeLooksAYearAhead(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t)
	ten := w.on("life", console.NewTenant{})
	hours := make([]int64, 28*24)
	for i := range hours {
		hours[i] = int64(i % 3)
	}
	first, second := forecastWith(t, w, ten, hours), forecastWith(t, w, ten, hours)
	if first.Use != second.Use || first.Low != second.Low || first.High != second.High || first.Use < 366*24-1000 {
		t.Errorf("%+v, then %+v", first, second)
	}
}
