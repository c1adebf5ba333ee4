package db

import "context"

// TenantExternalIDs implements console.UsageNameRows.
func (t tx) TenantExternalIDs(ctx context.Context, ids []string) (map[string]string, error) {
	rows, err := t.q.ListTenantExternalIDs(ctx, orEmpty(ids))
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.ID] = orZero(r.ExternalID)
	}
	return out, err
}
