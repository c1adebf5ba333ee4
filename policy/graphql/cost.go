package graphql

// Cost prices one query.
func Cost(query, operationName string, variables map[string]any, rules Rules) (int64, error) {
	return New(rules).Cost([]Operation{{Query: query, OperationName: operationName, Variables: variables}})
}

// Pricer prices requests by one set of rules. It is safe for concurrent use.
type Pricer struct {
	rules Rules
}

// New prepares rules.
func New(rules Rules) *Pricer { return &Pricer{rules: rules} }

// Cost prices the operations of one request together.
func (p *Pricer) Cost(operations []Operation) (int64, error) {
	return 0, refuse(ErrSyntax, "not priced yet")
}
