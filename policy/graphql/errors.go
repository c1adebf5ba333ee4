package graphql

import (
	"errors"
	"fmt"
)

// Kinds of refusals. Every error of this package wraps exactly one of them.
var (
	// ErrSyntax: the request cannot be read, or could be read in two ways (400).
	ErrSyntax = errors.New("not a GraphQL request that can be priced")
	// ErrTooComplex: the request exceeds a bound of its shape (422).
	ErrTooComplex = errors.New("GraphQL query is too complex")
	// ErrOverMax: the request costs more than the highest cost allowed (422).
	ErrOverMax = errors.New("GraphQL query costs too much")
)

func refuse(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}
