package replay

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
)

// judging says what of two documents a log can tell, before it is read.
type judging struct {
	without map[string]bool // ids of limits that are left out of the replay
	crowded map[string]bool // ids of limits whose buckets several subjects fill
	queried map[string]bool // routes of the live document that compute their cost
	notes   []string
	opens   bool // the draft may let in what has no route or no key by the live version
}

func newJudging(live, draft *policy.Compiled, sample uint32) *judging {
	j := &judging{without: map[string]bool{}, crowded: map[string]bool{}, queried: map[string]bool{}}
	for _, r := range live.Routes {
		j.queried[r.Name] = r.Route.GraphQL != nil
	}
	j.crowds(live, draft)
	if ids := slices.Sorted(maps.Keys(j.crowded)); sample < decisionlog.Whole && len(ids) > 0 {
		j.without = maps.Clone(j.crowded) // of what fills them the log has a part
		j.note("The log holds a sample of the callers, so limits that count over several of them cannot be judged and are left out: %s.", listed(ids))
	}
	j.unknownPlaces(live, draft)
	j.unknownUsers(live, draft)
	j.sections(live, draft)
	j.opens = opens(live.Document, draft.Document)
	return j
}

// left reports whether a limit is left out.
func (j *judging) left(id string) bool { return j.without[id] }

// note tells something to people, once.
func (j *judging) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(j.notes, text) {
		j.notes = append(j.notes, text)
	}
}

// crowds finds the limits that count over more subjects than one.
func (j *judging) crowds(documents ...*policy.Compiled) {
	for _, c := range documents {
		for _, r := range c.Routes {
			lists := [][]policy.CompiledLimit{c.Global, r.Limits}
			if r.Route.Identity == policy.IdentityAPIKey {
				for _, plan := range c.Plans {
					lists = append(lists, plan)
				}
			}
			for _, list := range lists {
				for i := range list {
					j.crowd(list[i].ID, list[i].Dimensions, r.Route.Identity)
				}
			}
			if r.Concurrency != nil {
				j.crowd(r.Concurrency.ID, r.Concurrency.Dimensions, r.Route.Identity)
			}
		}
	}
}

// crowd notes a limit unless each of its buckets is filled by one subject alone.
func (j *judging) crowd(id string, dimensions []policy.Dimension, identity policy.Identity) {
	has := func(kinds ...policy.DimensionKind) bool {
		return slices.ContainsFunc(dimensions, func(d policy.Dimension) bool { return slices.Contains(kinds, d.Kind) })
	}
	alone := len(dimensions) == 1
	var ok bool
	switch identity {
	case policy.IdentityAPIKey: // all but these two are counted within the tenant
		ok = !(alone && has(policy.DimensionGlobal, policy.DimensionIP))
	case policy.IdentityUser:
		ok = has(policy.DimensionUser)
	default:
		ok = has(policy.DimensionIP, policy.DimensionTenant, policy.DimensionCredential)
	}
	if !ok {
		j.crowded[id] = true
	}
}

// unknownPlaces leaves out the draft's limits of places on routes whose requests are
// not followed to their end by the log.
func (j *judging) unknownPlaces(live, draft *policy.Compiled) {
	known := map[string]bool{}
	for _, r := range live.Routes {
		known[r.Name] = r.Concurrency != nil
	}
	for _, r := range draft.Routes {
		if r.Concurrency != nil && !known[r.Name] {
			j.without[r.Concurrency.ID] = true
			j.note("The log does not say how long requests of route %s take, so %s cannot be judged and is left out.", r.Name, r.Concurrency.ID)
		}
	}
}

// unknownUsers tells of limits per user on routes where nobody asked for the user.
func (j *judging) unknownUsers(live, draft *policy.Compiled) {
	known := map[string]bool{}
	for _, r := range live.Routes {
		known[r.Name] = asksUser(live, r)
	}
	var routes []string
	for _, r := range draft.Routes {
		if asksUser(draft, r) && !known[r.Name] {
			routes = append(routes, r.Name)
		}
	}
	if len(routes) > 0 {
		j.note("The log does not name the users of these routes, so their requests count as ones without a user: %s.", listed(routes))
	}
}

func asksUser(c *policy.Compiled, r *policy.CompiledRoute) bool {
	per := func(dimensions []policy.Dimension) bool {
		return slices.ContainsFunc(dimensions, func(d policy.Dimension) bool { return d.Kind == policy.DimensionUser })
	}
	limit := func(l policy.CompiledLimit) bool { return per(l.Dimensions) }
	if r.Route.Identity == policy.IdentityUser || r.Concurrency != nil && per(r.Concurrency.Dimensions) ||
		slices.ContainsFunc(c.Global, limit) || slices.ContainsFunc(r.Limits, limit) {
		return true
	}
	if r.Route.Identity != policy.IdentityAPIKey {
		return false
	}
	for _, plan := range c.Plans {
		if slices.ContainsFunc(plan, limit) {
			return true
		}
	}
	return false
}

// sections tells which changes no log can show.
func (j *judging) sections(live, draft *policy.Compiled) {
	a, b := live.Document, draft.Document
	if !reflect.DeepEqual(a.Credentials, b.Credentials) || !reflect.DeepEqual(a.User, b.User) || !reflect.DeepEqual(a.ClientIP, b.ClientIP) {
		j.note("Changes of client_ip, credentials and user are not replayed: callers are who they were.")
	}
	if b.ClientIP.IPv6Prefix > a.ClientIP.IPv6Prefix {
		j.note("The log has IPv6 addresses by their first %d bits, so the callers that the draft tells apart count as one.", a.ClientIP.IPv6Prefix)
	}
	before := map[string]*policy.Route{}
	for i := range a.Routes {
		before[a.Routes[i].Name] = &a.Routes[i]
	}
	for i := range b.Routes {
		r, old := &b.Routes[i], before[b.Routes[i].Name]
		if old == nil {
			continue
		}
		if r.GraphQL != nil && old.GraphQL != nil && !reflect.DeepEqual(r.GraphQL, old.GraphQL) {
			j.note("The log has no queries, so what they cost by the draft's rule on route %s is not known: they cost what they did.", r.Name)
		}
		if !reflect.DeepEqual(r.OnStoreFailure, old.OnStoreFailure) {
			j.note("Decisions without Redis are left out, so changes of on_store_failure are not judged.")
		}
	}
}

// opens reports whether a draft has a pattern that the live version has not, or
// asks for less on one of its patterns.
func opens(live, draft *policy.Document) bool {
	asks := map[string]policy.Identity{}
	for i := range live.Routes {
		for _, pattern := range live.Routes[i].Match {
			asks[pattern] = live.Routes[i].Identity
		}
	}
	for i := range draft.Routes {
		for _, pattern := range draft.Routes[i].Match {
			if identity, known := asks[pattern]; !known || identity != draft.Routes[i].Identity {
				return true
			}
		}
	}
	return false
}

// listed tells names for people.
func listed(names []string) string {
	const most = 20
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
