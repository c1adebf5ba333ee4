package policy

import (
	"slices"
	"time"
)

// Ids of limits. They name a limit in overrides, diffs, metrics and stored
// state, so they never change their form.
func globalLimitID(name string) string       { return "global." + name }
func sharedLimitID(name string) string       { return "shared:" + name }
func planLimitID(name string) string         { return "plan." + name }
func routeLimitID(route, name string) string { return "route:" + route + "." + name }

func (v *validator) globalLimits() {
	names := map[string]string{}
	for i := range v.doc.Global.Limits {
		l := &v.doc.Global.Limits[i]
		at := index("global.limits", i)
		v.name(at+".name", l.Name, "limits of global", names)
		v.limit(at, l, "on everything together", PerGlobal, PerIP)
	}
}

func (v *validator) sharedLimits() {
	names := map[string]string{}
	for i := range v.doc.Shared {
		l := &v.doc.Shared[i]
		at := index("shared", i)
		v.name(at+".name", l.Name, "shared limits", names)
		v.limit(at, l, "that is shared", PerGlobal, PerTenant, PerCredential, PerIP)
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
		names := map[string]string{}
		limits := v.doc.Plans[name].Limits
		for i := range limits {
			l := &limits[i]
			at := index(at+".limits", i)
			v.name(at+".name", l.Name, "limits of a plan", names)
			if l.Name == "quota" || l.Name == "concurrency" {
				v.problems.addf(at+".name", "%q is reserved", l.Name)
			}
			v.limit(at, l, "of a plan", PerTenant, PerCredential)
			if other, ok := first[l.Name]; ok && perIn(v.doc.Plans[other].Limits, l.Name) != l.Per {
				v.warnings.addf(at+".per", "differs from plan %s: a tenant that changes its plan gets a fresh bucket", other)
			} else if !ok {
				first[l.Name] = name
			}
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

// limit checks one limit; allowed are the dimensions that make sense there.
func (v *validator) limit(at string, l *Limit, what string, allowed ...Per) {
	switch {
	case l.Per == "":
		v.problems.addf(at+".per", "is missing: one of %s", joinWords(allowed))
	case !slices.Contains(allowed, l.Per):
		v.problems.addf(at+".per", "%s is not for a limit %s: it must be one of %s", clip(string(l.Per)), what, joinWords(allowed))
	}
	if l.Counts != CountsCost && l.Counts != CountsRequests {
		v.problems.addf(at+".counts", "%q is not known: it must be cost or requests", clip(string(l.Counts)))
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
}

// collisions refuses two limit ids that stored state could not tell apart.
func (v *validator) collisions(hash func(id string) uint64) {
	seen := map[uint64]string{}
	for _, l := range v.everyLimit() {
		h := hash(l.id)
		if other, ok := seen[h]; ok && other != l.id {
			v.problems.addf(l.path+".name", "%s and %s have the same 64-bit hash: rename one", l.id, other)
		}
		seen[h] = l.id
	}
}

type limitPlace struct{ id, path string }

func (v *validator) everyLimit() []limitPlace {
	var out []limitPlace
	add := func(path string, limits []Limit, id func(name string) string) {
		for i, l := range limits {
			out = append(out, limitPlace{id(l.Name), index(path, i)})
		}
	}
	add("global.limits", v.doc.Global.Limits, globalLimitID)
	add("shared", v.doc.Shared, sharedLimitID)
	for _, name := range sortedKeys(v.doc.Plans) {
		add("plans."+name+".limits", v.doc.Plans[name].Limits, planLimitID)
	}
	for i := range v.doc.Routes {
		r := &v.doc.Routes[i]
		add(index("routes", i)+".limits", r.Limits, func(name string) string { return routeLimitID(r.Name, name) })
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
