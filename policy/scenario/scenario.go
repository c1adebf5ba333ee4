package scenario

import "time"

// Suite is a file of tests, in its order.
type Suite struct {
	Tests []Test
}

// Test is one scenario: requests in a row by one caller, each with what is
// expected of it.
type Test struct {
	Name        string // unique in the suite
	Description string
	Given       Caller
	Steps       []Step
}

// Caller is who asks. At most one of Tenant and Plan is set; with neither the
// requests carry no key.
type Caller struct {
	Tenant string // a tenant's id or external id: with its plan and overrides
	Plan   string // some tenant on this plan, without overrides
	IP     string // address of the caller; "" for one that nobody else has
	User   string // value of the document's user; "" for none
}

// Step is n requests spread evenly over a time, and what is expected of them.
type Step struct {
	Send    int64             // requests, 1 or more
	Request string            // "POST /v1/login": method and path as on the wire, with a host before the path if routes need one
	In      time.Duration     // from the first request to the last; 0: at once
	After   time.Duration     // pause before the first request, from the last one of the step before
	Lasts   time.Duration     // how long each request holds its place of a concurrency limit; 0: it ends at once
	Cost    int64             // tokens of each request; 0: the route's
	Headers map[string]string // values that limits count per
	Body    map[string]string // fields that limits count per
	Query   string            // GraphQL text, for a route whose cost is computed
	Expect  Expect
}

// Expect is what a step expects. The zero Expect is "every request is admitted".
type Expect struct {
	RefusedBy string        // id of the limit that refuses ("route:login.per-ip"), or one of Causes; "" when all are admitted
	At        int64         // number of the first refused request of the step, from 1; 0 does not care
	Route     string        // route that the requests meet; "" does not care
	RetryIn   time.Duration // wait that the first refusal tells, rounded up to a second; 0 does not care
}

// Result is how one test went.
type Result struct {
	Name   string       `json:"name"`
	Passed bool         `json:"passed"`
	Detail string       `json:"detail,omitempty"` // why it failed, for people: what was expected, what came
	Steps  []StepResult `json:"steps"`
}

// StepResult is what came of one step.
type StepResult struct {
	Route       string `json:"route"` // "" when none matched
	Admitted    int64  `json:"admitted"`
	Refused     int64  `json:"refused"`
	RefusedBy   string `json:"refused_by,omitempty"` // of the first refusal: a limit's id, or one of Causes
	At          int64  `json:"at,omitempty"`         // number of the first refused request, from 1; 0 none
	RetryMillis int64  `json:"retry_ms,omitempty"`   // that the first refusal told
	Reason      string `json:"reason,omitempty"`     // of the first refusal
}

// Mutant is a small change of a document that a good suite notices.
type Mutant struct {
	Path   string `json:"path"`
	Text   string `json:"text"`   // "no test would notice if route:login.per-ip were 40/minute instead of 20/minute"
	Killed bool   `json:"killed"` // some test failed on it
	By     string `json:"by,omitempty"`
}

// Score is a suite's mutation score.
type Score struct {
	Killed  int      `json:"killed"`
	Total   int      `json:"total"`
	Partial bool     `json:"partial"` // the time ran out before all were tried
	Mutants []Mutant `json:"mutants"` // survivors first
}
