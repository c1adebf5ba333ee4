package replay

import (
	"context"
	"errors"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// Tenants finds a tenant by its id or external id.
type Tenants = func(string) (policy.TenantRecord, bool)

// Engine tests, scores and compares policies. It keeps nothing between calls and is
// safe for concurrent use. Its zero value is ready.
type Engine struct{}

var errNotYet = errors.New("not built yet")

// Test runs a suite against a document: one result for each test, in their order. It
// fails when the document cannot be compiled or ctx ends.
func (Engine) Test(ctx context.Context, d *policy.Document, s *scenario.Suite, tenants Tenants) ([]scenario.Result, error) {
	return nil, errNotYet
}

// Score tries small changes of the document that some test should notice.
func (Engine) Score(ctx context.Context, d *policy.Document, s *scenario.Suite, tenants Tenants) (scenario.Score, error) {
	return scenario.Score{}, errNotYet
}

// Compare replays a log under both documents.
func (Engine) Compare(ctx context.Context, live, draft *policy.Document, log decisionlog.Log, tenants Tenants, progress func(float64)) (decisionlog.Comparison, error) {
	return decisionlog.Comparison{}, errNotYet
}
