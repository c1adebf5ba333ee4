package limiter

import (
	"context"
	"errors"

	"github.com/headgate/headgate/policy"
)

// Store holds the shared state and decides a request as a whole: everything is
// taken or nothing. Implementations are safe for concurrent use. Every error wraps
// ErrStore and means that the outcome is unknown: the store was not asked, or did
// not answer within ctx. A caller never repeats a call that failed.
type Store interface {
	// Take decides. It keeps nothing of d.
	Take(ctx context.Context, d *Draw) (Outcome, error)
	// Amend makes the corrections together. A call with an id takes effect once,
	// however often it is repeated within an hour; "" always takes effect.
	Amend(ctx context.Context, id string, corrections []Amendment) error
	// Renew lets each lease last for its hold from now on, and says which are
	// held. A lease that the store has lost (a flush, a failover, a clock that
	// jumped) is made again if there is a place for it.
	Renew(ctx context.Context, leases []Lease) (held []bool, err error)
	// Release ends leases. One that is unknown or has ended changes nothing.
	Release(ctx context.Context, leases []Lease) error
	// Ping asks whether the store can serve; the breaker probes with it.
	Ping(ctx context.Context) error
}

// ErrStore wraps every error of a Store.
var ErrStore = errors.New("limiter store unavailable")

// ErrCombined marks the error of a request that failed along with another one in
// the same call of a store: the call counts once, by the other one's error.
var ErrCombined = errors.New("combined with another request")

// ErrRow marks the error of a request whose own row the store cannot use. The
// store serves all others, so it says nothing about the store.
var ErrRow = errors.New("the row of the request cannot be used")

// Reason says why a decision came out as it did. The strings are part of the
// interface (docs/refusals.md).
type Reason string

// Reasons.
const (
	ReasonAdmitted         Reason = "admitted"
	ReasonLimit            Reason = "limit"              // 429: a bucket cannot pay yet
	ReasonBlocked          Reason = "blocked"            // 429 without Retry-After: a limit of 0
	ReasonCostExceedsBurst Reason = "cost-exceeds-burst" // 422: can never pass
	ReasonFallback         Reason = "fallback"           // 429: degraded, local bucket empty
	ReasonClosed           Reason = "store-unavailable"  // 503: degraded, route fails closed
	ReasonOpen             Reason = "fail-open"          // admitted: degraded, within the fallback
)

// Request is what the gateway asks about one request.
type Request struct {
	Route    string
	Draw     Draw
	Fail     policy.StoreFailure
	Identity string // subject of the fallback bucket: tenant or address
	Cost     int64  // tokens charged to the fallback; 0 means the largest of the charges
}

// Decision is the answer. Levels and Deciding refer to the request's charges.
type Decision struct {
	Allowed          bool
	Reason           Reason
	Degraded         bool    // decided without the store
	Deciding         int     // index of the charge with the largest wait; -1 when none refused
	Levels           []Level // nil when degraded: no invented numbers
	NowMicros        int64
	RetryAfterMicros int64 // exact; 0 when there is nothing to wait for
}

// RetryAfterSeconds is the wait as the Retry-After header tells it: whole
// seconds, rounded up, at least 1; or 0 when there is nothing to wait for.
func (d Decision) RetryAfterSeconds() int64 { return ceilDiv(d.RetryAfterMicros, 1_000_000) }

// RetryAfterMillis is the wait in whole ms, rounded up; 1 ms less is not enough.
func (d Decision) RetryAfterMillis() int64 { return ceilDiv(d.RetryAfterMicros, 1000) }

// Remaining is the number of whole tokens in the bucket of a charge with the
// numbers n.
func (l Level) Remaining(n policy.Numbers) int64 { return l.Units / n.Period }

// NextMicros is the exact time until the bucket holds one whole token more than
// Remaining, or 0 when it is full.
func (l Level) NextMicros(n policy.Numbers) int64 {
	next := l.Remaining(n) + 1
	if next > n.Burst {
		return 0
	}
	return Wait(l.Units, next, n)
}
