package graphql

import (
	"strings"
	"testing"
)

// BenchmarkCost prices what clients usually send, and the dearest of what they
// may send: documents at the bounds.
func BenchmarkCost(b *testing.B) {
	queries := map[string]string{
		"usual": `query Repositories($n:Int=20){viewer{login repositories(first:$n,orderBy:{field:STARS}){edges{node{...R issues(last:5){nodes{title author{login}}}}} pageInfo{endCursor}}}}
fragment R on Repository{name description stars owner{login avatarUrl(size:40)}}`,
		"fields":    "{" + strings.Repeat("a ", 1000) + "}",
		"tokens":    "{a" + strings.Repeat("@b ", (MaxTokens-3)/2) + "}",
		"fragments": "{...A} fragment A on X{...B ...B ...B ...B} fragment B on X{" + strings.Repeat("a ", 200) + "}",
	}
	for name, query := range queries {
		b.Run(name, func(b *testing.B) {
			p := New(rules())
			ops := []Operation{{Query: query}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Cost(ops); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, name := range []string{"fields within the bytes", "fragments that grow tenfold", "strings apart", "many comments"} {
		query := bombs()[name]
		b.Run("refused/"+name, func(b *testing.B) {
			p := New(rules())
			ops := []Operation{{Query: query}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Cost(ops); err == nil {
					b.Fatal("taken")
				}
			}
		})
	}
}
