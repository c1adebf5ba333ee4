package policy

import (
	"errors"
	"time"
)

// SignedPolicy is one published version as it travels to the gateways.
type SignedPolicy struct {
	Version   int64     `json:"version"`
	Digest    string    `json:"digest"`    // DigestOf(Body)
	Parent    string    `json:"parent"`    // digest of the version before; "" for the first
	Body      []byte    `json:"body"`      // canonical JSON of the document
	Signer    string    `json:"signer"`    // SignerID of the public key
	Signature []byte    `json:"signature"` // Ed25519 over PolicyMessage, or over TrialMessage
	Issued    time.Time `json:"issued"`
	// Trial says that the signature is good for the replicas of a canary alone. It
	// never travels: what carries the version says it.
	Trial bool `json:"-"`
}

// Pulled is what a console answers a gateway that asks it for the policy,
// because Redis is away. Each part carries its own signature.
type Pulled struct {
	Policy SignedPolicy `json:"policy"`
	// Canary and CanaryBody are there when the replica that asked is one of a canary's.
	Canary     *Canary `json:"canary,omitempty"`
	CanaryBody []byte  `json:"canary_body,omitempty"`
}

// Stamp says that a version was still the newest at a moment. A stale stamp
// raises an alarm and never changes a decision.
type Stamp struct {
	Version   int64     `json:"version"`
	Digest    string    `json:"digest"`
	Issued    time.Time `json:"issued"`
	Signer    string    `json:"signer"`
	Signature []byte    `json:"signature"`
}

// RecordKind is a kind of directory record.
type RecordKind string

// Kinds of directory records.
const (
	RecordKey    RecordKind = "key"
	RecordTenant RecordKind = "tenant"
)

// SignedRecord is one directory record as it travels to the gateways.
type SignedRecord struct {
	Kind      RecordKind
	ID        string // kid or tenant id
	Seq       int64  // grows with each change of this record
	Body      []byte // JSON of a KeyRecord or TenantRecord
	Signer    string
	Signature []byte // Ed25519 over RecordMessage
}

// ErrNewerRecord says that a directory holds a record of a higher sequence than one
// that was to be put there: whoever puts it knows less than somebody before him did.
var ErrNewerRecord = errors.New("the directory has a newer record")

// KeyState is the state of a key version.
type KeyState string

// States of a key version. Expired and revoked are final.
const (
	KeyActive    KeyState = "active"
	KeyRetiring  KeyState = "retiring"
	KeySuspended KeyState = "suspended"
	KeyExpired   KeyState = "expired"
	KeyRevoked   KeyState = "revoked"
)

// KeyRecord is what a gateway knows of a key version. It never holds the
// secret: Digest is "sha256:" and the hex SHA-256 of the whole key.
type KeyRecord struct {
	KID         string     `json:"kid"`
	Tenant      string     `json:"tenant"`
	Credential  string     `json:"credential"`
	Environment string     `json:"environment"`
	Digest      string     `json:"digest"`
	State       KeyState   `json:"state"`
	RetiringAt  *time.Time `json:"retiring_at,omitempty"` // when the rotation began
	NotAfter    *time.Time `json:"not_after,omitempty"`   // refused from this moment on
	Scopes      []string   `json:"scopes,omitempty"`
	Brownout    *Brownout  `json:"brownout,omitempty"` // of a retiring version
}

// Brownout refuses a retiring key version for a short while, to find out who
// still depends on it. It ends by itself, by Redis' clock.
type Brownout struct {
	Network string    `json:"network,omitempty"` // CIDR of the sources concerned, /24 or /48; "" for all
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"` // at most MaxBrownout after From
}

// MaxBrownout is how long a brown-out lasts at most.
const MaxBrownout = time.Minute

// TenantState is the state of a tenant.
type TenantState string

// States of a tenant.
const (
	TenantActive    TenantState = "active"
	TenantSuspended TenantState = "suspended"
	TenantDeleted   TenantState = "deleted"
)

// TenantRecord is what a gateway knows of a tenant.
type TenantRecord struct {
	ID          string      `json:"id"`
	Plan        string      `json:"plan"`
	State       TenantState `json:"state"`
	TimeZone    string      `json:"time_zone,omitempty"`    // IANA name; "" for that of the plan's quota
	QuotaAnchor string      `json:"quota_anchor,omitempty"` // YYYY-MM-DD, where anniversaries count from
	Overrides   []Override  `json:"overrides,omitempty"`
	Grants      []Grant     `json:"grants,omitempty"` // of periods that have not ended
}

// Place is a position in the directory's change stream. Epoch names the copy of
// the directory in Redis; Seq counts the changes in it.
type Place struct {
	Epoch string `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// NACK says why a replica cannot use a published version.
type NACK struct {
	Version int64     `json:"version"`
	Code    string    `json:"code"` // one of the NACK codes below
	Detail  string    `json:"detail"`
	Since   time.Time `json:"since"`
}

// NACK codes.
const (
	NACKMissingBody  = "missing-body"   // head names a version whose body is absent
	NACKBadDigest    = "bad-digest"     // body does not hash to the digest
	NACKBadSignature = "bad-signature"  // no configured key made the signature
	NACKInvalid      = "invalid"        // the document has problems
	NACKTooNew       = "too-new"        // apiVersion or fields that this build does not know
	NACKTooLarge     = "too-large"      // body over 8 MiB
	NACKWentBack     = "went-back"      // Redis offers a version below the high-water mark
	NACKConflict     = "digest-changed" // the version in force, with another digest
)

// Mode says how a replica decides at the moment.
type Mode string

// Modes of a replica.
const (
	ModeNormal   Mode = "normal"
	ModeDegraded Mode = "degraded" // Redis cannot be asked: fail modes decide
	ModeNoPolicy Mode = "no-policy"
)

// Heartbeat is what a replica reports, every 2 s and at each change.
type Heartbeat struct {
	ID      string    `json:"id"`
	Boot    string    `json:"boot"`
	Host    string    `json:"host"`
	Zone    string    `json:"zone,omitempty"`
	Build   string    `json:"build"`
	Started time.Time `json:"started"`
	Digest  string    `json:"digest"` // of the document in force, recomputed
	Version int64     `json:"version"`
	Since   time.Time `json:"since"` // when this version came into force here
	NACK    *NACK     `json:"nack,omitempty"`
	// Unsaved says that this version is not on the replica's disk yet: a restart
	// would lead back behind it, so it does not count as enforced.
	Unsaved        bool    `json:"unsaved,omitempty"`
	Directory      Place   `json:"directory"`
	AuditHead      int64   `json:"audit_head"`
	Mode           Mode    `json:"mode"`
	Cause          string  `json:"cause,omitempty"` // why the mode is degraded, one word
	Breaker        string  `json:"breaker"`         // closed, open, half-open
	LeasesHeld     int64   `json:"leases_held"`
	RedisRTTMicros int64   `json:"redis_rtt_us"`
	ClockOffsetMS  int64   `json:"clock_offset_ms"`     // replica clock minus Redis clock
	StampAgeMS     int64   `json:"stamp_age_ms"`        // -1 when unknown
	Decisions      int64   `json:"decisions,omitempty"` // since it started
	Refused        int64   `json:"refused,omitempty"`   // of them
	DecisionsPerS  float64 `json:"decisions_per_s"`
	RefusedPerS    float64 `json:"refused_per_s"`
	FallbackPerS   float64 `json:"fallback_per_s"`
	ProxyAddr      string  `json:"proxy_addr,omitempty"`
	// Usage is how far the ledger has what this replica admitted; nil: it keeps no spool.
	Usage *UsageStanding `json:"usage,omitempty"`
	// ReceiptKey is the Ed25519 public key that the replica signs receipts with, in
	// unpadded base64url; "" when it makes none.
	ReceiptKey string    `json:"receipt_key,omitempty"`
	At         time.Time `json:"at"` // Redis' clock at the time of writing, set by the reader
}

// UsageStanding is how a replica's spool stands. Seconds are Unix, by Redis' clock.
type UsageStanding struct {
	Through    int64 `json:"through"`           // all that was admitted up to and including this second is cut into events
	Committed  int64 `json:"committed"`         // the same, committed to the ledger as far as the replica was told
	Waiting    int64 `json:"waiting"`           // events that are not known to be committed
	SpoolBytes int64 `json:"spool_bytes"`       // on the disk
	SpoolLimit int64 `json:"spool_limit"`       // bytes at which the spool is full
	Full       bool  `json:"full,omitempty"`    // it takes nothing more: routes do what they are configured to
	Unnoted    int64 `json:"unnoted,omitempty"` // requests admitted without a note since the start, because it was full
}

// FeedState is what Redis holds at the moment, as the console sees it.
type FeedState struct {
	PolicyEpoch string // names the copy of the policy in Redis; "" when Redis has none
	Version     int64  // version in the head; 0 when there is none
	Digest      string // digest in the head
	BodyMissing bool   // the head names a version whose body is gone: publish it again
	Canary      int64  // version that is offered to a few replicas; 0 when none is
	CanaryTag   string // of its record, see Canary.Tag
	// CanaryBodyMissing says that its body is gone: offer it again.
	CanaryBodyMissing bool
	Directory         Place // Epoch "" while the directory is absent or being filled
	// Servers names the histories of the servers that hold it all; it changes when
	// one restarts or a replica takes over, which may have lost the last writes.
	// "" when the servers do not say. Compared is what it was when every record
	// of the directory was last compared with the console's.
	Servers, Compared string
}
