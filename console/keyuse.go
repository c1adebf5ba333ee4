package console

import (
	"context"
	"time"
)

// UseAge says how current, and how whole, what is known of the use of keys is.
// Times are those of Redis' clock.
type UseAge struct {
	// Through is the moment up to which every replica that is not gone has told what
	// it saw; zero when nothing came in yet.
	Through time.Time
	// Behind says that Through is more than a minute ago: then nobody can tell "never
	// used" from "not heard of yet".
	Behind bool
	// Silent names replicas that are not gone and have not told for a minute.
	Silent []string
	// Since is the moment since when use is known at all; zero: never. A key that is
	// older may have been used before.
	Since time.Time
	// Missing is the last stretch of which something was lost; nil when nothing is
	// known to be, of the last 8 days.
	Missing *UseGap
	// Longest is the longest such stretch of the last 8 days, which may be the same.
	Longest *UseGap
}

// UseGap is a stretch of time of which a replica saw uses that nobody was told of:
// Redis lost them, or the replica ended before it could tell.
type UseGap struct {
	Replica  string
	From, To time.Time
}

// KeyUse is what is known of the use of one key version. It is not the record
// that a bill may rest on.
type KeyUse struct {
	KID            string
	FirstUsedAt    *time.Time // accepted for the first time; nil: not known to be used
	LastUsedAt     *time.Time // accepted for the last time; it never goes back
	LastNetwork    string     // of that time: /24 or /48
	LastAgent      string     // of that time: product names of the user agent
	RefusedAt      *time.Time // presented for the last time while it was not accepted (revoked, expired, suspended, brown-out)
	RefusedNetwork string     // of that time
	RefusedAgent   string     // of that time
	Requests24h    int64      // with its right secret, in the last 23 to 24 hours
	Refused24h     int64      // of them: refused by a limit or for the key's state
}

// KeySource is one source that used a key version: a network (/24 for IPv4, /48
// for IPv6) and the product names of a user agent.
type KeySource struct {
	KID       string
	Network   string // CIDR; "" where the address is not known, and with Agent "" for the rest beyond what is told apart
	Agent     string
	FirstSeen time.Time
	LastSeen  time.Time  // whether it was accepted or not
	UsedAt    *time.Time // accepted for the last time
	RefusedAt *time.Time // presented for the last time while it was not accepted
	// LongestGap is the longest time between two of its uses, in whole seconds.
	LongestGap time.Duration
	Requests   int64 // with the key's right secret
	Limited    int64 // of them: the key was accepted, and the request refused
	Refused    int64 // of them: the key was not accepted (revoked, expired, suspended, brown-out)
}

// Rest reports whether it stands for all sources beyond what is told apart.
func (s KeySource) Rest() bool { return s.Network == "" && s.Agent == "" }

// KeyUseSource tells who uses keys. *KeyUses is one.
type KeyUseSource interface {
	// Uses returns what is known of the given versions; one that was never heard of is absent.
	Uses(ctx context.Context, kids []string) (map[string]KeyUse, UseAge, error)
	// Sources lists who used a version since a time, the last seen first, at most limit.
	Sources(ctx context.Context, kid string, since time.Time, limit int) ([]KeySource, UseAge, error)
}
