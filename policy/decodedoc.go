package policy

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
	maxListArguments  = 16
	maxWeights        = 1_000
)

// MaxReplicasExpected is the largest replicas_expected.
const MaxReplicasExpected = 10_000

// document reads the whole tree.
func (d *decoder) document(n *node) *Document {
	doc := &Document{}
	d.fields("", n, reads{
		"apiVersion":  func(p string, n *node) { d.text(p, n, &doc.APIVersion) },
		"description": func(p string, n *node) { d.text(p, n, &doc.Description) },
		"client_ip":   func(p string, n *node) { d.clientIP(p, n, &doc.ClientIP) },
		"credentials": func(p string, n *node) { d.credentials(p, n, &doc.Credentials) },
		"user": func(p string, n *node) {
			doc.User = &User{}
			d.user(p, n, doc.User)
		},
		"replicas_expected": func(p string, n *node) { d.whole(p, n, &doc.ReplicasExpected, 1, MaxReplicasExpected) },
		"global":            func(p string, n *node) { d.global(p, n, &doc.Global) },
		"shared":            func(p string, n *node) { d.limits(p, n, &doc.Shared, maxShared) },
		"plans":             func(p string, n *node) { d.plans(p, n, doc) },
		"routes": func(p string, n *node) {
			d.list(p, n, "routes", maxRoutes, func(p string, n *node) {
				doc.Routes = append(doc.Routes, d.route(p, n))
			})
		},
	})
	return doc
}

func (d *decoder) clientIP(path string, n *node, c *ClientIP) {
	d.fields(path, n, reads{
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
	})
}

func (d *decoder) credentials(path string, n *node, c *Credentials) {
	d.fields(path, n, reads{
		"headers": func(p string, n *node) {
			c.Headers = []CredentialHeader{} // an empty list is not the default
			d.list(p, n, "headers", maxHeaders, func(p string, n *node) {
				var h CredentialHeader
				d.fields(p, n, reads{
					"name":   func(p string, n *node) { d.text(p, n, &h.Name) },
					"scheme": func(p string, n *node) { d.text(p, n, &h.Scheme) },
				})
				c.Headers = append(c.Headers, h)
			})
		},
		"invalid": func(p string, n *node) {
			per := PerIP
			burst := d.burst(&c.Invalid.Burst)
			d.fields(p, n, reads{
				"per":   func(p string, n *node) { choice(d, p, n, &per, []Per{PerIP}) },
				"rate":  func(p string, n *node) { d.rate(p, n, &c.Invalid.Rate) },
				"burst": burst.read,
			})
			burst.finish(c.Invalid.Rate)
		},
	})
}

func (d *decoder) user(path string, n *node, u *User) {
	d.fields(path, n, reads{
		"header": func(p string, n *node) { d.text(p, n, &u.Header) },
		"jwt": func(p string, n *node) {
			u.JWT = &UserJWT{}
			d.fields(p, n, reads{
				"jwks_file": func(p string, n *node) { d.text(p, n, &u.JWT.JWKSFile) },
				"claim":     func(p string, n *node) { d.text(p, n, &u.JWT.Claim) },
				"issuer":    func(p string, n *node) { d.text(p, n, &u.JWT.Issuer) },
				"audience":  func(p string, n *node) { d.text(p, n, &u.JWT.Audience) },
			})
		},
	})
	if d.unread[field(path, "header")] {
		d.unread[path] = true // nothing can be said of what it would have been
	}
}

func (d *decoder) global(path string, n *node, g *Global) {
	d.fields(path, n, reads{
		"limits": func(p string, n *node) { d.limits(p, n, &g.Limits, maxLimits) },
	})
}

func (d *decoder) plans(path string, n *node, doc *Document) {
	doc.Plans = named(d, path, n, "a map of plans by name", "plans", maxPlans, d.plan)
}

// named reads a map whose names are the writer's own. It is nil when it has
// another kind or too many entries.
func named[T any](d *decoder, path string, n *node, want, what string, most int, read func(path string, n *node) T) map[string]T {
	if n.kind != kindMap {
		d.wrongKind(path, n, want)
		return nil
	}
	if len(n.keys) > most {
		d.unread[path] = true
		d.shape(path, n.line, "has %d %s: at most %d are allowed", len(n.keys), what, most)
		return nil
	}
	entries := make(map[string]T, len(n.keys))
	set := reads{}
	for _, k := range n.keys {
		set[k.text] = func(p string, n *node) { entries[k.text] = read(p, n) }
	}
	d.fields(path, n, set)
	return entries
}

func (d *decoder) plan(path string, n *node) Plan {
	var plan Plan
	d.fields(path, n, reads{
		"description": func(p string, n *node) { d.text(p, n, &plan.Description) },
		"limits":      func(p string, n *node) { d.limits(p, n, &plan.Limits, maxLimits) },
		"quota": func(p string, n *node) {
			plan.Quota = &Quota{}
			d.quota(p, n, plan.Quota)
		},
	})
	return plan
}
