package policy

import (
	"fmt"
	"testing"
	"time"
)

// largest is a document of as many routes as a document may have, each with a
// limit, a shared limit and a fallback.
func largest(n int) *Document {
	d := &Document{APIVersion: APIVersion, Shared: []Limit{perMinute("search", PerTenant, 100)}, Plans: map[string]Plan{}}
	for i := range 20 {
		d.Plans[fmt.Sprintf("plan%d", i)] = Plan{Limits: []Limit{perMinute("requests", PerTenant, 60)}}
	}
	for i := range n {
		d.Routes = append(d.Routes, Route{
			Name: fmt.Sprintf("r%d", i), Description: "what the route is for",
			Match:          []string{fmt.Sprintf("GET /v1/group%d/things/{id}/part%d", i%97, i)},
			Limits:         []Limit{perMinute("l", PerTenant, 50)},
			Uses:           []string{"search"},
			OnStoreFailure: StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 5, Period: time.Minute}, Burst: 5}},
		})
	}
	return d
}

// edited changes every third route.
func edited(d *Document, from int) *Document {
	d = d.withDefaults()
	for i := from; i < len(d.Routes); i += 3 {
		d.Routes[i].Limits[0].Rate.Tokens += 5
		d.Routes[i].Cost = 2
	}
	return d
}

func BenchmarkLarge(b *testing.B) {
	d := largest(maxRoutes)
	mine, theirs := edited(d, 0), edited(d, 1)
	json, yaml := d.Canonical(), d.YAML()
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"ParseJSON", func() { _, _ = Parse(json) }},
		{"ParseYAML", func() { _, _ = Parse(yaml) }},
		{"Validate", func() { _ = Validate(d) }},
		{"Compile", func() { _, _ = Compile(d) }},
		{"Canonical", func() { d.Canonical() }},
		{"YAML", func() { d.YAML() }},
		{"DiffSame", func() { Diff(d, d) }},
		{"DiffThird", func() { Diff(d, mine) }},
		{"DiffAll", func() { Diff(nil, d) }},
		{"Merge", func() { Merge(d, mine, theirs) }},
		{"Cuts", func() { Cuts(d, mine) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.run()
			}
		})
	}
}

// Looking for patterns that cannot be told apart takes a few steps a route, and not
// one for each pair of routes: the bound on such work is for hostile documents.
func TestValidate_LooksForConflictsInAFewStepsARoute(t *testing.T) {
	t.Parallel()
	steps := func(n int) int {
		d, tree, spent := largest(n), newRouter(), 0
		for i, r := range d.Routes {
			p, err := parsePattern(r.Match[0])
			if err != nil {
				t.Fatal(err)
			}
			p.route, p.order = i, i
			_, left := tree.conflict(p, conflictsWork)
			spent += conflictsWork - left
			tree.add(p)
		}
		return spent
	}
	if few, many := steps(100)/100, steps(maxRoutes)/maxRoutes; many > 2*few || many > 20 {
		t.Errorf("%d steps a route of 100 routes, %d of %d", few, many, maxRoutes)
	}
}

// The largest document there may be is read, compiled, compared and merged whole.
func TestLargest_IsComparedAndMergedWhole(t *testing.T) {
	t.Parallel()
	d := largest(maxRoutes)
	mine, theirs := edited(d, 0), edited(d, 1)
	if _, err := Compile(d); err != nil {
		t.Fatal(err)
	}
	const edits = 2 // of a route: its rate and its cost
	if got, want := len(Diff(d, mine)), edits*((maxRoutes+2)/3); got != want {
		t.Errorf("%d changes, want %d", got, want)
	}
	merged, clashes := Merge(d, mine, theirs)
	if len(clashes) != 0 {
		t.Fatalf("%d clashes", len(clashes))
	}
	if got, want := len(Diff(d, merged)), edits*((maxRoutes+2)/3+(maxRoutes+1)/3); got != want {
		t.Errorf("%d changes of both, want %d", got, want)
	}
}
