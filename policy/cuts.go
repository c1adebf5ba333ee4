package policy

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Kinds of a Cut.
const (
	CutHalf     = "cut-half"   // half or less of what was admitted is left
	CutBlocked  = "blocked"    // nothing is left
	CutLimit    = "limit-gone" // a limit is no longer there, or no longer drawn from
	CutRoute    = "route-gone" // a route is no longer there
	CutNoRoutes = "no-routes"  // no route is left at all
	CutNoLimits = "no-limits"  // no limit is left at all
)

// Cut is a change that may be a slip: a limit of which half or less is left, or
// something that vanishes. Whoever publishes it should say that it is meant.
type Cut struct {
	Kind    string  `json:"kind"`
	Path    string  `json:"path"` // as in Change; "" for the whole document
	LimitID string  `json:"limit_id,omitempty"`
	Plan    string  `json:"plan,omitempty"`  // in which it is; "" outside plans
	Route   string  `json:"route,omitempty"` // in which it is; "" outside routes
	Unit    string  `json:"unit,omitempty"`  // of Before and After: "a minute", "at once", "a month"
	Before  float64 `json:"before"`          // what was admitted, -1 for unlimited
	After   float64 `json:"after"`           // what is admitted
	Factor  float64 `json:"factor"`          // After / Before, 0 to 0.5; 0 from unlimited
	Text    string  `json:"text"`            // one sentence for people
	Word    string  `json:"word,omitempty"`  // what to type to confirm it: "0 routes", "0 limits"; "" for a box to tick
}

// Cuts lists what a publisher should confirm of the changes from before to after,
// in the order of the document, and first of all that no routes or no limits are
// left. Limits that only look (shadow) are not listed, nor are renamed ones. It is
// empty when before is nil: nothing can be lost that was never there.
func Cuts(before, after *Document) []Cut {
	if before == nil {
		return nil
	}
	d := &differ{before: before.withDefaults(), after: after.withDefaults()}
	d.compare()
	var out []Cut
	if n := len(d.before.Routes); n > 0 && len(d.after.Routes) == 0 {
		out = append(out, Cut{Kind: CutNoRoutes, Path: "routes", Unit: "routes", Before: float64(n), Word: "0 routes",
			Text: fmt.Sprintf("0 routes are left of %d: every request is refused with 404", n)})
	}
	if n := d.before.limitCount(); n > 0 && d.after.limitCount() == 0 {
		out = append(out, Cut{Kind: CutNoLimits, Unit: "limits", Before: float64(n), Word: "0 limits",
			Text: fmt.Sprintf("0 limits are left of %d: nothing bounds anybody", n)})
	}
	return append(out, d.cuts...)
}

// limitCount is how many limits of any kind the document has, those included
// that only look.
func (d *Document) limitCount() int {
	n := len(d.Global.Limits) + len(d.Shared)
	for _, p := range d.Plans {
		n += len(p.Limits)
		if p.Quota != nil {
			n++
		}
	}
	for _, r := range d.Routes {
		n += len(r.Limits)
		if r.Concurrency != nil {
			n++
		}
	}
	return n
}

// unlimited is how "no bound" is told in a Cut.
const unlimited = -1

// cut notes that half or less is left of what something admitted. what names it
// for people.
func (d *differ) cut(path, id, what, unit string, before, after float64) {
	c := Cut{Kind: CutHalf, Path: path, LimitID: id, Plan: d.inPlan, Route: d.inRoute, Unit: unit, Before: before, After: after}
	switch {
	case after == unlimited || before == 0 || (before != unlimited && after > before/suspiciousCut):
		return
	case after == 0:
		c.Kind, c.Text = CutBlocked, fmt.Sprintf("%s admits nothing any more (was %s)", what, amountText(before, unit))
	case before == unlimited:
		c.Text = fmt.Sprintf("%s admits %s and was unlimited", what, amountText(after, unit))
	default:
		c.Factor = after / before
		c.Text = fmt.Sprintf("%s admits %s instead of %s: %s %% is left", what, amountText(after, unit), number(before), number(100*c.Factor))
	}
	d.cuts = append(d.cuts, c)
}

// gone notes that something is no longer there.
func (d *differ) gone(kind, path, id, text string) {
	d.cuts = append(d.cuts, Cut{Kind: kind, Path: path, LimitID: id, Plan: d.inPlan, Route: d.inRoute, Text: text})
}

// cutLimit compares what two limits of one id admit.
func (d *differ) cutLimit(path, id, what string, b, a Limit) {
	if b.Mode == ModeShadow || a.Mode == ModeShadow {
		return
	}
	had := len(d.cuts)
	d.cut(path+".rate", id, what, "a minute", perMinuteOf(b), perMinuteOf(a))
	if len(d.cuts) == had && !b.Rate.Unlimited && !a.Rate.Unlimited {
		d.cut(path+".burst", id, what, "at once", float64(b.Burst), float64(a.Burst))
	}
}

// perMinuteOf is what a limit admits a minute over a long time.
func perMinuteOf(l Limit) float64 {
	switch {
	case l.Rate.Unlimited:
		return unlimited
	case l.Rate.Blocked() || l.Burst == 0 || l.Rate.Period <= 0:
		return 0
	}
	return float64(l.Rate.Tokens) * float64(time.Minute) / float64(l.Rate.Period)
}

func (d *differ) cutQuota(path, what string, b, a *Quota) {
	if b.Mode == ModeShadow || a.Mode == ModeShadow {
		return
	}
	if b.Period != a.Period {
		d.cut(path+".period", QuotaID, what, "a day", b.perDay(), a.perDay())
		return
	}
	unit, days := "a "+string(a.Period), float64(a.Period.days())
	if a.Period == PeriodLifetime {
		unit = "in all"
	}
	of := func(q *Quota) float64 {
		if perDay := q.perDay(); perDay != unlimited {
			return math.Round(perDay * days)
		}
		return unlimited
	}
	d.cut(path+".amount", QuotaID, what, unit, of(b), of(a))
}

func amountText(v float64, unit string) string {
	if v == unlimited {
		return unlimitedWord
	}
	return number(v) + " " + unit
}

// number is a number for people: whole where it is large, with three digits where
// it is small.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
