package gateway

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/spool"
)

// Inbound is one request to decide on, as a door understood it.
type Inbound struct {
	Method      string
	Host        string
	EscapedPath string // as on the wire, without the query
	Header      http.Header
	Peer        netip.Addr // who speaks to us; forwarded headers count from here
	PeerTrusted bool       // the door vouches for the peer's forwarded headers
	Client      netip.Addr // set when the door was told the address: no header is read
	ClientKnown bool
	Key         string // set when the door was told the key: no header is read
	Tenant      string // set when a trusted caller has authenticated the tenant itself
	Cost        int64  // tokens; 0: the route's
	RequestID   string

	RouteName string // set when a trusted caller names the route: method, host and path match nothing
	User      string // set when a trusted caller names the user
	UserKnown bool
	// Hits is how many requests of the route this one stands for; 0 and 1: one.
	// All are charged together, so there is no part of them that passes.
	Hits int64
	// Peek asks without charging: what would be the answer now.
	Peek bool
	// Recorded says, with Peek, that what is admitted comes into the ledger, although this
	// gateway keeps no spool: a quota's counter is asked as those ask that do.
	Recorded bool
	// Budget is the longest time that the whole decision may take, where it is
	// shorter than the gateway's. 0: the gateway's.
	Budget time.Duration
	// Body is the request's, at a door that has it; nil elsewhere.
	Body *Body
	// Query is the raw query of the request's target.
	Query string
	// Ends says that the door sees the end of the request, and calls
	// Verdict.End then. Otherwise the answer carries a lease token.
	Ends bool
	// Replay is set when a Replayer decides; nil for a request that is under way.
	Replay *Replay

	// readBody reads the beginning of the body, at most so many bytes.
	readBody func(most int64) (*Body, error)
	// ticket is the room for that of a door that sees the end; nil: one is made.
	ticket *spool.Ticket
}

// Body is as much of a request's body as cost and limits may look at.
type Body struct {
	ContentType string // as dimension.ContentType reads it
	Peek        []byte // the beginning
	Whole       bool   // Peek is all of it
}

// Class sorts decisions for the accounts: a replica's received requests are the
// sum of its classes.
type Class string

// Classes of decisions.
const (
	ClassAdmitted   Class = "admitted"
	ClassRejected   Class = "rejected"   // over a limit, of the store or of the fallback
	ClassFailOpen   Class = "failopen"   // admitted without the store
	ClassFailClosed Class = "failclosed" // refused because something cannot be asked
	ClassInvalid    Class = "invalid"    // no route, no identity, not readable
	ClassAborted    Class = "aborted"    // the caller left before it was answered
)

// Verdict is the answer to an Inbound. Doors translate it and decide nothing.
type Verdict struct {
	Allowed  bool
	Degraded bool // decided without the store
	Bare     bool // told without a body that says why
	Free     bool // a CORS preflight: admitted without a charge
	Peeked   bool // asked without charging
	Cached   bool // refused without asking the store again
	Aborted  bool
	Status   int    // of the refusal; 200 when allowed
	Code     Code   // "" when allowed
	Detail   string // of the refusal; "" for that of its code
	Cause    string // why it is degraded, in one word
	Reason   limiter.Reason
	Outcome  usage.Outcome

	Policy     *feed.Snapshot // nil when there is none
	Route      *policy.CompiledRoute
	Path       string // canonical: matched, charged and forwarded
	Client     netip.Addr
	Subject    string // Client as it is counted
	Tenant     string
	Credential string
	User       string // of a route that knows callers by it
	Retiring   bool
	RetiringAt *time.Time
	NotAfter   *time.Time
	Cost       int64
	RequestID  string
	// Lease is the token for release and settle at doors that do not see the end
	// of a request; "" when there is nothing to release or settle.
	Lease string
	// Receipt tells, signed, what the refusal rests on; "" where there is none.
	Receipt string

	Limits           []LimitState // in order of evaluation, without shadows; nil when degraded
	Shadows          []LimitState // that are counted and refuse nobody; not told to callers
	Unlimited        []LimitState // lifted by an override
	Deciding         int          // index into Limits; -1 when none refused
	RetryAfterMicros int64        // exact; 0 when unknown or none
	RetryAfterSecs   int64        // of a 503: drawn at random

	// kid names the key whose right secret was presented, "" for none; keyRefused says
	// that it was not accepted all the same.
	kid        string
	keyRefused bool
	// astray says that no route matched, or none but one for every path.
	astray bool

	hits    int64         // requests that this one stands for, at least 1
	hold    *limiter.Hold // of a door that sees the end
	leases  []limiter.Lease
	release func([]limiter.Lease)
	spent   *limiter.Draw // what a settlement corrects; nil when there is none
	reserve int64         // cost that was charged
	// settleID names the settlement: of us, for a request id may be the caller's.
	settleID string
	ticket   *spool.Ticket // of a door that sees the end; nil: nothing to end
	recorded logEntry
	grounds  grounds
	drawn    *drawing // that Limits lie in; nil: nothing was asked
	room     *drawing // of a verdict that is used again
}

// refuse turns the verdict into the refusal named by code.
func (v *Verdict) refuse(code Code, outcome usage.Outcome) {
	v.Allowed, v.Code, v.Outcome = false, code, outcome
	v.Status = refusalOf(code).status
	v.Bare = v.Bare || code == CodeTooManyInvalid
}

// routeName is the matched route's name, or "".
func (v *Verdict) routeName() string {
	if v.Route == nil {
		return ""
	}
	return v.Route.Name
}

// abuse reports whether refusals and headers must tell nothing.
func (v *Verdict) abuse() bool {
	return v.Route != nil && v.Route.Route != nil && v.Route.Route.Motive == policy.MotiveAbuse
}

func (v *Verdict) version() int64 {
	if v.Policy == nil {
		return 0
	}
	return v.Policy.Version
}

// class sorts the verdict for the accounts.
func (v *Verdict) class() Class {
	switch {
	case v.Aborted:
		return ClassAborted
	case v.Allowed && v.Degraded:
		return ClassFailOpen
	case v.Allowed:
		return ClassAdmitted
	}
	switch v.Outcome {
	case usage.OutcomeLimited, usage.OutcomeBlocked, usage.OutcomeFallbackRefused:
		return ClassRejected
	case usage.OutcomeClosed, usage.OutcomeUnavailable:
		return ClassFailClosed
	default:
		return ClassInvalid
	}
}

// tightest is the index of the limit that a caller meets first: the deciding one
// of a refusal, else the one that pays for the fewest further requests. -1: none.
func (v *Verdict) tightest() int {
	if v.Deciding >= 0 && v.Deciding < len(v.Limits) {
		return v.Deciding
	}
	best := -1
	for i := range v.Limits {
		if v.Limits[i].Unknown || v.Limits[i].Kind == LimitConcurrency {
			continue
		}
		if best < 0 || v.Limits[i].further() < v.Limits[best].further() {
			best = i
		}
	}
	return best
}
