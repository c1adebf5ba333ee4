package policy

import "time"

// PeriodAt is the period that holds now, half-open: start is in it, end is not.
// Anchor is the date on which the tenant began, for AlignAnniversary: the date
// that it shows in its own location counts and nothing else of it; a zero anchor
// means calendar periods. Zone is the tenant's; nil means the quota's own. A
// period begins with the first moment of its first day there, also where clocks
// are turned at midnight. A lifetime has the start of Unix time as its start and
// a zero end.
func (q *CompiledQuota) PeriodAt(now, anchor time.Time, zone *time.Location) (start, end time.Time) {
	if zone == nil {
		zone = q.Location
	}
	today := dateOf(now.In(zone))
	if q.Alignment != AlignAnniversary || anchor.IsZero() {
		anchor = time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC) // a Monday, a first and a new year
	}
	from := dateOf(anchor)
	var first, next date
	switch q.Period {
	case PeriodLifetime:
		return time.Unix(0, 0).UTC(), time.Time{}
	case PeriodYear:
		first, next = months(from, today, 12)
	case PeriodMonth:
		first, next = months(from, today, 1)
	case PeriodWeek:
		first = today - date(floorMod(int64(today-from), 7))
		next = first + 7
	default:
		first, next = today, today+1
	}
	return first.start(zone), next.start(zone)
}

// date is a day of the calendar, counted from 1970-01-01.
type date int64

func dateOf(t time.Time) date { return dateFor(t.Date()) }

func dateFor(year int, month time.Month, day int) date {
	return date(floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), 86_400))
}

func (d date) civil() (year int, month time.Month, day int) {
	return time.Unix(int64(d)*86_400, 0).UTC().Date()
}

// start is the first moment of the day in a zone. Where clocks skip midnight,
// that is later than 00:00; where they show it twice, it is the first time.
func (d date) start(zone *time.Location) time.Time {
	year, month, day := d.civil()
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	for range 2 { // clocks are not turned twice within a day
		turned, next := t.ZoneBounds()
		switch {
		case dateOf(t) < d: // midnight was skipped, and t lies before the gap
			t = next
		case turned.IsZero() || t.Sub(turned) > 24*time.Hour || dateOf(turned) < d:
			return t
		default: // the day was there before clocks were turned, or began by it
			before := turned.Add(-time.Nanosecond)
			if t = turned; dateOf(before) >= d {
				t = startOfDay(before)
			}
		}
	}
	return t
}

// startOfDay is 00:00 before t, for days on which clocks were not turned until t.
func startOfDay(t time.Time) time.Time {
	hour, minute, second := t.Clock()
	return t.Add(-time.Duration(hour)*time.Hour - time.Duration(minute)*time.Minute - time.Duration(second)*time.Second -
		time.Duration(t.Nanosecond()))
}

// months is the period of so many months that holds a day, counted from an
// anchor. A day that a month lacks is its last day; the next month that has it
// has it again, because each start is counted from the anchor itself.
func months(anchor, today date, step int) (first, next date) {
	year, month, day := anchor.civil()
	begin := func(n int) date { return anniversary(year, month, day, n*step) }
	thisYear, thisMonth, _ := today.civil()
	n := int(floorDiv(int64(thisYear-year)*12+int64(thisMonth-month), int64(step)))
	if begin(n) > today {
		n--
	}
	return begin(n), begin(n + 1)
}

// anniversary is the day, so many months later, of a date.
func anniversary(year int, month time.Month, day, later int) date {
	first := time.Date(year, month+time.Month(later), 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(first.Year(), first.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return dateFor(first.Year(), first.Month(), min(day, last))
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - b*floorDiv(a, b) }
