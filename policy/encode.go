package policy

import (
	"strconv"
	"strings"
	"time"
)

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

func (b builder) whole(name string, v int64) { b.add(name, wholeNode(v)) }

// wholeIf leaves out a number that was not given.
func (b builder) wholeIf(name string, v int64) {
	if v != 0 {
		b.whole(name, v)
	}
}

// wordUnless leaves out a word that is the default. Fields that came later to
// the format are written this way, so that older documents keep their bytes.
func wordUnless[T ~string](b builder, name string, v, usual T) {
	if v != usual {
		b.text(name, string(v))
	}
}

// per adds a dimension; several are a list. One that is missing stays missing.
func (b builder) per(p Per) {
	if p == "" {
		return
	}
	words := strings.Split(string(p), ",")
	if len(words) == 1 {
		b.text("per", words[0])
		return
	}
	b.listIf("per", nodesOf(words, textNode))
}

// rate adds a rate and the burst that goes with it. One that is missing stays
// missing: written as 0 it would admit nothing, and be valid.
func (b builder) rate(r Rate, burst int64) {
	if !r.set() {
		return
	}
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

func wholeNode(v int64) *node { return &node{kind: kindInt, text: strconv.FormatInt(v, 10)} }

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
	if d.User != nil {
		b.add("user", encodeUser(*d.User))
	}
	b.wholeIf("replicas_expected", d.ReplicasExpected)
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
			if q := d.Plans[name].Quota; q != nil {
				p.add("quota", encodeQuota(*q))
			}
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

func encodeUser(u User) *node {
	b := newBuilder()
	b.textIf("header", u.Header)
	if u.JWT != nil {
		j := newBuilder()
		j.text("jwks_file", u.JWT.JWKSFile)
		j.text("claim", u.JWT.Claim)
		j.textIf("issuer", u.JWT.Issuer)
		j.textIf("audience", u.JWT.Audience)
		b.add("jwt", j.n)
	}
	return b.n
}

func encodeLimit(l Limit) *node {
	b := newBuilder()
	b.text("name", l.Name)
	b.textIf("description", l.Description)
	b.per(l.Per)
	b.text("counts", string(l.Counts))
	b.rate(l.Rate, l.Burst)
	wordUnless(b, "mode", l.Mode, ModeEnforce)
	wordUnless(b, "sync", l.Sync, SyncExact)
	if l.ExpiresAt != nil {
		b.text("expires_at", momentText(*l.ExpiresAt))
	}
	return b.n
}

// momentText is the one spelling of a time.
func momentText(t time.Time) string {
	return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

func encodeQuota(q Quota) *node {
	b := newBuilder()
	b.whole("amount", q.Amount)
	b.text("counts", string(q.Counts))
	b.text("period", string(q.Period))
	b.text("alignment", string(q.Alignment))
	b.text("time_zone", q.TimeZone)
	b.text("over", string(q.Over))
	b.wholeIf("max", q.Max)
	wordUnless(b, "mode", q.Mode, ModeEnforce)
	return b.n
}

func encodeRoute(r Route) *node {
	b := newBuilder()
	b.text("name", r.Name)
	b.textIf("description", r.Description)
	b.listIf("match", nodesOf(r.Match, textNode))
	b.text("identity", string(r.Identity))
	b.text("motive", string(r.Motive))
	b.add("cost", encodeCost(r))
	b.listIf("limits", nodesOf(r.Limits, encodeLimit))
	b.listIf("uses", nodesOf(r.Uses, textNode))
	if c := r.Concurrency; c != nil {
		n := newBuilder()
		n.per(c.Per)
		n.whole("max", c.Max)
		n.text("lease", periodText(c.Lease))
		wordUnless(n, "mode", c.Mode, ModeEnforce)
		b.add("concurrency", n.n)
	}
	if r.OnStoreFailure != (StoreFailure{}) {
		b.add("on_store_failure", encodeStoreFailure(r.OnStoreFailure))
	}
	return b.n
}

func encodeCost(r Route) *node {
	b := newBuilder()
	switch {
	case r.GraphQL != nil:
		b.add("graphql", encodeGraphQL(*r.GraphQL))
	case r.SettleHeader != "":
		b.whole("reserve", r.Cost)
		b.text("settle_header", r.SettleHeader)
	default:
		return wholeNode(r.Cost)
	}
	return b.n
}

func encodeGraphQL(g GraphQLCost) *node {
	b := newBuilder()
	b.whole("max", g.Max)
	b.whole("default_list_size", g.DefaultListSize)
	b.add("list_arguments", &node{kind: kindList, items: nodesOf(g.ListArguments, textNode)}) // an empty list is not the default
	if len(g.Weights) > 0 {
		w := newBuilder()
		for _, name := range sortedKeys(g.Weights) {
			w.whole(name, g.Weights[name])
		}
		b.add("weights", w.n)
	}
	b.whole("max_depth", g.MaxDepth)
	b.whole("max_breadth", g.MaxBreadth)
	return b.n
}

func encodeStoreFailure(s StoreFailure) *node {
	b := newBuilder()
	b.text("mode", string(s.Mode))
	switch f := s.Fallback; {
	case f == nil:
	case f.Unlimited:
		b.text("fallback", unlimitedWord)
	case f.Share:
		b.text("fallback", shareWord)
	default:
		n := newBuilder()
		n.rate(f.Rate, f.Burst)
		b.add("fallback", n.n)
	}
	return b.n
}
