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
	// value is CodeConfirm with both numbers.
	Lower bool
}

// NewBoost raises a limit by a factor for a while.
type NewBoost struct {
	Limit       string
	FactorMilli int64         // thousandths: 2000 is twice
	For         time.Duration // from now
	Reason      string
}
