package console

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// forecastWeeks is how far back a forecast looks, and leastForecast with how much it makes none.
	forecastWeeks = 4
	leastForecast = 7 * 24 // hours
	// forecastPaths is how many futures are drawn.
	forecastPaths = 400
	// forecastHorizon bounds how far a quota without an end is looked ahead.
	forecastHorizon = 366 * 24 // hours
	week            = 7 * 24   // hours
)

// QuotaForecast is what becomes of a quota if use goes on as in the last four weeks.
//
// The method is a seasonal bootstrap: each coming day is one of the days with the same weekday and hour that
// were seen (with fewer than three of those, one of the days beside them), drawn anew for each of 400
// futures, and each future as a whole goes by the mean of seven days drawn from the last seven. So daily and weekly rhythm are kept hour by
// hour, and the interval is as wide as use was irregular. It knows no growth beyond that of the last week,
// no holidays and no launch.
type QuotaForecast struct {
	Known bool
	Why   string // why it is unknown, for people
	Days  int    // of history that it rests on
	// Use is what will have been used when the period ends (of a lifetime: in a year) in the
	// middle future; four of five lie between Low and High.
	Use, Low, High int64
	// Chance is the percentage of futures in which the amount does not last for the period. RunsOut is when in the
	// middle future, Earliest when in one of ten; nil: not before the period ends.
	Chance            int
	RunsOut, Earliest *time.Time
	At                time.Time
}

// QuotaHistory tells use by the hour; *Ledger does.
type QuotaHistory interface {
	Report(ctx context.Context, actor Actor, q UsageQuery) (UsageReport, error)
}

// Forecast tells what becomes of a tenant's quota.
func (s *Quotas) Forecast(ctx context.Context, actor Actor, tenantID string) (QuotaForecast, error) {
	if err := actor.needOf(tenantID, PermView, PermOwnTenant); err != nil {
		return QuotaForecast{}, err
	}
	history, ok := s.ledger.(QuotaHistory)
	if !ok {
		return QuotaForecast{Why: "there is no ledger", At: s.d.now()}, nil
	}
	now := s.redisNow(ctx)
	var c quotaCase
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		c, err = s.caseOf(ctx, tx, tenantID, now)
		return err
	})
	if err != nil {
		return QuotaForecast{}, err
	}
	cases := []quotaCase{c}
	if err := s.sums(ctx, cases); err != nil {
		return QuotaForecast{}, err
	}
	hour := now.UTC().Truncate(time.Hour)
	report, err := history.Report(ctx, SystemActor(), UsageQuery{From: hour.Add(-forecastWeeks * week * time.Hour), To: hour, Step: StepHour, TenantID: tenantID})
	if err != nil {
		return QuotaForecast{}, err
	}
	hours := make([]int64, len(report.Steps))
	for i, step := range report.Steps {
		hours[i] = step.Cost + step.InterruptedCost
		if c.quota.Counts == policy.CountsRequests {
			hours[i] = step.Admitted + step.Interrupted
		}
	}
	return forecast(forecastOf{hours: hours, now: hour, end: c.counter.End, used: cases[0].ledger, amount: c.amount, seed: tenantID}), nil
}

// forecastOf is what a forecast is made of.
type forecastOf struct {
	hours  []int64   // use by the hour, the last one before now
	now    time.Time // a full hour
	end    time.Time // zero: none
	used   int64
	amount int64
	seed   string // the same forecast for the same history
}

// forecast draws futures. It is pure.
func forecast(in forecastOf) QuotaForecast {
	out := QuotaForecast{At: in.now}
	first := slices.IndexFunc(in.hours, func(units int64) bool { return units > 0 })
	if first < 0 {
		out.Why = "nothing was used in a full hour of the last four weeks"
		return out
	}
	if len(in.hours)-first < leastForecast {
		out.Why = "there is less than a week of use to go by"
		return out
	}
	days := daysOf(in.hours[first:])
	ahead := forecastHorizon
	if !in.end.IsZero() {
		ahead = min(ahead, int((in.end.Sub(in.now)+time.Hour-1)/time.Hour))
	}
	out.Known, out.Days = true, len(days)
	h := fnv.New64a()
	_, _ = h.Write([]byte(in.seed))             // never fails
	draw := rand.New(rand.NewPCG(h.Sum64(), 0)) //nolint:gosec // nothing secret
	totals, outs := make([]float64, forecastPaths), make([]int, forecastPaths)
	for i := range totals {
		totals[i], outs[i] = path(draw, days, ahead, float64(in.used), float64(in.amount))
	}
	slices.Sort(totals)
	slices.Sort(outs)
	out.Low, out.Use, out.High = units(totals[forecastPaths/10]), units(totals[forecastPaths/2]), units(totals[forecastPaths*9/10])
	short := 0
	for _, at := range outs {
		if at < ahead {
			short++
		}
	}
	out.Chance = short * 100 / forecastPaths
	out.RunsOut, out.Earliest = hourAt(in.now, outs[forecastPaths/2], ahead), hourAt(in.now, outs[forecastPaths/10], ahead)
	return out
}

func units(f float64) int64 { return int64(min(max(f, 0), float64(policy.MaxAmount))) }

func hourAt(now time.Time, hours, ahead int) *time.Time {
	if hours >= ahead {
		return nil
	}
	at := now.Add(time.Duration(hours) * time.Hour)
	return &at
}

// daysOf cuts use into days that end when it ends, the last first. What begins before a
// full day is left out.
func daysOf(hours []int64) [][]int64 {
	var days [][]int64
	for to := len(hours); to >= 24; to -= 24 {
		days = append(days, hours[to-24:to])
	}
	return days
}

// path is one future: what will have been used after so many hours, and after how many the
// amount is used up, at most all of them.
func path(draw *rand.Rand, days [][]int64, ahead int, used, amount float64) (total float64, out int) {
	scale := level(draw, days)
	out = ahead
	if used >= amount {
		out = 0
	}
	for hour := 0; hour < ahead; hour += 24 {
		pool := likely(days, hour/24)
		day := days[pool[draw.IntN(len(pool))]]
		for i := range min(24, ahead-hour) {
			used += float64(day[i]) * scale
			if used >= amount && out == ahead {
				out = hour + i
			}
		}
	}
	return used, out
}

// level is by how much a future lies above or below the history: the mean of seven days drawn from the
// last seven, of the mean of all.
func level(draw *rand.Rand, days [][]int64) float64 {
	recent := min(7, len(days))
	drawn, all := 0.0, 0.0
	for range recent {
		drawn += sum(days[draw.IntN(recent)])
	}
	for _, d := range days {
		all += sum(d)
	}
	if all == 0 {
		return 0
	}
	return (drawn / float64(recent)) / (all / float64(len(days)))
}

func sum(hours []int64) (total float64) {
	for _, h := range hours {
		total += float64(h)
	}
	return total
}

// likely are the days that a coming one is drawn from: those whole weeks before it, and
// with fewer than three of those, the days beside them too.
func likely(days [][]int64, coming int) []int {
	same := func(coming int) (out []int) {
		for at := 6 - coming%7; at < len(days); at += 7 { // the last day is a week before the seventh to come
			out = append(out, at)
		}
		return out
	}
	pool := same(coming)
	if len(pool) < 3 {
		pool = append(append(pool, same(coming+1)...), same(coming+6)...)
	}
	return pool
}
