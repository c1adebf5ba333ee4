package policy

// Bounds of the search for patterns that cannot be told apart.
const (
	maxPatterns     = 20_000
	conflictsWork   = 3_000_000 // visited nodes and comparisons; well below a second
	maxCostProblems = 20        // of one route: a cost meets each plan's limits
)

func (v *validator) routes() {
	if len(v.doc.Routes) == 0 {
		v.problems.addf("routes", "has no routes: a policy without routes refuses every request")
		return
	}
	names := map[string]string{}
	plans := newPlanLimits(v.doc.Plans)
	for i := range v.doc.Routes {
		r := &v.doc.Routes[i]
		at := index("routes", i)
		v.name(at+".name", r.Name, "routes", names)
		v.routeWords(at, r)
		met := v.routeLimits(at, r)
		v.routeCost(at, r, met, plans)
		v.storeFailure(at+".on_store_failure", r)
	}
	v.patterns()
}

func (v *validator) routeWords(at string, r *Route) {
	if r.Identity != IdentityAPIKey && r.Identity != IdentityIP {
		v.problems.addf(at+".identity", "%q is not known: it must be api_key or ip", clip(string(r.Identity)))
	}
	if r.Motive != MotiveFairness && r.Motive != MotiveQuota && r.Motive != MotiveAbuse {
		v.problems.addf(at+".motive", "%q is not known: it must be fairness, quota or abuse", clip(string(r.Motive)))
	}
	if r.Cost < 1 || r.Cost > maxCost {
		v.problems.addf(at+".cost", "%d must be 1 to %d", r.Cost, int64(maxCost))
	}
}

// routeLimits checks a route's own limits and the shared ones it uses, and gives
// those that its cost must fit.
func (v *validator) routeLimits(at string, r *Route) []metLimit {
	var met []metLimit
	for i := range v.doc.Global.Limits {
		l := &v.doc.Global.Limits[i]
		met = append(met, metLimit{globalLimitID(l.Name), "", l})
	}
	met = append(met, v.uses(at+".uses", r)...)
	names := map[string]string{}
	for i := range r.Limits {
		l := &r.Limits[i]
		at := index(at+".limits", i)
		v.name(at+".name", l.Name, "limits of a route", names)
		if l.Name == "concurrency" {
			v.problems.addf(at+".name", "%q is reserved", l.Name)
		}
		if r.Identity == IdentityIP {
			v.limit(at, l, "of a route with identity ip, which has no tenant", PerIP, PerGlobal)
		} else {
			v.limit(at, l, "of a route", PerGlobal, PerTenant, PerCredential, PerIP)
		}
		met = append(met, metLimit{routeLimitID(r.Name, l.Name), "", l})
	}
	if len(met) == 0 && r.Identity == IdentityIP {
		v.warnings.addf(at, "has no limit: plans do not apply to identity ip, and nothing else does")
	}
	return met
}

// uses checks the names of shared limits and gives the limits.
func (v *validator) uses(path string, r *Route) []metLimit {
	var met []metLimit
	used := map[string]bool{}
	for i, name := range r.Uses {
		at := index(path, i)
		l := v.shared[name]
		switch {
		case l == nil:
			v.problems.addf(at, "%q is not the name of a shared limit", clip(name))
			continue
		case used[name]:
			v.problems.addf(at, "%q is there twice", name)
			continue
		}
		used[name], v.used[name] = true, true
		if r.Identity == IdentityIP && needsTenant(l.Per) {
			v.problems.addf(at, "%q is counted per %s, and a route with identity ip has none", name, l.Per)
		}
		met = append(met, metLimit{sharedLimitID(name), "", l})
	}
	return met
}

func needsTenant(p Per) bool { return p == PerTenant || p == PerCredential }

// metLimit is a limit that a request of a route is charged to.
type metLimit struct {
	id, plan string
	limit    *Limit
}

// planLimits holds the limits of all plans and the smallest burst among those
// that a cost must fit, so that most routes need no look at each of them.
type planLimits struct {
	all      []metLimit
	smallest int64
}

func newPlanLimits(plans map[string]Plan) planLimits {
	p := planLimits{smallest: maxStored}
	for _, name := range sortedKeys(plans) {
		limits := plans[name].Limits
		for i := range limits {
			m := metLimit{planLimitID(limits[i].Name), name, &limits[i]}
			p.all = append(p.all, m)
			if m.bounds() {
				p.smallest = min(p.smallest, limits[i].Burst)
			}
		}
	}
	return p
}

// bounds reports whether a cost above the limit's burst could never pass. A
// limit that admits nothing is not meant to be fitted.
func (m metLimit) bounds() bool {
	l := m.limit
	return l.Counts == CountsCost && l.Rate.set() && !l.Rate.Unlimited && !l.Rate.Blocked() && l.Burst > 0
}

func (v *validator) routeCost(at string, r *Route, met []metLimit, plans planLimits) {
	if r.Identity == IdentityAPIKey && r.Cost > plans.smallest {
		met = append(met, plans.all...)
	}
	told := 0
	for _, m := range met {
		if !m.bounds() || r.Cost <= m.limit.Burst {
			continue
		}
		if told++; told > maxCostProblems {
			v.problems.addf(at+".cost", "%d can never pass more limits than are named here", r.Cost)
			return
		}
		where := m.id
		if m.plan != "" {
			where += " of plan " + clip(m.plan)
		}
		v.problems.addf(at+".cost", "%d can never pass %s, whose burst is %d", r.Cost, where, m.limit.Burst)
	}
}

func (v *validator) storeFailure(at string, r *Route) {
	f := r.OnStoreFailure
	switch f.Mode {
	case "":
		if f.Fallback == nil {
			v.problems.addf(at, "is missing: every route says what happens while the store is away, {mode: open, fallback: …} or {mode: closed}")
		} else {
			v.problems.addf(at+".mode", "is missing: open or closed")
		}
	case FailClosed:
		if f.Fallback != nil {
			v.problems.addf(at+".fallback", "has no place under mode closed, which admits nothing")
		}
	case FailOpen:
		v.fallback(at, r)
	default:
		v.problems.addf(at+".mode", "%q is not known: it must be open or closed", clip(string(f.Mode)))
	}
}

func (v *validator) fallback(at string, r *Route) {
	f := r.OnStoreFailure.Fallback
	abuse := r.Motive == MotiveAbuse
	at += ".fallback"
	switch {
	case f == nil && abuse:
		v.problems.addf(at, "is missing: a route against abuse that opens needs a rate and a burst")
	case f == nil:
		v.problems.addf(at, "is missing: mode open needs {rate: …, burst: …} or the word unlimited")
	case f.Unlimited && abuse:
		v.problems.addf(at, "unlimited is not for a route against abuse: give a rate and a burst, or close")
	case f.Unlimited && (f.Rate.set() || f.Burst != 0):
		v.problems.addf(at, "is unlimited and has a rate or burst: give one of them")
	case f.Unlimited:
	case !f.Rate.set():
		v.problems.addf(at+".rate", "is missing: write N/minute, or fallback: unlimited")
	default:
		if v.numbers(at, f.Rate, f.Burst) && (f.Rate.Blocked() || f.Burst == 0) {
			v.problems.addf(at, "admits nothing: write mode closed")
		}
	}
}

// patterns checks each route's matches and that no two of them are equal in rank
// for some request.
func (v *validator) patterns() {
	tree, work, order, everything := newRouter(), conflictsWork, 0, false
	for i := range v.doc.Routes {
		r := &v.doc.Routes[i]
		at := index("routes", i) + ".match"
		if len(r.Match) == 0 {
			v.problems.addf(at, "is missing: a route needs at least one pattern")
		}
		for j, text := range r.Match {
			order++
			p, err := parsePattern(text)
			if err != nil {
				v.problems.addf(index(at, j), "%q %v", clip(text), err)
				continue
			}
			if order > maxPatterns || work <= 0 {
				v.problems.addf(at, "is one pattern too many: at most %d, and fewer when they overlap", maxPatterns)
				return
			}
			p.route, p.order = i, order
			everything = everything || p.matchesAll()
			var other *pattern
			other, work = tree.conflict(p, work)
			if other != nil {
				v.conflict(index(at, j), p, other)
				continue
			}
			tree.add(p)
		}
	}
	if !everything {
		v.warnings.addf("routes", "have no pattern \"/\": a request that no route matches is refused with 404 no-route")
	}
}

func (v *validator) conflict(at string, p, q *pattern) {
	name := clip(v.doc.Routes[p.route].Name)
	other := clip(v.doc.Routes[q.route].Name)
	if p.compare(q) == equal {
		v.problems.addf(at, "%q of route %s matches the same requests as %q of route %s", clip(p.text), name, clip(q.text), other)
		return
	}
	v.problems.addf(at, "%q of route %s and %q of route %s match some of the same requests and neither is more specific",
		clip(p.text), name, clip(q.text), other)
}
