package policy

import (
	"fmt"
	"slices"
)

func (d *differ) plans() {
	for _, name := range sortedKeys(d.after.Plans) {
		path, where := "plans."+name, "plan "+name
		d.inPlan = name
		after := d.after.Plans[name]
		before, ok := d.before.Plans[name]
		if !ok {
			d.change(neutral(), Change{Path: path, Kind: ChangeAdded, After: planText(after),
				Text: fmt.Sprintf("new plan %s: %s", name, planText(after))})
			continue
		}
		d.value(path+".description", where+", description", before.Description, after.Description, neutral())
		d.limits(limitList{path + ".limits", where, before.Limits, planLimitID},
			limitList{path + ".limits", where, after.Limits, planLimitID})
		d.quota(path+".quota", where, before.Quota, after.Quota)
	}
	d.inPlan = ""
	for _, name := range sortedKeys(d.before.Plans) {
		if _, ok := d.after.Plans[name]; !ok {
			text := planText(d.before.Plans[name])
			d.change(neutral().high(true), Change{Path: "plans." + name, Kind: ChangeRemoved, Before: text, // who is on it is refused
				Text: fmt.Sprintf("plan %s is removed (was %s)", name, text)})
		}
	}
}

func planText(p Plan) string {
	if p.Quota == nil {
		return limitsText(p.Limits)
	}
	return limitsText(p.Limits) + "; " + quotaText(p.Quota)
}

func limitsText(limits []Limit) string {
	if len(limits) == 0 {
		return "no limits"
	}
	text := ""
	for i, l := range limits {
		if i > 0 {
			text += "; "
		}
		text += l.Name + " " + limitText(l)
	}
	return text
}

// routes compares route by route. A route that is gone while a new one has the
// same patterns was renamed, which gives its limits new ids.
func (d *differ) routes() {
	old := make(map[string]int, len(d.before.Routes))
	byMatch := make(map[string]int, len(d.before.Routes))
	for i, r := range d.before.Routes {
		old[r.Name] = i
	}
	stays := make(map[string]bool, len(d.after.Routes))
	for _, r := range d.after.Routes {
		stays[r.Name] = true
	}
	for i, r := range d.before.Routes {
		if !stays[r.Name] {
			byMatch[sortedText(r.Match)] = i
		}
	}
	taken := map[int]bool{}
	for i, r := range d.after.Routes {
		path := index("routes", i)
		if at, ok := old[r.Name]; ok {
			d.route(path, index("routes", at), d.before.Routes[at], r)
			continue
		}
		if at, ok := byMatch[sortedText(r.Match)]; ok && !taken[at] {
			taken[at] = true
			d.renamedRoute(path, index("routes", at), d.before.Routes[at], r)
			continue
		}
		d.change(addedRoute(r), Change{Path: path, Kind: ChangeAdded, After: sortedText(r.Match),
			Text: fmt.Sprintf("new route %s for %s: %s", r.Name, sortedText(r.Match), limitsText(r.Limits))})
	}
	for i, r := range d.before.Routes {
		if !stays[r.Name] && !taken[i] {
			d.change(weigh(opposite(routeEffect(r))).high(true), Change{Path: index("routes", i), Kind: ChangeRemoved, Before: sortedText(r.Match),
				Text: fmt.Sprintf("route %s for %s is removed (%s)", r.Name, sortedText(r.Match), limitsText(r.Limits))})
			d.inRoute = r.Name
			d.goneRoute(index("routes", i), r)
		}
	}
}

func routeEffect(r Route) string {
	refuses := func(l Limit) bool { return addedEffect(l) == EffectTighter }
	if slices.ContainsFunc(r.Limits, refuses) || len(r.Uses) > 0 || r.Concurrency != nil && r.Concurrency.Mode != ModeShadow {
		return EffectTighter
	}
	return EffectNeutral
}

// goneRoute notes a route that is no longer there, unless none is, which is told
// as one.
func (d *differ) goneRoute(path string, r Route) {
	if len(d.after.Routes) > 0 {
		d.gone(CutRoute, path, "", fmt.Sprintf("route %s for %s is gone", r.Name, sortedText(r.Match)))
	}
}

// addedRoute weighs a route that was not there before. Its requests were another
// route's, or nobody's: one that needs no key and bounds nobody is an open door.
func addedRoute(r Route) weight {
	effect, f := routeEffect(r), r.OnStoreFailure.Fallback
	door := r.Identity.noTenant() && effect == EffectNeutral
	return weigh(effect).atLeastMedium().high(door || (f != nil && f.Unlimited))
}

func (d *differ) renamedRoute(path, oldPath string, b, a Route) {
	w := neutral()
	text := fmt.Sprintf("route %s is now called %s", b.Name, a.Name)
	if len(a.Limits) > 0 || a.Concurrency != nil {
		w = freshBucket()
		text += " and its limits count from full buckets"
	}
	d.change(w, Change{Path: path + ".name", Kind: ChangeRenamed, Before: b.Name, After: a.Name, Text: text})
	d.route(path, oldPath, b, a)
}

// route compares two versions of one route.
func (d *differ) route(path, oldPath string, b, a Route) {
	where := "route " + a.Name
	d.inRoute = a.Name
	d.value(path+".description", where+", description", b.Description, a.Description, neutral())
	d.match(path+".match", where+", match", b.Match, a.Match)
	d.value(path+".identity", where+", identity", string(b.Identity), string(a.Identity),
		weigh(moreIsLooser(openness(b.Identity), openness(a.Identity))).high(true))
	d.value(path+".motive", where+", motive", string(b.Motive), string(a.Motive), neutral().atLeastMedium())
	d.cost(path+".cost", where, b, a)
	id := func(name string) string { return routeLimitID(a.Name, name) }
	d.limits(limitList{oldPath + ".limits", where, b.Limits, func(name string) string { return routeLimitID(b.Name, name) }},
		limitList{path + ".limits", where, a.Limits, id})
	d.uses(path+".uses", where, b.Uses, a.Uses)
	d.concurrency(path+".concurrency", where, id(concurrencyName), b.Concurrency, a.Concurrency)
	d.storeFailure(path+".on_store_failure", where, b.OnStoreFailure, a.OnStoreFailure)
}

// match compares patterns. Requests of one that is gone are another route's, or
// nobody's.
func (d *differ) match(path, what string, b, a []string) {
	if slices.Equal(b, a) {
		return
	}
	gone := slices.ContainsFunc(b, func(p string) bool { return !slices.Contains(a, p) })
	d.value(path, what, sortedText(b), sortedText(a), neutral().atLeastMedium().high(gone))
}

// openness orders identities by what a caller must show.
func openness(i Identity) int64 {
	switch i {
	case IdentityIP:
		return 2
	case IdentityUser:
		return 1
	default:
		return 0
	}
}

func (d *differ) uses(path, where string, before, after []string) {
	for _, name := range after {
		if !slices.Contains(before, name) {
			d.change(addedLimit(sharedLimit(d.after, name)), Change{Path: path, LimitID: sharedLimitID(name), Kind: ChangeAdded, After: name,
				Text: fmt.Sprintf("%s draws from the shared limit %s", where, name)})
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			d.change(removedLimit(sharedLimit(d.before, name)), Change{Path: path, LimitID: sharedLimitID(name), Kind: ChangeRemoved, Before: name,
				Text: fmt.Sprintf("%s no longer draws from the shared limit %s", where, name)})
			if l := sharedLimit(d.before, name); addedEffect(l) == EffectTighter && sharedLimit(d.after, name).Name != "" { // else the limit itself is gone
				d.gone(CutLimit, path, sharedLimitID(name), fmt.Sprintf("%s no longer draws from the shared limit %s (%s)", where, name, limitText(l)))
			}
		}
	}
}

// sharedLimit is the shared limit of a name.
func sharedLimit(d *Document, name string) Limit {
	for _, l := range d.Shared {
		if l.Name == name {
			return l
		}
	}
	return Limit{Rate: Rate{Tokens: 1, Period: MaxPeriod}, Burst: 1} // of a document that is not valid
}

func (d *differ) storeFailure(path, where string, b, a StoreFailure) {
	mode := weigh(moreIsLooser(asNumber(b.Mode == FailOpen), asNumber(a.Mode == FailOpen)))
	d.value(path+".mode", where+", while the store is away", string(b.Mode), string(a.Mode), mode.high(mode.effect == EffectLooser))
	if b.Fallback == nil || a.Fallback == nil || b.Fallback.Share != a.Fallback.Share {
		w := weigh(moreIsLooser(b.Fallback.openness(), a.Fallback.openness())).atLeastMedium()
		d.value(path+".fallback", where+", fallback", fallbackText(b.Fallback), fallbackText(a.Fallback), w.high(a.Fallback.openness() == 2))
		return
	}
	if b.Fallback.Share {
		return
	}
	bf, af := b.Fallback.limit(), a.Fallback.limit()
	d.rate(path+".fallback.rate", where+", fallback", bf.Rate, af.Rate, func() weight { return rates(bf.Rate, af.Rate) })
	if !bf.Rate.Unlimited && !af.Rate.Unlimited {
		d.value(path+".fallback.burst", where+", burst of the fallback", whole(bf.Burst), whole(af.Burst), amounts(bf.Burst, af.Burst))
	}
}

// limit writes a fallback as a limit, so that both compare in one way.
func (f *Fallback) limit() Limit {
	if f.Unlimited {
		return Limit{Rate: Rate{Unlimited: true}}
	}
	return Limit{Rate: f.Rate, Burst: f.Burst}
}

// openness orders fallbacks as far as they can be compared at all.
func (f *Fallback) openness() int64 {
	switch {
	case f == nil:
		return 0
	case f.Unlimited:
		return 2
	}
	return 1
}

func fallbackText(f *Fallback) string {
	switch {
	case f == nil:
		return ""
	case f.Unlimited:
		return unlimitedWord
	case f.Share:
		return shareWord
	}
	return f.Rate.String() + ", burst " + whole(f.Burst)
}
