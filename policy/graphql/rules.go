package graphql

// Bounds on what is read. They are counted and not timed: a request has the same
// verdict on every machine.
const (
	MaxBodyBytes  = 256 << 10 // of a request, its variables included
	MaxQueryBytes = 64 << 10  // of one query
	MaxBatch      = 100       // operations of one request
	MaxTokens     = 15_000    // of one query, comments included
	MaxFields     = 10_000    // fields of one operation, fragments counted at each use

	defaultDepth   = 50
	defaultBreadth = 1_000
	maxValues      = 20_000 // of the JSON of a request
	maxNesting     = 64     // of the JSON of a request
)

// Rules say how a query is priced. The fields are those of policy.GraphQLCost in
// its order, so that the one converts to the other.
type Rules struct {
	Max             int64            // highest cost of a request, all its operations together; 0: no bound
	DefaultListSize int64            // entries of a list of unknown size, at least 1
	ListArguments   []string         // arguments that tell a list's size
	Weights         map[string]int64 // "Type.field" or "*.field" to the cost of one; 1 for all others
	MaxDepth        int64            // levels of fields; 0: 50
	MaxBreadth      int64            // fields of one selection set, fragments counted in; 0: 1000
}
