package graphql

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

// parse reads one query. What the grammar leaves to validation but would let two
// upstreams run two different things (names given twice) is refused here.
func parse(query string) (*ast.QueryDocument, error) {
	if len(query) > MaxQueryBytes {
		return nil, refuse(ErrTooComplex, "the query has more than %d bytes, the most allowed", MaxQueryBytes)
	}
	if !utf8.ValidString(query) {
		return nil, refuse(ErrSyntax, "the query is not valid UTF-8")
	}
	// Parsers disagree on where a block string ends whose text ends in a quote:
	// what is a string to one is fields to the other.
	if strings.Contains(query, `""""`) {
		return nil, refuse(ErrSyntax, `the query has four quotes in a row; write \"""`+" or keep quotes away from a block string's ends")
	}
	// Older grammars end a line, and so a comment, at these.
	if strings.ContainsAny(query, "\u0085\u2028\u2029") {
		return nil, refuse(ErrSyntax, `the query has a line separator other than CR and LF; write it as \u2028 in text`)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, MaxTokens)
	if err != nil {
		return nil, parseError(err)
	}
	if err := unique(doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// parseError tells a parser's error in bounded words.
func parseError(err error) error {
	var e *gqlerror.Error
	if !errors.As(err, &e) {
		return refuse(ErrSyntax, "the query cannot be parsed")
	}
	switch {
	case strings.HasPrefix(e.Message, "exceeded token limit"):
		return refuse(ErrTooComplex, "the query has more than %d tokens, the most allowed", MaxTokens)
	case strings.HasPrefix(e.Message, "exceeded maximum nesting"):
		return refuse(ErrTooComplex, "the query nests deeper than %d levels, the most allowed", parser.MaxNestingDepth)
	case strings.Contains(e.Message, "<Invalid>") && len(e.Locations) > 0:
		return refuse(ErrSyntax, "line %d, column %d: neither a word nor a sign of GraphQL, or text without an end",
			e.Locations[0].Line, e.Locations[0].Column)
	case len(e.Locations) > 0:
		return refuse(ErrSyntax, "line %d, column %d: %s", e.Locations[0].Line, e.Locations[0].Column, shown(e.Message))
	}
	return refuse(ErrSyntax, "%s", shown(e.Message))
}

// unique refuses a document in which operations, fragments or variables share a name.
func unique(doc *ast.QueryDocument) error {
	if len(doc.Operations) == 0 {
		return refuse(ErrSyntax, "the query has no operation")
	}
	operations := make(map[string]bool, len(doc.Operations))
	for _, op := range doc.Operations {
		if op.Name == "" && len(doc.Operations) > 1 {
			return refuse(ErrSyntax, "an operation without a name must be the only one")
		}
		if operations[op.Name] {
			return refuse(ErrSyntax, "two operations are named %q", shown(op.Name))
		}
		operations[op.Name] = true
	}
	fragments := make(map[string]bool, len(doc.Fragments))
	for _, f := range doc.Fragments {
		if fragments[f.Name] {
			return refuse(ErrSyntax, "two fragments are named %q", shown(f.Name))
		}
		if len(f.VariableDefinition) > 0 {
			return refuse(ErrSyntax, "fragment %q has variables of its own", shown(f.Name))
		}
		fragments[f.Name] = true
	}
	return nil
}

// pick is the operation that an upstream runs.
func pick(doc *ast.QueryDocument, name string) (*ast.OperationDefinition, error) {
	if name == "" {
		if len(doc.Operations) > 1 {
			return nil, refuse(ErrSyntax, "the query has %d operations: operationName must say which", len(doc.Operations))
		}
		return doc.Operations[0], nil
	}
	if op := doc.Operations.ForName(name); op != nil && op.Name == name {
		return op, nil
	}
	return nil, refuse(ErrSyntax, "the query has no operation named %q", shown(name))
}
