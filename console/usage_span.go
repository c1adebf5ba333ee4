package console

import (
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// Ranges that an ask may name. They end with the step that is under way.
const (
	RangeHour      = "1h"
	RangeDay       = "24h"
	RangeWeek      = "7d"
	RangeDays30    = "30d"
	RangeDays90    = "90d"
	RangeMonth     = "month" // this calendar month
	RangeLastMonth = "last-month"
	RangeYear      = "12m" // this calendar month and the eleven before
	RangeDates     = "dates"
)

// Steps that an ask may name.
const (
	SpanMinute = "minute"
	SpanHour   = "hour"
	SpanDay    = "day"
	SpanMonth  = "month"
)

// maxSpanSteps bounds the steps of one answer.
const maxSpanSteps = 1500

// UsageAsk is a range of time as it is asked for. Empty texts are defaults: the last
// 24 hours, in UTC, by a step that gives a readable chart.
type UsageAsk struct {
	Range    string // one of the ranges; From and To win over it
	From, To string // RFC 3339 times, or days of Zone (2006-01-02)
	// ToLast says that a day in To is the last one of the range and not the first
	// beyond it.
	ToLast bool
	Step   string
	Zone   string // IANA name
}

// UsageSpan is a range of time in steps. From and To lie on the bounds of steps.
type UsageSpan struct {
	Range    string
	From, To time.Time // half-open
	Step     string
	Zone     *time.Location
}

// Span reads an ask. An error names each field that is wrong.
func (a UsageAsk) Span(now time.Time) (UsageSpan, error) {
	var p problems
	s := UsageSpan{Range: a.Range, Zone: time.UTC}
	if a.Zone != "" {
		zone, err := policy.LoadZone(a.Zone)
		if err != nil {
			p.add("zone", "This is no time zone. Write an IANA name such as Europe/Berlin or UTC.")
		} else {
			s.Zone = zone
		}
	}
	switch {
	case a.From != "" || a.To != "":
		s.Range = RangeDates
		s.dates(a, now, &p)
	default:
		s.named(now, &p)
	}
	if a.Step != "" {
		s.Step = a.Step
	}
	s.fit(&p)
	return s, p.err()
}

// dates takes over From and To.
func (s *UsageSpan) dates(a UsageAsk, now time.Time, p *problems) {
	s.To = now
	if a.To != "" {
		day, at, ok := spanTime(a.To, s.Zone)
		switch {
		case !ok:
			p.add("to", "This is no time. Write a day such as 2026-11-30, or a time such as 2026-11-30T00:00:00Z.")
		case day && a.ToLast:
			s.To = at.AddDate(0, 0, 1)
		default:
			s.To = at
		}
	}
	s.From = s.To.Add(-24 * time.Hour)
	if a.From != "" {
		_, at, ok := spanTime(a.From, s.Zone)
		if !ok {
			p.add("from", "This is no time. Write a day such as 2026-11-01, or a time such as 2026-11-01T00:00:00Z.")
		}
		s.From = at
	}
	if len(*p) == 0 && !s.From.Before(s.To) {
		p.add("from", "It begins after its end.")
	}
	switch length := s.To.Sub(s.From); {
	case length <= 2*time.Hour:
		s.Step = SpanMinute
	case length <= 8*24*time.Hour:
		s.Step = SpanHour
	case length <= 190*24*time.Hour:
		s.Step = SpanDay
	default:
		s.Step = SpanMonth
	}
}

// spanTime reads a time or the beginning of a day.
func spanTime(text string, zone *time.Location) (day bool, at time.Time, ok bool) {
	text = strings.TrimSpace(text)
	if at, err := time.ParseInLocation(time.DateOnly, text, zone); err == nil {
		return true, at, spanYear(at)
	}
	at, err := time.Parse(time.RFC3339, text)
	return false, at, err == nil && spanYear(at)
}

// spanYear keeps to years that the database can hold and add to.
func spanYear(at time.Time) bool { return at.Year() >= 1970 && at.Year() < 3000 }

// named takes over a range by its name.
func (s *UsageSpan) named(now time.Time, p *problems) {
	local := now.In(s.Zone)
	month := time.Date(local.Year(), local.Month(), 1, 0, 0, 0, 0, s.Zone)
	s.To = now
	switch s.Range {
	case RangeHour:
		s.Step, s.From = SpanMinute, now.Add(-59*time.Minute)
	case "", RangeDay:
		s.Range, s.Step, s.From = RangeDay, SpanHour, now.Add(-23*time.Hour)
	case RangeWeek:
		s.Step, s.From = SpanHour, now.Add(-(7*24-1)*time.Hour)
	case RangeDays30:
		s.Step, s.From = SpanDay, local.AddDate(0, 0, -29)
	case RangeDays90:
		s.Step, s.From = SpanDay, local.AddDate(0, 0, -89)
	case RangeMonth:
		s.Step, s.From, s.To = SpanDay, month, month.AddDate(0, 1, 0)
	case RangeLastMonth:
		s.Step, s.From, s.To = SpanDay, month.AddDate(0, -1, 0), month
	case RangeYear:
		s.Step, s.From = SpanMonth, month.AddDate(0, -11, 0)
	default:
		p.add("range", "This is no range. It is one of 1h, 24h, 7d, 30d, 90d, month, last-month, 12m.")
	}
}

// fit puts both ends on bounds of steps.
func (s *UsageSpan) fit(p *problems) {
	if len(*p) > 0 {
		return
	}
	switch s.Step {
	case SpanMinute, SpanHour, SpanDay, SpanMonth:
	default:
		p.add("step", "This is no step. It is one of minute, hour, day, month.")
		return
	}
	s.From = s.floor(s.From)
	if to := s.floor(s.To); to.Before(s.To) {
		s.To = s.Next(to)
	} else {
		s.To = to
	}
	if s.count(maxSpanSteps+1) > maxSpanSteps {
		p.add("step", "The range has more than %d steps. Take a longer step or a shorter range.", maxSpanSteps)
	}
}

// floor is the beginning of the step that a time is in.
func (s UsageSpan) floor(t time.Time) time.Time {
	t = t.In(s.Zone)
	switch s.Step {
	case SpanMinute:
		return t.Truncate(time.Minute)
	case SpanHour:
		// By the clock of the zone, which may be off by parts of an hour; where it is put
		// back, the hour that comes twice is two steps.
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case SpanDay:
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, s.Zone)
	default:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, s.Zone)
	}
}

// Next is the beginning of the step after the one that begins at t.
func (s UsageSpan) Next(t time.Time) time.Time {
	t = t.In(s.Zone)
	switch s.Step {
	case SpanMinute:
		return t.Add(time.Minute)
	case SpanHour:
		return t.Add(time.Hour)
	case SpanDay:
		return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, s.Zone)
	default:
		return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, s.Zone)
	}
}

// Starts are the beginnings of all steps.
func (s UsageSpan) Starts() []time.Time {
	var out []time.Time
	for t := s.From; t.Before(s.To) && len(out) <= maxSpanSteps; t = s.Next(t) {
		out = append(out, t)
	}
	return out
}

func (s UsageSpan) count(most int) (n int) {
	for t := s.From; t.Before(s.To) && n < most; t = s.Next(t) {
		n++
	}
	return n
}

// Before is the span of as many steps that ends where this one begins.
func (s UsageSpan) Before() UsageSpan {
	b := s
	b.To = s.From
	n := s.count(maxSpanSteps)
	switch s.Step {
	case SpanMinute:
		b.From = s.From.Add(-time.Duration(n) * time.Minute)
	case SpanHour:
		b.From = s.From.Add(-time.Duration(n) * time.Hour)
	case SpanDay:
		from := s.From.In(s.Zone)
		if s.Range == RangeMonth || s.Range == RangeLastMonth {
			b.From = time.Date(from.Year(), from.Month()-1, 1, 0, 0, 0, 0, s.Zone)
			break
		}
		b.From = time.Date(from.Year(), from.Month(), from.Day()-n, 0, 0, 0, 0, s.Zone)
	default:
		from := s.From.In(s.Zone)
		b.From = time.Date(from.Year(), from.Month()-time.Month(n), 1, 0, 0, 0, 0, s.Zone)
	}
	return b
}

// Index is the step that a time is in, -1 outside the span. starts are Starts'.
func (s UsageSpan) Index(starts []time.Time, t time.Time) int {
	if t.Before(s.From) || !t.Before(s.To) {
		return -1
	}
	low, high := 0, len(starts)
	for high-low > 1 {
		if mid := (low + high) / 2; starts[mid].After(t) {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}
