package policy

import "strconv"

// builder makes a map node field by field, in the order of the types.
type builder struct{ n *node }

func newBuilder() builder { return builder{&node{kind: kindMap}} }

func (b builder) add(name string, v *node) {
	b.n.keys = append(b.n.keys, key{text: name})
	b.n.items = append(b.n.items, v)
}

func (b builder) text(name, s string) { b.add(name, textNode(s)) }

// textIf leaves out an empty text.
func (b builder) textIf(name, s string) {
	if s != "" {
		b.text(name, s)
	}
}

func (b builder) whole(name string, v int64) {
	b.add(name, &node{kind: kindInt, text: strconv.FormatInt(v, 10)})
}

// rate adds a rate and the burst that goes with it.
func (b builder) rate(r Rate, burst int64) {
	b.text("rate", r.String())
	if !r.Unlimited {
		b.whole("burst", burst)
	}
}

// listIf leaves out an empty list.
func (b builder) listIf(name string, items []*node) {
	if len(items) > 0 {
		b.add(name, &node{kind: kindList, items: items})
	}
}

func textNode(s string) *node { return &node{kind: kindText, text: s} }

func nodesOf[T any](list []T, encode func(T) *node) []*node {
	out := make([]*node, len(list))
	for i, v := range list {
		out[i] = encode(v)
	}
	return out
}

// encodeDocument writes a document that has its defaults filled in.
func encodeDocument(d *Document) *node {
	b := newBuilder()
	b.text("apiVersion", d.APIVersion)
	b.textIf("description", d.Description)
	b.add("client_ip", encodeClientIP(d.ClientIP))
	b.add("credentials", encodeCredentials(d.Credentials))
	if len(d.Global.Limits) > 0 {
		g := newBuilder()
		g.listIf("limits", nodesOf(d.Global.Limits, encodeLimit))
		b.add("global", g.n)
	}
	b.listIf("shared", nodesOf(d.Shared, encodeLimit))
	if len(d.Plans) > 0 {
		plans := newBuilder()
		for _, name := range sortedKeys(d.Plans) {
			p := newBuilder()
			p.textIf("description", d.Plans[name].Description)
			p.listIf("limits", nodesOf(d.Plans[name].Limits, encodeLimit))
			plans.add(name, p.n)
		}
		b.add("plans", plans.n)
	}
	b.listIf("routes", nodesOf(d.Routes, encodeRoute))
	return b.n
}

func encodeClientIP(c ClientIP) *node {
	b := newBuilder()
	var proxies []*node
	for _, p := range c.TrustedProxies {
		proxies = append(proxies, textNode(p.String()))
	}
	b.listIf("trusted_proxies", proxies)
	b.text("header", c.Header)
	b.whole("ipv6_prefix", int64(c.IPv6Prefix))
	return b.n
}

func encodeCredentials(c Credentials) *node {
	b := newBuilder()
	headers := nodesOf(c.Headers, func(h CredentialHeader) *node {
		b := newBuilder()
		b.text("name", h.Name)
		b.textIf("scheme", h.Scheme)
		return b.n
	})
	b.add("headers", &node{kind: kindList, items: headers}) // an empty list is not the default
	invalid := newBuilder()
	invalid.text("per", string(PerIP))
	invalid.rate(c.Invalid.Rate, c.Invalid.Burst)
	b.add("invalid", invalid.n)
	return b.n
}

func encodeLimit(l Limit) *node {
	b := newBuilder()
	b.text("name", l.Name)
	b.textIf("description", l.Description)
	b.text("per", string(l.Per))
	b.text("counts", string(l.Counts))
	b.rate(l.Rate, l.Burst)
	return b.n
}

func encodeRoute(r Route) *node {
	b := newBuilder()
	b.text("name", r.Name)
	b.textIf("description", r.Description)
	b.listIf("match", nodesOf(r.Match, textNode))
	b.text("identity", string(r.Identity))
	b.text("motive", string(r.Motive))
	b.whole("cost", r.Cost)
	b.listIf("limits", nodesOf(r.Limits, encodeLimit))
	b.listIf("uses", nodesOf(r.Uses, textNode))
	f := newBuilder()
	f.text("mode", string(r.OnStoreFailure.Mode))
	if fb := r.OnStoreFailure.Fallback; fb != nil {
		if fb.Unlimited {
			f.text("fallback", unlimitedWord)
		} else {
			n := newBuilder()
			n.rate(fb.Rate, fb.Burst)
			f.add("fallback", n.n)
		}
	}
	b.add("on_store_failure", f.n)
	return b.n
}
