package views

import (
	"strconv"
	"time"

	"github.com/headgate/headgate/views/ui"
)

// Sizes of a timeline, in units of its drawing.
const (
	timelineWide  = 1000
	timelineLabel = 120
	timelineRow   = 20
)

func (p TimelineProps) viewBox() string {
	return "0 0 " + strconv.Itoa(timelineWide) + " " + strconv.Itoa(timelineRow*len(p.Lives))
}

// place is where a moment lies, between the labels and the right edge.
func (p TimelineProps) place(t time.Time) float64 {
	all := p.To.Sub(p.From)
	if all <= 0 {
		return timelineLabel
	}
	share := float64(t.Sub(p.From)) / float64(all)
	return timelineLabel + min(max(share, 0), 1)*(timelineWide-timelineLabel)
}

func (p TimelineProps) x(t time.Time) string { return strconv.FormatFloat(p.place(t), 'f', 1, 64) }

// width is never nothing: a short life is still seen.
func (p TimelineProps) width(from, to time.Time) string {
	return strconv.FormatFloat(max(p.place(to)-p.place(from), 2), 'f', 1, 64)
}

func (p TimelineProps) y(i int) string     { return strconv.Itoa(timelineRow*i + 6) }
func (p TimelineProps) textY(i int) string { return strconv.Itoa(timelineRow*i + 14) }

func (p TimelineProps) caption() string {
	return "from " + ui.Absolute(p.From) + " to " + ui.Absolute(p.To) + "; the lighter part is the overlap of a rotation"
}
