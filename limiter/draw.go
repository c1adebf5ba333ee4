package limiter

import "github.com/headgate/headgate/policy"

// RowKind says whose state a charge lies in.
type RowKind byte

// Kinds of rows.
const (
	RowGlobal     RowKind = 'g'
	RowTenant     RowKind = 't'
	RowCredential RowKind = 'c' // lies in its tenant's lane
	RowIP         RowKind = 'i'
	RowDimension  RowKind = 'd' // any other dimension, or several together
)

// Row names one row: all buckets of one subject.
type Row struct {
	Kind RowKind
	// Tenant is the tenant's id: of RowTenant and RowCredential, and of a
	// RowDimension that is counted within a tenant. "" otherwise.
	Tenant string
	// Subject is the credential id, the canonical client address or the encoded
	// identifiers of a RowDimension; "" otherwise. It may hold any text: stores
	// keep a keyed hash of it only.
	Subject string
}

// Draw is everything that one request takes. It is all or nothing: a request
// that is refused by any part has spent nothing in the others.
type Draw struct {
	Charges []Charge
	Slots   []Slot
	Quotas  []Quota
}

// Charge is one rate limit that a request draws from.
type Charge struct {
	Row     Row
	LimitID string // scoped name, for reports ("plan.requests")
	Hash    uint64 // policy.LimitHash(LimitID)
	Numbers policy.Numbers
	Cost    int64 // tokens, 1..Numbers.Burst
	// Extra is how many tokens to take besides Cost, as far as they are there
	// when the request is admitted: a slice that the caller spends itself. The
	// answer says how many it got (Level.Extra).
	Extra int64
	// Shadow: the charge never refuses. It is spent only when the whole draw,
	// shadows included, could be paid: so it tells what enforcing would have done.
	Shadow bool
	// Identifiers bounds the distinct subjects that this limit keeps apart: those
	// of the row's tenant, or of the row's lane when it has none. Beyond it,
	// subjects that have no row yet share one overflow bucket per limit and tenant
	// (lane). 0: no bound. Only for RowIP and RowDimension.
	Identifiers int64
	// PerRequest: the limit counts requests, so Settle leaves it alone. Stores
	// ignore it.
	PerRequest bool
	// Leased: the Limiter may take slices of this limit and spend them in process.
	// Stores ignore it.
	Leased bool
}

// Slot is one place of a concurrency limit, held by a lease.
type Slot struct {
	Row        Row
	LimitID    string
	Hash       uint64
	Max        int64  // leases at once, 1..MaxSlots
	Lease      string // name of the new lease: 16 to 32 bytes, unique, made by the gateway
	HoldMicros int64  // how long the lease lasts without renewal
	Shadow     bool   // counted, never refuses
}

// Quota is a total per period.
type Quota struct {
	Row     Row // of the tenant
	LimitID string
	Hash    uint64
	// Start and End bound the period, half-open, in Unix µs. Start names the
	// counter; End says how long it is kept. A lifetime quota has End 0.
	Start, End int64
	Cost       int64 // units, >= 1
	Amount     int64 // included units, 0..policy.MaxUnits-1
	Most       int64 // with Over bill: units at which it refuses after all; 0 for none. With block: Amount.
	Bill       bool  // admit beyond Amount, and say so
	Shadow     bool
	PerRequest bool // counts requests, so Settle leaves it alone; stores ignore it
	// Recorded: what this quota admits is written to a ledger, from which lost
	// counters are rebuilt. So the store believes a counter, present or absent, only where it
	// holds the mark that says so (QuotaLevel.Lost). Without it an absent counter is 0.
	Recorded bool
}

// Lease names a held slot.
type Lease struct {
	Row        Row
	Hash       uint64
	Max        int64
	ID         string
	HoldMicros int64
}

// Held is the lease that the slot's admission makes.
func (s *Slot) Held() Lease {
	return Lease{Row: s.Row, Hash: s.Hash, Max: s.Max, ID: s.Lease, HoldMicros: s.HoldMicros}
}

// Amendment corrects after the fact what a request was charged. Positive Tokens
// are given back, never above the burst; negative ones are charged whether they
// are there or not, and the debt delays later requests. A bucket or counter that
// is not there is left alone when tokens are given back.
type Amendment struct {
	Row     Row
	Hash    uint64
	Numbers policy.Numbers // of a bucket
	Tokens  int64          // tokens, or units of a quota
	Quota   bool           // a quota's counter instead of a bucket
	Start   int64          // the quota's period
	End     int64
	// Since, in Unix µs by the store's clock, is when the tokens that come back to a
	// bucket were taken. What refills in the time from then on does not come back:
	// the bucket has made room for it while they were out, and with it unspent
	// tokens would add up to more than burst and rate allow. A store's clock before
	// Since brings nothing back. 0: all comes back. Charges go without.
	Since int64
}

// Level is what a store knows of one charge's bucket after deciding.
type Level struct {
	Units      int64 // after the decision, in 1/Numbers.Period tokens (see policy.Numbers); negative: a debt
	WaitMicros int64 // 0 when the bucket could pay, else the exact wait until it can
	Extra      int64 // tokens of the slice that was granted, 0..Charge.Extra
	Overflow   bool  // counted in the overflow bucket (see Charge.Identifiers)
	Unknown    bool  // nobody asked, or nobody answered: the decision was made without it
	Never      bool  // a shadow that admits nothing, or whose burst is below the cost; told by the Limiter
}

// SlotLevel is what a store knows of one concurrency limit after deciding.
type SlotLevel struct {
	Active  int64 // leases held, the new one included
	Refused bool  // there was no place
	Unknown bool  // nobody asked, or the part of the store where it lies did not answer
}

// QuotaLevel is what a store knows of one quota after deciding.
type QuotaLevel struct {
	Used    int64 // units of the period, this request included if it was admitted
	Refused bool
	Overage bool // admitted beyond Amount
	// Lost: nobody has said that the store still knows what was used before (see
	// Quota.Recorded). A quota that blocks refuses until its counter is rebuilt, one that
	// bills admits; Used counts from the loss on.
	Lost bool
}

// Outcome is a store's answer for one draw, with one entry per charge, slot and
// quota. Admitted is false exactly when an entry that is no shadow refuses.
type Outcome struct {
	Admitted  bool
	NowMicros int64 // store's clock, Unix µs
	Order     int32 // place among the draws that it decided in the same call, from 0
	Levels    []Level
	Slots     []SlotLevel
	Quotas    []QuotaLevel
}
