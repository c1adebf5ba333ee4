package policy

import (
	"reflect"
	"slices"
)

// Merge puts the changes from base to mine on top of theirs. What only one side
// changed is taken from that side; what both changed to the same is taken once.
// What both changed differently is taken from mine and named in clashes, in the
// words of Diff ("route login: limit per-ip", "plan free: quota"), so that
// nothing of theirs is lost unsaid. The parts that are told apart are the fields
// of client_ip and credentials, each limit of a place, a plan's quota, and the
// fields of a route; trusted proxies, patterns and uses are merged entry by entry.
//
// base nil means that there was nothing before, mine or theirs nil that there is
// nothing on that side, and the other is taken whole. The documents need not be
// valid, and the merged one need not be either, even when all three are: one side
// may use a shared limit that the other removed. Validate it. It shares no
// memory with any of them.
func Merge(base, mine, theirs *Document) (merged *Document, clashes []string) {
	switch {
	case mine == nil && theirs == nil:
		return nil, nil
	case theirs == nil:
		return mine.withDefaults(), nil
	case mine == nil:
		return theirs.withDefaults(), nil
	case base == nil:
		base = &Document{APIVersion: theirs.APIVersion}
	}
	g := &merger{}
	return g.document(base.withDefaults(), mine.withDefaults(), theirs.withDefaults()), g.clashes
}

// merger gathers the clashes of one merge.
type merger struct{ clashes []string }

func (g *merger) clash(what string) { g.clashes = append(g.clashes, what) }

// document merges documents that have their defaults filled in.
func (g *merger) document(b, m, t *Document) *Document {
	return &Document{
		APIVersion:       pick(g, "apiVersion", b.APIVersion, m.APIVersion, t.APIVersion),
		Description:      pick(g, "description", b.Description, m.Description, t.Description),
		ClientIP:         g.clientIP(b.ClientIP, m.ClientIP, t.ClientIP),
		Credentials:      g.credentials(b.Credentials, m.Credentials, t.Credentials),
		User:             pick(g, "user", b.User, m.User, t.User),
		ReplicasExpected: pick(g, "replicas_expected", b.ReplicasExpected, m.ReplicasExpected, t.ReplicasExpected),
		Global:           Global{Limits: g.limits("everything together", b.Global.Limits, m.Global.Limits, t.Global.Limits)},
		Shared:           g.limits("shared", b.Shared, m.Shared, t.Shared),
		Plans:            g.plans(b.Plans, m.Plans, t.Plans),
		Routes:           g.routes(b.Routes, m.Routes, t.Routes),
	}
}

// pick decides one value that is not taken apart.
func pick[T any](g *merger, what string, base, mine, theirs T) T {
	switch {
	case same(base, mine):
		return theirs
	case same(base, theirs), same(mine, theirs):
		return mine
	}
	g.clash(what)
	return mine
}

// same compares values that have their defaults filled in.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }

func (g *merger) clientIP(b, m, t ClientIP) ClientIP {
	return ClientIP{
		TrustedProxies: set(b.TrustedProxies, m.TrustedProxies, t.TrustedProxies),
		Header:         pick(g, "client_ip.header", b.Header, m.Header, t.Header),
		IPv6Prefix:     pick(g, "client_ip.ipv6_prefix", b.IPv6Prefix, m.IPv6Prefix, t.IPv6Prefix),
	}
}

func (g *merger) credentials(b, m, t Credentials) Credentials {
	return Credentials{ // headers are looked at in their order, so they are one value
		Headers: pick(g, "credentials.headers", b.Headers, m.Headers, t.Headers),
		Invalid: pick(g, "credentials.invalid", b.Invalid, m.Invalid, t.Invalid),
	}
}

// set merges lists whose order carries no meaning: entries cannot clash. It keeps
// theirs' order and puts what is only mine behind it.
func set[T comparable](base, mine, theirs []T) []T {
	var out []T
	for _, v := range slices.Concat(theirs, mine) {
		had, inMine, inTheirs := slices.Contains(base, v), slices.Contains(mine, v), slices.Contains(theirs, v)
		if (had && !(inMine && inTheirs)) || slices.Contains(out, v) {
			continue // one side took it away, or it is there already
		}
		out = append(out, v)
	}
	return out
}

func (g *merger) limits(where string, base, mine, theirs []Limit) []Limit {
	return named3(g, where+": limit ", where+": limits", limitName, base, mine, theirs, nil)
}

func limitName(l *Limit) string { return l.Name }

func (g *merger) plans(base, mine, theirs map[string]Plan) map[string]Plan {
	if len(base)+len(mine)+len(theirs) == 0 {
		return nil
	}
	out := map[string]Plan{}
	names := slices.Concat(sortedKeys(base), sortedKeys(mine), sortedKeys(theirs))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		sides := sides[Plan]{pointer(base, name), pointer(mine, name), pointer(theirs, name)}
		if p := sides.merge(g, "plan "+name, g.plan); p != nil {
			out[name] = *p
		}
	}
	return out
}

func pointer(plans map[string]Plan, name string) *Plan {
	p, ok := plans[name]
	if !ok {
		return nil
	}
	return &p
}

func (g *merger) plan(where string, b, m, t *Plan) *Plan {
	return &Plan{
		Description: pick(g, where+", description", b.Description, m.Description, t.Description),
		Limits:      g.limits(where, b.Limits, m.Limits, t.Limits),
		Quota:       pick(g, where+": quota", b.Quota, m.Quota, t.Quota),
	}
}

func (g *merger) routes(base, mine, theirs []Route) []Route {
	return named3(g, "route ", "routes", func(r *Route) string { return r.Name }, base, mine, theirs, g.route)
}

func (g *merger) route(where string, b, m, t *Route) *Route {
	cost := pick(g, where+", cost", costOf(b), costOf(m), costOf(t))
	return &Route{
		Name:           m.Name,
		Description:    pick(g, where+", description", b.Description, m.Description, t.Description),
		Match:          set(b.Match, m.Match, t.Match),
		Identity:       pick(g, where+", identity", b.Identity, m.Identity, t.Identity),
		Motive:         pick(g, where+", motive", b.Motive, m.Motive, t.Motive),
		Cost:           cost.static,
		SettleHeader:   cost.settle,
		GraphQL:        cost.graphQL,
		Limits:         g.limits(where, b.Limits, m.Limits, t.Limits),
		Uses:           set(b.Uses, m.Uses, t.Uses),
		Concurrency:    pick(g, where+": concurrency", b.Concurrency, m.Concurrency, t.Concurrency),
		OnStoreFailure: pick(g, where+", while the store is away", b.OnStoreFailure, m.OnStoreFailure, t.OnStoreFailure),
	}
}

// cost3 is all of a route that says what a request costs, which is one value.
type cost3 struct {
	static  int64
	settle  string
	graphQL *GraphQLCost
}

func costOf(r *Route) cost3 {
	c := cost3{r.Cost, r.SettleHeader, r.GraphQL}
	if c.graphQL != nil && len(c.graphQL.Weights) == 0 {
		c.graphQL.Weights = nil // none and an empty map mean the same
	}
	return c
}

// sides are the three versions of one named part; nil where it is not there.
type sides[T any] struct{ base, mine, theirs *T }

// merge decides one named part. One that all three have is taken apart by inner,
// unless that is nil.
func (s sides[T]) merge(g *merger, what string, inner func(what string, b, m, t *T) *T) *T {
	if inner != nil && s.base != nil && s.mine != nil && s.theirs != nil {
		return inner(what, s.base, s.mine, s.theirs)
	}
	return pick(g, what, s.base, s.mine, s.theirs)
}

// named3 merges lists whose entries have names. It keeps theirs' order and puts
// entries that are only mine behind it. A list that has a name twice is one value,
// called all: which of the two is meant cannot be told.
func named3[T any](g *merger, prefix, all string, name func(*T) string, base, mine, theirs []T, inner func(string, *T, *T, *T) *T) []T {
	b, okB := byName(base, name)
	m, okM := byName(mine, name)
	t, okT := byName(theirs, name)
	if !okB || !okM || !okT {
		return pick(g, all, base, mine, theirs)
	}
	var out []T
	take := func(key string) {
		if v := (sides[T]{b[key], m[key], t[key]}).merge(g, prefix+key, inner); v != nil {
			out = append(out, *v)
		}
	}
	for i := range theirs {
		take(name(&theirs[i]))
	}
	for i := range mine {
		if key := name(&mine[i]); t[key] == nil {
			take(key)
		}
	}
	return out
}

// byName finds entries by name. It is false when two have the same name.
func byName[T any](list []T, name func(*T) string) (map[string]*T, bool) {
	found := make(map[string]*T, len(list))
	for i := range list {
		found[name(&list[i])] = &list[i]
	}
	return found, len(found) == len(list)
}
