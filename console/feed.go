package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// PolicyFeed carries policy versions to the gateways.
type PolicyFeed interface {
	// PublishPolicy returns "published", "same", "went-back" or "conflict".
	PublishPolicy(ctx context.Context, p policy.SignedPolicy) (string, error)
	PutStamp(ctx context.Context, s policy.Stamp) error
	// State says what is in Redis; the zero State when nothing is.
	State(ctx context.Context) (policy.FeedState, error)
}

// PolicyRestorer is a PolicyFeed that can also put a version back over one that
// nobody with this console's key may have written.
type PolicyRestorer interface {
	// RestorePolicy writes p over the head only while that is still foreign.
	RestorePolicy(ctx context.Context, p, foreign policy.SignedPolicy) error
}

// DirectoryFeed carries records of keys and tenants to the gateways.
type DirectoryFeed interface {
	// PutRecords returns the place after the last record. Its error wraps
	// policy.ErrNewerRecord when a newer one than one of these is there already.
	PutRecords(ctx context.Context, records []policy.SignedRecord) (policy.Place, error)
	// BeginDirectory starts a full refill: there is no epoch until FinishDirectory.
	BeginDirectory(ctx context.Context) error
	FinishDirectory(ctx context.Context, epoch string) (policy.Place, error)
}

// DirectoryMender is a DirectoryFeed that can also compare all records with
// what Redis has, and put back what differs, while the directory stays in use.
type DirectoryMender interface {
	// MendDirectory returns the place after it. servers is FeedState.Servers from
	// before; records calls put with every record there is.
	MendDirectory(ctx context.Context, servers string, records func(put func(context.Context, []policy.SignedRecord) error) error) (policy.Place, error)
}

// FleetFeed reads what replicas report.
type FleetFeed interface {
	Replicas(ctx context.Context) ([]policy.Heartbeat, error)
	// Now is Redis' clock, the one that heartbeats are stamped with.
	Now(ctx context.Context) (time.Time, error)
	Ping(ctx context.Context) (time.Duration, error)
}

// RedisInspector is a FleetFeed that looks its servers over for known hazards.
type RedisInspector interface {
	// Inspect returns what it finds, the worst first.
	Inspect(ctx context.Context) ([]policy.Hazard, error)
}

// UsageFeed reads live counts.
type UsageFeed interface {
	// Usage returns the batches after a position and the next position. It does not wait.
	Usage(ctx context.Context, after string) (batches []usage.Batch, next string, err error)
}

// Feed is the wire to the gateways. policy/feed.Publisher implements it.
type Feed interface {
	PolicyFeed
	DirectoryFeed
	FleetFeed
	UsageFeed
}
