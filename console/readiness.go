package console

import (
	"context"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// noProver is the answer where tests and simulations cannot run.
func noProver() error {
	return &Error{Code: CodeUnavailable, Public: "This console cannot run tests and simulations."}
}

// Ready says everything that a reviewer of a draft wants to know. What is dear
// to compute is remembered until draft, version in force or rules change.
func (s *Policies) Ready(ctx context.Context, actor Actor, id string) (Readiness, error) {
	return Readiness{}, noProver()
}

// RunTests runs a suite against a document. The report says what is wrong with
// the suite; then nothing runs. A suite that takes longer than ctx allows is
// CodeUnavailable.
func (s *Policies) RunTests(ctx context.Context, doc *policy.Document, tests []byte) ([]scenario.Result, policy.Report, error) {
	return nil, policy.Report{}, noProver()
}

// Score tells which small changes of a draft its tests would not notice.
func (s *Policies) Score(ctx context.Context, actor Actor, id string) (scenario.Score, error) {
	return scenario.Score{}, noProver()
}

// rated are changes without impact.
func rated(in []policy.Change) []RatedChange {
	out := make([]RatedChange, len(in))
	for i, c := range in {
		out[i] = RatedChange{Change: c}
	}
	return out
}
