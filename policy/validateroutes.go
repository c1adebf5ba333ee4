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
		v.cost(at+".cost", r, met, plans)
		if r.Concurrency != nil {
			v.concurrency(at+".concurrency", r)
		}
		v.storeFailure(at+".on_store_failure", r)
		v.share(at+".on_store_failure.fallback", r, met)
	}
	v.patterns()
}

func (v *validator) routeWords(at string, r *Route) {
	v.text(at+".description", r.Description)
	v.word(at+".identity", string(r.Identity), string(IdentityAPIKey), string(IdentityUser), string(IdentityIP))
	if r.Identity == IdentityUser && v.doc.User == nil {
		v.problems.addf(at+".identity", "user is not known: say where the user stands, user: {header: X-User-Id}")
	}
	v.word(at+".motive", string(r.Motive), string(MotiveFairness), string(MotiveQuota), string(MotiveAbuse))
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
	names, in := map[string]string{}, routePlace(r)
	for i := range r.Limits {
		l := &r.Limits[i]
		at := index(at+".limits", i)
		v.name(at+".name", l.Name, "limits of a route", names)
		if l.Name == concurrencyName {
			v.problems.addf(at+".name", "%q is reserved", l.Name)
		}
		v.limit(at, l, in)
		met = append(met, metLimit{routeLimitID(r.Name, l.Name), "", l})
	}
	if len(met) == 0 && r.Identity.noTenant() {
		v.warnings.addf(at, "has no limit: plans do not apply to identity %s, and nothing else does", clip(string(r.Identity)))
	}
	if headerAlone(met[len(v.doc.Global.Limits):]) {
		v.problems.addf(at+".limits", "are counted per a header alone, which a caller can change on each request: add one that is counted per tenant, user, ip or global")
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
		for _, d := range l.Per.Dimensions() {
			switch {
			case r.Identity.noTenant() && d.Kind.needsTenant():
				v.problems.addf(at, "%q is counted per %s, and a route with identity %s has none", name, d, clip(string(r.Identity)))
			case r.Motive != MotiveAbuse && d.Kind == DimensionBody:
				v.problems.addf(at, "%q is counted per %s, and the body is read only on a route with motive abuse", name, clip(d.String()))
			}
		}
		met = append(met, metLimit{sharedLimitID(name), "", l})
	}
	return met
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
		v.problems.addf(at, "is missing: a route against abuse that opens needs a rate and a burst, or share")
	case f == nil:
		v.problems.addf(at, "is missing: mode open needs {rate: …, burst: …}, share or the word unlimited")
	case f.Share && (f.Unlimited || f.Rate.set() || f.Burst != 0):
		v.problems.addf(at, "is share and has a rate, a burst or unlimited: give one of them")
	case f.Share && v.doc.ReplicasExpected < 1:
		v.problems.addf(at, "share needs replicas_expected, at the top of the document: how many gateways there are when all is well")
	case f.Share: // see share
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

// share looks at what a fallback share leaves of the limits that it divides.
func (v *validator) share(at string, r *Route, met []metLimit) {
	f := r.OnStoreFailure.Fallback
	if f == nil || !f.Share || r.OnStoreFailure.Mode != FailOpen || v.doc.ReplicasExpected < 1 {
		return
	}
	bounded := false
	for _, m := range met {
		l := m.limit
		if l.Rate.Unlimited || l.Mode == ModeShadow || !l.Rate.set() {
			continue
		}
		bounded = true
		if left := l.Burst / v.doc.ReplicasExpected; l.Burst > 0 && left < m.charge(r) {
			v.warnings.addf(at, "share leaves %d of the burst %d of %s to each of %d gateways: a request, which takes %d, is then refused",
				left, l.Burst, m.name(), v.doc.ReplicasExpected, m.charge(r))
		}
	}
	switch {
	case bounded:
	case r.Motive == MotiveAbuse:
		v.problems.addf(at, "share has nothing to divide: a route against abuse that opens needs a bounded limit of its own, or a rate and a burst here")
	case r.Identity.noTenant():
		v.warnings.addf(at, "share has nothing to divide: no limit of the route is bounded, so everything is admitted while the store is away")
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
