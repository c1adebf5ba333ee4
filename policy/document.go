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
	Global      Global
	Shared      []Limit
	Plans       map[string]Plan
	Routes      []Route
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

// Plan is a named bundle of limits that tenants are on.
type Plan struct {
	Description string
	Limits      []Limit
}

// Limit is a rate and a burst, counted per a stated dimension.
type Limit struct {
	Name        string
	Description string
	Per         Per
	Counts      Counts
	Rate        Rate
	Burst       int64 // tokens; defaults to the rate's count; 0 with rate 0 admits nothing
}

// Rate is N per period, or unlimited. Tokens 0 admits nothing.
type Rate struct {
	Unlimited bool
	Tokens    int64
	Period    time.Duration
}

// Per is the dimension a limit is counted per.
type Per string

// Dimensions.
const (
	PerGlobal     Per = "global"
	PerTenant     Per = "tenant"
	PerCredential Per = "credential"
	PerIP         Per = "ip"
)

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
	IdentityIP     Identity = "ip"
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
	Rate      Rate
	Burst     int64
}

// Route is a named match with its limits, cost and fail mode.
type Route struct {
	Name           string
	Description    string
	Match          []string // net/http.ServeMux patterns
	Identity       Identity
	Motive         Motive
	Cost           int64 // tokens, >= 1; default 1
	Limits         []Limit
	Uses           []string // names of shared limits
	OnStoreFailure StoreFailure
}
