package policy

import (
	"maps"
	"slices"
)

// sortedKeys are a map's keys in order, so that reports and bytes are the same
// each time.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func textsOf[T ~string](words []T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
