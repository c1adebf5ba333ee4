package policy

func (d *decoder) route(path string, n *node) Route {
	r := Route{Identity: IdentityAPIKey, Motive: MotiveFairness, Cost: 1}
	d.fields(path, n, reads{
		"name":        func(p string, n *node) { d.text(p, n, &r.Name) },
		"description": func(p string, n *node) { d.text(p, n, &r.Description) },
		"match":       func(p string, n *node) { d.texts(p, n, "patterns", maxMatches, &r.Match) },
		"identity": func(p string, n *node) {
			choice(d, p, n, &r.Identity, []Identity{IdentityAPIKey, IdentityUser, IdentityIP})
		},
		"motive": func(p string, n *node) {
			choice(d, p, n, &r.Motive, []Motive{MotiveFairness, MotiveQuota, MotiveAbuse})
		},
		"cost":   func(p string, n *node) { d.cost(p, n, &r) },
		"limits": func(p string, n *node) { d.limits(p, n, &r.Limits, maxLimits) },
		"uses":   func(p string, n *node) { d.texts(p, n, "names of shared limits", maxUses, &r.Uses) },
		"concurrency": func(p string, n *node) {
			r.Concurrency = &Concurrency{}
			d.concurrency(p, n, r.Concurrency)
		},
		"on_store_failure": func(p string, n *node) { d.storeFailure(p, n, &r.OnStoreFailure) },
	})
	return r
}

func (d *decoder) texts(path string, n *node, what string, most int, into *[]string) {
	d.list(path, n, what, most, func(p string, n *node) {
		var s string
		d.text(p, n, &s)
		*into = append(*into, s)
	})
}

// cost reads a number, or how the cost of each request is found.
func (d *decoder) cost(path string, n *node, r *Route) {
	switch {
	case n.kind == kindInt:
		d.whole(path, n, &r.Cost, 1, maxCost)
		return
	case n.kind == kindMap:
	case n.kind == kindNumber, n.kind == kindText && PlainNumber(n.text) != "":
		d.noWhole(path, n)
		return
	default:
		d.wrongKind(path, n, "a whole number in plain digits, or {graphql: …}, or {reserve: …, settle_header: …}")
		return
	}
	d.fields(path, n, reads{
		"graphql": func(p string, n *node) {
			r.GraphQL = &GraphQLCost{}
			d.graphQL(p, n, r.GraphQL)
		},
		"reserve":       func(p string, n *node) { d.whole(p, n, &r.Cost, 1, maxCost) },
		"settle_header": func(p string, n *node) { d.text(p, n, &r.SettleHeader) },
	})
	graphql, _ := n.child("graphql")
	reserve, _ := n.child("reserve")
	settle, _ := n.child("settle_header")
	switch {
	case graphql != nil && (reserve != nil || settle != nil):
		d.shape(path, n.line, "is computed from the query or settled by the response: give graphql, or reserve and settle_header")
		r.SettleHeader = "" // told
	case graphql != nil:
	case reserve == nil && settle == nil:
		d.problem(path, n, "is an empty map: give a whole number, graphql, or reserve and settle_header")
	default:
		d.needs(path, n, "reserve", "whole tokens that are taken until the response tells the cost")
		d.needs(path, n, "settle_header", "the response header that tells the cost; a cost that stands is written as a number")
	}
}

func (d *decoder) graphQL(path string, n *node, g *GraphQLCost) {
	d.fields(path, n, reads{
		"max":               func(p string, n *node) { d.whole(p, n, &g.Max, 1, maxCost) },
		"default_list_size": func(p string, n *node) { d.whole(p, n, &g.DefaultListSize, 1, maxCost) },
		"list_arguments": func(p string, n *node) {
			g.ListArguments = []string{} // an empty list is not the default
			d.texts(p, n, "names of arguments", maxListArguments, &g.ListArguments)
		},
		"weights":     func(p string, n *node) { d.weights(p, n, g) },
		"max_depth":   func(p string, n *node) { d.whole(p, n, &g.MaxDepth, 1, MaxGraphQLDepth) },
		"max_breadth": func(p string, n *node) { d.whole(p, n, &g.MaxBreadth, 1, MaxGraphQLBreadth) },
	})
}

func (d *decoder) weights(path string, n *node, g *GraphQLCost) {
	g.Weights = named(d, path, n, "a map from Type.field to a whole number", "weights", maxWeights, func(p string, n *node) (weight int64) {
		d.whole(p, n, &weight, 0, maxCost)
		return weight
	})
}

func (d *decoder) storeFailure(path string, n *node, f *StoreFailure) {
	d.fields(path, n, reads{
		"mode": func(p string, n *node) { choice(d, p, n, &f.Mode, []FailMode{FailOpen, FailClosed}) },
		"fallback": func(p string, n *node) {
			f.Fallback = &Fallback{}
			d.fallback(p, n, f.Fallback)
		},
	})
	if d.unread[field(path, "mode")] {
		d.unread[path] = true // nothing can be said of a fallback without its mode
	}
}

func (d *decoder) fallback(path string, n *node, f *Fallback) {
	if n.kind == kindText {
		switch n.text {
		case unlimitedWord:
			f.Unlimited = true
		case shareWord:
			f.Share = true
		default:
			d.problem(path, n, "%q is not a fallback: write {rate: …, burst: …}, share or unlimited", clip(n.text))
		}
		return
	}
	burst := d.burst(&f.Burst)
	d.fields(path, n, reads{
		"rate":  func(p string, n *node) { d.rate(p, n, &f.Rate) },
		"burst": burst.read,
	})
	burst.finish(f.Rate)
	if f.Rate.Unlimited {
		f.Unlimited, f.Rate = true, Rate{}
	}
}
