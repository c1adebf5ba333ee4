package ui

import (
	"math"
	"strconv"
	"strings"
)

// BarChart is sums by step of time, as bars.
type BarChart struct {
	ID, Title, Unit string
	Zone            string // of every time on it
	Bars            []Bar
	Refused         bool // refusals stand on top of what was admitted
	Before          bool // with the period before as marks
}

// Bar is one step.
type Bar struct {
	When, Tick             string // in full, and as the axis has room for; Tick "" has no label
	Main, Refused, Earlier int64
	Cost                   int64 // beside Main in the table, when Main is requests
	Open                   bool  // the step is not over, or the ledger has not all of it
	Future                 bool  // the ledger knows nothing of it yet
}

const (
	plotHeight = 144.0
	plotWidth  = 1000.0
)

func (c BarChart) top() float64 {
	most := int64(1)
	for _, b := range c.Bars {
		n := b.Main
		if c.Refused {
			n += b.Refused
		}
		if c.Before {
			n = max(n, b.Earlier)
		}
		most = max(most, n)
	}
	return roundTop(float64(most))
}

// roundTop is the end of a scale that shows x and leaves little of it empty.
func roundTop(x float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(max(x, 1))))
	for _, m := range []float64{1, 1.2, 1.6, 2, 3, 4, 5, 6, 8} {
		if x <= m*base {
			return m * base
		}
	}
	return 10 * base
}

// bars are all bars of one kind as one path: pages stay small.
func (c BarChart) bars(kind string) string {
	var b strings.Builder
	top, slot := c.top(), plotWidth/float64(max(len(c.Bars), 1))
	gap := min(slot*0.15, 4)
	height := func(n int64) float64 { return float64(n) / top * plotHeight }
	for i, bar := range c.Bars {
		x, base, n := float64(i)*slot+gap/2, plotHeight, bar.Main
		switch {
		case kind == "refused" && c.Refused:
			base, n = plotHeight-height(bar.Main), bar.Refused
		case kind == "refused":
			n = 0
		case kind == "earlier":
			n = bar.Earlier
		case (kind == "open") != bar.Open:
			n = 0
		}
		if n <= 0 {
			continue
		}
		y := base - max(height(n), 0.8)
		if kind == "earlier" {
			b.WriteString("M" + short(x) + "," + short(y) + "h" + short(slot-gap))
			continue
		}
		b.WriteString("M" + short(x) + "," + short(base) + "V" + short(y) + "h" + short(slot-gap) + "V" + short(base) + "z")
	}
	return b.String()
}

func short(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// chartTick is a label below the axis, at a share of the width. Every other one is
// left out where there is little room.
type chartTick struct{ X, Label, Anchor, Class string }

func (c BarChart) ticks() (out []chartTick) {
	for i, b := range c.Bars {
		if b.Tick == "" {
			continue
		}
		share := 100 * (float64(i) + 0.5) / float64(len(c.Bars))
		t := chartTick{X: short(share) + "%", Label: b.Tick, Anchor: "middle"}
		if len(out)%2 == 1 {
			t.Class = "alt"
		}
		switch {
		case share < 5:
			t.X, t.Anchor = "0", "start"
		case share > 95:
			t.X, t.Anchor = "100%", "end"
		}
		out = append(out, t)
	}
	return out
}

// any reports whether a bar is not zero.
func (c BarChart) any() bool {
	for _, b := range c.Bars {
		if b.Main != 0 || b.Refused != 0 || b.Earlier != 0 {
			return true
		}
	}
	return false
}

func (c BarChart) spoken() string {
	if len(c.Bars) == 0 {
		return c.Title + ": nothing"
	}
	most, at, sum := int64(-1), "", int64(0)
	for _, b := range c.Bars {
		if sum += b.Main; b.Main > most {
			most, at = b.Main, b.When
		}
	}
	return c.Title + ", " + c.Unit + ", from " + c.Bars[0].When + " to " + c.Bars[len(c.Bars)-1].When + " (" + c.Zone + "): " +
		Int(sum) + " in all, at most " + Int(most) + " (" + at + "). The numbers are in the table below."
}

// columns are the heads of the table behind the chart.
func (c BarChart) columns() []Col {
	cols := []Col{{Label: "From, " + c.Zone}, {Label: strings.ToUpper(c.Unit[:1]) + c.Unit[1:], Num: true}}
	if c.Refused {
		cols = append(cols, Col{Label: "Cost", Num: true}, Col{Label: "Refused requests", Num: true})
	}
	if c.Before {
		cols = append(cols, Col{Label: "Period before", Num: true})
	}
	return cols
}

// spark is a row's line as a path in a box of 100 × 20.
func spark(values []int64) string {
	most := int64(1)
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for i, v := range values {
		x := 100.0
		if len(values) > 1 {
			x = 100 * float64(i) / float64(len(values)-1)
		}
		command := "L"
		if i == 0 {
			command = "M"
		}
		b.WriteString(command + short(x) + "," + short(19-18*float64(max(v, 0))/float64(most)))
	}
	if len(values) == 1 {
		b.WriteString("h-100")
	}
	return b.String()
}

// HeatMap is how much was used by weekday and hour, on average of the days that
// the range has.
type HeatMap struct {
	Title, Unit, Zone string
	Days              []HeatDay // Monday first
}

// HeatDay is one weekday.
type HeatDay struct {
	Name  string
	Hours [24]HeatCell
}

// HeatCell is one hour of a weekday.
type HeatCell struct {
	Value int64 // per hour, rounded
	Known bool  // the range has such an hour
}

// heatLevels is how many shades there are besides none.
const heatLevels = 5

func (h HeatMap) most() int64 {
	most := int64(0)
	for _, d := range h.Days {
		for _, c := range d.Hours {
			most = max(most, c.Value)
		}
	}
	return most
}

// cells are the cells of one shade as one path; level -1 is what is not known.
func (h HeatMap) cells(level int) string {
	most := h.most()
	var b strings.Builder
	for row, d := range h.Days {
		for hour, c := range d.Hours {
			if shade(c, most) == level {
				b.WriteString("M" + strconv.Itoa(hour*40) + "," + strconv.Itoa(row*20) + "h38v18h-38z")
			}
		}
	}
	return b.String()
}

func shade(c HeatCell, most int64) int {
	switch {
	case !c.Known:
		return -1
	case c.Value <= 0 || most == 0:
		return 0
	}
	return 1 + int(min((c.Value-1)*heatLevels/most, heatLevels-1))
}

func (h HeatMap) spoken() string {
	most, at := int64(-1), ""
	for _, d := range h.Days {
		for hour, c := range d.Hours {
			if c.Known && c.Value > most {
				most, at = c.Value, d.Name+" from "+hourWord(hour)
			}
		}
	}
	if most < 0 {
		return h.Title + ": nothing known"
	}
	return h.Title + ", " + h.Zone + ": the busiest hour is " + at + " with " + Int(most) + " " + h.Unit + ". The numbers are in the table below."
}

func hourWord(hour int) string {
	s := strconv.Itoa(hour)
	if hour < 10 {
		s = "0" + s
	}
	return s + ":00"
}

func (h HeatMap) columns() []Col {
	cols := []Col{{Label: "Hour, " + h.Zone}}
	for _, d := range h.Days {
		cols = append(cols, Col{Label: d.Name, Num: true})
	}
	return cols
}

func heatClass(level int) string {
	if level < 0 {
		return "unknown"
	}
	return "h" + strconv.Itoa(level)
}

// QuotaBar is how much of a quota is used.
type QuotaBar struct {
	Known    bool
	Percent  int    // of the amount; may be over 100
	Text     string // "812 400 of 1 000 000"
	Hard     int    // mark of the most that is admitted, in percent of the amount; 0 without one
	Forecast string // "runs out 3 Dec", "lasts", "unknown"
	Tone     string
}
