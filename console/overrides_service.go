package console

import (
	"context"
)

// Overrides gives tenants values of their own and boosts.
type Overrides struct{ d Deps }

// NewOverrides returns the overrides service.
func NewOverrides(d Deps) *Overrides { return &Overrides{d: d.withDefaults()} }

// Set gives a tenant its own value for one limit, in place of the one it had.
func (s *Overrides) Set(ctx context.Context, actor Actor, tenantID string, in NewOverride) (OverrideSet, error) {
	return OverrideSet{}, errNotBuilt()
}

// Clear ends a tenant's own value for one limit.
func (s *Overrides) Clear(ctx context.Context, actor Actor, tenantID, limit, reason string) (Change, error) {
	return Change{}, errNotBuilt()
}

// Boost raises a limit for a while, in place of the boost it had.
func (s *Overrides) Boost(ctx context.Context, actor Actor, tenantID string, in NewBoost) (OverrideSet, error) {
	return OverrideSet{}, errNotBuilt()
}

// EndBoost ends a tenant's boost of one limit before its time.
func (s *Overrides) EndBoost(ctx context.Context, actor Actor, tenantID, limit, reason string) (Change, error) {
	return Change{}, errNotBuilt()
}

// Extend gives an override or boost that holds another end; a zero until takes
// an override's end away.
func (s *Overrides) Extend(ctx context.Context, actor Actor, id string, in Extension) (OverrideSet, error) {
	return OverrideSet{}, errNotBuilt()
}

// Get returns an override, also an ended one.
func (s *Overrides) Get(ctx context.Context, id string) (TenantOverride, error) {
	return TenantOverride{}, errNotBuilt()
}

// List returns overrides, the newest first, and the cursor to the next page.
// With Within it returns the soonest to end first, and no cursor.
func (s *Overrides) List(ctx context.Context, q OverrideQuery) ([]OverrideRow, string, error) {
	return nil, "", errNotBuilt()
}

// OfTenant returns a tenant's overrides that hold, with what each does, and the
// last ones that ended, at most limit.
func (s *Overrides) OfTenant(ctx context.Context, tenantID string, limit int) (live []OverrideRow, ended []TenantOverride, err error) {
	return nil, nil, errNotBuilt()
}

// Effective returns every limit that a tenant meets, with its value in force
// and where that comes from.
func (s *Overrides) Effective(ctx context.Context, tenantID string) (TenantLimits, error) {
	return TenantLimits{}, errNotBuilt()
}

func errNotBuilt() error {
	return &Error{Code: CodeUnavailable, Public: "Overrides are not available yet."}
}
