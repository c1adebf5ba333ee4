package policy

import "time"

// Ids of limits. They name a limit in overrides, diffs, metrics and stored
// state, so they never change their form.
func globalLimitID(name string) string       { return "global." + name }
func sharedLimitID(name string) string       { return "shared:" + name }
func planLimitID(name string) string         { return "plan." + name }
func routeLimitID(route, name string) string { return "route:" + route + "." + name }

// Names that stand in ids for what is no rate limit.
const (
	quotaName       = "quota"
	concurrencyName = "concurrency"
)

func (v *validator) globalLimits() {
	names := map[string]string{}
	for i := range v.doc.Global.Limits {
		l := &v.doc.Global.Limits[i]
		at := index("global.limits", i)
		v.name(at+".name", l.Name, "limits of global", names)
		v.limit(at, l, globalPlace())
	}
}

func (v *validator) sharedLimits() {
	names := map[string]string{}
	for i := range v.doc.Shared {
		l := &v.doc.Shared[i]
		at := index("shared", i)
		v.name(at+".name", l.Name, "shared limits", names)
		v.limit(at, l, sharedPlace())
		if v.shared[l.Name] == nil {
			v.shared[l.Name] = l
		}
	}
}

func (v *validator) plans() {
	first := map[string]string{} // plan in which a limit was first seen
	for _, name := range sortedKeys(v.doc.Plans) {
		at := "plans." + clip(name)
		if !validName(name) {
			v.problems.addf(at, "%q must be 1 to 63 lower-case letters, digits and -, and not begin with -", clip(name))
		}
		v.text(at+".description", v.doc.Plans[name].Description)
		names := map[string]string{}
		limits := v.doc.Plans[name].Limits
		for i := range limits {
			l := &limits[i]
			at := index(at+".limits", i)
			v.name(at+".name", l.Name, "limits of a plan", names)
			if l.Name == quotaName || l.Name == concurrencyName {
				v.problems.addf(at+".name", "%q is reserved", l.Name)
			}
			v.limit(at, l, planPlace())
			if l.Per == PerIP {
				v.problems.addf(at+".per", "ip alone would be one bucket for tenants of several plans: write [tenant, ip]")
			}
			if other, ok := first[l.Name]; ok && perIn(v.doc.Plans[other].Limits, l.Name) != l.Per {
				v.warnings.addf(at+".per", "differs from plan %s: a tenant that changes its plan gets a fresh bucket", other)
			} else if !ok {
				first[l.Name] = name
			}
		}
		if q := v.doc.Plans[name].Quota; q != nil {
			v.quota(at+".quota", q)
		}
	}
}

func perIn(limits []Limit, name string) Per {
	for _, l := range limits {
		if l.Name == name {
			return l.Per
		}
	}
	return ""
}

// limit checks one limit that stands in a place.
func (v *validator) limit(at string, l *Limit, in place) {
	v.text(at+".description", l.Description)
	v.per(at+".per", l.Per, in)
	v.word(at+".counts", string(l.Counts), string(CountsCost), string(CountsRequests))
	v.word(at+".mode", string(l.Mode), string(ModeEnforce), string(ModeShadow))
	v.word(at+".sync", string(l.Sync), string(SyncExact), string(SyncLeased))
	if l.Sync == SyncLeased && l.Mode == ModeShadow {
		v.problems.addf(at+".sync", "leased is not for mode shadow, which refuses nobody: write exact, or leave it out")
	}
	if t := l.ExpiresAt; t != nil && (t.Year() < 2000 || t.Year() > 9999) {
		v.problems.addf(at+".expires_at", "%s must be a time of the years 2000 to 9999", momentText(*t))
	}
	if !l.Rate.set() {
		v.problems.addf(at+".rate", "is missing: write N/minute, unlimited or 0")
		return
	}
	if l.Rate.Unlimited {
		return
	}
	if v.numbers(at, l.Rate, l.Burst) {
		v.slips(at, l)
	}
}

// numbers checks that a rate and a burst can be counted exactly.
func (v *validator) numbers(at string, r Rate, burst int64) bool {
	if r.Blocked() && burst > 0 {
		v.problems.addf(at+".burst", "%d beside the rate 0: a bucket that never refills; leave it out", burst)
		return false
	}
	if _, err := NumbersOf(r, 0); err != nil {
		v.problems.addf(at+".rate", "%v", err)
		return false
	}
	if _, err := NumbersOf(r, burst); err != nil {
		v.problems.addf(at+".burst", "%v", err)
		return false
	}
	return true
}

// slips warns of numbers that are allowed and rarely meant.
func (v *validator) slips(at string, l *Limit) {
	switch {
	case l.Rate.Blocked():
		v.warnings.addf(at+".rate", "0 admits nothing")
	case l.Burst == 0:
		v.warnings.addf(at+".burst", "0 admits nothing, whatever the rate")
	case l.Burst == 1 && l.Rate.Tokens > 1:
		gap := (l.Rate.Period + time.Duration(l.Rate.Tokens) - 1) / time.Duration(l.Rate.Tokens)
		v.warnings.addf(at+".burst", "1 refuses calls that are closer than %s to each other, whatever came before", gap)
	}
	if l.Sync == SyncLeased && l.Mode != ModeShadow && !l.Rate.Blocked() && l.Burst > 0 {
		v.leased(at, l)
	}
}

// leased warns where leasing gains nothing.
func (v *validator) leased(at string, l *Limit) {
	n, err := NumbersOf(l.Rate, l.Burst)
	switch {
	case err != nil: // told elsewhere
	case n.LeasedBurst() == n.Burst:
		v.warnings.addf(at+".sync", "leased has no effect: the burst %d is below twice what the rate brings in %s, so the limit is counted exactly", l.Burst, LeasePeriod)
	case n.Tokens*leaseWorthwhile < n.Period:
		v.warnings.addf(at+".sync", "leased gains nothing at %s: it is for limits of hundreds a second and more", l.Rate)
	}
}

// leaseWorthwhile: below 100 tokens a second, that is one in 10 000 µs, a slice
// would hold next to nothing.
const leaseWorthwhile = 10_000

// collisions refuses two limit ids that stored state could not tell apart. The
// complement of a limit's hash names the count of its distinct subjects.
func (v *validator) collisions(hash func(id string) uint64) {
	seen := map[uint64]string{}
	for _, l := range v.everyLimit() {
		h := hash(l.id)
		if other, ok := seen[h]; ok && other != l.id {
			v.problems.addf(l.path, "%s and %s have the same 64-bit hash: rename one", l.id, other)
		}
		if other, ok := seen[^h]; ok {
			v.problems.addf(l.path, "%s and %s have hashes that are each other's complement: rename one", l.id, other)
		}
		seen[h] = l.id
	}
}

type limitPlace struct{ id, path string }

func (v *validator) everyLimit() []limitPlace {
	var out []limitPlace
	add := func(path string, limits []Limit, id func(name string) string) {
		for i, l := range limits {
			out = append(out, limitPlace{id(l.Name), index(path, i) + ".name"})
		}
	}
	add("global.limits", v.doc.Global.Limits, globalLimitID)
	add("shared", v.doc.Shared, sharedLimitID)
	for _, name := range sortedKeys(v.doc.Plans) {
		add("plans."+name+".limits", v.doc.Plans[name].Limits, planLimitID)
		if v.doc.Plans[name].Quota != nil {
			out = append(out, limitPlace{QuotaID, "plans." + name + ".quota"})
		}
	}
	for i := range v.doc.Routes {
		r := &v.doc.Routes[i]
		add(index("routes", i)+".limits", r.Limits, func(name string) string { return routeLimitID(r.Name, name) })
		if r.Concurrency != nil {
			out = append(out, limitPlace{routeLimitID(r.Name, concurrencyName), index("routes", i) + ".concurrency"})
		}
	}
	return out
}

func (v *validator) unused() {
	for i, l := range v.doc.Shared {
		if !v.used[l.Name] {
			v.warnings.addf(index("shared", i), "%s is used by no route", clip(l.Name))
		}
	}
}
