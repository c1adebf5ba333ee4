package console

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// Codes of a Confirmation, besides the kinds of a policy.Cut.
const (
	ConfirmBelowPeak    = "below-peak"     // a limit below what callers asked for in a minute of the last hour
	ConfirmPlanNoLimits = "plan-no-limits" // a plan without limits and quota
	ConfirmFailOpen     = "fail-open"      // a route that failed closed and now fails open
	ConfirmUnlimited    = "unlimited"      // what had a number and now has none
	ConfirmShadow       = "shadow"         // a limit that refused and now only looks
	ConfirmBehind       = "behind"         // the database is behind the gateways: a warning to programs, pages adopt first
)

// maxExamples bounds how many places one confirmation names.
const maxExamples = 5

// asking gathers confirmations: one a code, in order of the first place found.
type asking struct {
	codes []string
	texts map[string][]string
	words map[string]string
}

func (a *asking) add(code, text, word string) {
	if _, known := a.texts[code]; !known {
		a.codes = append(a.codes, code)
	}
	a.texts[code] = append(a.texts[code], text)
	if word != "" {
		a.words[code] = word
	}
}

func (a *asking) list() []Confirmation {
	var out []Confirmation
	for _, code := range a.codes {
		texts := a.texts[code]
		text := strings.Join(texts[:min(len(texts), maxExamples)], "; ")
		if more := len(texts) - maxExamples; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		out = append(out, Confirmation{Code: code, Text: text + ".", Word: a.words[code]})
	}
	return out
}

// askedOf gathers what the documents alone give reason to ask; changes is their
// Diff. There is nothing before the first publication: nothing can be lost that
// was never there.
func askedOf(before, after *policy.Document, changes []policy.Change, now time.Time) *asking {
	a := &asking{texts: map[string][]string{}, words: map[string]string{}}
	if before == nil || after == nil {
		return a
	}
	for _, c := range policy.Cuts(before, after) {
		a.add(c.Kind, c.Text, c.Word)
	}
	a.openings(changes)
	a.ended(changes, now)
	a.emptyPlans(before, after)
	return a
}

func (a *asking) clone() *asking {
	out := &asking{codes: slices.Clone(a.codes), texts: make(map[string][]string, len(a.texts)), words: maps.Clone(a.words)}
	for code, texts := range a.texts {
		out.texts[code] = slices.Clip(texts)
	}
	return out
}

// confirmations lists what a publisher has to say is meant: what was asked of
// the documents, which is left as it is, and what callers asked for of late.
func (a *asking) confirmations(before, after *policy.Document, plans plansOf, d demand) []Confirmation {
	if before == nil || after == nil {
		return nil
	}
	a = a.clone()
	if d.Known >= knownEnough {
		a.belowPeaks(before, after, plans, d)
	}
	return a.list()
}

// openings asks about what no longer refuses.
func (a *asking) openings(changes []policy.Change) {
	for _, c := range changes {
		switch {
		case strings.HasSuffix(c.Path, ".on_store_failure.mode") && c.After == string(policy.FailOpen):
			a.add(ConfirmFailOpen, c.Text, "")
		case c.After == "unlimited" && c.Before != "":
			a.add(ConfirmUnlimited, c.Text, "")
		case strings.HasSuffix(c.Path, ".mode") && c.After == string(policy.ModeShadow):
			a.add(ConfirmShadow, c.Text, "")
		}
	}
}

// ended asks about limits whose end is set to a time that is over: they are gone
// with the publication.
func (a *asking) ended(changes []policy.Change, now time.Time) {
	for _, c := range changes {
		if c.Effect != policy.EffectLooser || !strings.HasSuffix(c.Path, ".expires_at") {
			continue
		}
		if end, err := time.Parse(time.RFC3339Nano, c.After); err == nil && !end.After(now) {
			a.add(policy.CutLimit, c.Text+", which is over already: it holds no more", "")
		}
	}
}

func (a *asking) emptyPlans(before, after *policy.Document) {
	bare := func(p policy.Plan) bool { return len(p.Limits) == 0 && p.Quota == nil }
	var names []string
	for name, p := range after.Plans {
		if was, had := before.Plans[name]; bare(p) && !(had && bare(was)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a.add(ConfirmPlanNoLimits, fmt.Sprintf("plan %s has neither limits nor a quota", name), "")
	}
}

// placed is a limit with its place.
type placed struct {
	policy.Limit
	id, plan, route string
	global          bool
}

// placedLimits lists the limits whose demand is known: of routes, plans and of
// everything together. Shared ones count over several routes.
func placedLimits(d *policy.Document) []placed {
	var out []placed
	for _, l := range d.Global.Limits {
		out = append(out, placed{Limit: l, id: "global." + l.Name, global: true})
	}
	for name, p := range d.Plans {
		for _, l := range p.Limits {
			out = append(out, placed{Limit: l, id: "plan " + name + ": limit " + l.Name, plan: name})
		}
	}
	for i := range d.Routes {
		for _, l := range d.Routes[i].Limits {
			out = append(out, placed{Limit: l, id: "route:" + d.Routes[i].Name + "." + l.Name, route: d.Routes[i].Name})
		}
	}
	slices.SortFunc(out, func(a, b placed) int { return strings.Compare(a.id, b.id) })
	return out
}

// perMinute is what a limit admits a minute in the long run; infinite when it
// does not refuse.
func perMinute(l policy.Limit) float64 {
	if l.Rate.Unlimited || l.Mode == policy.ModeShadow || l.Rate.Period <= 0 {
		return math.Inf(1)
	}
	return float64(l.Rate.Tokens) * float64(time.Minute) / float64(l.Rate.Period)
}

// belowPeaks asks about limits that are new or tighter, and below what somebody
// asked for in a minute of the last hour.
func (a *asking) belowPeaks(before, after *policy.Document, plans plansOf, d demand) {
	old := map[string]float64{}
	for _, l := range placedLimits(before) {
		old[l.id] = perMinute(l.Limit)
	}
	for _, l := range placedLimits(after) {
		now := perMinute(l.Limit)
		was, had := old[l.id]
		if had && now >= was {
			continue
		}
		who, peak := l.peak(plans, d)
		if float64(peak) > now {
			a.add(ConfirmBelowPeak, fmt.Sprintf("%s admits %.6g a minute, and %s asked for %d in a minute of the last hour", l.id, now, who, peak), "")
		}
	}
}

// peak is the most that was asked of a limit in a minute, and by whom; 0 when
// that is not known.
func (l placed) peak(plans plansOf, d demand) (who string, peak int64) {
	var of usage.Demand
	switch {
	case l.global:
		of = d.All
	case l.route != "":
		of = d.Routes[l.route]
	default:
		of = plans.peaks[l.plan]
	}
	cost := l.Counts != policy.CountsRequests
	switch {
	case l.Per == policy.PerGlobal && cost:
		return "callers", of.PeakCost
	case l.Per == policy.PerGlobal:
		return "callers", of.PeakRequests
	case l.Per != policy.PerTenant:
		return "", 0
	case l.route == "" && cost:
		return "one tenant", of.PeakCost
	case l.route == "":
		return "one tenant", of.PeakRequests
	case cost:
		return "one tenant", of.TenantPeakCost
	}
	return "one tenant", of.TenantPeakRequests
}
