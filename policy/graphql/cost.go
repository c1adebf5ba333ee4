package graphql

import (
	"math"

	"github.com/vektah/gqlparser/v2/ast"
)

// Cost prices one query by rules; see Pricer.Cost.
func Cost(query, operationName string, variables map[string]any, rules Rules) (int64, error) {
	return New(rules).Cost([]Operation{{Query: query, OperationName: operationName, Variables: variables}})
}

// Cost prices the operations of one request together: at least 1 each. It returns
// the cost also with ErrOverMax; costs that do not fit count as the highest int64.
//
// A field costs its weight and, for each entry of the list that it is, what its
// selection costs. So each field is charged its weight times the sizes of the
// lists around it. A field without a selection is charged for each entry itself.
// Fragments and aliases count at each use.
func (p *Pricer) Cost(operations []Operation) (int64, error) {
	if len(operations) == 0 {
		return 0, refuse(ErrSyntax, "the request has no operation")
	}
	if len(operations) > MaxBatch {
		return 0, refuse(ErrTooComplex, "the request has more than %d operations, the most allowed", MaxBatch)
	}
	var total price
	for i := range operations {
		one, err := p.operation(&operations[i])
		if err != nil {
			return 0, err
		}
		one.cost = max(one.cost, 1)
		total = total.and(one)
		if total.fields > MaxFields {
			return 0, tooManyFields()
		}
	}
	if p.max > 0 && total.cost > p.max {
		return total.cost, refuse(ErrOverMax, "it costs %d, the most allowed is %d", total.cost, p.max)
	}
	return total.cost, nil
}

func (p *Pricer) operation(o *Operation) (price, error) {
	doc, err := parse(o.Query)
	if err != nil {
		return price{}, err
	}
	op, err := pick(doc, o.OperationName)
	if err != nil {
		return price{}, err
	}
	v, err := newVisit(p, doc, op, o.Variables)
	if err != nil {
		return price{}, err
	}
	return v.set(op.SelectionSet, scope{root: rootType(op.Operation)})
}

func rootType(op ast.Operation) string {
	switch op {
	case ast.Mutation:
		return "Mutation"
	case ast.Subscription:
		return "Subscription"
	default:
		return "Query"
	}
}

// price is what is known of a selection.
type price struct {
	cost       int64
	fields     int64 // all of them, those of fragments at each use
	breadth    int64 // fields of this level
	depth      int64 // levels of fields
	connection bool  // selects edges or nodes: the field around it is a list
}

// and is the price of two parts of one selection.
func (a price) and(b price) price {
	return price{
		cost:       add(a.cost, b.cost),
		fields:     add(a.fields, b.fields),
		breadth:    add(a.breadth, b.breadth),
		depth:      max(a.depth, b.depth),
		connection: a.connection || b.connection,
	}
}

// add and times are for numbers of 0 or more; what does not fit is the highest.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
