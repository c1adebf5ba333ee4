package gateway

import "github.com/headgate/headgate/policy"

// RecordChanged says that the directory has taken in a change of a key or a
// tenant: what is remembered of the tenant's refusals and terms no longer holds.
// It does not block.
func (g *Gateway) RecordChanged(kind policy.RecordKind, id string) {
	if kind != policy.RecordTenant {
		return
	}
	g.terms.forget(id)
	g.limiter.Forget(id)
}

// DirectoryReset says that the directory has dropped all it knew.
func (g *Gateway) DirectoryReset() {
	g.terms.forget("")
	g.limiter.ForgetAll()
}
