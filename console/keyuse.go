package console

import (
	"context"
	"time"
)

// UseAge says how current what is known of the use of keys is.
type UseAge struct {
	// Through is the moment up to which every replica that is not gone has told what
	// it saw; zero when nothing came in yet.
	Through time.Time
	// Behind says that Through is more than a minute ago: then nobody can tell "never
	// used" from "not heard of yet".
	Behind bool
	// Silent names replicas that are not gone and do not tell.
	Silent []string
}

// KeyUse is what is known of the use of one key version. It is not the record
// that a bill may rest on.
type KeyUse struct {
	KID         string
	FirstUsedAt *time.Time // accepted for the first time; nil: not known to be used
	LastUsedAt  *time.Time // accepted for the last time; it never goes back
	LastNetwork string     // of that time: /24 or /48
	LastAgent   string     // of that time: product names of the user agent
	RefusedAt   *time.Time // presented for the last time while it was not accepted (revoked, expired, suspended)
	Requests24h int64
	Refused24h  int64 // refused by a limit or for the key's state
}

// KeySource is one source that used a key version: a network (/24 for IPv4, /48
// for IPv6) and the product names of a user agent.
type KeySource struct {
	KID       string
	Network   string // CIDR; "" is the rest beyond what is told apart
	Agent     string
	FirstSeen time.Time
	LastSeen  time.Time
	Requests  int64
	Refused   int64
}

// KeyUseSource tells who uses keys. *KeyUses is one.
type KeyUseSource interface {
	// Uses returns what is known of the given versions; one that was never heard of is absent.
	Uses(ctx context.Context, kids []string) (map[string]KeyUse, UseAge, error)
	// Sources lists who used a version since a time, the last seen first, at most limit.
	Sources(ctx context.Context, kid string, since time.Time, limit int) ([]KeySource, UseAge, error)
}
