package policy

import (
	"fmt"
	"strings"
	"testing"
)

func manyRoutes(b testing.TB, n int) *Compiled {
	b.Helper()
	d := &Document{APIVersion: APIVersion}
	for i := range n {
		d.Routes = append(d.Routes, Route{
			Name:           fmt.Sprintf("r%d", i),
			Match:          []string{fmt.Sprintf("GET /v1/group%d/things/{id}/part%d", i%97, i)},
			OnStoreFailure: StoreFailure{Mode: FailClosed},
		})
	}
	c, err := Compile(d)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			c := manyRoutes(b, n)
			paths := make([]string, 64)
			for i := range paths {
				at := i * n / len(paths)
				paths[i] = fmt.Sprintf("/v1/group%d/things/%d/part%d", at%97, i, at)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := c.Match("GET", "", paths[i%len(paths)]); !ok {
					b.Fatal("no match")
				}
			}
		})
	}
}

// What a path costs must not hang on what it holds.
func BenchmarkMatchHostilePath(b *testing.B) {
	c := manyRoutes(b, 10_000)
	path := strings.Repeat("/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", 8<<10/57)
	b.ReportAllocs()
	for b.Loop() {
		c.Match("GET", "", path)
	}
}
