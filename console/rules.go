package console

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/headgate/headgate/policy"
)

// maxClaims bounds how many pairs of patterns one rule compares: beyond it a
// route counts as one that takes requests of what the rule names.
const maxClaims = 1 << 20

// What an ApprovalRule can ask about.
const (
	WhenAny          = "any"
	WhenLooser       = "looser"        // also what nobody can weigh, see unweighed
	WhenTighter      = "tighter"       // likewise
	WhenFailMode     = "fail-mode"     // what happens without the store, on a new route too when it fails open
	WhenRemoval      = "removal"       // a route, plan, limit or value that goes
	WhenCredentials  = "credentials"   // how callers are told apart; a new route that needs no key too
	WhenUnlimited    = "unlimited"     // something that is unlimited from now on
	WhenFailingTests = "failing-tests" // lets them through with its approvals; without it they hold publication up
)

// RuleKinds lists what an ApprovalRule can ask about.
func RuleKinds() []string {
	return []string{WhenAny, WhenLooser, WhenTighter, WhenFailMode, WhenRemoval, WhenCredentials, WhenUnlimited, WhenFailingTests}
}

// ruleFacts is what rules are held against.
type ruleFacts struct {
	changes       []RatedChange
	before, after *policy.Document // before is nil for the first publication
	failing       bool             // some test fails
	tests         bool             // they are others than those in force
}

// needed lists rules that are met and have too few approvals, in the order of
// the rules. excused says that a rule, met with its approvals or not, lets
// failing tests through.
func (f ruleFacts) needed(rules []ApprovalRule, have int) (missing []Needed, excused bool) {
	for _, r := range rules {
		why, met := f.meets(r)
		if !met {
			continue
		}
		excused = excused || r.When == WhenFailingTests
		if have < r.Approvals {
			missing = append(missing, Needed{Rule: r, Why: why, Have: have})
		}
	}
	return missing, excused
}

func (f ruleFacts) meets(r ApprovalRule) (why string, met bool) {
	if r.When == WhenFailingTests {
		return "Publishing with failing tests", f.failing
	}
	if r.When == WhenAny && len(r.Only) == 0 && f.tests {
		return "Other tests than those in force", true
	}
	named := f.namedBy(r)
	for _, c := range f.changes {
		if f.touches(r.When, c) && named(c) {
			return "“" + c.Text + "”", true
		}
	}
	return "", false
}

// namedBy tells which changes lie in what a rule names. By its old name, too: a
// new name is no way around a rule. A route that takes requests of a named route
// is a change of that.
func (f ruleFacts) namedBy(r ApprovalRule) func(RatedChange) bool {
	if len(r.Only) == 0 {
		return func(RatedChange) bool { return true }
	}
	olds := f.oldNames()
	is := func(name string) bool { return name != "" && slices.Contains(r.Only, name) }
	claims := sync.OnceValue(func() policy.Claims { return f.claimsOf(is) })
	work := maxClaims
	return func(c RatedChange) bool {
		return slices.ContainsFunc(f.names(c, olds), is) || f.takesFrom(c, claims, &work)
	}
}

// claimsOf are the patterns of routes that a rule names, by themselves or by one
// of their limits.
func (f ruleFacts) claimsOf(is func(string) bool) policy.Claims {
	var patterns []string
	if f.before == nil {
		return policy.Claims{}
	}
	for i := range f.before.Routes {
		r := &f.before.Routes[i]
		id := func(limit string) bool { return is("route:" + r.Name + "." + limit) }
		if is(r.Name) || id("concurrency") || slices.ContainsFunc(r.Limits, func(l policy.Limit) bool { return id(l.Name) }) {
			patterns = append(patterns, r.Match...)
		}
	}
	return policy.ClaimsOf(patterns)
}

// takesFrom reports whether a change gives a route requests that were claimed.
// work is how many pairs of patterns may still be compared.
func (f ruleFacts) takesFrom(c RatedChange, claims func() policy.Claims, work *int) bool {
	if f.addedRoute(c) == nil && !isMatch(c) {
		return false
	}
	r := routeAt(f.after, c.Path)
	if r == nil {
		return false
	}
	if *work -= len(r.Match) * claims().Len(); *work < 0 {
		return claims().Len() > 0
	}
	return slices.ContainsFunc(r.Match, claims().TakenBy)
}

func isMatch(c RatedChange) bool {
	return strings.HasPrefix(c.Path, "routes[") && strings.HasSuffix(c.Path, "].match")
}

func (f ruleFacts) touches(when string, c RatedChange) bool {
	added := f.addedRoute(c)
	switch when {
	case WhenAny:
		return true
	case WhenLooser:
		return c.Effect == policy.EffectLooser || f.unweighed(c)
	case WhenTighter:
		return c.Effect == policy.EffectTighter || f.unweighed(c)
	case WhenFailMode:
		return strings.Contains(c.Path, ".on_store_failure") || (added != nil && added.OnStoreFailure.Mode == policy.FailOpen)
	case WhenRemoval:
		return c.Kind == policy.ChangeRemoved || isMatch(c) && c.Risk == policy.RiskHigh // a pattern that goes
	case WhenCredentials:
		return touchesCallers(c.Path) || (added != nil && added.Identity != policy.IdentityAPIKey)
	case WhenUnlimited:
		return strings.Contains(c.After, "unlimited") || (added != nil && unlimitedRoute(added))
	}
	return true // a rule of a newer build: ask rather than let through
}

// unweighed reports whether a change can be noticed and may be looser for some
// and tighter for others: another way to count, another kind of cost, and where
// requests go, by patterns and by new routes.
func (f ruleFacts) unweighed(c RatedChange) bool {
	switch {
	case f.addedRoute(c) != nil || isMatch(c):
		return true
	case c.Effect == policy.EffectNewBucket || c.Effect == policy.EffectNeutral:
		return c.Risk != policy.RiskLow
	}
	return false
}

func touchesCallers(path string) bool {
	return strings.HasPrefix(path, "credentials") || strings.HasPrefix(path, "client_ip") || strings.HasPrefix(path, "user") ||
		strings.HasSuffix(path, ".identity")
}

func unlimitedRoute(r *policy.Route) bool {
	fallback := r.OnStoreFailure.Fallback
	return fallback != nil && fallback.Unlimited || slices.ContainsFunc(r.Limits, func(l policy.Limit) bool { return l.Rate.Unlimited })
}

// addedRoute is the route that a change adds; nil when it adds none.
func (f ruleFacts) addedRoute(c RatedChange) *policy.Route {
	if c.Kind != policy.ChangeAdded || !strings.HasPrefix(c.Path, "routes[") || strings.Contains(c.Path, "].") {
		return nil
	}
	return routeAt(f.after, c.Path)
}

// routeAt is the route that a path lies in; nil when it lies in none.
func routeAt(d *policy.Document, path string) *policy.Route {
	rest, ok := strings.CutPrefix(path, "routes[")
	if !ok || d == nil {
		return nil
	}
	number, _, _ := strings.Cut(rest, "]")
	if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(d.Routes) {
		return &d.Routes[i]
	}
	return nil
}

// scope is what of a document a change lies in.
type scope struct{ route, plan string }

// scopeOf finds the route or plan of a change. A limit's id names its route; a
// path counts in the newer document, or in the older one for what was removed.
func (f ruleFacts) scopeOf(c RatedChange) scope {
	if rest, ok := strings.CutPrefix(c.LimitID, "route:"); ok {
		name, _, _ := strings.Cut(rest, ".")
		return scope{route: name}
	}
	if rest, ok := strings.CutPrefix(c.Path, "plans."); ok {
		return scope{plan: rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz0123456789-"))]}
	}
	d := f.after
	if c.Kind == policy.ChangeRemoved && !strings.Contains(c.Path, "].") {
		d = f.before
	}
	if r := routeAt(d, c.Path); r != nil {
		return scope{route: r.Name}
	}
	return scope{}
}

// oldNames are the names of routes and the ids of limits that were renamed, as
// they were before, by what they are now.
func (f ruleFacts) oldNames() map[string]string {
	out := map[string]string{}
	for _, c := range f.changes {
		if c.Kind == policy.ChangeRenamed {
			now, was := c.After, c.Before
			if c.LimitID != "" {
				now, was = c.LimitID, strings.TrimSuffix(c.LimitID, c.After)+c.Before
			}
			out[now] = was
		}
	}
	return out
}

// names are what a rule may call a change by, olds by their old names too.
func (f ruleFacts) names(c RatedChange, olds map[string]string) []string {
	s := f.scopeOf(c)
	ids := []string{c.LimitID, olds[c.LimitID]}
	if was := olds[s.route]; was != "" && s.route != "" {
		for _, id := range ids {
			if rest, ok := strings.CutPrefix(id, "route:"+s.route+"."); ok {
				ids = append(ids, "route:"+was+"."+rest)
			}
		}
	}
	return append(ids, s.route, olds[s.route], s.plan)
}
