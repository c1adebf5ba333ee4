package policy

import (
	"fmt"
	"slices"
)

func (d *differ) plans() {
	for _, name := range sortedKeys(d.after.Plans) {
		path, where := "plans."+name, "plan "+name
		after := d.after.Plans[name]
		before, ok := d.before.Plans[name]
		if !ok {
			d.add(Change{Path: path, Kind: ChangeAdded, After: planText(after), Effect: EffectNeutral,
				Text: fmt.Sprintf("new plan %s: %s", name, planText(after))})
			continue
		}
		d.value(path+".description", where+", description", before.Description, after.Description, EffectNeutral)
		d.limits(limitList{path + ".limits", where, before.Limits, planLimitID},
			limitList{path + ".limits", where, after.Limits, planLimitID})
		d.quota(path+".quota", where, before.Quota, after.Quota)
	}
	for _, name := range sortedKeys(d.before.Plans) {
		if _, ok := d.after.Plans[name]; !ok {
			text := planText(d.before.Plans[name])
			d.add(Change{Path: "plans." + name, Kind: ChangeRemoved, Before: text, Effect: EffectNeutral,
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
		d.add(Change{Path: path, Kind: ChangeAdded, After: sortedText(r.Match), Effect: routeEffect(r),
			Text: fmt.Sprintf("new route %s for %s: %s", r.Name, sortedText(r.Match), limitsText(r.Limits))})
	}
	for i, r := range d.before.Routes {
		if !stays[r.Name] && !taken[i] {
			d.add(Change{Path: index("routes", i), Kind: ChangeRemoved, Before: sortedText(r.Match), Effect: opposite(routeEffect(r)),
				Text: fmt.Sprintf("route %s for %s is removed (%s)", r.Name, sortedText(r.Match), limitsText(r.Limits))})
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

func (d *differ) renamedRoute(path, oldPath string, b, a Route) {
	effect := EffectNeutral
	text := fmt.Sprintf("route %s is now called %s", b.Name, a.Name)
	if len(a.Limits) > 0 || a.Concurrency != nil {
		effect = EffectNewBucket
		text += " and its limits count from full buckets"
	}
	d.add(Change{Path: path + ".name", Kind: ChangeRenamed, Before: b.Name, After: a.Name, Effect: effect, Text: text})
	d.route(path, oldPath, b, a)
}

// route compares two versions of one route.
func (d *differ) route(path, oldPath string, b, a Route) {
	where := "route " + a.Name
	d.value(path+".description", where+", description", b.Description, a.Description, EffectNeutral)
	d.value(path+".match", where+", match", sortedText(b.Match), sortedText(a.Match), EffectNeutral)
	d.value(path+".identity", where+", identity", string(b.Identity), string(a.Identity),
		moreIsLooser(openness(b.Identity), openness(a.Identity)))
	d.value(path+".motive", where+", motive", string(b.Motive), string(a.Motive), EffectNeutral)
	d.cost(path+".cost", where, b, a)
	id := func(name string) string { return routeLimitID(a.Name, name) }
	d.limits(limitList{oldPath + ".limits", where, b.Limits, func(name string) string { return routeLimitID(b.Name, name) }},
		limitList{path + ".limits", where, a.Limits, id})
	d.uses(path+".uses", where, b.Uses, a.Uses)
	d.concurrency(path+".concurrency", where, id(concurrencyName), b.Concurrency, a.Concurrency)
	d.storeFailure(path+".on_store_failure", where, b.OnStoreFailure, a.OnStoreFailure)
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
			d.add(Change{Path: path, LimitID: sharedLimitID(name), Kind: ChangeAdded, After: name, Effect: EffectTighter,
				Text: fmt.Sprintf("%s draws from the shared limit %s", where, name)})
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			d.add(Change{Path: path, LimitID: sharedLimitID(name), Kind: ChangeRemoved, Before: name, Effect: EffectLooser,
				Text: fmt.Sprintf("%s no longer draws from the shared limit %s", where, name)})
		}
	}
}

func (d *differ) storeFailure(path, where string, b, a StoreFailure) {
	d.value(path+".mode", where+", while the store is away", string(b.Mode), string(a.Mode),
		moreIsLooser(asNumber(b.Mode == FailOpen), asNumber(a.Mode == FailOpen)))
	if b.Fallback == nil || a.Fallback == nil || b.Fallback.Share != a.Fallback.Share {
		effect := moreIsLooser(b.Fallback.openness(), a.Fallback.openness())
		d.value(path+".fallback", where+", fallback", fallbackText(b.Fallback), fallbackText(a.Fallback), effect)
		return
	}
	if b.Fallback.Share {
		return
	}
	bf, af := b.Fallback.limit(), a.Fallback.limit()
	d.value(path+".fallback.rate", where+", fallback", bf.Rate.String(), af.Rate.String(), rateEffect(bf.Rate, af.Rate))
	if !bf.Rate.Unlimited && !af.Rate.Unlimited {
		d.value(path+".fallback.burst", where+", burst of the fallback", whole(bf.Burst), whole(af.Burst), moreIsLooser(bf.Burst, af.Burst))
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
