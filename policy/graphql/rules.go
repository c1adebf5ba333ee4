package graphql

import (
	"maps"
	"strings"
)

// Bounds on what is read. They are counted and not timed: a request has the same
// verdict on every machine.
const (
	MaxBodyBytes  = 256 << 10 // of a request, its variables included
	MaxQueryBytes = 64 << 10  // of one query
	MaxBatch      = 100       // operations of one request
	MaxTokens     = 15_000    // of one query, comments included
	MaxFields     = 10_000    // fields of one request, fragments counted at each use

	defaultDepth   = 50
	defaultBreadth = 1_000
	maxLevels      = 1_000  // of fields and fragments within each other
	maxValues      = 20_000 // of the JSON of a request
	maxNesting     = 64     // of the JSON of a request
)

// Rules say how a query is priced. The fields are those of policy.GraphQLCost in
// its order, so that the one converts to the other. Validation is the policy's.
type Rules struct {
	Max             int64            // highest cost of a request, all its operations together; 0: no bound
	DefaultListSize int64            // entries of a list of unknown size, at least 1
	ListArguments   []string         // arguments that tell a list's size
	Weights         map[string]int64 // "Type.field" or "*.field" to the cost of one, 0 or more; 1 for all others
	MaxDepth        int64            // levels of fields; 0: 50
	MaxBreadth      int64            // fields of one selection set, fragments counted in; 0: 1000
}

// Pricer prices requests by one set of rules. It is safe for concurrent use.
type Pricer struct {
	max, listSize, maxDepth, maxBreadth int64

	list    map[string]bool
	weights map[string]int64 // by "Type.field" and "*.field"
	highest map[string]int64 // by field: what it costs on a type that is not known
}

// New prepares rules. Preparing takes time in the size of the rules: do it once
// for each.
func New(rules Rules) *Pricer {
	p := &Pricer{
		max:        rules.Max,
		listSize:   max(rules.DefaultListSize, 1),
		maxDepth:   orDefault(rules.MaxDepth, defaultDepth),
		maxBreadth: orDefault(rules.MaxBreadth, defaultBreadth),
		list:       make(map[string]bool, len(rules.ListArguments)),
		weights:    maps.Clone(rules.Weights),
		highest:    make(map[string]int64, len(rules.Weights)),
	}
	for _, name := range rules.ListArguments {
		p.list[name] = true
	}
	for key, weight := range rules.Weights {
		if _, field, ok := strings.Cut(key, "."); ok {
			p.highest[field] = max(p.highest[field], weight, 1)
		}
	}
	for key, weight := range rules.Weights {
		if field, ok := strings.CutPrefix(key, "*."); ok {
			p.highest[field] = weight
		}
	}
	return p
}

func orDefault(n, otherwise int64) int64 {
	if n <= 0 {
		return otherwise
	}
	return n
}

// scope is where a field stands.
type scope struct {
	root string // type of the operation, for fields that stand at its root; "" below
	on   string // type condition around the field; "" when it has none
}

// weight is the cost of one field. Without a schema the type of a field below the
// root is known only from a type condition, and that may name an interface. So
// where no weight is given for the named type, the highest one of any type holds,
// unless the rules say "*.field": a type condition is no way to a lower price.
func (p *Pricer) weight(in scope, field string) int64 {
	if in.root == "" {
		if w, ok := p.weights[in.on+"."+field]; ok && in.on != "" {
			return max(w, 0)
		}
		if w, ok := p.highest[field]; ok {
			return max(w, 0)
		}
		return 1
	}
	weight := int64(1)
	if w, ok := p.weights[in.root+"."+field]; ok {
		weight = w
	} else if w, ok := p.weights["*."+field]; ok {
		weight = w
	}
	if in.on != "" && in.on != in.root {
		weight = max(weight, p.weights[in.on+"."+field])
	}
	return max(weight, 0)
}
