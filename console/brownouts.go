package console

import (
	"context"
	"time"
)

// MaxBrownouts is how many brown-outs one rotation can have.
const MaxBrownouts = 10

// Brownout is one refusal of a rotation's old version for a short while.
type Brownout struct {
	ID         string // brn_…
	RotationID string
	KID        string
	TenantID   string
	Network    string // CIDR of the sources concerned; "" for all
	From       time.Time
	Until      time.Time
	StoppedAt  *time.Time // before its time
	Author     string
	AuthorID   string
	Reason     string
}

// Running reports whether the old version is refused by it now.
func (b Brownout) Running(now time.Time) bool { return b.StoppedAt == nil && now.Before(b.Until) }

// NewBrownout is what somebody says of a new brown-out. For is at most
// policy.MaxBrownout; 0 is that.
type NewBrownout struct {
	Network string
	For     time.Duration
	Reason  string
}

// StartBrownout refuses the old version of a running rotation for a short while.
func (s *Rotations) StartBrownout(_ context.Context, _ Actor, _ string, _ NewBrownout) (Brownout, Change, error) {
	return Brownout{}, Change{}, conflict("Brown-outs are not built yet.")
}

// StopBrownout ends the brown-out of a rotation before its time.
func (s *Rotations) StopBrownout(_ context.Context, _ Actor, _ string) (Change, error) {
	return Change{}, conflict("No brown-out is running.")
}

// Brownouts lists the brown-outs of a rotation, the newest first.
func (s *Rotations) Brownouts(_ context.Context, _ string) ([]Brownout, error) { return nil, nil }
