package console

import (
	"context"
	"time"
)

// OverrideRows keeps overrides. Changes happen under LockTenant.
type OverrideRows interface {
	InsertOverride(ctx context.Context, o TenantOverride) error
	// UpdateOverride writes reason, author and end; the value of one never changes.
	UpdateOverride(ctx context.Context, o TenantOverride) error
	Override(ctx context.Context, id string) (TenantOverride, error)
	// OpenOverrides lists what nobody ended, also those whose time is over, by
	// tenant and the newest first. It is what the tenants' records carry.
	OpenOverrides(ctx context.Context, tenantIDs []string) ([]TenantOverride, error)
	OverrideLists
}

// OverrideLists reads many overrides.
type OverrideLists interface {
	// Overrides lists with each the tenant's plan; see OverrideQuery.
	Overrides(ctx context.Context, q OverrideQuery, now time.Time, after Cursor, limit int) ([]OverrideRow, error)
	// DueOverrides lists tenants with an override whose time is over.
	DueOverrides(ctx context.Context, now time.Time, limit int) ([]string, error)
	// CountOverrides counts tenants with a value of their own or a boost that holds,
	// by limit and plan.
	CountOverrides(ctx context.Context, now time.Time) ([]OverrideCount, error)
	// OverrideFacts tells how many of each tenant hold and when the next one ends.
	OverrideFacts(ctx context.Context, tenantIDs []string, now time.Time) (map[string]OverrideFacts, error)
}

// OverrideCount is how many tenants on a plan have something of their own for a limit.
type OverrideCount struct {
	Limit, Plan string
	Tenants     int64
}

// OverrideFacts is how many overrides of a tenant hold.
type OverrideFacts struct {
	Live    int64
	NextEnd *time.Time // nil: none ends
}
