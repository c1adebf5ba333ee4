package policy

import (
	"crypto/sha256"
	"encoding/binary"
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
	Numbers   Numbers // reduced
	Rate      Rate    // as written
	Burst     int64
	Source    string // "plan pro", "route report", "shared search", "global"
}

// CompiledRoute is a route with all its own limits resolved.
type CompiledRoute struct {
	Name   string
	Route  *Route
	Cost   int64
	Limits []CompiledLimit // the shared ones it uses, then its own
}

// Compiled is a document in the form that a gateway enforces. It is immutable
// and safe for concurrent use.
type Compiled struct {
	Document *Document
	Digest   string // DigestOf(Document.Canonical())
	Global   []CompiledLimit
	Plans    map[string][]CompiledLimit
	Routes   []*CompiledRoute
}

// EffectiveLimit is one limit that a tenant on a plan meets.
type EffectiveLimit struct {
	CompiledLimit
	Route string // name of the route; "" for every route
	Cost  int64  // what one request of the route charges; 0 when Route is ""
}

// Compile makes the form that a gateway enforces. It fails when the document
// has problems.
func Compile(d *Document) (*Compiled, error) { return &Compiled{Document: d}, nil }

// Match finds the route of a request by the precedence of net/http.ServeMux.
// CanonicalPath made the path.
func (c *Compiled) Match(method, host, canonicalPath string) (*CompiledRoute, bool) {
	return nil, false
}

// Effective lists the limits that a tenant on the plan meets.
func (c *Compiled) Effective(plan string) []EffectiveLimit { return nil }
