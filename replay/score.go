package replay

import (
	"context"
	"slices"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// maxMutants bounds the changes that are tried. Of more, some all over the document
// are.
const maxMutants = 200

// Score tries small changes of the document, one at a time, and says which of them
// make a test fail that passes without: a limit twice or half as large, not there, in
// shadow or counted over more; a route that is not there or costs twice; a quota or a
// concurrency limit that is larger, smaller or not there. When ctx ends, it returns
// what was tried until then, as Partial. It fails when the document has problems.
func (e Engine) Score(ctx context.Context, d *policy.Document, s *scenario.Suite, tenants Tenants) (scenario.Score, error) {
	score := scenario.Score{Mutants: []scenario.Mutant{}}
	results, err := e.Test(ctx, d, s, tenants)
	if score.Partial = ctx.Err() != nil; score.Partial {
		return score, nil // it was the time that ended
	}
	if err != nil {
		return score, err
	}
	var tests []passing
	for i, r := range results {
		if r.Passed {
			tests = append(tests, passing{&s.Tests[i], routesOf(&r)})
		}
	}
	for _, m := range chosen(mutations(d)) {
		mutant, valid, err := try(ctx, d, m, tests, tenants)
		if err != nil { // ctx has ended: nothing else fails on a valid document
			score.Partial = true
			break
		}
		if !valid {
			continue
		}
		if score.Total++; mutant.Killed {
			score.Killed++
		}
		score.Mutants = append(score.Mutants, mutant)
	}
	slices.SortStableFunc(score.Mutants, func(a, b scenario.Mutant) int {
		switch {
		case a.Killed == b.Killed:
			return 0
		case b.Killed:
			return -1
		}
		return 1
	})
	return score, nil
}

// passing is a test that can notice a change, and the routes that its steps meet.
type passing struct {
	test   *scenario.Test
	routes []string
}

func routesOf(r *scenario.Result) []string {
	var routes []string
	for _, s := range r.Steps {
		routes = append(routes, s.Route)
	}
	return routes
}

// chosen is a bounded part of the list, evenly from all of it.
func chosen(list []mutation) []mutation {
	if len(list) <= maxMutants {
		return list
	}
	some := make([]mutation, maxMutants)
	for i := range some {
		some[i] = list[i*len(list)/maxMutants]
	}
	return some
}

// try runs the tests that the change concerns until one fails. A change that makes
// the document invalid is none.
func try(ctx context.Context, d *policy.Document, m mutation, tests []passing, tenants Tenants) (mutant scenario.Mutant, valid bool, err error) {
	changed := copied(d)
	m.apply(changed)
	compiled, err := policy.Compile(changed)
	if err != nil {
		return mutant, false, ctx.Err()
	}
	mutant = scenario.Mutant{Path: m.path, Text: m.text}
	r, err := newRun(compiled, tenants)
	if err != nil {
		return mutant, false, err
	}
	for _, t := range tests {
		if m.route != "" && !slices.Contains(t.routes, m.route) {
			continue
		}
		result, err := r.test(ctx, t.test)
		if err != nil {
			return mutant, false, err
		}
		if !result.Passed {
			mutant.Killed, mutant.By = true, t.test.Name
			break
		}
	}
	return mutant, true, ctx.Err()
}
