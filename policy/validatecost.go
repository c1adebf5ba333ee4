package policy

import "strings"

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
	plans    map[string]Plan
}

func newPlanLimits(plans map[string]Plan) planLimits {
	p := planLimits{smallest: maxStored, plans: plans}
	for _, name := range sortedKeys(plans) {
		limits := plans[name].Limits
		for i := range limits {
			m := metLimit{planLimitID(limits[i].Name), name, &limits[i]}
			p.all = append(p.all, m)
			if m.bounds() {
				p.smallest = min(p.smallest, m.room())
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

// room is the largest cost that can pass.
func (m metLimit) room() int64 {
	if m.limit.Sync != SyncLeased {
		return m.limit.Burst
	}
	n, err := NumbersOf(m.limit.Rate, m.limit.Burst)
	if err != nil {
		return m.limit.Burst // told elsewhere
	}
	return n.LeasedBurst()
}

// charge is what one request of a route takes.
func (m metLimit) charge(r *Route) int64 {
	if m.limit.Counts == CountsRequests || r.GraphQL != nil {
		return 1
	}
	return r.Cost
}

// cost checks what one request of a route may cost against every limit that it
// meets.
func (v *validator) cost(at string, r *Route, met []metLimit, plans planLimits) {
	cost := r.Cost
	switch {
	case r.GraphQL != nil && r.SettleHeader != "":
		v.problems.addf(at, "is computed from the query or settled by the response: give one of them")
		return
	case r.GraphQL != nil:
		v.graphQL(at+".graphql", r.GraphQL)
		at, cost = at+".graphql.max", r.GraphQL.Max
	case r.SettleHeader != "":
		v.settleHeader(at+".settle_header", r.SettleHeader)
		at += ".reserve"
		if r.Identity == IdentityAPIKey {
			met = append(met, plans.all...)
			plans.smallest = maxStored
		}
		v.debts(at, met)
	}
	if r.GraphQL != nil && cost == 0 {
		v.problems.addf(at, "is missing: the cost above which a query is refused")
		return
	}
	if cost < 1 || cost > maxCost {
		v.problems.addf(at, "%d must be 1 to %d", cost, int64(maxCost))
		return
	}
	if r.Identity == IdentityAPIKey && cost > plans.smallest {
		met = append(met, plans.all...)
	}
	v.fits(at, cost, met)
	if r.Identity == IdentityAPIKey {
		v.withinQuotas(at, cost, plans.plans)
	}
}

// withinQuotas warns of a cost that a whole period's quota could not pay.
func (v *validator) withinQuotas(at string, cost int64, plans map[string]Plan) {
	for _, name := range sortedKeys(plans) {
		q := plans[name].Quota
		if q == nil || q.Counts != CountsCost || q.Mode == ModeShadow || q.Amount == 0 || cost <= q.capacity() {
			continue
		}
		v.warnings.addf(at, "%d is more than the quota of plan %s admits in a whole period, %d", cost, clip(name), q.capacity())
		return // one is enough to look
	}
}

// fits tells of each limit that a cost can never pass.
func (v *validator) fits(at string, cost int64, met []metLimit) {
	told := 0
	for _, m := range met {
		if !m.bounds() || cost <= m.room() {
			continue
		}
		if told++; told > maxCostProblems {
			v.problems.addf(at, "%d can never pass more limits than are named here", cost)
			return
		}
		what := "whose burst is"
		if m.room() < m.limit.Burst {
			what = "of whose burst leasing leaves"
		}
		v.problems.addf(at, "%d can never pass %s, %s %d", cost, m.name(), what, m.room())
	}
}

func (m metLimit) name() string {
	if m.plan == "" {
		return clip(m.id)
	}
	return clip(m.id) + " of plan " + clip(m.plan)
}

// debts tells of limits in which a cost that turns out higher than what was
// reserved could not be kept: a bucket must be able to owe what it can hold.
func (v *validator) debts(at string, met []metLimit) {
	told := 0
	for _, m := range met {
		if !m.bounds() || told >= maxCostProblems {
			continue
		}
		n, err := NumbersOf(m.limit.Rate, m.limit.Burst)
		if err != nil {
			continue // told elsewhere
		}
		if most := (MaxUnits - 1 - n.Tokens) / n.Period / 2; n.Burst > most {
			told++
			v.problems.addf(at, "may turn out too low, and %s cannot keep a debt: its burst %d must be at most %d", m.name(), n.Burst, most)
		}
	}
}

func (v *validator) settleHeader(at, name string) {
	switch why := badHeader(name); {
	case why != "":
		v.problems.addf(at, "%s", why)
	case strings.HasPrefix(name, "Ratelimit") || sameHeader(name, "Retry-After"):
		v.problems.addf(at, "%s already has another meaning", name)
	}
}

func (v *validator) graphQL(at string, g *GraphQLCost) {
	if g.DefaultListSize < 1 || g.DefaultListSize > maxCost {
		v.problems.addf(at+".default_list_size", "%d must be 1 to %d", g.DefaultListSize, int64(maxCost))
	}
	if g.MaxDepth < 1 || g.MaxDepth > MaxGraphQLDepth {
		v.problems.addf(at+".max_depth", "%d must be 1 to %d", g.MaxDepth, MaxGraphQLDepth)
	}
	if g.MaxBreadth < 1 || g.MaxBreadth > MaxGraphQLBreadth {
		v.problems.addf(at+".max_breadth", "%d must be 1 to %d", g.MaxBreadth, MaxGraphQLBreadth)
	}
	if len(g.ListArguments) > maxListArguments {
		v.problems.addf(at+".list_arguments", "has %d names: at most %d are allowed", len(g.ListArguments), maxListArguments)
	}
	for i, name := range g.ListArguments {
		switch {
		case !graphQLName(name):
			v.problems.addf(at+".list_arguments", "%q is not the name of an argument, such as first", clip(name))
		case i > 0 && name == g.ListArguments[i-1]: // they are sorted
			v.problems.addf(at+".list_arguments", "%q is there twice", name)
		}
	}
	if len(g.Weights) > maxWeights {
		v.problems.addf(at+".weights", "has %d weights: at most %d are allowed", len(g.Weights), maxWeights)
		return
	}
	for _, name := range sortedKeys(g.Weights) {
		kind, fieldName, _ := strings.Cut(name, ".")
		if (!graphQLName(kind) && kind != "*") || !graphQLName(fieldName) {
			v.problems.addf(field(at+".weights", name), "must be written Type.field, such as Query.search, or *.field for every type")
		}
		if w := g.Weights[name]; w < 0 || w > maxCost {
			v.problems.addf(field(at+".weights", name), "%d must be 0 to %d", w, int64(maxCost))
		}
	}
}

// graphQLName is a Name of the GraphQL specification (October 2021, 2.1.9).
func graphQLName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}
