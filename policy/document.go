package policy

import (
	"net/netip"
	"time"
)

// APIVersion is the value of the document's apiVersion field.
const APIVersion = "headgate/v1"

// Document is the whole policy of a deployment, as an operator writes it.
// A Document that came from Parse without problems is valid and has its
// defaults filled in.
type Document struct {
	APIVersion  string
	Description string
	ClientIP    ClientIP
	Credentials Credentials
	User        *User // nil: no limit is counted per user
	// ReplicasExpected is how many gateways there are when all is well, 1 or
	// more: the least number that fallback share divides by. 0: not given.
	ReplicasExpected int64
	Global           Global
	Shared           []Limit
	Plans            map[string]Plan
	Routes           []Route
}

// ClientIP says how the address of a caller is found.
type ClientIP struct {
	TrustedProxies []netip.Prefix // peers whose forwarded headers are believed; default none
	Header         string         // default X-Forwarded-For
	IPv6Prefix     int            // bits that identify an IPv6 caller, 1..128; default 64
}

// Credentials says where a caller's API key stands and how often an address
// may present one that is refused.
type Credentials struct {
	Headers []CredentialHeader
	Invalid InvalidLimit
}

// CredentialHeader is one header that may carry an API key. Scheme, when set,
// precedes the key ("Bearer").
type CredentialHeader struct {
	Name   string
	Scheme string
}

// InvalidLimit bounds refused credentials per client address. It is counted in
// the gateway's own memory, before any lookup.
type InvalidLimit struct {
	Rate  Rate
	Burst int64
}

// Global holds limits on everything together.
type Global struct {
	Limits []Limit
}

// Plan is a named bundle of limits and a quota that tenants are on.
type Plan struct {
	Description string
	Limits      []Limit
	Quota       *Quota // nil: none
}

// Limit is a rate and a burst, counted per a stated dimension.
type Limit struct {
	Name        string
	Description string
	Per         Per
	Counts      Counts
	Rate        Rate
	Burst       int64 // tokens; defaults to the rate's count; 0 with rate 0 admits nothing
	Mode        LimitMode
	Sync        LimitSync
	ExpiresAt   *time.Time // from then on, by Redis' clock, the limit no longer holds; nil: never
}

// LimitMode says whether a limit refuses.
type LimitMode string

// Limit modes.
const (
	ModeEnforce LimitMode = "enforce" // default
	ModeShadow  LimitMode = "shadow"  // counted and reported, never refuses
)

// LimitSync says how replicas share a limit's bucket.
type LimitSync string

// Values of LimitSync.
const (
	SyncExact  LimitSync = "exact"  // default: Redis is asked on each request
	SyncLeased LimitSync = "leased" // a replica takes a slice of tokens and spends it itself
)

// Rate is N per period, or unlimited. Tokens 0 admits nothing.
type Rate struct {
	Unlimited bool
	Tokens    int64
	Period    time.Duration
}

// Counts says what a limit charges for a request: its cost, or one.
type Counts string

// Values of Counts.
const (
	CountsCost     Counts = "cost"
	CountsRequests Counts = "requests"
)

// Identity says who is charged on a route.
type Identity string

// Identities.
const (
	IdentityAPIKey Identity = "api_key"
	IdentityUser   Identity = "user" // the document's user; no key, no tenant, no plan
	IdentityIP     Identity = "ip"   // the client address; no key, no tenant, no plan
)

// Motive says what a route's limits are for; it decides how a refusal is told.
type Motive string

// Motives.
const (
	MotiveFairness Motive = "fairness"
	MotiveQuota    Motive = "quota"
	MotiveAbuse    Motive = "abuse"
)

// FailMode says what happens to requests of a route while Redis cannot be asked.
type FailMode string

// Fail modes.
const (
	FailOpen   FailMode = "open"
	FailClosed FailMode = "closed"
)

// StoreFailure is a route's on_store_failure.
type StoreFailure struct {
	Mode     FailMode
	Fallback *Fallback // set if and only if Mode is open
}

// Fallback is the in-process limit per replica, route and identity subject.
type Fallback struct {
	Unlimited bool
	Share     bool // the limits in force, divided by the live replicas
	Rate      Rate
	Burst     int64
}

// Route is a named match with its limits, cost and fail mode.
type Route struct {
	Name        string
	Description string
	Match       []string // net/http.ServeMux patterns
	Identity    Identity
	Motive      Motive
	// Cost is how many tokens a request takes, 1 or more; default 1. With
	// SettleHeader it is what is reserved, with GraphQL it means nothing.
	Cost int64
	// SettleHeader names the response header that tells the real cost; "" none.
	SettleHeader   string
	GraphQL        *GraphQLCost // set: the cost is computed from the query
	Limits         []Limit
	Uses           []string     // names of shared limits
	Concurrency    *Concurrency // nil: none
	OnStoreFailure StoreFailure
}
