package gateway

import (
	"fmt"
	"reflect"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/graphql"
)

// policyView is what the gateway prepares of a policy once, when the first
// request meets it.
type policyView struct {
	compiled *policy.Compiled
	users    *dimension.Users // nil when they cannot be told; see usersErr
	usersErr error
	pricers  map[*policy.CompiledRoute]*graphql.Pricer
	named    map[string]*policy.CompiledRoute
	places   map[*policy.CompiledRoute]int                // in the document
	body     map[*policy.CompiledRoute]bool               // routes that look into bodies for their limits
	counted  map[*policy.CompiledRoute][]policy.Dimension // headers and body fields that limits count per, for the log
	settles  bool                                         // some route corrects its cost later
	periods  periods
}

// viewOf is the view of a policy; the newest one is kept.
func (g *Gateway) viewOf(c *policy.Compiled) *policyView {
	if view := g.view.Load(); view != nil && view.compiled == c {
		return view
	}
	view := newPolicyView(c, g.view.Load())
	if view.usersErr != nil {
		g.cfg.Log.Error("users cannot be told apart", "error", view.usersErr.Error())
	}
	g.view.Store(view)
	// Refusals are known by a limit's numbers, and those may have been others between
	// two versions that agree.
	g.limiter.ForgetAll()
	return view
}

// newPolicyView prepares c. before, if any, is the view of another version: the
// keys that verify users stay loaded while what the policies say of them is equal.
func newPolicyView(c *policy.Compiled, before *policyView) *policyView {
	v := &policyView{
		compiled: c, pricers: map[*policy.CompiledRoute]*graphql.Pricer{}, named: make(map[string]*policy.CompiledRoute, len(c.Routes)),
		places: make(map[*policy.CompiledRoute]int, len(c.Routes)),
		body:   map[*policy.CompiledRoute]bool{}, counted: countedPer(c),
	}
	if before != nil && before.users != nil && reflect.DeepEqual(before.compiled.Document.User, c.Document.User) {
		v.users = before.users
	} else if v.users, v.usersErr = dimension.NewUsers(c.Document.User); v.usersErr != nil {
		v.users, v.usersErr = nil, fmt.Errorf("prepare user of the policy: %w", v.usersErr)
	}
	for i, r := range c.Routes {
		v.named[r.Name], v.places[r] = r, i
		if cost := r.Route.GraphQL; cost != nil {
			v.pricers[r] = graphql.New(graphql.Rules(*cost))
		}
		v.settles = v.settles || r.Route.SettleHeader != ""
		looks := r.Concurrency != nil && needsBody(r.Concurrency.Dimensions)
		for i := range r.Limits {
			looks = looks || needsBody(r.Limits[i].Dimensions)
		}
		if looks {
			v.body[r] = true
		}
	}
	return v
}
