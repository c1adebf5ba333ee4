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
		{"ParseJSON", func() { Parse(json) }},
		{"ParseYAML", func() { Parse(yaml) }},
		{"Validate", func() { Validate(d) }},
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
