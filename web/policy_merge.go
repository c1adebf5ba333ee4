package web

import (
	"reflect"
	"slices"

	"github.com/headgate/headgate/policy"
)

// mergeDocuments puts the changes from base to mine on top of live: part by
// part (general settings, global and shared limits, each plan, each route), a
// part that only one side changed is taken from that side. Parts that both
// changed differently are taken from mine and named as clashes. base and live
// may be nil, for "nothing was published".
func mergeDocuments(base, mine, live *policy.Document) (merged *policy.Document, clashes []string) {
	empty := &policy.Document{}
	if base == nil {
		base = empty
	}
	if live == nil {
		return cloneDocument(mine), nil
	}
	out := *live
	pick := func(what string, b, m, l, dst any) {
		switch {
		case reflect.DeepEqual(b, m), reflect.DeepEqual(m, l): // mine did not change it, or agrees
		default:
			if !reflect.DeepEqual(b, l) {
				clashes = append(clashes, what)
			}
			reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(m))
		}
	}
	pick("description", base.Description, mine.Description, live.Description, &out.Description)
	pick("client_ip", base.ClientIP, mine.ClientIP, live.ClientIP, &out.ClientIP)
	pick("credentials", base.Credentials, mine.Credentials, live.Credentials, &out.Credentials)
	pick("user", base.User, mine.User, live.User, &out.User)
	pick("replicas_expected", base.ReplicasExpected, mine.ReplicasExpected, live.ReplicasExpected, &out.ReplicasExpected)
	pick("global", base.Global, mine.Global, live.Global, &out.Global)
	pick("shared", base.Shared, mine.Shared, live.Shared, &out.Shared)
	var more []string
	out.Plans, more = mergePlans(base.Plans, mine.Plans, live.Plans)
	clashes = append(clashes, more...)
	out.Routes, more = mergeRoutes(base.Routes, mine.Routes, live.Routes)
	return &out, append(clashes, more...)
}

// side is one version of a named part; ok is false when it does not have it.
type side[T any] struct {
	value T
	ok    bool
}

// pickSide decides one named part.
func pickSide[T any](base, mine, live side[T]) (taken side[T], clash bool) {
	switch {
	case reflect.DeepEqual(base, mine):
		return live, false
	case reflect.DeepEqual(base, live), reflect.DeepEqual(mine, live):
		return mine, false
	}
	return mine, true
}

func mergePlans(base, mine, live map[string]policy.Plan) (map[string]policy.Plan, []string) {
	out, clashes := map[string]policy.Plan{}, []string(nil)
	get := func(m map[string]policy.Plan, name string) side[policy.Plan] {
		p, ok := m[name]
		return side[policy.Plan]{p, ok}
	}
	names := planNames(&policy.Document{Plans: base})
	names = append(names, planNames(&policy.Document{Plans: mine})...)
	names = append(names, planNames(&policy.Document{Plans: live})...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p, clash := pickSide(get(base, name), get(mine, name), get(live, name))
		if clash {
			clashes = append(clashes, "plans."+name)
		}
		if p.ok {
			out[name] = p.value
		}
	}
	return out, clashes
}

// mergeRoutes keeps live's order and puts routes that are only mine behind it.
func mergeRoutes(base, mine, live []policy.Route) (out []policy.Route, clashes []string) {
	get := func(rs []policy.Route, name string) side[policy.Route] {
		i := slices.IndexFunc(rs, func(r policy.Route) bool { return r.Name == name })
		if i < 0 {
			return side[policy.Route]{}
		}
		return side[policy.Route]{rs[i], true}
	}
	seen := map[string]bool{}
	for _, r := range slices.Concat(live, mine) {
		if seen[r.Name] {
			continue
		}
		seen[r.Name] = true
		taken, clash := pickSide(get(base, r.Name), get(mine, r.Name), get(live, r.Name))
		if clash {
			clashes = append(clashes, "route "+r.Name)
		}
		if taken.ok {
			out = append(out, taken.value)
		}
	}
	return out, clashes
}
