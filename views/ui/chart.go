package ui

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Marker is a moment drawn over a chart: a publication.
type Marker struct {
	At    time.Time
	Label string // "v42"
}

// StatProps is one headline number with its line over a range of time.
type StatProps struct {
	Label string
	Note  string // below the value: source, age or comparison
	Value string
	Unit  string
	Tone  string // "" or bad
	// Values are the points of the line, oldest first, one each Step from From;
	// NaN is a gap where nothing is known.
	Values  []float64
	From    time.Time
	Step    time.Duration
	Markers []Marker
}

// Series is one line or area of a Chart.
type Series struct {
	Name   string
	Tone   string    // "", bad, warn or calm
	Values []float64 // NaN: not known
}

// ChartProps is a time series. All series share From and Step.
type ChartProps struct {
	ID      string // unique on the page
	Title   string
	Unit    string // of the values, such as "requests/s"
	From    time.Time
	Step    time.Duration
	Series  []Series
	Markers []Marker
}

// Known reports whether any point of any series is known.
func (p ChartProps) Known() bool {
	for _, s := range p.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				return true
			}
		}
	}
	return false
}

// top is the upper end of the chart's scale: 1, 2 or 5 times a power of ten at
// or above the largest value.
func (p ChartProps) top() float64 {
	largest := 0.0
	for _, s := range p.Series {
		largest = max(largest, peak(s.Values))
	}
	return NiceTop(largest)
}

func peak(values []float64) float64 {
	m := 0.0
	for _, v := range values {
		if !math.IsNaN(v) && v > m {
			m = v
		}
	}
	return m
}

// NiceTop is the end of a scale that shows x: 1, 2 or 5 times a power of ten.
func NiceTop(x float64) float64 {
	if x <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5, 10} {
		if x <= m*base {
			return m * base
		}
	}
	return 10 * base
}

// shape is a series as SVG paths in a box of 100 × h, y downwards.
type shape struct{ line, area string }

// drawn turns values into paths. Gaps stay gaps; a lone point is a short dash.
func drawn(values []float64, top, h float64) shape {
	var line, area strings.Builder
	n := len(values)
	x := func(i int) float64 {
		if n < 2 {
			return 100
		}
		return 100 * float64(i) / float64(n-1)
	}
	y := func(v float64) float64 { return h - v/top*(h-2) - 1 }
	for i := 0; i < n; {
		if math.IsNaN(values[i]) {
			i++
			continue
		}
		j := i
		for j < n && !math.IsNaN(values[j]) {
			j++
		}
		command := "M"
		for k := i; k < j; k++ {
			line.WriteString(command + coord(x(k)) + "," + coord(y(values[k])) + " ")
			command = "L"
		}
		if j == i+1 {
			line.WriteString("h0.6 ")
		}
		area.WriteString("M" + coord(x(i)) + "," + coord(h) + " ")
		for k := i; k < j; k++ {
			area.WriteString("L" + coord(x(k)) + "," + coord(y(values[k])) + " ")
		}
		area.WriteString("L" + coord(x(j-1)) + "," + coord(h) + " Z ")
		i = j
	}
	return shape{strings.TrimSpace(line.String()), strings.TrimSpace(area.String())}
}

func coord(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// labelRoom is the share of a chart's width that a marker's label takes.
const labelRoom = 0.06

// placed keeps the markers that fall into the range, with their place in 0…100.
// Of those too close for two labels the latest keeps its own.
func placed(markers []Marker, from time.Time, step time.Duration, n int) []placedMarker {
	var out []placedMarker
	span := step * time.Duration(n-1)
	if span <= 0 {
		return nil
	}
	for _, m := range markers {
		at := m.At.Sub(from)
		if at >= 0 && at <= span {
			share := float64(at) / float64(span)
			p := placedMarker{X: coord(100 * share), Label: m.Label, AtEnd: share > 0.94}
			for _, other := range markers {
				gap := other.At.Sub(m.At)
				if gap > 0 && other.At.Sub(from) <= span && float64(gap) < labelRoom*float64(span) {
					p.Label = ""
				}
			}
			out = append(out, p)
		}
	}
	return out
}

type placedMarker struct {
	X, Label string
	AtEnd    bool // its label stands to the left
}

func (p StatProps) shape() shape {
	return drawn(p.Values, max(peak(p.Values)*1.1, 1e-9), 32)
}

func (p StatProps) placed() []placedMarker {
	return placed(p.Markers, p.From, p.Step, len(p.Values))
}

// spoken is the line in words, for those who do not see it.
func (p StatProps) spoken() string {
	known, low, high := 0, math.Inf(1), math.Inf(-1)
	for _, v := range p.Values {
		if !math.IsNaN(v) {
			known++
			low, high = min(low, v), max(high, v)
		}
	}
	if known == 0 {
		return p.Label + ": nothing known yet"
	}
	s := p.Label + ", last " + Span(p.Step*time.Duration(len(p.Values))) + ": between " + Num(low) + " and " + Num(high)
	for _, m := range p.placed() {
		s += ", " + m.Label + " published"
	}
	return s
}

func (p ChartProps) points() int {
	n := 0
	for _, s := range p.Series {
		n = max(n, len(s.Values))
	}
	return n
}

func (p ChartProps) placed() []placedMarker {
	return placed(p.Markers, p.From, p.Step, p.points())
}

func (p ChartProps) end() time.Time { return p.From.Add(p.Step * time.Duration(max(p.points()-1, 0))) }

func (p ChartProps) spoken() string {
	s := p.Title + ", " + p.Unit + ", from " + Absolute(p.From) + " to " + Absolute(p.end()) + "."
	for _, x := range p.Series {
		s += " " + x.Name + ": at most " + Num(peak(x.Values)) + "."
	}
	return s + " The numbers are in the table below."
}

// maxDataRows bounds the table behind a chart; more points are put together.
const maxDataRows = 60

type dataRow struct {
	at    time.Time
	cells []string
}

// data is the chart as a table, newest first. Points that share a row are
// averaged over those that are known.
func (p ChartProps) data() []dataRow {
	n := p.points()
	if n == 0 {
		return nil
	}
	per := (n + maxDataRows - 1) / maxDataRows
	var rows []dataRow
	for i := 0; i < n; i += per {
		row := dataRow{at: p.From.Add(p.Step * time.Duration(i))}
		for _, s := range p.Series {
			row.cells = append(row.cells, Num(mean(s.Values, i, i+per)))
		}
		rows = append(rows, row)
	}
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

func mean(values []float64, from, to int) float64 {
	sum, n := 0.0, 0
	for i := from; i < to && i < len(values); i++ {
		if !math.IsNaN(values[i]) {
			sum += values[i]
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
