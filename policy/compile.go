package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// LimitHash is the 64-bit name of a limit in stored state: the first 8 bytes,
// big-endian, of the SHA-256 of its id.
func LimitHash(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:8])
}

// CompiledLimit is a limit in the form that a gateway charges.
type CompiledLimit struct {
	ID        string // scoped name: global.all, shared:search, plan.requests, route:report.reports
	Name      string
	Hash      uint64 // LimitHash(ID)
	Per       Per
	Counts    Counts
	Unlimited bool    // Numbers are zero: charge nothing
	Numbers   Numbers // reduced; Blocked when the limit admits nothing
	Rate      Rate    // as written
	Burst     int64
	Source    string // "plan pro", "route report", "shared search", "global"

	Dimensions    []Dimension // Per, read; never empty
	Shadow        bool        // counted and reported, never refuses
	Leased        bool
	ExpiresMicros int64 // Unix µs from which on the limit no longer holds; 0: never
}

// Expired reports whether the limit no longer holds at a time of Redis' clock,
// in Unix µs.
func (l *CompiledLimit) Expired(nowMicros int64) bool {
	return l.ExpiresMicros != 0 && nowMicros >= l.ExpiresMicros
}

// CompiledRoute is a route with all its own limits resolved. A request is
// charged to the document's global limits, its tenant's plan (identity api_key
// only) and these.
type CompiledRoute struct {
	Name        string
	Route       *Route
	Cost        int64
	Limits      []CompiledLimit      // the shared ones it uses, then its own
	Concurrency *CompiledConcurrency // nil: none
}

// Compiled is a document in the form that a gateway enforces. It is immutable
// and safe for concurrent use.
type Compiled struct {
	Document *Document // with defaults filled in
	Digest   string    // DigestOf(Document.Canonical())
	Global   []CompiledLimit
	Plans    map[string][]CompiledLimit
	Quotas   map[string]*CompiledQuota // by plan; only plans that have one
	Routes   []*CompiledRoute          // in the order of the document

	router *router
}

// EffectiveLimit is one limit that a tenant on a plan meets.
type EffectiveLimit struct {
	CompiledLimit
	Route string // name of the route; "" for every route
	Cost  int64  // what one request of the route charges to a limit that counts cost; 0 when Route is ""
}

// Compile makes the form that a gateway enforces. It fails, with a Report as the
// cause, when the document has problems. It does not keep d.
func Compile(d *Document) (*Compiled, error) {
	if r := validate(d); !r.OK() {
		r.trim()
		return nil, fmt.Errorf("compile policy: %w", r)
	}
	doc := d.withDefaults()
	c := &Compiled{
		Document: doc,
		Digest:   DigestOf(doc.Canonical()),
		Plans:    make(map[string][]CompiledLimit, len(doc.Plans)),
		Quotas:   make(map[string]*CompiledQuota),
		Routes:   make([]*CompiledRoute, len(doc.Routes)),
		router:   newRouter(),
	}
	if err := c.limits(doc); err != nil {
		return nil, err
	}
	shared := make(map[string]CompiledLimit, len(doc.Shared))
	for _, l := range doc.Shared {
		var err error
		if shared[l.Name], err = compileLimit(l, sharedLimitID(l.Name), "shared "+l.Name); err != nil {
			return nil, err
		}
	}
	for i := range doc.Routes {
		var err error
		if c.Routes[i], err = compileRoute(&doc.Routes[i], shared); err != nil {
			return nil, err
		}
		if err := c.route(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// limits compiles what holds on every route: global limits and plans.
func (c *Compiled) limits(doc *Document) (err error) {
	if c.Global, err = compileLimits(doc.Global.Limits, globalLimitID, "global"); err != nil {
		return err
	}
	for name, plan := range doc.Plans {
		if c.Plans[name], err = compileLimits(plan.Limits, planLimitID, "plan "+name); err != nil {
			return err
		}
		if plan.Quota == nil {
			continue
		}
		if c.Quotas[name], err = compileQuota(plan.Quota, "plan "+name); err != nil {
			return err
		}
	}
	return nil
}

// route enters the patterns of one route into the router.
func (c *Compiled) route(i int) error {
	for _, text := range c.Document.Routes[i].Match {
		p, err := parsePattern(text)
		if err != nil {
			return fmt.Errorf("compile pattern %q: %w", text, err)
		}
		p.route = i
		c.router.add(p)
	}
	return nil
}

func compileRoute(r *Route, shared map[string]CompiledLimit) (*CompiledRoute, error) {
	out := &CompiledRoute{Name: r.Name, Route: r, Cost: r.Cost}
	for _, name := range r.Uses {
		out.Limits = append(out.Limits, shared[name])
	}
	own, err := compileLimits(r.Limits, func(name string) string { return routeLimitID(r.Name, name) }, "route "+r.Name)
	if err != nil {
		return nil, err
	}
	out.Limits = append(out.Limits, own...)
	if c := r.Concurrency; c != nil {
		id := routeLimitID(r.Name, concurrencyName)
		out.Concurrency = &CompiledConcurrency{
			ID: id, Hash: LimitHash(id), Per: c.Per, Dimensions: c.Per.Dimensions(),
			Max: c.Max, Hold: c.Lease, Shadow: c.Mode == ModeShadow, Source: "route " + r.Name,
		}
	}
	return out, nil
}

func compileQuota(q *Quota, source string) (*CompiledQuota, error) {
	zone, err := LoadZone(q.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("compile quota of %s: %w", source, err)
	}
	return &CompiledQuota{Quota: q, ID: QuotaID, Hash: LimitHash(QuotaID), Source: source, Location: zone, Shadow: q.Mode == ModeShadow}, nil
}

func compileLimits(limits []Limit, id func(name string) string, source string) ([]CompiledLimit, error) {
	out := make([]CompiledLimit, len(limits))
	for i, l := range limits {
		var err error
		if out[i], err = compileLimit(l, id(l.Name), source); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func compileLimit(l Limit, id, source string) (CompiledLimit, error) {
	c := CompiledLimit{
		ID: id, Name: l.Name, Hash: LimitHash(id), Per: l.Per, Counts: l.Counts,
		Unlimited: l.Rate.Unlimited, Rate: l.Rate, Burst: l.Burst, Source: source,
		Dimensions: l.Per.Dimensions(), Shadow: l.Mode == ModeShadow, Leased: l.Sync == SyncLeased,
	}
	if l.ExpiresAt != nil {
		c.ExpiresMicros = l.ExpiresAt.UnixMicro()
	}
	if c.Unlimited {
		c.Burst = 0
		return c, nil
	}
	var err error
	if c.Numbers, err = NumbersOf(l.Rate, l.Burst); err != nil {
		return CompiledLimit{}, fmt.Errorf("compile limit %s: %w", id, err)
	}
	return c, nil
}

// Match finds the route of a request by the patterns and precedence of
// net/http.ServeMux, without its redirects. Host may carry a port. CanonicalPath
// made the path. A path that ends in a slash and that no pattern names itself
// falls under the pattern for the path without it, if there is one.
func (c *Compiled) Match(method, host, canonicalPath string) (*CompiledRoute, bool) {
	route, _ := c.MatchKind(method, host, canonicalPath)
	return route, route != nil
}

// MatchKind is Match that also says whether nothing but a pattern for every path
// ("/", with or without a method or a host) matched. The route is nil when none
// did.
func (c *Compiled) MatchKind(method, host, canonicalPath string) (route *CompiledRoute, catchAll bool) {
	p := c.router.match(method, host, canonicalPath)
	if p == nil {
		return nil, false
	}
	return c.Routes[p.route], p.catchAll()
}

// Effective lists the limits that a tenant on the plan meets: global and plan
// limits, which hold on every route, then route by route what is charged there
// besides. Routes with identity user or ip know no tenant and are left out.
func (c *Compiled) Effective(plan string) []EffectiveLimit {
	var out []EffectiveLimit
	for _, l := range c.Global {
		out = append(out, EffectiveLimit{CompiledLimit: l})
	}
	for _, l := range c.Plans[plan] {
		out = append(out, EffectiveLimit{CompiledLimit: l})
	}
	for _, r := range c.Routes {
		if r.Route.Identity != IdentityAPIKey {
			continue
		}
		for _, l := range r.Limits {
			out = append(out, EffectiveLimit{CompiledLimit: l, Route: r.Name, Cost: r.Cost})
		}
	}
	return out
}
