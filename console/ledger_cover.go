package console

import "time"

const quarterHour = 15 * time.Minute

// forever is later than anything that the ledger holds.
func forever() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// floorTo and ceilTo round to whole d since 1970; days are those of UTC.
func floorTo(t time.Time, d time.Duration) time.Time {
	s, n := t.Unix(), int64(d/time.Second)
	rest := s % n
	if rest < 0 {
		rest += n
	}
	return time.Unix(s-rest, 0).UTC()
}

func ceilTo(t time.Time, d time.Duration) time.Time {
	f := floorTo(t, d)
	if f.Before(t) {
		return f.Add(d)
	}
	return f
}

// coverOf reads a range from the coarsest sums that fit into it: of those up to coarsest,
// a quarter, an hour or a day. The ends are whole quarters.
func coverOf(from, to time.Time, coarsest time.Duration) UsageCover {
	const hour, day = time.Hour, 24 * time.Hour
	c := UsageCover{From: from, HoursFrom: to, DaysFrom: to, DaysTo: to, HoursTo: to, To: to}
	if coarsest < hour {
		return c
	}
	hf, ht := ceilTo(from, hour), floorTo(to, hour)
	if !hf.Before(ht) {
		return c
	}
	c.HoursFrom, c.DaysFrom, c.DaysTo, c.HoursTo = hf, ht, ht, ht
	df, dt := ceilTo(from, day), floorTo(to, day)
	if coarsest < day || !df.Before(dt) {
		return c
	}
	c.DaysFrom, c.DaysTo = df, dt
	return c
}

// Cover says from which sums an ask is answered.
func (a LedgerAsk) Cover() UsageCover {
	to := a.To
	if to.IsZero() {
		to = forever()
	}
	from := a.From
	if from.Before(time.Unix(0, 0)) {
		from = time.Unix(0, 0)
	}
	from, to = floorTo(from, quarterHour), ceilTo(to, quarterHour)
	if to.Before(from) {
		to = from
	}
	return coverOf(from, to, 24*time.Hour)
}
