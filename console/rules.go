package console

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/policy"
)

// What an ApprovalRule can ask about.
const (
	WhenAny          = "any"
	WhenLooser       = "looser"
	WhenTighter      = "tighter"
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
	for _, c := range f.changes {
		if (len(r.Only) == 0 || slices.ContainsFunc(f.names(c), func(n string) bool { return slices.Contains(r.Only, n) })) && f.touches(r.When, c) {
			return "“" + c.Text + "”", true
		}
	}
	return "", false
}

func (f ruleFacts) touches(when string, c RatedChange) bool {
	added := f.addedRoute(c)
	switch when {
	case WhenAny:
		return true
	case WhenLooser:
		return c.Effect == policy.EffectLooser
	case WhenTighter:
		return c.Effect == policy.EffectTighter
	case WhenFailMode:
		return strings.Contains(c.Path, ".on_store_failure") || (added != nil && added.OnStoreFailure.Mode == policy.FailOpen)
	case WhenRemoval:
		return c.Kind == policy.ChangeRemoved
	case WhenCredentials:
		return touchesCallers(c.Path) || (added != nil && added.Identity != policy.IdentityAPIKey)
	case WhenUnlimited:
		return strings.Contains(c.After, "unlimited") || (added != nil && unlimitedRoute(added))
	}
	return true // a rule of a newer build: ask rather than let through
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

// names are what a rule may call a change by.
func (f ruleFacts) names(c RatedChange) []string {
	s := f.scopeOf(c)
	return []string{c.LimitID, s.route, s.plan}
}
