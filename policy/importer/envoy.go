package importer

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/policy"
)

// envoyLimit is a rate_limit of a descriptor.
type envoyLimit struct {
	line      int
	unit      string
	requests  int64
	given     bool // requests_per_unit
	unlimited bool
	name      string
	replaces  []string
}

// envoyEntry is one key of a descriptor, with its value or for each of its values.
type envoyEntry struct {
	key, value string
}

// envoyDescriptor is one node of the tree of descriptors.
type envoyDescriptor struct {
	path    string
	line    int
	entry   envoyEntry
	limit   *envoyLimit
	shadow  bool
	share   bool
	nested  *yaml.Node
	nestedP string
}

// envoyReader turns descriptors into routes. It gathers all problems.
type envoyReader struct {
	noteList
	problems []policy.Problem
	doc      *policy.Document
	names    names
	seen     int // descriptors
}

func envoyRateLimit(src []byte) (*policy.Document, []Note, error) {
	root, err := readTree(src)
	if err != nil {
		return nil, nil, err
	}
	r := &envoyReader{doc: &policy.Document{APIVersion: policy.APIVersion}, names: names{}}
	r.root(root)
	if len(r.problems) > 0 {
		return nil, nil, policy.Report{Problems: r.problems}
	}
	if len(r.doc.Routes) == 0 {
		return nil, nil, problem("descriptors", root.Line, "is empty: there is nothing to import")
	}
	return r.doc, r.all(), nil
}

func (r *envoyReader) root(n *yaml.Node) {
	domain, descriptors := "", false
	r.fields("", n, map[string]func(path string, n *yaml.Node){
		"domain": func(path string, n *yaml.Node) { domain = r.text(path, n) },
		"descriptors": func(path string, n *yaml.Node) {
			descriptors = true
			r.list(path, n, nil)
		},
	})
	if !descriptors || domain == "" {
		r.wrong("", n.Line, "is no configuration of envoyproxy/ratelimit: it must have a domain and descriptors")
	}
	r.doc.Description = plainText("imported from the rate limit domain " + domain)
	r.say("", 0, "envoyproxy/ratelimit counts in fixed windows that all begin at once, and admits up to twice the count around their edges; here each limit is a bucket of the same "+
		"rate that holds one window's count")
	r.do("routes", 0, "descriptors do not say which requests they are made for: that stands in Envoy's routes (rate_limits.actions). Each of the %d routes needs a match", len(r.doc.Routes))
	r.do("routes", 0, "what happens while the store is away stands in Envoy's filter (failure_mode_deny): each route needs an on_store_failure")
	r.say("routes", 0, "no route needs a key (identity ip), because descriptors know no callers: choose api_key where tenants should be charged, and move their limits to plans")
}

func (r *envoyReader) list(path string, n *yaml.Node, above []envoyEntry) {
	if n.Kind != yaml.SequenceNode {
		r.wrong(path, n.Line, "must be a list of descriptors")
		return
	}
	for i, item := range n.Content {
		if r.seen++; r.seen > maxRoutes {
			r.wrong(path, item.Line, "holds more than %d descriptors, the most that can be imported", maxRoutes)
			return
		}
		d := envoyDescriptor{path: at(path, i), line: item.Line}
		r.descriptor(&d, item)
		chain := append(append([]envoyEntry(nil), above...), d.entry)
		if d.limit != nil || d.nested == nil {
			r.route(&d, chain)
		}
		if d.nested != nil {
			r.list(d.nestedP, d.nested, chain)
		}
	}
}

func (r *envoyReader) descriptor(d *envoyDescriptor, n *yaml.Node) {
	r.fields(d.path, n, map[string]func(path string, n *yaml.Node){
		"key":         func(path string, n *yaml.Node) { d.entry.key = r.text(path, n) },
		"value":       func(path string, n *yaml.Node) { d.entry.value = r.text(path, n) },
		"rate_limit":  func(path string, n *yaml.Node) { d.limit = r.rateLimit(path, n) },
		"shadow_mode": func(path string, n *yaml.Node) { d.shadow = r.yes(path, n) },
		"descriptors": func(path string, n *yaml.Node) { d.nested, d.nestedP = n, path },
		"share_threshold": func(path string, n *yaml.Node) {
			d.share = r.yes(path, n)
		},
		"detailed_metric": func(path string, n *yaml.Node) { r.metric(path, n) },
		"value_to_metric": func(path string, n *yaml.Node) { r.metric(path, n) },
	})
	if d.entry.key == "" {
		r.wrong(d.path+".key", d.line, "is missing: each descriptor has a key")
	}
	if d.share {
		r.do(d.path+".share_threshold", d.line, "one count for all values that begin alike cannot be said: the limit counts as its per says")
	}
}

func (r *envoyReader) metric(path string, n *yaml.Node) {
	if r.yes(path, n) {
		r.say(path, n.Line, "is not needed: refusals are told per limit, and the most refused callers beside them, without a metric per value")
	}
}

func (r *envoyReader) rateLimit(path string, n *yaml.Node) *envoyLimit {
	l := &envoyLimit{line: n.Line}
	r.fields(path, n, map[string]func(path string, n *yaml.Node){
		"unit": func(path string, n *yaml.Node) { l.unit = strings.ToLower(r.text(path, n)) },
		"requests_per_unit": func(path string, n *yaml.Node) {
			v, err := strconv.ParseUint(n.Value, 10, 32)
			if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
				r.wrong(path, n.Line, "must be a whole number of 0 to 4294967295 in plain digits, not %q", clip(n.Value))
			}
			l.requests, l.given = int64(v), true
		},
		"unlimited": func(path string, n *yaml.Node) { l.unlimited = r.yes(path, n) },
		"name":      func(path string, n *yaml.Node) { l.name = r.text(path, n) },
		"replaces": func(path string, n *yaml.Node) {
			for i, item := range n.Content {
				r.fields(at(path, i), item, map[string]func(path string, n *yaml.Node){
					"name": func(path string, n *yaml.Node) { l.replaces = append(l.replaces, r.text(path, n)) },
				})
			}
		},
	})
	switch {
	case l.unlimited && l.given:
		r.wrong(path, n.Line, "is unlimited and has requests_per_unit: give one of them")
	case !l.unlimited && !l.given:
		r.wrong(path+".requests_per_unit", n.Line, "is missing")
	case !l.unlimited && l.unit == "":
		r.wrong(path+".unit", n.Line, "is missing")
	}
	return l
}

// route makes a route of one chain of keys.
func (r *envoyReader) route(d *envoyDescriptor, chain []envoyEntry) {
	words := make([]string, len(chain))
	for i, e := range chain {
		words[i] = e.key
		if e.value != "" {
			words[i] += "=" + e.value
		}
	}
	route := policy.Route{
		Name:        r.names.of(strings.Join(words, "-")),
		Description: plainText("descriptor " + strings.Join(words, ", ")),
		Identity:    policy.IdentityIP,
	}
	if d.limit == nil {
		r.do(d.path, d.line, "has no rate limit, so its requests are let through: route %s has no limit either; leave it out where a wider route should count them", route.Name)
	} else {
		route.Limits = []policy.Limit{r.limit(d, chain)}
	}
	r.hints(d, chain, route.Name)
	r.doc.Routes = append(r.doc.Routes, route)
}

func (r *envoyReader) limit(d *envoyDescriptor, chain []envoyEntry) policy.Limit {
	l := policy.Limit{Name: names{}.of("requests"), Per: r.per(d, chain)}
	if d.limit.name != "" {
		l.Name = names{"concurrency": 1}.of(d.limit.name)
	}
	if d.shadow {
		l.Mode = policy.ModeShadow
	}
	path := d.path + ".rate_limit"
	if len(d.limit.replaces) > 0 {
		r.do(path+".replaces", d.limit.line, "replacing %s cannot be said: a request meets one route, the most specific one, and every limit of it", clip(strings.Join(d.limit.replaces, ", ")))
	}
	if d.limit.unlimited {
		l.Rate = policy.Rate{Unlimited: true}
		return l
	}
	period, ok := envoyUnit(d.limit.unit)
	switch {
	case !ok && (d.limit.unit == "month" || d.limit.unit == "year"):
		r.do(path+".unit", d.limit.line, "a rate's period is at most 31 days: %d a %s is a quota of a plan (quota: {amount: %d, period: %s}); the limit has no rate until you decide",
			d.limit.requests, d.limit.unit, d.limit.requests, d.limit.unit)
		return l
	case !ok:
		r.wrong(path+".unit", d.limit.line, "%q is not known: it must be one of second, minute, hour, day, week, month, year", clip(d.limit.unit))
		return l
	}
	l.Rate, l.Burst = policy.Rate{Tokens: d.limit.requests, Period: period}, d.limit.requests
	if d.limit.requests == 0 {
		l.Rate.Period = time.Second
		r.say(path+".requests_per_unit", d.limit.line, "0 admits nothing, here too")
	}
	return l
}

func envoyUnit(unit string) (time.Duration, bool) {
	switch unit {
	case "second":
		return time.Second, true
	case "minute":
		return time.Minute, true
	case "hour":
		return time.Hour, true
	case "day":
		return 24 * time.Hour, true
	case "week":
		return 7 * 24 * time.Hour, true
	}
	return 0, false
}

// per says what a limit counts apart: each key without a value. It is left out,
// which validation refuses, when a key may be anything.
func (r *envoyReader) per(d *envoyDescriptor, chain []envoyEntry) policy.Per {
	var unknown []string
	ip := false
	for _, e := range chain {
		switch {
		case e.value != "" && !strings.HasSuffix(e.value, "*"):
		case isAddress(e.key):
			ip = true
		default:
			unknown = append(unknown, e.key)
		}
	}
	switch {
	case len(unknown) > 0:
		r.do(d.path, d.line, "counts each value of %s apart, and Envoy's actions say what that is: write per: header:NAME, tenant, user or ip (or a list of them)", clip(strings.Join(unknown, " and ")))
		return ""
	case ip:
		return policy.PerIP
	}
	return policy.PerGlobal
}

func isAddress(key string) bool { return key == "remote_address" || key == "masked_remote_address" }

// hints says what is likely of a match, which is somebody's to decide.
func (r *envoyReader) hints(d *envoyDescriptor, chain []envoyEntry, route string) {
	for _, e := range chain {
		switch {
		case isAddress(e.key) && e.value != "":
			r.do(d.path, d.line, "is for the address %s alone, which a route cannot match: its limit would count all addresses together", clip(e.value))
		case e.key == "masked_remote_address":
			r.say(d.path, d.line, "counts ranges of addresses: client_ip.ipv6_prefix says how many bits name an IPv6 caller, IPv4 addresses are always counted whole")
		case strings.HasSuffix(e.value, "*"):
			r.do(d.path, d.line, "is for values that begin with %s: a pattern such as /prefix/{rest...} may say that in the match of route %s", clip(strings.TrimSuffix(e.value, "*")), route)
		case strings.HasPrefix(e.value, "/"):
			r.say(d.path, d.line, "%s looks like a path: match: [%s] may be what route %s needs", clip(e.key), clip(strconv.Quote(e.value)), route)
		}
	}
}
