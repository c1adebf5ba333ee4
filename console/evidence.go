package console

import (
	"context"
	"time"
)

// RotationShown is a rotation's state with what is known of the use of its
// versions. It is computed when read and never stored.
type RotationShown string

// What a rotation is shown as. Overlap, ready and overdue run still.
const (
	ShownOverlap   RotationShown = "overlap"
	ShownReady     RotationShown = "ready"   // the old version has been silent for long enough
	ShownOverdue   RotationShown = "overdue" // under a day left, and the old version is still used
	ShownCompleted RotationShown = "completed"
	ShownForced    RotationShown = "forced"
	ShownCancelled RotationShown = "cancelled"
)

// SourceStand says where one source stands in a rotation.
type SourceStand string

// Where a source can stand.
const (
	SourceOld      SourceStand = "old"      // uses the old version alone
	SourceBoth     SourceStand = "both"     // uses both: more than one client may be behind it
	SourceSwitched SourceStand = "switched" // used the old version, and uses the new one since
	SourceNew      SourceStand = "new"      // was never seen with the old version
	SourceAwaited  SourceStand = "awaited"  // used the old version in the last week, and was not seen since the start
)

// SourceEvidence is one source in a rotation: old against new.
type SourceEvidence struct {
	Network     string // CIDR; "" is the rest beyond what is told apart
	Agent       string
	Stand       SourceStand
	OldRequests int64
	OldRefused  int64
	OldLast     *time.Time
	NewRequests int64
	NewLast     *time.Time
}

// Evidence is what is known of a rotation's two versions.
type Evidence struct {
	Rotation Rotation
	Shown    RotationShown
	Since    time.Time        // from when on sources are told
	Sources  []SourceEvidence // those that keep it from being ready first
	Age      UseAge
	OldLast  *time.Time    // when the old version was accepted last; nil: not since Since
	Quiet    time.Duration // for how long the old version has been silent, as far as is known
	Needed   time.Duration // how long it has to be
	Ready    bool
	Overdue  bool
	WhyNot   string // in words; "" when it is ready or over
	// ReadyAt is when it is ready if nobody uses the old version again; nil when
	// that is not known.
	ReadyAt *time.Time
}

// Stragglers are the sources that used the old version since the start and have
// not switched.
func (e Evidence) Stragglers() []SourceEvidence {
	var out []SourceEvidence
	for _, s := range e.Sources {
		if s.Stand == SourceOld || s.Stand == SourceBoth {
			out = append(out, s)
		}
	}
	return out
}

// RatedRotation is a rotation in a list, with what it is shown as.
type RatedRotation struct {
	Rotation
	Shown   RotationShown
	OldLast *time.Time // when the old version was accepted last; nil: not known to be used
	WhyNot  string     // why it is not ready, in words
}

// RotationQuery filters rotations. State "" is every one; ShownOverlap stands
// for all that run.
type RotationQuery struct {
	State    RotationShown
	TenantID string
	Page     Page
}

// Evidence tells what is known of a rotation's two versions.
func (s *Rotations) Evidence(ctx context.Context, actor Actor, id string) (Evidence, error) {
	r, err := s.GetFor(ctx, actor, id)
	return Evidence{Rotation: r, Shown: RotationShown(r.State)}, err
}

// ListByRisk lists rotations: those that are overdue, then all others that run,
// the next end first, then those that are over, the last end first.
func (s *Rotations) ListByRisk(ctx context.Context, q RotationQuery) (items []RatedRotation, next string, err error) {
	list, err := s.List(ctx, q.State != "")
	for _, r := range list {
		items = append(items, RatedRotation{Rotation: r, Shown: RotationShown(r.State)})
	}
	return items, "", err
}
