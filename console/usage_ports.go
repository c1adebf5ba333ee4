package console

import "context"

// UsageNameRows names what usage is of, for other systems.
type UsageNameRows interface {
	// TenantExternalIDs are what tenants are called elsewhere; those without such a
	// name are absent.
	TenantExternalIDs(ctx context.Context, ids []string) (map[string]string, error)
}
