package policy

import (
	"strings"
	"time"
)

// quota checks a plan's quota.
func (v *validator) quota(at string, q *Quota) {
	if q.Amount < 0 || q.Amount > MaxAmount {
		v.problems.addf(at+".amount", "%d must be 0 to %d (2^53-1)", q.Amount, int64(MaxAmount))
	} else if q.Amount == 0 {
		v.warnings.addf(at+".amount", "0 admits nothing")
	}
	v.word(at+".counts", string(q.Counts), string(CountsCost), string(CountsRequests))
	v.word(at+".period", string(q.Period), textsOf(quotaPeriods())...)
	v.word(at+".alignment", string(q.Alignment), string(AlignCalendar), string(AlignAnniversary))
	v.word(at+".over", string(q.Over), string(OverBlock), string(OverBill))
	v.word(at+".mode", string(q.Mode), string(ModeEnforce), string(ModeShadow))
	if why := v.badZone(q.TimeZone); why != "" {
		v.problems.addf(at+".time_zone", "%s", why)
	}
	switch {
	case q.Max == 0:
	case q.Over == OverBlock:
		v.problems.addf(at+".max", "%d is for over: bill, which admits beyond the amount; block refuses at the amount", q.Max)
	case q.Max < 0 || q.Max > MaxAmount:
		v.problems.addf(at+".max", "%d must be %d to %d (2^53-1)", q.Max, q.Amount, int64(MaxAmount))
	case q.Max < q.Amount:
		v.problems.addf(at+".max", "%d must be at least the amount, %d", q.Max, q.Amount)
	}
}

// badZone says what is wrong with a time zone; "" for nothing. A document names
// few zones many times, and finding one may need a look at files.
func (v *validator) badZone(name string) string {
	why, ok := v.zones[name]
	if !ok {
		if _, err := LoadZone(name); err != nil {
			why = err.Error()
		}
		v.zones[name] = why
	}
	return why
}

// word checks a word of a closed set.
func (v *validator) word(at, word string, words ...string) {
	for _, w := range words {
		if word == w {
			return
		}
	}
	if word == "" {
		v.problems.addf(at, "is missing: it must be one of %s", strings.Join(words, ", "))
		return
	}
	v.problems.addf(at, "%q is not known: it must be one of %s", clip(word), strings.Join(words, ", "))
}

// concurrency checks a route's concurrency limit.
func (v *validator) concurrency(at string, r *Route) {
	c := r.Concurrency
	v.per(at+".per", c.Per, routePlace(r))
	switch {
	case c.Max == 0:
		v.problems.addf(at+".max", "is missing: 1 to %d requests at once", MaxConcurrency)
	case c.Max < 1 || c.Max > MaxConcurrency:
		v.problems.addf(at+".max", "%d must be 1 to %d requests at once", c.Max, MaxConcurrency)
	}
	switch {
	case c.Lease == 0:
		v.problems.addf(at+".lease", "is missing: after how long a request that nobody renews no longer counts, such as 90s")
	case c.Lease < MinLease || c.Lease > MaxLease || c.Lease%time.Microsecond != 0:
		v.problems.addf(at+".lease", "%s must be %s to %s", periodText(c.Lease), periodText(MinLease), periodText(MaxLease))
	}
	v.word(at+".mode", string(c.Mode), string(ModeEnforce), string(ModeShadow))
}
