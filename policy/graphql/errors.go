package graphql

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of refusals. Every error of this package wraps exactly one of them. Their
// texts are at most a few hundred bytes, printable, and safe to show to a caller.
var (
	// ErrSyntax: the request cannot be read, or could be read in two ways (400).
	ErrSyntax = errors.New("GraphQL request cannot be priced")
	// ErrTooComplex: the request exceeds a bound of its shape (422).
	ErrTooComplex = errors.New("GraphQL request is too complex")
	// ErrOverMax: the request costs more than the highest cost allowed (422).
	ErrOverMax = errors.New("GraphQL request costs too much")
)

func refuse(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

// maxShown bounds a caller's own text in an error, in bytes.
const maxShown = 80

// shown makes a caller's text fit to stand in an error: short, and without
// characters that would change how a log or a page reads.
func shown(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= maxShown {
			b.WriteString("…")
			break
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}
