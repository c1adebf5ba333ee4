package console

import (
	"context"
	"time"
)

// KeyUseFeed is a Feed that also carries who uses which key.
type KeyUseFeed interface {
	// KeyUse returns the batches after a place ("": from the beginning), as
	// usage.EncodeKeys wrote them, and the place after them. It does not wait, and
	// begins anew by itself when the stream was lost.
	KeyUse(ctx context.Context, after string) (batches [][]byte, next string, err error)
}

// KeyUseRun is how far one run of a replica has told.
type KeyUseRun struct {
	Replica, Boot string
	Seq           int64
	Through       time.Time
	Final         bool      // it ended in order and has told everything
	Missing       *UseGap   // the last one; nil: none
	UpdatedAt     time.Time // when it told last
}

// KeyHour counts what was done with a key version in one hour.
type KeyHour struct {
	KID                        string
	Hour                       time.Time
	Requests, Limited, Refused int64
}

// KeyAlarm is a use of a key version after it was revoked.
type KeyAlarm struct {
	KID, TenantID  string
	At             time.Time // the last one
	Network, Agent string
	ToldAt         *time.Time // of the last audit event
}

// KeyUseRows keeps who uses which key.
type KeyUseRows interface {
	// KeyUses is what is known of versions; requests are counted of hours after dayAgo.
	KeyUses(ctx context.Context, kids []string, dayAgo time.Time) ([]KeyUse, error)
	// KeySources lists sources that were seen since a time, the last seen first.
	KeySources(ctx context.Context, kid string, since time.Time, limit int) ([]KeySource, error)
	KeyUseRuns
	KeyUseIntake
	KeyUseUpkeep
}

// KeyUseRuns is how far replicas have told.
type KeyUseRuns interface {
	// KeyUseRunsSince lists runs that told something since a time.
	KeyUseRunsSince(ctx context.Context, since time.Time) ([]KeyUseRun, error)
	// KeyUseRunsOf lists all runs of replicas, the newest of each first.
	KeyUseRunsOf(ctx context.Context, replicas []string) ([]KeyUseRun, error)
	PutKeyUseRun(ctx context.Context, r KeyUseRun) error
	// KeyUsePlace is the place in the feed up to which batches are counted, "" at
	// first, and since when any are.
	KeyUsePlace(ctx context.Context) (place string, since *time.Time, err error)
	// LockKeyUsePlace makes this transaction the only one that counts batches.
	LockKeyUsePlace(ctx context.Context) (place string, err error)
}

// KeyUseIntake adds up what came in. Versions that are not known are left out.
type KeyUseIntake interface {
	// KnownKeySources tells which of the sources are there.
	KnownKeySources(ctx context.Context, of []KeySource) (map[KeySourceID]bool, error)
	// CountKeySources counts the sources of versions.
	CountKeySources(ctx context.Context, kids []string) (map[string]int, error)
	// AddKeySources adds up; no two of them are the same source.
	AddKeySources(ctx context.Context, sources []KeySource) error
	AddKeyUses(ctx context.Context, uses []KeyUse) error
	AddKeyHours(ctx context.Context, hours []KeyHour) error
}

// KeySourceID names a source.
type KeySourceID struct{ KID, Network, Agent string }

// KeyUseUpkeep moves on, and forgets.
type KeyUseUpkeep interface {
	// SetKeyUsePlace notes a place; since is kept from the first time on.
	SetKeyUsePlace(ctx context.Context, place string, since *time.Time, now time.Time) error
	// KeyAlarms picks those of the versions that were presented after they were revoked,
	// and of which nothing was told since a time.
	KeyAlarms(ctx context.Context, kids []string, toldBefore time.Time, limit int) ([]KeyAlarm, error)
	SetKeyAlarms(ctx context.Context, kids []string, now time.Time) error
	// DeleteOldKeySources forgets sources that were last seen on a day before that of
	// the time, at most limit, and returns how many.
	DeleteOldKeySources(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteSurplusKeyUseRuns forgets all runs but so many that told last.
	DeleteSurplusKeyUseRuns(ctx context.Context, kept int) error
	// DeleteOldKeyUse forgets hours and runs from before a time, at most limit hours.
	DeleteOldKeyUse(ctx context.Context, before time.Time, limit int) (int64, error)
}
