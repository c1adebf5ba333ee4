package console

import (
	"context"
	"time"
)

// StartTrial begins to replay the decisions of a time under a draft, in the
// background.
func (s *Policies) StartTrial(ctx context.Context, actor Actor, draft string, from, to time.Time) (Trial, error) {
	return Trial{}, noProver()
}

// StartTrialOf is StartTrial for a document that is no draft.
func (s *Policies) StartTrialOf(ctx context.Context, actor Actor, src []byte, from, to time.Time) (Trial, error) {
	return Trial{}, noProver()
}

// Trial returns one simulation, with its result when it is done.
func (s *Policies) Trial(ctx context.Context, id string) (Trial, error) { return Trial{}, noProver() }

// Trials lists a draft's simulations without their results, the newest first.
func (s *Policies) Trials(ctx context.Context, draft string) ([]Trial, error) {
	return nil, noProver()
}

// RunTrials runs simulations that were started here, one at a time, until ctx ends.
func (s *Policies) RunTrials(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
