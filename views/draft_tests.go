package views

// DraftTestsProps is a draft's suite of tests: its text, and how each test goes.
type DraftTestsProps struct {
	Head     DraftHead
	Source   string // in the editor
	Stored   string // what is stored, when it differs from what was typed
	Message  string // why nothing was saved
	Problems []ProblemRow
	Warnings []ProblemRow
	Results  []TestRow // the failing ones first
	Passed   int
	Failed   int
	Why      string // why there are no results; "" when there are, or there are no tests
	Score    *ScoreProps
	Examples []TestExample
}

func (p DraftTestsProps) summary() string {
	switch {
	case len(p.Results) == 0:
		return ""
	case p.Failed == 0 && p.Passed == 1:
		return "The test passes"
	case p.Failed == 0:
		return "All " + itoa(p.Passed) + " tests pass"
	}
	return itoa(p.Failed) + " of " + plural(p.Failed+p.Passed, "test", "tests") + " " + oneOr(p.Failed, "fails", "fail")
}

func oneOr(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// TestRow is one test and how it went.
type TestRow struct {
	Name, Description string
	Given             string // "someone on plan free from 203.0.113.7"
	Passed            bool
	Detail            string // what was expected and what came instead
	Steps             []TestStep
}

// TestStep is one step in words and what came of it.
type TestStep struct{ Asks, Came string }

// TestExample is a test that may be put into the suite.
type TestExample struct{ ID, Title, Text string }

// ScoreProps says which small changes of the policy the suite would not notice.
type ScoreProps struct {
	Killed, Total int
	Partial       bool     // the time ran out
	Missed        []string // sentences
	More          int      // further ones that are not listed
	Problem       string   // why there is no score
}

func (s ScoreProps) percent() int {
	if s.Total == 0 {
		return 0
	}
	return 100 * s.Killed / s.Total
}
