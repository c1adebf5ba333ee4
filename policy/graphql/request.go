package graphql

// Operation is one GraphQL request: what an upstream is asked to run.
type Operation struct {
	Query         string
	OperationName string
	Variables     map[string]any // as JSON says, numbers as json.Number
}

// ParseRequest reads the operations of an HTTP request.
func ParseRequest(method, contentType string, body []byte, rawQuery string) ([]Operation, error) {
	return nil, refuse(ErrSyntax, "not read yet")
}
