package console

import (
	"time"

	"github.com/headgate/headgate/policy"
)

// TenantOverride is a tenant's own value for one limit, or a boost of it by a
// factor, as operators see it. What gateways get is its policy.Override.
type TenantOverride struct {
	ID         string // ovr_…
	TenantID   string
	TenantName string
	policy.Override
	AuthorID  string
	CreatedAt time.Time
	EndedAt   *time.Time // ended by hand, replaced or expired
	EndedBy   string
	EndReason string
}

// IsBoost reports whether it is a factor with an end.
func (o TenantOverride) IsBoost() bool { return o.FactorMilli != 0 }

// Live reports whether gateways go by it at a moment.
func (o TenantOverride) Live(now time.Time) bool {
	return o.EndedAt == nil && (o.ExpiresAt == nil || now.Before(*o.ExpiresAt))
}

// Kind says whether it is a value or a boost.
func (o TenantOverride) Kind() OverrideKind {
	if o.IsBoost() {
		return KindBoost
	}
	return KindOverride
}

// OverrideKind is a value of a tenant's own, or a boost.
type OverrideKind string

// Kinds of overrides.
const (
	KindOverride OverrideKind = "override"
	KindBoost    OverrideKind = "boost"
)

// NewOverride sets a tenant's own value. A rate limit takes Rate and Burst, a
// quota Amount and Max, a concurrency limit Max; the rate "unlimited" fits all.
type NewOverride struct {
	Limit     string
	Rate      string
	Burst     *int64
	Amount    *int64
	Max       *int64
	Reason    string
	ExpiresAt *time.Time
	// Lower confirms that the value is below the one in force: without it a lower
	// value is refused with the Confirmation ConfirmLower, which has both numbers.
	Lower bool
}

// NewBoost raises a limit by a factor for a while.
type NewBoost struct {
	Limit       string
	FactorMilli int64         // thousandths: 2000 is twice
	For         time.Duration // from now
	Reason      string
	// Lower confirms that it takes the place of a larger boost, as in NewOverride.
	Lower bool
}

// Bounds of boosts.
const (
	MaxSmallBoost    = 2000 // thousandths; of those who may boost and no more
	MaxSmallBoostFor = 24 * time.Hour
	MaxBoost         = 10_000 // thousandths; of those who manage tenants
	MaxBoostFor      = 30 * 24 * time.Hour
	MinBoostFor      = time.Minute
)

// MaxTenantRecord is the largest encoded record of a tenant, overrides
// included, in bytes: gateways read one in a request's time.
const MaxTenantRecord = 48 << 10

// ConfirmLower is the code of the Confirmation of a value below the one in force.
const ConfirmLower = "lower"

// OverrideSet is an override or a boost that now holds, with the change that
// carries it to the gateways.
type OverrideSet struct {
	Override TenantOverride
	Change   Change
}

// OverrideState selects overrides by whether they hold.
type OverrideState string

// States in an OverrideQuery.
const (
	OverridesLive  OverrideState = "" // those that hold
	OverridesEnded OverrideState = "ended"
	OverridesAll   OverrideState = "all"
)

// OverrideQuery filters overrides; "" and 0 match everything.
type OverrideQuery struct {
	TenantID string
	Limit    string // the whole id
	Kind     OverrideKind
	State    OverrideState
	Within   time.Duration // only those that end by then, from now
	Page     Page
}

// OverrideRow is one override of a list with what it does now.
type OverrideRow struct {
	TenantOverride
	Plan string // of the tenant
	// Limit is the limit as the tenant meets it; nil when the policy in force has
	// no such limit for the tenant's plan, so that the override is without effect.
	Limit *LimitInForce
}

// WithoutEffect reports whether nothing that the tenant meets goes by it.
func (r OverrideRow) WithoutEffect() bool { return r.Limit == nil }

// LimitKind is what a limit counts.
type LimitKind string

// Kinds of limits.
const (
	LimitRate        LimitKind = "rate"
	LimitQuota       LimitKind = "quota"
	LimitConcurrency LimitKind = "concurrency"
)

// LimitValue is the value of a limit. Which fields matter says its kind.
type LimitValue struct {
	Unlimited bool
	Rate      string // of a rate limit: "60/minute", "0" admits nothing; "" unless it is one
	Burst     int64  // of a rate limit
	Amount    int64  // of a quota
	Max       int64  // of a quota (0: no bound beyond the amount) or a concurrency limit

	numbers policy.Numbers // of a rate limit
	bills   bool           // of a quota: over is bill
}

// LimitStep is one place that a value comes from: the plan, an override, a boost.
type LimitStep struct {
	Source     string // "plan pro", "route report", "shared search", "global", "override" or "boost"
	OverrideID string // "" of the policy's own
	Value      LimitValue
	Text       string // the value in words: "60/minute, burst 60", "×2: 120/minute, burst 120"
	ExpiresAt  *time.Time
	Reason     string
	Author     string
}

// LimitPeak is the most that a tenant asked of a limit in a minute.
type LimitPeak struct {
	PerMinute int64         // of what the limit counts
	Known     time.Duration // how much of the last hour was seen
	AsOf      time.Time     // the newest second that was counted to the end
	OfBase    float64       // of what the policy's own value admits a minute; 0 where it admits any number or none
}

// LimitInForce is one limit as a tenant meets it.
type LimitInForce struct {
	ID      string
	Kind    LimitKind
	Routes  []string // that meet it, in the order of the policy; nil: each one
	Per     string
	Counts  string // "cost" or "requests"; "" of a concurrency limit
	Shadow  bool   // counted, never refuses
	Period  string // of a quota: "month"
	Over    string // of a quota: "block" or "bill"
	Own     bool   // the tenant can have a value of its own
	Steps   []LimitStep
	Peak    *LimitPeak // nil: not known
	Expires *time.Time // when another value may hold
}

// Base is the policy's own value.
func (l LimitInForce) Base() LimitStep { return l.Steps[0] }

// Now is the value in force.
func (l LimitInForce) Now() LimitStep { return l.Steps[len(l.Steps)-1] }

// TenantLimits is every limit that a tenant meets.
type TenantLimits struct {
	Tenant  Tenant
	Version int64 // of the policy in force; 0: none was published
	At      time.Time
	Limits  []LimitInForce   // in the order in which they are asked
	Live    []TenantOverride // that hold, the newest first
	Unused  []TenantOverride // of these, without effect: the tenant meets no such limit
}

// Find returns the limit with an id.
func (t TenantLimits) Find(id string) (LimitInForce, bool) {
	for _, l := range t.Limits {
		if l.ID == id {
			return l, true
		}
	}
	return LimitInForce{}, false
}

// Extension gives an override another end.
type Extension struct {
	Until  *time.Time // nil: no end, which a boost must have
	Reason string
}
