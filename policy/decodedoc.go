package policy

import "slices"

// Bounds of the document's lists. A row of stored buckets holds a tenant's
// limits together, which is why they are few.
const (
	maxRoutes         = 10_000
	maxPlans          = 1_000
	maxShared         = 1_000
	maxLimits         = 16 // of a plan, of a route, of global
	maxUses           = 16
	maxMatches        = 64
	maxHeaders        = 8
	maxTrustedProxies = 1_000
	maxCost           = maxStored
)

type reads = map[string]func(path string, n *node)

// document reads the whole tree.
func (d *decoder) document(n *node) *Document {
	doc := &Document{}
	d.fields("", n, fieldSet{read: reads{
		"apiVersion":  func(p string, n *node) { d.text(p, n, &doc.APIVersion) },
		"description": func(p string, n *node) { d.text(p, n, &doc.Description) },
		"client_ip":   func(p string, n *node) { d.clientIP(p, n, &doc.ClientIP) },
		"credentials": func(p string, n *node) { d.credentials(p, n, &doc.Credentials) },
		"global":      func(p string, n *node) { d.global(p, n, &doc.Global) },
		"shared":      func(p string, n *node) { d.limits(p, n, &doc.Shared, maxShared) },
		"plans":       func(p string, n *node) { d.plans(p, n, doc) },
		"routes": func(p string, n *node) {
			d.list(p, n, "routes", maxRoutes, func(p string, n *node) {
				doc.Routes = append(doc.Routes, d.route(p, n))
			})
		},
	}, later: []string{"user", "replicas_expected"}})
	return doc
}

func (d *decoder) clientIP(path string, n *node, c *ClientIP) {
	d.fields(path, n, fieldSet{read: reads{
		"trusted_proxies": func(p string, n *node) {
			d.list(p, n, "address ranges", maxTrustedProxies, func(p string, n *node) {
				c.TrustedProxies = append(c.TrustedProxies, d.prefix(p, n))
			})
		},
		"header": func(p string, n *node) { d.text(p, n, &c.Header) },
		"ipv6_prefix": func(p string, n *node) {
			var bits int64
			d.whole(p, n, &bits, 1, 128)
			c.IPv6Prefix = int(bits)
		},
	}})
}

func (d *decoder) credentials(path string, n *node, c *Credentials) {
	d.fields(path, n, fieldSet{read: reads{
		"headers": func(p string, n *node) {
			c.Headers = []CredentialHeader{} // an empty list is not the default
			d.list(p, n, "headers", maxHeaders, func(p string, n *node) {
				var h CredentialHeader
				d.fields(p, n, fieldSet{read: reads{
					"name":   func(p string, n *node) { d.text(p, n, &h.Name) },
					"scheme": func(p string, n *node) { d.text(p, n, &h.Scheme) },
				}})
				c.Headers = append(c.Headers, h)
			})
		},
		"invalid": func(p string, n *node) {
			per := PerIP
			burst := d.burst(&c.Invalid.Burst)
			d.fields(p, n, fieldSet{read: reads{
				"per":   func(p string, n *node) { choice(d, p, n, &per, []Per{PerIP}) },
				"rate":  func(p string, n *node) { d.rate(p, n, &c.Invalid.Rate) },
				"burst": burst.read,
			}})
			burst.finish(c.Invalid.Rate)
		},
	}})
}

func (d *decoder) global(path string, n *node, g *Global) {
	d.fields(path, n, fieldSet{read: reads{
		"limits": func(p string, n *node) { d.limits(p, n, &g.Limits, maxLimits) },
	}})
}

func (d *decoder) plans(path string, n *node, doc *Document) {
	if n.kind != kindMap {
		d.wrongKind(path, n, "a map of plans by name")
		return
	}
	if len(n.keys) > maxPlans {
		d.unread[path] = true
		d.shape(path, n.line, "has %d plans: at most %d are allowed", len(n.keys), maxPlans)
		return
	}
	doc.Plans = make(map[string]Plan, len(n.keys))
	set := fieldSet{read: reads{}}
	for _, k := range n.keys {
		set.read[k.text] = func(p string, n *node) { doc.Plans[k.text] = d.plan(p, n) }
	}
	d.fields(path, n, set)
}

func (d *decoder) plan(path string, n *node) Plan {
	var plan Plan
	d.fields(path, n, fieldSet{read: reads{
		"description": func(p string, n *node) { d.text(p, n, &plan.Description) },
		"limits":      func(p string, n *node) { d.limits(p, n, &plan.Limits, maxLimits) },
	}, later: []string{"quota", "concurrency"}})
	return plan
}

func (d *decoder) limits(path string, n *node, into *[]Limit, most int) {
	d.list(path, n, "limits", most, func(p string, n *node) { *into = append(*into, d.limit(p, n)) })
}

func (d *decoder) limit(path string, n *node) Limit {
	l := Limit{Counts: CountsCost}
	burst := d.burst(&l.Burst)
	var mode, sync string
	d.fields(path, n, fieldSet{read: reads{
		"name":        func(p string, n *node) { d.text(p, n, &l.Name) },
		"description": func(p string, n *node) { d.text(p, n, &l.Description) },
		"per":         func(p string, n *node) { d.per(p, n, &l.Per) },
		"counts":      func(p string, n *node) { choice(d, p, n, &l.Counts, []Counts{CountsCost, CountsRequests}) },
		"rate":        func(p string, n *node) { d.rate(p, n, &l.Rate) },
		"burst":       burst.read,
		"mode":        func(p string, n *node) { choice(d, p, n, &mode, []string{"enforce"}, "shadow") },
		"sync":        func(p string, n *node) { choice(d, p, n, &sync, []string{"exact"}, "leased") },
	}, later: []string{"expires_at"}})
	burst.finish(l.Rate)
	return l
}

// per reads a dimension.
func (d *decoder) per(path string, n *node, into *Per) {
	if n.kind == kindList {
		d.unsupported(path, n, "a combination of dimensions")
		return
	}
	if n.kind == kindText {
		for _, prefix := range []string{"header:", "body:"} {
			if len(n.text) > len(prefix) && n.text[:len(prefix)] == prefix {
				d.unsupported(path, n, "per "+n.text)
				return
			}
		}
	}
	choice(d, path, n, into, []Per{PerGlobal, PerTenant, PerCredential, PerIP}, "user")
}

// burstReader reads a burst, whose default depends on the rate beside it.
type burstReader struct {
	d    *decoder
	into *int64
	path string
	n    *node
}

func (d *decoder) burst(into *int64) *burstReader { return &burstReader{d: d, into: into} }

func (b *burstReader) read(path string, n *node) { b.path, b.n = path, n }

// finish is called when the rate is known.
func (b *burstReader) finish(r Rate) {
	switch {
	case b.n == nil:
		*b.into = r.DefaultBurst()
	case r.Unlimited:
		b.d.problem(b.path, b.n, "means nothing beside the rate unlimited: leave it out")
	default:
		*b.into = 0 // no default hides what could not be read
		b.d.whole(b.path, b.n, b.into, 0, maxStored)
	}
}

func (d *decoder) route(path string, n *node) Route {
	r := Route{Identity: IdentityAPIKey, Motive: MotiveFairness, Cost: 1}
	d.fields(path, n, fieldSet{read: reads{
		"name":        func(p string, n *node) { d.text(p, n, &r.Name) },
		"description": func(p string, n *node) { d.text(p, n, &r.Description) },
		"match":       func(p string, n *node) { d.texts(p, n, "patterns", maxMatches, &r.Match) },
		"identity": func(p string, n *node) {
			choice(d, p, n, &r.Identity, []Identity{IdentityAPIKey, IdentityIP}, "user")
		},
		"motive": func(p string, n *node) {
			choice(d, p, n, &r.Motive, []Motive{MotiveFairness, MotiveQuota, MotiveAbuse})
		},
		"cost":             func(p string, n *node) { d.cost(p, n, &r.Cost) },
		"limits":           func(p string, n *node) { d.limits(p, n, &r.Limits, maxLimits) },
		"uses":             func(p string, n *node) { d.texts(p, n, "names of shared limits", maxUses, &r.Uses) },
		"on_store_failure": func(p string, n *node) { d.storeFailure(p, n, &r.OnStoreFailure) },
	}, later: []string{"concurrency", "quota", "expires_at"}})
	return r
}

func (d *decoder) texts(path string, n *node, what string, most int, into *[]string) {
	d.list(path, n, what, most, func(p string, n *node) {
		var s string
		d.text(p, n, &s)
		*into = append(*into, s)
	})
}

// cost reads a number; costs that are computed per request come later.
func (d *decoder) cost(path string, n *node, into *int64) {
	if n.kind != kindMap {
		d.whole(path, n, into, 1, maxCost)
		return
	}
	later := []string{"graphql", "reserve", "settle_header", "header", "body"}
	for _, k := range n.keys {
		if slices.Contains(later, k.text) {
			d.unsupported(path, n, "a computed cost ("+k.text+")")
			return
		}
	}
	d.wrongKind(path, n, "a whole number")
}

func (d *decoder) storeFailure(path string, n *node, f *StoreFailure) {
	d.fields(path, n, fieldSet{read: reads{
		"mode": func(p string, n *node) { choice(d, p, n, &f.Mode, []FailMode{FailOpen, FailClosed}) },
		"fallback": func(p string, n *node) {
			f.Fallback = &Fallback{}
			d.fallback(p, n, f.Fallback)
		},
	}, later: []string{"replicas_expected"}})
	if d.unread[field(path, "mode")] {
		d.unread[path] = true // nothing can be said of a fallback without its mode
	}
}

func (d *decoder) fallback(path string, n *node, f *Fallback) {
	switch {
	case n.kind == kindText && n.text == unlimitedWord:
		f.Unlimited = true
		return
	case n.kind == kindText && n.text == "share":
		d.unsupported(path, n, "share")
		return
	case n.kind == kindText:
		d.problem(path, n, "%q is not a fallback: write {rate: …, burst: …} or unlimited", clip(n.text))
		return
	}
	burst := d.burst(&f.Burst)
	d.fields(path, n, fieldSet{read: reads{
		"rate":  func(p string, n *node) { d.rate(p, n, &f.Rate) },
		"burst": burst.read,
	}, later: []string{"share", "replicas_expected"}})
	burst.finish(f.Rate)
	if child, _ := n.child("share"); child != nil {
		d.unread[field(path, "rate")] = true // it takes the place of a rate
	}
	if f.Rate.Unlimited {
		f.Unlimited, f.Rate = true, Rate{}
	}
}
