package replay

import (
	"context"
	"errors"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
)

// Compare replays a log under both documents.
func (Engine) Compare(ctx context.Context, live, draft *policy.Document, log decisionlog.Log, tenants Tenants, progress func(float64)) (decisionlog.Comparison, error) {
	return decisionlog.Comparison{}, errors.New("not built yet")
}
