package ui

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	gap   = math.NaN()
	start = time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)
)

func TestDrawn_LeavesGapsWhereNothingIsKnown(t *testing.T) {
	t.Parallel()
	s := drawn([]float64{0, 10, gap, gap, 10, gap}, 10, 100)
	if got := strings.Count(s.line, "M"); got != 2 {
		t.Errorf("%d strokes in %s", got, s.line)
	}
	if got := strings.Count(s.area, "Z"); got != 2 {
		t.Errorf("%d areas in %s", got, s.area)
	}
	if !strings.HasPrefix(s.line, "M0.0,99.0 L20.0,1.0") || !strings.Contains(s.line, "M80.0,1.0 h0.6") {
		t.Errorf("line %s", s.line)
	}
	if s := drawn(nil, 1, 10); s.line != "" || s.area != "" {
		t.Errorf("nothing is drawn as %+v", s)
	}
}

func TestDrawn_StaysInItsBoxForAnyValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Just(gap)), 0, 200).Draw(t, "values")
		top := NiceTop(peak(values))
		if top < peak(values) || top > 10*max(peak(values), 0.1) {
			t.Fatalf("top %v for peak %v", top, peak(values))
		}
		s := drawn(values, top, 100)
		if strings.Contains(s.line+s.area, "NaN") || strings.Contains(s.line+s.area, "-") || strings.Contains(s.line, "Inf") {
			t.Fatalf("drawn as %s", s.line)
		}
	})
}

func TestPlaced_KeepsMarkersOfTheRangeAlone(t *testing.T) {
	t.Parallel()
	got := placed([]Marker{{start.Add(-time.Second), "v1"}, {start.Add(30 * time.Minute), "v2"}, {start.Add(time.Hour), "v3"}, {start.Add(61 * time.Minute), "v4"}}, start, time.Minute, 61)
	if len(got) != 2 || got[0] != (placedMarker{X: "50.0", Label: "v2"}) || got[1] != (placedMarker{X: "100.0", Label: "v3", AtEnd: true}) {
		t.Errorf("%+v", got)
	}
	near := placed([]Marker{{start.Add(20 * time.Minute), "v1"}, {start.Add(21 * time.Minute), "v2"}, {start.Add(40 * time.Minute), "v3"}}, start, time.Minute, 61)
	if len(near) != 3 || near[0].Label != "" || near[1].Label != "v2" || near[2].Label != "v3" {
		t.Errorf("of two labels in one place the latest must stay: %+v", near)
	}
	if got := placed([]Marker{{start, "v1"}}, start, time.Minute, 1); got != nil {
		t.Errorf("a range without length has markers: %+v", got)
	}
}

func chartOf(values ...float64) ChartProps {
	return ChartProps{ID: "c", Title: "Requests", Unit: "requests/s", From: start, Step: time.Minute, Series: []Series{{Name: "admitted", Values: values}, {Name: "refused", Tone: "bad", Values: make([]float64, len(values))}}, Markers: []Marker{{start.Add(time.Minute), "v42"}}}
}

func TestChart_HasItsNumbersInATable(t *testing.T) {
	t.Parallel()
	page := drawnAs(t, Chart(chartOf(1, gap, 3)))
	for _, want := range []string{"Show data", "<caption>Requests, requests/s</caption>", `<td class="num">unknown</td>`, `<td class="num">3</td>`, "v42", `role="img"`, "11:00:00"} {
		if !strings.Contains(page, want) {
			t.Errorf("the chart lacks %s", want)
		}
	}
	if strings.Contains(page, "style=") {
		t.Error("the chart has a style attribute, which pages may not have")
	}
	many := make([]float64, 720)
	if rows := chartOf(many...).data(); len(rows) != maxDataRows || !rows[0].at.After(rows[1].at) {
		t.Errorf("%d rows, newest first %v", len(rows), rows[0].at.After(rows[1].at))
	}
}

func TestChart_WithoutAnyCountSaysSo(t *testing.T) {
	t.Parallel()
	p := chartOf(gap, gap)
	p.Series = p.Series[:1]
	page := drawnAs(t, Chart(p))
	if p.Known() || strings.Contains(page, "<svg") || !strings.Contains(page, "No counts have come in this range") {
		t.Errorf("an unknown range is drawn: %s", page)
	}
}

func TestStat_SpeaksItsLineAndHidesTheUnitOfUnknown(t *testing.T) {
	t.Parallel()
	p := StatProps{Label: "Decisions", Value: "12", Unit: "/s", Values: []float64{1, gap, 12}, From: start, Step: time.Minute, Markers: []Marker{{start.Add(time.Minute), "v42"}}}
	if page := drawnAs(t, Stat(p)); !strings.Contains(page, "Decisions, last 3 min: between 1 and 12, v42 published") || !strings.Contains(page, "<small>/s</small>") {
		t.Errorf("%s", page)
	}
	p.Value, p.Values = Unknown, []float64{gap}
	if page := drawnAs(t, Stat(p)); strings.Contains(page, "<small>") || !strings.Contains(page, "nothing known yet") {
		t.Errorf("%s", page)
	}
}
