package console

// Members manages the people of tenants: invitations, one-time links, roles and
// sign-in at the tenant's own pages.
type Members struct {
	d      Deps
	guard  *guard
	hasher *hasher
}

// NewMembers returns the members service.
func NewMembers(d Deps) *Members {
	d = d.withDefaults()
	return &Members{d: d, guard: newGuard(d.Now), hasher: newHasher()}
}
