package used

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
)

// Measure is what a chart's bars are.
type Measure string

// Measures.
const (
	Requests Measure = ""     // admitted ones, with refusals on top
	Cost     Measure = "cost" // that was charged
)

// Of is the measure's number.
func (m Measure) Of(s console.UsageSums) int64 {
	if m == Cost {
		return s.Cost
	}
	return s.Admitted
}

// Unit is the measure in words.
func (m Measure) Unit() string {
	if m == Cost {
		return "cost units"
	}
	return "requests"
}

// Title is the heading of a chart by step.
func (m Measure) Title(step string) string {
	if m == Cost {
		return "Cost by " + step
	}
	return "Requests by " + step
}

// Spread puts the steps of a report on those of a span: two reports, or a report and
// a chart, may begin at different times.
func Spread(span console.UsageSpan, starts, at []time.Time, steps []console.UsageSums) []console.UsageSums {
	out := make([]console.UsageSums, len(starts))
	for i, t := range at {
		if i >= len(steps) {
			break
		}
		if t.Before(span.From) && i == 0 { // the first step may begin before what was asked for
			t = span.From
		}
		if k := span.Index(starts, t); k >= 0 {
			out[k].Add(steps[i])
		}
	}
	return out
}

// Chart draws a report. before may be nil; it is that of span.Before().
func Chart(id string, span console.UsageSpan, m Measure, now time.Time, report console.UsageReport, before *console.UsageReport) ui.BarChart {
	starts := span.Starts()
	c := ui.BarChart{ID: id, Title: m.Title(span.Step), Unit: m.Unit(), Zone: span.Zone.String(), Refused: m == Requests, Before: before != nil,
		Bars: make([]ui.Bar, len(starts))}
	sums := Spread(span, starts, report.Starts, report.Steps)
	var earlier []console.UsageSums
	if before != nil {
		b := span.Before()
		earlier = Spread(b, b.Starts(), before.Starts, before.Steps)
	}
	ticks := ticksOf(span, starts)
	for i, at := range starts {
		bar := ui.Bar{When: When(span.Step, at), Tick: ticks[i], Main: m.Of(sums[i]), Refused: sums[i].Refused, Cost: sums[i].Cost}
		if i < len(earlier) {
			bar.Earlier = m.Of(earlier[i])
		}
		bar.Open, bar.Future = standing(at, span.Next(at), now, report.Through, sums[i])
		c.Bars[i] = bar
	}
	return c
}

// standing says whether a step is not all there, and whether nothing at all is known
// of it.
func standing(from, to, now, through time.Time, s console.UsageSums) (open, future bool) {
	if s.Requests() == 0 && s.Cost == 0 {
		if !from.Before(now) || through.Before(from) {
			return false, true
		}
	}
	return through.Before(to), false
}

// Complete is how many steps from the first one the ledger has all of.
func Complete(span console.UsageSpan, starts []time.Time, through time.Time) int {
	for i, at := range starts {
		if through.Before(span.Next(at)) {
			return i
		}
	}
	return len(starts)
}

// Sum adds up the first n steps.
func Sum(steps []console.UsageSums, n int) (total console.UsageSums) {
	for i := range min(n, len(steps)) {
		total.Add(steps[i])
	}
	return total
}

// When is the beginning of a step in full, without its zone.
func When(step string, at time.Time) string {
	switch step {
	case console.SpanMonth:
		return at.Format("January 2006")
	case console.SpanDay:
		return at.Format("Mon 2 Jan 2006")
	default:
		return at.Format("2 Jan 2006, 15:04")
	}
}

// mostTicks is how many labels the axis of a chart has room for.
const mostTicks = 8

// ticksOf are the labels of the axis: where the coarser unit begins, or every so
// many steps.
func ticksOf(span console.UsageSpan, starts []time.Time) []string {
	out := make([]string, len(starts))
	each := (len(starts) + mostTicks - 1) / max(mostTicks, 1)
	if span.Step == console.SpanHour && len(starts) > 30 {
		days := 0
		for _, at := range starts {
			if at.Hour() == 0 {
				days++
			}
		}
		skip, seen := max(1, (days+mostTicks-1)/mostTicks), 0
		for i, at := range starts {
			if at.Hour() != 0 {
				continue
			}
			if seen%skip == 0 {
				out[i] = at.Format("2 Jan")
			}
			seen++
		}
		return out
	}
	for i, at := range starts {
		if i%max(each, 1) != 0 {
			continue
		}
		switch span.Step {
		case console.SpanMonth:
			out[i] = at.Format("Jan 2006")
		case console.SpanDay:
			out[i] = at.Format("2 Jan")
		default:
			out[i] = at.Format("15:04")
		}
	}
	return out
}

// Heat is how much an hour of each weekday had on average. Nil when the report, which
// must be by hour, spans less than two days. Hours that the ledger has not all of are
// left out.
func Heat(span console.UsageSpan, m Measure, report console.UsageReport) *ui.HeatMap {
	starts := span.Starts()
	if span.Step != console.SpanHour || len(starts) < 48 {
		return nil
	}
	h := &ui.HeatMap{Title: "Requests by weekday and hour", Unit: m.Unit() + " an hour", Zone: span.Zone.String()}
	if m == Cost {
		h.Title = "Cost by weekday and hour"
	}
	var sums, hours [7][24]int64
	steps := Spread(span, starts, report.Starts, report.Steps)
	for i := range Complete(span, starts, report.Through) {
		day, hour := (int(starts[i].Weekday())+6)%7, starts[i].Hour()
		sums[day][hour] += m.Of(steps[i])
		hours[day][hour]++
	}
	for day := range 7 {
		d := ui.HeatDay{Name: time.Weekday((day + 1) % 7).String()}
		for hour := range 24 {
			if n := hours[day][hour]; n > 0 {
				d.Hours[hour] = ui.HeatCell{Known: true, Value: (sums[day][hour] + n/2) / n}
			}
		}
		h.Days = append(h.Days, d)
	}
	return h
}

// Change is a number against the one before, in words.
func Change(now, before int64) string {
	switch {
	case before == now:
		return "±0 %"
	case before <= 0:
		return "new"
	}
	x := 100 * float64(now-before) / float64(before)
	sign := "+"
	if x < 0 {
		sign = "−"
	}
	if math.Abs(x) >= 1000 {
		return fmt.Sprintf("× %s", ui.Num(float64(now)/float64(before)))
	}
	return sign + ui.Num(math.Abs(x)) + " %"
}

// Age says how current a report is: its source and up to when it is complete.
func Age(now time.Time, report console.UsageReport) string {
	if report.Through.IsZero() {
		return "ledger · complete up to: " + ui.Unknown
	}
	return "ledger · complete up to " + ui.Ago(now, report.Through)
}

// Share is a part in percent, NaN of nothing.
func Share(part, of int64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return 100 * float64(part) / float64(of)
}

// Series is the measure of each step, for a row's line.
func Series(m Measure, steps []console.UsageSums) []int64 {
	out := make([]int64, len(steps))
	for i, s := range steps {
		out[i] = m.Of(s)
	}
	return out
}
