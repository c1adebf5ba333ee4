package graphql_test

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/policy/graphql"
)

// A gateway prepares the rules of a route once, and prices each request.
func ExamplePricer_Cost() {
	pricer := graphql.New(graphql.Rules{
		Max:             100,
		DefaultListSize: 25,
		ListArguments:   []string{"first", "last"},
		Weights:         map[string]int64{"Query.search": 10},
	})
	for _, body := range []string{
		`{"query": "{search(first: 10) {name author {name}}}"}`,
		`{"query": "query($n: Int) {search(first: $n) {name author {name}}}", "variables": {"n": 50}}`,
		`{"query": "{a}", "Query": "{search(first: 1000) {name}}"}`,
	} {
		operations, err := graphql.ParseRequest("POST", "application/json", []byte(body), "")
		if err != nil {
			fmt.Println(err)
			continue
		}
		cost, err := pricer.Cost(operations)
		fmt.Println(cost, errors.Is(err, graphql.ErrOverMax))
	}
	// Output:
	// 40 false
	// 160 true
	// GraphQL request cannot be priced: "Query" is not known; query, operationName, variables and extensions are
}
