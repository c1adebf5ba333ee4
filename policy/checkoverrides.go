package policy

// CheckOverrides reports everything that is wrong with the overrides of a tenant
// on a plan, beside this policy: what CompileOverrides refuses, a limit that the
// tenant does not meet, and a value that the cost of a route could never pass.
// The paths begin with overrides[i].
func (c *Compiled) CheckOverrides(plan string, list []Override) Report {
	var found problemList
	if len(list) > MaxOverrides {
		found.addf("overrides", "%d are too many: at most %d are allowed", len(list), MaxOverrides)
		list = nil
	}
	seen := map[[2]string]bool{}
	for i, o := range list {
		at := index("overrides", i)
		_, wrong := o.compile()
		for _, p := range wrong {
			found.addf(at+"."+p.Path, "%s", p.Message)
		}
		key := [2]string{o.Limit, o.source()}
		if seen[key] {
			found.addf(at+".limit", "%s has an %s already", clip(o.Limit), o.source())
		}
		if seen[key] = true; len(wrong) == 0 {
			c.checkOverride(&found, at, plan, o)
		}
	}
	r := Report{Problems: found.all()}
	r.trim()
	return r
}

func (o Override) source() string {
	if o.FactorMilli != 0 {
		return SourceBoost
	}
	return SourceOverride
}

// checkOverride looks for the limit of one override, which is right in itself.
func (c *Compiled) checkOverride(found *problemList, at, plan string, o Override) {
	met := false
	switch kindOf(o.Limit) {
	case quotaLimit:
		met = c.Quotas[plan] != nil
	case concurrencyLimit:
		for _, r := range c.Routes {
			met = met || r.Concurrency != nil && r.Concurrency.ID == o.Limit && ownValue(r.Concurrency.Per)
		}
	default:
		met = c.checkRate(found, at, plan, o)
	}
	if !met {
		found.addf(at+".limit", "%s counts nothing of a tenant on plan %s", clip(o.Limit), clip(plan))
	}
}

// ownValue reports whether what is counted per these dimensions can have a value
// for each tenant.
func ownValue(per Per) bool { return per != PerGlobal && per != PerIP }

// checkRate compares the burst that an override leaves with the costs of the
// routes that meet the limit, and reports whether any does.
func (c *Compiled) checkRate(found *problemList, at, plan string, o Override) (met bool) {
	compiled, err := CompileOverrides([]Override{o})
	if err != nil {
		return true // told by the caller
	}
	before := int64(0)
	if o.ExpiresAt != nil {
		before = o.ExpiresAt.UnixMicro() - 1
	}
	for _, r := range c.Routes {
		if r.Route.Identity != IdentityAPIKey {
			continue
		}
		for _, limits := range [][]CompiledLimit{c.Plans[plan], r.Limits} {
			for i := range limits {
				l := &limits[i]
				if l.ID != o.Limit || !ownValue(l.Per) {
					continue
				}
				met = true
				n, p := compiled.Limit(l, before)
				if cost := r.most(l); !p.Unlimited && !n.Blocked() && n.room(l.Leased) < cost {
					found.addf(at+".burst", "%d is below what a request of route %s may cost, %d: it could never pass", n.room(l.Leased), r.Name, cost)
				}
			}
		}
	}
	return met
}

// most is what one request of the route may take from a limit.
func (r *CompiledRoute) most(l *CompiledLimit) int64 {
	switch {
	case l.Counts == CountsRequests:
		return 1
	case r.Route.GraphQL != nil:
		return r.Route.GraphQL.Max
	}
	return r.Cost
}

// room is the largest cost that can pass.
func (n Numbers) room(leased bool) int64 {
	if leased {
		return n.LeasedBurst()
	}
	return n.Burst
}
