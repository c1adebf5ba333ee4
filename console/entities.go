package console

import (
	"encoding/json"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/scenario"
)

// Page asks for one page of a list. After is the opaque cursor that the page
// before returned ("" for the first). Limit is 1..200; 0 means 50.
type Page struct {
	After string
	Limit int
}

// Change names the outbox rows that carry a committed change to the gateways.
// Fleet.WaitChange waits until replicas have applied it.
type Change struct {
	OutboxID int64 // the newest row; 0 when nothing has to travel
}

// Tenant is a customer organisation.
type Tenant struct {
	ID         string // ten_…
	Name       string
	ExternalID string // the customer's id elsewhere; unique when not ""
	Plan       string
	TimeZone   string // IANA name
	// QuotaAnchor is the date, YYYY-MM-DD, that the periods of a quota count from
	// whose alignment is anniversary; "" for the calendar's.
	QuotaAnchor string
	Contacts    []string // e-mail addresses, with names or without; nil for none
	State       policy.TenantState
	Reason      string // why it is suspended; "" otherwise
	Seq         int64  // sequence of its directory record
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Credential is a named way for a tenant to call the API.
type Credential struct {
	ID          string // crd_…
	TenantID    string
	Name        string
	Environment string // "live" or "test"
	Scopes      []string
	Contact     string // whom to ask about it; "" for none
	ExpiresAt   *time.Time
	CreatedAt   time.Time
	Versions    []KeyVersion // newest first
}

// Reasons for which a key version is revoked.
const (
	RevokeLeak        = "leak"
	RevokeOffboarding = "offboarding"
	RevokeMistake     = "mistake"
	RevokeSuperseded  = "superseded"
	RevokeOther       = "other" // the audit trail has the words
)

// RevokeReasons lists the categories that an operator can choose from.
func RevokeReasons() []string {
	return []string{RevokeLeak, RevokeOffboarding, RevokeMistake, RevokeSuperseded}
}

// KeyVersion is one secret of a credential. It never holds the secret.
type KeyVersion struct {
	KID            string // 12 base62
	CredentialID   string
	TenantID       string
	CredentialName string
	TenantName     string
	Environment    string
	Digest         string // "sha256:" + hex of the whole key; never shown
	State          policy.KeyState
	ResumeState    policy.KeyState // what Resume returns to; "" unless suspended
	Scopes         []string
	Seq            int64 // sequence of its directory record
	CreatedAt      time.Time
	ActivatedAt    time.Time
	RetiringAt     *time.Time // when its rotation began
	NotAfter       *time.Time // refused from this moment on
	RevokedAt      *time.Time
	RevokeReason   string
	EndedAt        *time.Time       // when it reached a final state
	Brownout       *policy.Brownout // the last one of its rotation; it may be over
	Leaked         bool             // it was found where it should not be
	Used           bool             // it was accepted at least once, as far as is known
	IdleSince      time.Time        // when it was last used, or made; up to a day before the truth
}

// Live reports whether the version can still be used or resumed.
func (k KeyVersion) Live() bool {
	return k.State == policy.KeyActive || k.State == policy.KeyRetiring || k.State == policy.KeySuspended
}

// RotationState is the state of a rotation.
type RotationState string

// States of a rotation. All but overlap are final. Overdue is computed by
// Rotation.Overdue, not stored.
const (
	RotationOverlap   RotationState = "overlap"
	RotationCompleted RotationState = "completed" // the overlap ran out
	RotationForced    RotationState = "forced"    // ended by an operator before that
	RotationCancelled RotationState = "cancelled" // the new version was revoked
)

// Rotation replaces one key version by another, with an overlap in which both work.
type Rotation struct {
	ID             string // rot_…
	CredentialID   string
	TenantID       string
	CredentialName string
	TenantName     string
	OldKID         string
	NewKID         string
	State          RotationState
	Reason         string
	Overlap        time.Duration
	OldNotAfter    *time.Time // what a cancelled rotation gives back to the old version
	StartedAt      time.Time
	EndsAt         time.Time
	EndedAt        *time.Time
	EndReason      string
	Extensions     int // in all
	// MemberExtensions is how many of them are a tenant's member's.
	MemberExtensions int
}

// Open reports whether the rotation still runs.
func (r Rotation) Open() bool { return r.State == RotationOverlap }

// Overdue reports whether less than OverdueBefore is left of a longer overlap.
func (r Rotation) Overdue(now time.Time) bool {
	return r.Open() && r.EndsAt.Sub(r.StartedAt) > OverdueBefore && r.EndsAt.Sub(now) < OverdueBefore
}

// Draft is a named policy change being edited.
type Draft struct {
	ID        string // drf_…
	Name      string
	Base      int64  // version it is based on; 0 when there was none
	Source    string // YAML
	Tests     string // a suite of scenarios, YAML; "" for none
	ETag      string // changes with each save
	Author    string
	AuthorID  string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// VersionKind says how a version came about.
type VersionKind string

// Kinds of versions.
const (
	KindPublish  VersionKind = "publish"
	KindRollback VersionKind = "rollback"
	KindAdopt    VersionKind = "adopt" // taken from Redis after the database was restored
)

// Version is a published policy. It is immutable.
type Version struct {
	Number     int64
	Digest     string
	Parent     string // digest of the version before; "" for the first
	Body       []byte // canonical JSON
	Note       string
	Author     string
	Kind       VersionKind
	RollbackOf int64 // 0 unless Kind is rollback
	CreatedAt  time.Time
	AuthorID   string
	Changes    []RatedChange // against its parent, with whom they concerned then
	Tests      string        // the suite that it was published with; "" for none
	Proof      Proof         // what its publication rested on
}

// Proof is what a publication rested on. It is stored with the version.
type Proof struct {
	Digest    string            `json:"digest,omitempty"` // of document and tests together
	Tests     []scenario.Result `json:"tests,omitempty"`
	Approvals []Approval        `json:"approvals,omitempty"`
	Confirmed []Confirmation    `json:"confirmed,omitempty"`
	// Unconfirmed is what a page would have asked to confirm, and this publication
	// was not asked: by a program that knows of typed confirmations alone.
	Unconfirmed []Confirmation `json:"unconfirmed,omitempty"`
	BreakGlass  string         `json:"break_glass,omitempty"` // reason
	Missing     []Needed       `json:"missing,omitempty"`     // that break-glass went without
	Trial       string         `json:"trial,omitempty"`       // sim_…, the newest of this content
	Scheduled   *time.Time     `json:"scheduled,omitempty"`
	Draft       string         `json:"draft,omitempty"` // drf_…, whose comments are kept
	DraftName   string         `json:"draft_name,omitempty"`
}

// PlainChanges is what changes alone, without whom it concerned.
func PlainChanges(in []RatedChange) []policy.Change {
	out := make([]policy.Change, len(in))
	for i, c := range in {
		out[i] = c.Change
	}
	return out
}

// Document parses the body, which was valid when it was published.
func (v Version) Document() (*policy.Document, error) {
	d, report := policy.ParseLoose(v.Body)
	if d == nil {
		return nil, report
	}
	return d, nil
}

// documentOrNil is nil for the zero Version, which stands for no policy at all.
func (v Version) documentOrNil() (*policy.Document, error) {
	if v.Number == 0 {
		return nil, nil
	}
	return v.Document()
}

// AuditEvent is one row of the audit trail. Seq has no gaps.
type AuditEvent struct {
	Seq       int64
	At        time.Time
	ActorID   string
	Actor     string // name at that time
	Role      Role
	Via       string
	Action    string // "tenant.create"
	Object    string // "tenant"
	ObjectID  string
	TenantID  string
	Before    json.RawMessage // null when it did not exist
	After     json.RawMessage // null when it no longer exists
	Changes   []policy.Change // for policy versions
	Reason    string
	IP        string
	RequestID string
	PrevHash  []byte
	Hash      []byte // SHA-256 over PrevHash and the row
}

// Operator is a person who uses the console.
type Operator struct {
	ID           string // opr_…
	Email        string
	Name         string
	Role         Role
	PasswordHash string // argon2id; "" when there is no password
	CreatedAt    time.Time
	DisabledAt   *time.Time
}

// Session is a signed-in browser. Hash is the hex SHA-256 of the cookie's id.
type Session struct {
	Hash       string
	OperatorID string
	Data       []byte // JSON object of the web layer
	IP         string
	UserAgent  string
	CreatedAt  time.Time
	SeenAt     time.Time
	ExpiresAt  time.Time // absolute end
}

// APIToken is an operator's token for the JSON API. It never holds the secret.
type APIToken struct {
	KID        string
	OperatorID string
	Name       string
	Digest     string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time
}

// Issued is a new credential with its first secret, which exists nowhere else.
type Issued struct {
	Credential Credential
	KeyVersion KeyVersion
	Secret     apikey.Secret
	Change     Change
}

// Started is a new rotation with the new secret, which exists nowhere else.
type Started struct {
	Rotation   Rotation
	KeyVersion KeyVersion
	Secret     apikey.Secret
	Change     Change
}

// StaleBase is the Detail of a conflict: someone published since.
type StaleBase struct {
	Base    int64           // what the publisher built on
	Head    int64           // what is in force
	Changes []policy.Change // from Base to Head
}
