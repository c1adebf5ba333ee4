package gateway

import (
	"strconv"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// RecordChanged says that the directory has taken in a change of a key or a
// tenant: what is remembered of the tenant's refusals and terms no longer holds. A
// change of the kind feed.RecordRefusals drops what is remembered of a group of
// subjects, among them refused credentials. It does not block.
func (g *Gateway) RecordChanged(kind policy.RecordKind, id string) {
	switch kind {
	case policy.RecordTenant:
		g.terms.forget(id)
		g.limiter.Forget(id)
	case feed.RecordRefusals:
		group, err := strconv.Atoi(id)
		if err != nil {
			group = -1 // nobody writes such a thing: to forget too much only costs calls
		}
		g.limiter.ForgetGroup(group)
		g.invalid.forgetGroup(group)
	default:
	}
}

// DirectoryReset says that the directory has dropped all it knew.
func (g *Gateway) DirectoryReset() {
	g.terms.forget("")
	g.limiter.ForgetAll()
}
