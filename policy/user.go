package policy

// User says who the user behind a request is. Exactly one of its fields is set.
type User struct {
	Header string // believed from trusted proxies only
	JWT    *UserJWT
}

// UserJWT takes the user from a signed token in the Authorization header
// (RFC 7519), checked against the keys of a file (RFC 7517).
type UserJWT struct {
	JWKSFile string // path on each gateway
	Claim    string // default sub
	Issuer   string // "" is not checked
	Audience string // "" is not checked
}

// GraphQLCost says how the cost of a GraphQL query is computed.
type GraphQLCost struct {
	Max             int64            // a query above it is refused with 422
	DefaultListSize int64            // items of a list whose size the query does not say
	ListArguments   []string         // arguments that say the size of a list
	Weights         map[string]int64 // "Type.field" to the cost of one; 1 for all others
	MaxDepth        int64            // levels of fields
	MaxBreadth      int64            // fields of one selection
}

// Bounds of a GraphQLCost.
const (
	MaxGraphQLDepth   = 100
	MaxGraphQLBreadth = 10_000
)
