package usage

// Outcome says what became of a request. The set is closed: an outcome that is
// not listed here is counted as OutcomeInvalid.
type Outcome string

// Outcomes.
const (
	OutcomeAdmitted         Outcome = "admitted"
	OutcomeLimited          Outcome = "limited"           // 429, over a limit
	OutcomeBlocked          Outcome = "blocked"           // 429, a limit of 0
	OutcomeFallbackAdmitted Outcome = "fallback-admitted" // Redis away, within the fallback or unlimited
	OutcomeFallbackRefused  Outcome = "fallback-refused"  // Redis away, over the fallback
	OutcomeClosed           Outcome = "closed"            // Redis away, route fails closed
	OutcomeUnauthorized     Outcome = "unauthorized"      // 401, and 429 for too many of them
	OutcomeSuspended        Outcome = "suspended"         // 403
	OutcomeUnavailable      Outcome = "unavailable"       // identity or plan cannot be told, no policy
	OutcomeNoRoute          Outcome = "no-route"
	OutcomeInvalid          Outcome = "invalid" // request that cannot be decided on: 400, 422
)

// Outcomes lists all outcomes, in the order of their constants.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeAdmitted, OutcomeLimited, OutcomeBlocked, OutcomeFallbackAdmitted, OutcomeFallbackRefused, OutcomeClosed,
		OutcomeUnauthorized, OutcomeSuspended, OutcomeUnavailable, OutcomeNoRoute, OutcomeInvalid,
	}
}

// Admitted reports whether the request went to the upstream.
func (o Outcome) Admitted() bool {
	return o == OutcomeAdmitted || o == OutcomeFallbackAdmitted
}

// Refused reports whether a limit or a fail mode turned the request away.
func (o Outcome) Refused() bool {
	return o == OutcomeLimited || o == OutcomeBlocked || o == OutcomeFallbackRefused || o == OutcomeClosed
}

// Degraded reports whether the request was decided without Redis.
func (o Outcome) Degraded() bool {
	return o == OutcomeFallbackAdmitted || o == OutcomeFallbackRefused || o == OutcomeClosed || o == OutcomeUnavailable
}

func (o Outcome) known() bool {
	switch o {
	case OutcomeAdmitted, OutcomeLimited, OutcomeBlocked, OutcomeFallbackAdmitted, OutcomeFallbackRefused, OutcomeClosed,
		OutcomeUnauthorized, OutcomeSuspended, OutcomeUnavailable, OutcomeNoRoute, OutcomeInvalid:
		return true
	}
	return false
}

// Rest is the name under which tenants (and, if it must be, routes) are added
// up when there are more of them than a batch or a table may hold.
const Rest = "…"

// MaxRows is the number of rows a batch holds at most.
const MaxRows = 1000

// Row is a count for one second, tenant, route, outcome and deciding limit.
type Row struct {
	Second   int64   `json:"s"`           // Unix, by the replica's clock
	Tenant   string  `json:"t,omitempty"` // tenant id; "" when the request has none; Rest
	Route    string  `json:"r,omitempty"` // route name; "" when none matched; Rest
	Outcome  Outcome `json:"o"`
	Limit    string  `json:"l,omitempty"` // deciding limit id, refusals only
	Requests int64   `json:"n"`
	Cost     int64   `json:"c,omitempty"` // tokens, of admitted requests as well as of refused ones
}

// Batch is what one replica counted since its batch before. It is identified
// by replica, boot and sequence; a batch without rows says that nothing happened.
type Batch struct {
	Replica string `json:"replica"`
	Boot    string `json:"boot"`
	Seq     int64  `json:"seq"`     // 1, 2, … within a boot
	Through int64  `json:"through"` // Unix second up to and including which the replica has counted
	Rows    []Row  `json:"rows"`
	// Detail is told every ten seconds; readers that do not know it pass over it.
	Detail *Detail `json:"detail,omitempty"`
}
