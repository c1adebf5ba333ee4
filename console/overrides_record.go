package console

import (
	"context"
	"encoding/json"

	"github.com/headgate/headgate/policy"
)

// tenantTerms is a tenant with what its record carries besides.
type tenantTerms struct {
	Tenant
	open   []TenantOverride // that nobody ended; those whose time is over end by themselves
	grants []policy.Grant   // of its quota's periods
}

// record is what gateways get to know of the tenant.
func (t tenantTerms) record() policy.TenantRecord {
	rec := policy.TenantRecord{ID: t.ID, Plan: t.Plan, State: t.State, TimeZone: t.TimeZone, QuotaAnchor: t.QuotaAnchor}
	if rec.TimeZone == "UTC" {
		rec.TimeZone = "" // the default of a tenant, which says nothing against the plan's
	}
	for _, o := range t.open {
		rec.Overrides = append(rec.Overrides, o.Override)
	}
	rec.Grants = t.grants
	return rec
}

// size is how many bytes the record has.
func (t tenantTerms) size() (int, error) {
	b, err := json.Marshal(t.record())
	return len(b), err
}

// withOverrides reads the overrides and grants of tenants.
func withOverrides(ctx context.Context, tx Tx, tenants []Tenant) ([]tenantTerms, error) {
	if len(tenants) == 0 {
		return nil, nil
	}
	ids := make([]string, len(tenants))
	for i, t := range tenants {
		ids[i] = t.ID
	}
	own, err := tx.OpenOverrides(ctx, ids)
	if err != nil {
		return nil, err
	}
	of := map[string][]TenantOverride{}
	for _, o := range own {
		of[o.TenantID] = append(of[o.TenantID], o)
	}
	grants, err := grantsOf(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]tenantTerms, len(tenants))
	for i, t := range tenants {
		out[i] = tenantTerms{t, of[t.ID], grants[t.ID]}
	}
	return out, nil
}

// grantsOf reads what gateways are told of the grants of tenants.
func grantsOf(ctx context.Context, tx Tx, tenantIDs []string) (map[string][]policy.Grant, error) {
	units, err := tx.QuotaGrantUnits(ctx, tenantIDs)
	if err != nil {
		return nil, err
	}
	out := map[string][]policy.Grant{}
	for _, g := range units {
		if have := out[g.TenantID]; len(have) < policy.MaxGrants { // older periods have ended long ago
			out[g.TenantID] = append(have, policy.Grant{Start: g.Start.UTC(), Amount: g.Units})
		}
	}
	return out, nil
}
