package limiter

import (
	"context"
	"errors"

	"github.com/headgate/headgate/policy"
)

// Store holds the shared state and decides a request as a whole: everything is
// taken or nothing. Implementations are safe for concurrent use. Every error wraps
// ErrStore and means that the outcome is unknown: the store was not asked, or did
// not answer within ctx. A caller never repeats a call that failed. One of which a
// part serves may wrap a PartialError.
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

// ErrShard marks an error of one part of a store that serves the others, such as
// one shard of a Cluster. It does not count against the whole; the store keeps
// calls from waiting for the broken part. When no part serves, a store leaves
// the mark out.
var ErrShard = errors.New("one shard of the store cannot be used")

// Reason says why a decision came out as it did. The strings are part of the
// interface (docs/refusals.md).
type Reason string

// Reasons.
const (
	ReasonAdmitted         Reason = "admitted"
	ReasonLimit            Reason = "limit"              // 429: a bucket cannot pay yet
	ReasonConcurrency      Reason = "concurrency"        // 429, Retry-After 1: no place is free
	ReasonQuota            Reason = "quota"              // 429 until the period ends
	ReasonBlocked          Reason = "blocked"            // 429 without Retry-After: a limit of 0
	ReasonCostExceedsBurst Reason = "cost-exceeds-burst" // 422: can never pass
	ReasonFallback         Reason = "fallback"           // 429: degraded, local bucket empty
	ReasonClosed           Reason = "store-unavailable"  // 503: degraded, route fails closed; or a blocking quota's counter is lost
	ReasonOpen             Reason = "fail-open"          // admitted: degraded, within the fallback
)

// Request is what the gateway asks about one request.
type Request struct {
	Route    string
	Draw     Draw
	Fail     policy.StoreFailure
	Identity string // subject of the fallback bucket: tenant or address
	Cost     int64  // tokens charged to the fallback; 0 means the largest of the charges
	// Expected is the policy's replicas_expected, for a fallback of `share`.
	Expected int64
	// Settles: some request on these limits may be corrected later (Settle), so
	// refusals are remembered for at most 1 s.
	Settles bool
	// Peek: decide and tell the levels, but spend, lease and remember nothing.
	Peek bool
}

// Part says which list of a Draw a Decision points into.
type Part byte

// Parts of a draw.
const (
	PartNone   Part = iota // nothing refused
	PartCharge             // Draw.Charges and Decision.Levels
	PartSlot               // Draw.Slots and Decision.Slots
	PartQuota              // Draw.Quotas and Decision.Quotas
)

// Decision is the answer. Its lists have one entry for each of the request's
// charges, slots and quotas.
type Decision struct {
	Allowed      bool
	Reason       Reason
	Degraded     bool   // decided without the store
	Cached       bool   // refused from the deny cache
	DecidingKind Part   // the list that Deciding points into
	Deciding     int    // the part that refused, of several the one with the largest wait; -1 when none did
	Cause        string // why it is degraded, in the words of Config.Cause
	// Levels, Slots and Quotas are nil when degraded: no invented numbers. Entries
	// of Levels that nobody asked for are Unknown. A cached refusal knows Levels
	// of limits that refuse alone, and Slots and Quotas are nil unless a quota refuses.
	Levels           []Level
	Slots            []SlotLevel
	Quotas           []QuotaLevel
	Leases           []Lease // of the slots that the request now holds, shadows included
	NowMicros        int64   // when it was decided, by the store's clock; of a cached refusal never later than it was
	Order            int32   // among decisions that the store made in one call, and so at the same time
	RetryAfterMicros int64   // exact; 0 when there is nothing to wait for, or nobody knows (concurrency)
	peeked           bool
}

// RetryAfterSeconds is the wait as the Retry-After header tells it: whole
// seconds, rounded up, at least 1; or 0 when there is nothing to wait for. Nobody
// knows when a place of a concurrency limit gets free: it says 1.
func (d Decision) RetryAfterSeconds() int64 {
	if d.Reason == ReasonConcurrency {
		return 1
	}
	return ceilDiv(d.RetryAfterMicros, 1_000_000)
}

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
