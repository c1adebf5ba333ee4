package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
)

// OutboxCanary is an outbox row of a version that few replicas get first; ref
// is its number.
const OutboxCanary OutboxKind = "canary"

// RolloutRows keeps canaries. Changes happen under LockHead.
type RolloutRows interface {
	// InsertRollout refuses (CodeConflict) a second one that runs.
	InsertRollout(ctx context.Context, r Rollout, authorID string) error
	// RunningRollout returns CodeNotFound when none runs.
	RunningRollout(ctx context.Context) (Rollout, error)
	Rollout(ctx context.Context, version int64) (Rollout, error)
	// Rollouts lists the newest first.
	Rollouts(ctx context.Context, limit int) ([]Rollout, error)
	// EndRollout writes State, EndedAt, EndReason, By and Successor; false when it had ended.
	EndRollout(ctx context.Context, r Rollout) (bool, error)
	RolloutVersions
}

// RolloutVersions reads what convergence needs of versions.
type RolloutVersions interface {
	// HighestVersion is the highest number there is, a canary's included; 0 when there is none.
	HighestVersion(ctx context.Context) (int64, error)
	// VersionDigests returns digests by number, of those that exist.
	VersionDigests(ctx context.Context, numbers []int64) (map[int64]string, error)
	VersionMark(ctx context.Context, number int64) (VersionMark, error)
}

// VersionMark is a version without its content.
type VersionMark struct {
	Number    int64
	Digest    string
	CreatedAt time.Time
}

// Beat is a heartbeat and how it came.
type Beat struct {
	policy.Heartbeat
	Via string        // BeatHTTPS or BeatRedis
	Age time.Duration // since the replica was heard of, by the database's clock
}

// Ways of a heartbeat.
const (
	BeatHTTPS = "https" // the replica brought it to a console, because Redis was away
	BeatRedis = "redis" // a console saw it in Redis
)

// BeatRows keeps the last heartbeat of each replica and way, for the time when
// Redis cannot be asked.
type BeatRows interface {
	// PutBeats writes those that are newer than what is there.
	PutBeats(ctx context.Context, via string, beats []Beat) error
	Beats(ctx context.Context, within time.Duration, limit int) ([]Beat, error)
	// CountBeats counts replicas that were heard of within one time, and rows within another one.
	CountBeats(ctx context.Context, within, held time.Duration) (live, rows int, err error)
	HasBeat(ctx context.Context, id string) (bool, error)
	DeleteOldBeats(ctx context.Context, older time.Duration) error
}

// CanaryFeed is a PolicyFeed that also carries a version to few replicas.
type CanaryFeed interface {
	// PutCanary offers a version to the replicas that its record names. The head
	// stays. It returns "published", "same" or "went-back".
	PutCanary(ctx context.Context, p policy.SignedPolicy, c policy.Canary) (string, error)
	// DropCanary takes back whatever offer there is.
	DropCanary(ctx context.Context) error
}

// PolicyReader is a PolicyFeed that can be read back, after the database was
// restored from an older copy.
type PolicyReader interface {
	// ReadPolicy returns what Redis offers, as it stands there; the zero
	// SignedPolicy when there is none. Nothing of it is verified.
	ReadPolicy(ctx context.Context) (policy.SignedPolicy, error)
}
