package replay

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

// Tenants finds a tenant by its id or external id.
type Tenants = func(string) (policy.TenantRecord, bool)

// Engine tests, scores and compares policies. It keeps nothing between calls and is
// safe for concurrent use. Its zero value is ready.
type Engine struct{}

// clock is the virtual time, in Unix µs.
type clock struct{ micros int64 }

func (c *clock) now() time.Time { return time.UnixMicro(c.micros) }

// compile makes what a gateway enforces of a document.
func compile(d *policy.Document, what string) (*policy.Compiled, error) {
	c, err := policy.Compile(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return c, nil
}
