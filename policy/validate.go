package policy

import (
	"fmt"
	"net/textproto"
	"slices"
	"sort"
	"strings"
)

// Validate reports everything that is wrong with a document, in its order, with
// paths and without lines. It takes a document that was put together by hand
// as well as one that was parsed.
func Validate(d *Document) Report {
	r := validate(d)
	r.trim()
	return r
}

// MissingPlans lists the plans of inUse that the document does not have, sorted
// and each once. Publishing refuses a document that drops a plan tenants are on.
func (d *Document) MissingPlans(inUse []string) []string {
	var missing []string
	for _, name := range inUse {
		if _, ok := d.Plans[name]; !ok {
			missing = append(missing, name)
		}
	}
	sort.Strings(missing)
	return slices.Compact(missing)
}

// validator goes through a document once and gathers what it finds.
type validator struct {
	doc      *Document
	problems problemList
	warnings problemList
	shared   map[string]*Limit
	used     map[string]bool   // shared limits that some route draws from
	zones    map[string]string // what is wrong with each time zone that was met
}

func validate(d *Document) Report {
	if d == nil {
		return Report{Problems: []Problem{{Message: "is missing"}}}
	}
	v := &validator{doc: d.withDefaults(), shared: map[string]*Limit{}, used: map[string]bool{}, zones: map[string]string{}}
	v.header()
	v.text("description", v.doc.Description)
	v.clientIP()
	v.credentials()
	v.user()
	v.replicas()
	v.globalLimits()
	v.sharedLimits()
	v.plans()
	v.routes()
	v.unused()
	v.collisions(LimitHash)
	return Report{Problems: v.problems.all(), Warnings: v.warnings.all()}
}

func (v *validator) header() {
	switch v.doc.APIVersion {
	case APIVersion:
	case "":
		v.problems.addf("apiVersion", "is missing: it must be %s", APIVersion)
	default:
		v.problems.add(Problem{Path: "apiVersion", beyond: true,
			Message: fmt.Sprintf("%q is not known: this build knows %s", clip(v.doc.APIVersion), APIVersion)})
	}
}

// text checks what is free to say anything: a document that was put together by
// hand must come back from its bytes like one that was read.
func (v *validator) text(at, s string) {
	if why := badText(s); why != "" {
		v.problems.addf(at, "%s", why)
	}
}

func (v *validator) clientIP() {
	c := v.doc.ClientIP
	for i, p := range c.TrustedProxies {
		at := index("client_ip.trusted_proxies", i)
		switch {
		case !p.IsValid():
			v.problems.addf(at, "is not an address range")
		case p.Addr().Is4In6():
			v.problems.addf(at, "%s is an IPv4 range in IPv6 writing: write it as IPv4", p)
		case p != p.Masked():
			v.problems.addf(at, "%s has bits beyond its length: did you mean %s?", p, p.Masked())
		case slices.Contains(c.TrustedProxies[:i], p):
			v.problems.addf(at, "%s is there twice", p)
		case p.Bits() == 0:
			v.warnings.addf(at, "%s trusts everyone: any caller can choose the address that is counted", p)
		}
	}
	at := "client_ip.header"
	switch why := badHeader(c.Header); {
	case why != "":
		v.problems.addf(at, "%s", why)
	case textproto.CanonicalMIMEHeaderKey(c.Header) == "Forwarded":
		v.problems.add(Problem{Path: at, Message: "Forwarded (RFC 7239) is not supported yet: use X-Forwarded-For", beyond: true})
	case len(c.TrustedProxies) == 0 && c.Header != DefaultClientIPHeader:
		v.warnings.addf(at, "%s is never read: no proxy is trusted", c.Header)
	}
	if c.IPv6Prefix < 1 || c.IPv6Prefix > 128 {
		v.problems.addf("client_ip.ipv6_prefix", "%d must be 1 to 128", c.IPv6Prefix)
	}
}

func (v *validator) credentials() {
	c := v.doc.Credentials
	if len(c.Headers) == 0 {
		v.problems.addf("credentials.headers", "is an empty list: no key could ever be presented")
	}
	seen := map[string]bool{}
	for i, h := range c.Headers {
		at := index("credentials.headers", i)
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		switch why := badHeader(h.Name); {
		case why != "":
			v.problems.addf(at+".name", "%s", why)
		case seen[name]:
			v.problems.addf(at+".name", "%s is there twice", name)
		}
		seen[name] = true
		if h.Scheme != "" && !headerToken(h.Scheme) {
			v.problems.addf(at+".scheme", "%q must be one word such as Bearer", clip(h.Scheme))
		}
	}
	at := "credentials.invalid"
	switch {
	case c.Invalid.Rate.Unlimited:
		v.problems.addf(at+".rate", "must be bounded: it is what slows down guessing")
	case c.Invalid.Rate.Blocked():
		v.problems.addf(at+".rate", "must admit something: everyone mistypes a key once")
	default:
		v.numbers(at, c.Invalid.Rate, c.Invalid.Burst)
		if c.Invalid.Burst == 0 {
			v.problems.addf(at+".burst", "must be at least 1")
		}
	}
}

// badHeader says why a header cannot carry a caller's identity; "" when it can.
func badHeader(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > 128 || !headerToken(name):
		return "must be the name of a header: letters, digits and -"
	}
	switch key := textproto.CanonicalMIMEHeaderKey(name); key {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade":
		return name + " is a hop-by-hop header: it does not reach past the next proxy"
	case "Host", "Content-Length", "Content-Type", "Cookie", "Date":
		return name + " already has another meaning"
	default:
		if perRequest(key) {
			return name + " differs on each request: it names no caller"
		}
	}
	return ""
}

// perRequest reports whether a header, in canonical form, carries an id of the
// request: who counted by it would count every request apart.
func perRequest(key string) bool {
	switch key {
	case "X-Request-Id", "X-Requestid", "Request-Id", "X-Correlation-Id", "Correlation-Id", "X-Correlationid", "X-Transaction-Id",
		"Traceparent", "Tracestate", "X-Trace-Id", "X-Span-Id", "Uber-Trace-Id", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid",
		"X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Amzn-Requestid", "X-Cloud-Trace-Context", "X-Datadog-Trace-Id", "X-Datadog-Parent-Id",
		"X-Ms-Request-Id", "X-Ms-Client-Request-Id", "Cf-Ray", "X-Vercel-Id", "Fly-Request-Id", "Sentry-Trace", "Elastic-Apm-Traceparent",
		"Idempotency-Key", "X-Idempotency-Key", "X-Nonce", "X-Timestamp", "X-Request-Start":
		return true
	}
	return false
}

func sameHeader(a, b string) bool {
	return textproto.CanonicalMIMEHeaderKey(a) == textproto.CanonicalMIMEHeaderKey(b)
}

func headerToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// validName is the shape of the names of plans, routes and limits: they stand in
// limit ids, metrics and URLs.
func validName(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// name checks a name and that it is the first of its kind; where is the path of
// the earlier one by name.
func (v *validator) name(path, name, what string, where map[string]string) {
	switch earlier := where[name]; {
	case name == "":
		v.problems.addf(path, "is missing")
		return
	case !validName(name):
		v.problems.addf(path, "%q must be 1 to 63 lower-case letters, digits and -, and not begin with -", clip(name))
		return
	case earlier != "":
		v.problems.addf(path, "%q is a duplicate, %s has that name too: %s must differ", name, earlier, what)
		return
	}
	where[name] = path[:strings.LastIndexByte(path, '.')]
}
