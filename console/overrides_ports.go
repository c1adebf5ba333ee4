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
	// OverridesByLimit counts tenants with a value of their own or a boost, by limit.
	OverridesByLimit(ctx context.Context, now time.Time) (map[string]int64, error)
	// OverrideFacts tells how many of each tenant hold and when the next one ends.
	OverrideFacts(ctx context.Context, tenantIDs []string, now time.Time) (map[string]OverrideFacts, error)
}

// OverrideFacts is how many overrides of a tenant hold.
type OverrideFacts struct {
	Live    int64
	NextEnd *time.Time // nil: none ends
}
