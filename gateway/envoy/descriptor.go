package envoy

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/policy"
)

const (
	maxDescriptors = 32
	maxEntries     = 32 // of a descriptor
)

// Keys of entries. A descriptor describes one request of the API.
const (
	keyTenant  = "tenant"         // id of the tenant, by Envoy's word
	keyAPIKey  = "api_key"        // the API key alone, without a scheme
	keyKey     = "key"            // the same
	keyMethod  = "method"         // with keyPath: finds the route
	keyHost    = "host"           // with a port or without
	keyPath    = "path"           // as on the wire; may have a query
	keyAddress = "remote_address" // the caller's; Envoy's action of that name
	keyUser    = "user"
	keyRoute   = "route"       // names the route, instead of method and path
	keyGeneric = "generic_key" // the same; Envoy's action of that name
	keyHeader  = "header:"     // and the name of a field
)

const knownKeys = "tenant, api_key, key, method, host, path, remote_address, user, route, generic_key, header:NAME"

// question is what one descriptor asks.
type question struct {
	gateway.Inbound
	zero bool // asks to add nothing
}

// question reads the descriptors of a call. An error names what Envoy's
// configuration has to say differently; no value of an entry makes one.
func (s *Server) question(c *call) error {
	asked := &c.asked
	if string(asked.domain) != s.cfg.Domain {
		return fmt.Errorf("domain: is %.100q, and this gateway serves %q (--grpc-domain)", asked.domain, s.cfg.Domain)
	}
	if n := asked.count; n == 0 || n > maxDescriptors {
		return fmt.Errorf("descriptors: there are %d; 1 to %d are answered", n, maxDescriptors)
	}
	c.room(len(asked.descriptors))
	for i := range asked.descriptors {
		d, q := &asked.descriptors[i], &c.questions[i]
		if err := q.read(d, asked.of(d)); err != nil {
			return fmt.Errorf("descriptors[%d].%w", i, err)
		}
		q.hits(d, asked.hits)
		q.Budget = s.cfg.Budget
	}
	return nil
}

// hits says for how many requests the descriptor stands. That of the descriptor
// counts before the call's. A 0 in the call cannot be told from none and means 1;
// one in the descriptor means 0, which looks and adds nothing.
func (q *question) hits(d *described, ofCall uint32) {
	q.Hits = int64(ofCall)
	if d.hitsGiven {
		q.Hits = int64(min(d.hits, math.MaxInt64))
		q.zero = d.hits == 0
		q.Peek = q.zero
	}
}

// seen are the entries that are alternatives to each other, or needed.
type seen struct {
	tenant, key, method, host, path, address, user, route []byte
	has                                                   uint16
}

// bits of seen.has.
const (
	hasTenant uint16 = 1 << iota
	hasKey
	hasMethod
	hasHost
	hasPath
	hasAddress
	hasUser
	hasRoute
)

var errTwice = errors.New("says again what another entry says")

// read reads the entries of a descriptor.
func (q *question) read(d *described, entries []entry) error {
	switch n := d.count; {
	case n == 0 || n > maxEntries:
		return fmt.Errorf("entries: there are %d; 1 to %d are read", n, maxEntries)
	case d.limit:
		return errors.New("limit: is not taken from Envoy; limits are the policy's")
	case d.negative:
		return errors.New("is_negative_hits: is not supported; correct a cost by /v1/settle")
	}
	var from seen
	for i := range entries {
		if err := q.entry(&entries[i], &from); err != nil {
			return fmt.Errorf("entries[%d].key: %.100q %w", i, entries[i].key, err)
		}
	}
	return q.take(&from)
}

func (q *question) entry(e *entry, to *seen) error {
	where, bit := &to.tenant, hasTenant
	switch string(e.key) {
	case keyTenant:
	case keyAPIKey, keyKey:
		where, bit = &to.key, hasKey
	case keyMethod:
		where, bit = &to.method, hasMethod
	case keyHost:
		where, bit = &to.host, hasHost
	case keyPath:
		where, bit = &to.path, hasPath
	case keyAddress:
		where, bit = &to.address, hasAddress
	case keyUser:
		where, bit = &to.user, hasUser
	case keyRoute, keyGeneric:
		where, bit = &to.route, hasRoute
	default:
		return q.header(string(e.key), string(e.value))
	}
	if to.has&bit != 0 {
		return errTwice
	}
	to.has |= bit
	*where = e.value
	return nil
}

func (q *question) header(key, value string) error {
	name, ok := strings.CutPrefix(key, keyHeader)
	if !ok {
		return errors.New("is unknown; known are " + knownKeys)
	}
	if !fieldName(name) {
		return errors.New("names no header field")
	}
	name = http.CanonicalHeaderKey(name)
	if q.Header[name] != nil {
		return errTwice
	}
	if q.Header == nil {
		q.Header = http.Header{}
	}
	q.Header[name] = []string{value}
	return nil
}

// take makes the question of what was said.
func (q *question) take(from *seen) error {
	switch has := from.has; {
	case has&hasTenant != 0 && has&hasKey != 0:
		return errors.New("entries: tenant and api_key: one of them, not both")
	case has&hasRoute != 0 && has&(hasMethod|hasPath) == hasMethod|hasPath:
		return errors.New("entries: route, or method and path: one of them, not both")
	case has&hasRoute == 0 && has&hasMethod == 0:
		return errors.New("entries: method is needed, or route")
	case has&hasRoute == 0 && has&hasPath == 0:
		return errors.New("entries: path is needed, or route")
	}
	q.Method, q.Host, q.Key = methodText(from.method), string(from.host), string(from.key)
	q.PeerTrusted, q.ClientKnown = true, true
	q.User, q.UserKnown = string(from.user), len(from.user) > 0
	if q.Tenant = string(from.tenant); !policy.ValidID(q.Tenant) {
		// As a key, text that is no tenant's id is refused like any bad credential.
		if from.has&hasTenant != 0 {
			q.Key = "tenant " + q.Tenant
		}
		q.Tenant = ""
	}
	if len(from.address) > 0 {
		if a, err := netip.ParseAddr(string(from.address)); err == nil { // else nobody's: counted together
			q.Client = a.Unmap().WithZone("")
		}
	}
	if q.RouteName = string(from.route); from.has&hasRoute != 0 {
		q.byName(from)
		return nil
	}
	q.EscapedPath, q.Query = targetOf(string(from.path))
	return nil
}

// methodText is the text of a method, without a copy where it is a usual one.
func methodText(b []byte) string {
	for _, usual := range [...]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead} {
		if string(b) == usual {
			return usual
		}
	}
	return string(b)
}

// byName is a question that names its route: nothing else is matched.
func (q *question) byName(from *seen) {
	if q.RouteName == "" {
		q.RouteName = "-" // the empty name would mean that none is named; no route has this one
	}
	if from.has&hasMethod == 0 {
		q.Method = http.MethodGet
	}
}

// targetOf parts a request target in escaped path and raw query. What a proxy
// could read otherwise becomes a path that is refused.
func targetOf(target string) (path, query string) {
	path, query, _ = strings.Cut(target, "?")
	if strings.Contains(path, "#") { // some programs end the path there and some do not
		return "", ""
	}
	return path, query
}

// fieldName reports whether name is a token of HTTP (RFC 9110, 5.6.2).
func fieldName(name string) bool {
	if name == "" || len(name) > 256 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}
