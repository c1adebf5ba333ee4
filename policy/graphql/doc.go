// Package graphql prices GraphQL requests without a schema: it reads a request
// as an upstream would, parses the query and adds up what its fields may cost.
// Whatever an upstream could read in two ways is refused, so that it never runs
// another query than the one that was priced; whatever cannot be known is
// counted at its higher price.
//
// The package is pure: no I/O, no clock, no net/http. It imports no other package
// of this module and, besides the standard library, only a GraphQL parser.
package graphql
