package console

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

var errPending = errors.New("pending")

// --- tenants
type Tenants struct{ d Deps }

func NewTenants(d Deps) *Tenants { return &Tenants{d.withDefaults()} }

type NewTenant struct{ Name, ExternalID, Plan, TimeZone string }

// TenantPatch changes a tenant; nil keeps.
type TenantPatch struct{ Name, ExternalID, Plan, TimeZone *string }

// TenantQuery: State "" means all but deleted.
type TenantQuery struct {
	Q, Plan string
	State   policy.TenantState
	Page    Page
}

func (s *Tenants) Create(ctx context.Context, actor Actor, in NewTenant) (Tenant, error) {
	return Tenant{}, errPending
}
func (s *Tenants) Update(ctx context.Context, actor Actor, id string, in TenantPatch) (Tenant, error) {
	return Tenant{}, errPending
}
func (s *Tenants) Get(ctx context.Context, id string) (Tenant, error) { return Tenant{}, errPending }
func (s *Tenants) List(ctx context.Context, q TenantQuery) (items []Tenant, next string, err error) {
	return nil, "", errPending
}
func (s *Tenants) Suspend(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	return Change{}, errPending
}
func (s *Tenants) Resume(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	return Change{}, errPending
}
func (s *Tenants) Delete(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	return Change{}, errPending
}

// Count counts tenants that are not deleted.
func (s *Tenants) Count(ctx context.Context) (int64, error) { return 0, errPending }

// RecordView writes the audit event of an operator who looks at a tenant's own page.
func (s *Tenants) RecordView(ctx context.Context, actor Actor, id string) (Tenant, error) {
	return Tenant{}, errPending
}

// --- keys
type Keys struct{ d Deps }

func NewKeys(d Deps) *Keys { return &Keys{d.withDefaults()} }

type NewCredential struct {
	Name, Environment string
	Scopes            []string
	ExpiresAt         *time.Time
}

type KeyQuery struct {
	Q, TenantID, Environment string
	State                    policy.KeyState
	Page                     Page
}

func (s *Keys) IssueCredential(ctx context.Context, actor Actor, tenantID string, in NewCredential) (Issued, error) {
	return Issued{}, errPending
}
func (s *Keys) ListCredentials(ctx context.Context, tenantID string) ([]Credential, error) {
	return nil, errPending
}
func (s *Keys) GetCredential(ctx context.Context, id string) (Credential, error) {
	return Credential{}, errPending
}
func (s *Keys) ListKeys(ctx context.Context, q KeyQuery) (items []KeyVersion, next string, err error) {
	return nil, "", errPending
}
func (s *Keys) Get(ctx context.Context, kid string) (KeyVersion, error) {
	return KeyVersion{}, errPending
}
func (s *Keys) Count(ctx context.Context) (int64, error) { return 0, errPending }
func (s *Keys) Revoke(ctx context.Context, actor Actor, kid, reason string) (Change, error) {
	return Change{}, errPending
}
func (s *Keys) Suspend(ctx context.Context, actor Actor, kid, reason string) (Change, error) {
	return Change{}, errPending
}
func (s *Keys) Resume(ctx context.Context, actor Actor, kid, reason string) (Change, error) {
	return Change{}, errPending
}

// --- rotations
type Rotations struct{ d Deps }

func NewRotations(d Deps) *Rotations { return &Rotations{d.withDefaults()} }

type NewRotation struct {
	Overlap time.Duration
	Reason  string
}

func (s *Rotations) Start(ctx context.Context, actor Actor, credentialID string, in NewRotation) (Started, error) {
	return Started{}, errPending
}
func (s *Rotations) Get(ctx context.Context, id string) (Rotation, error) {
	return Rotation{}, errPending
}
func (s *Rotations) List(ctx context.Context, open bool) ([]Rotation, error) { return nil, errPending }
func (s *Rotations) Extend(ctx context.Context, actor Actor, id string, by time.Duration, reason string) (Change, error) {
	return Change{}, errPending
}
func (s *Rotations) End(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	return Change{}, errPending
}
func (s *Rotations) Cancel(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	return Change{}, errPending
}

// --- policies
type Policies struct{ d Deps }

func NewPolicies(d Deps) *Policies { return &Policies{d.withDefaults()} }

// Head returns the version in force; false when nothing was published yet.
func (s *Policies) Head(ctx context.Context) (Version, bool, error) {
	return Version{}, false, errPending
}
func (s *Policies) Version(ctx context.Context, n int64) (Version, error) {
	return Version{}, errPending
}
func (s *Policies) Versions(ctx context.Context, p Page) (items []Version, next string, err error) {
	return nil, "", errPending
}
func (s *Policies) Validate(ctx context.Context, src []byte) (*policy.Document, policy.Report) {
	return nil, policy.Report{}
}

// CreateDraft starts from src, or from the head when src is empty.
func (s *Policies) CreateDraft(ctx context.Context, actor Actor, name string, src []byte) (Draft, error) {
	return Draft{}, errPending
}
func (s *Policies) GetDraft(ctx context.Context, id string) (Draft, error) {
	return Draft{}, errPending
}
func (s *Policies) ListDrafts(ctx context.Context) ([]Draft, error) { return nil, errPending }
func (s *Policies) SaveDraft(ctx context.Context, actor Actor, id, etag string, src []byte) (Draft, error) {
	return Draft{}, errPending
}

// RebaseDraft keeps the draft's source and sets its base to the head.
func (s *Policies) RebaseDraft(ctx context.Context, actor Actor, id, etag string) (Draft, error) {
	return Draft{}, errPending
}
func (s *Policies) DeleteDraft(ctx context.Context, actor Actor, id, etag string) error {
	return errPending
}
func (s *Policies) PublishDraft(ctx context.Context, actor Actor, id, etag, note string) (Version, error) {
	return Version{}, errPending
}
func (s *Policies) Publish(ctx context.Context, actor Actor, src []byte, base int64, note string) (Version, error) {
	return Version{}, errPending
}
func (s *Policies) Rollback(ctx context.Context, actor Actor, n int64, note string) (Version, error) {
	return Version{}, errPending
}

// Diff compares two versions; 0 stands for the empty document.
func (s *Policies) Diff(ctx context.Context, a, b int64) ([]policy.Change, error) {
	return nil, errPending
}

// --- fleet
type Fleet struct{ d Deps }

func NewFleet(d Deps) *Fleet { return &Fleet{d: d.withDefaults()} }

// Status of a replica, computed when it is read.
type Status string

const (
	StatusInSync Status = "in-sync"
	StatusBehind Status = "behind"
	StatusNACKed Status = "nacked"
	StatusSilent Status = "silent"
	StatusGone   Status = "gone"
	StatusAhead  Status = "ahead"
)

// Replica is a heartbeat with what the console makes of it.
type Replica struct {
	policy.Heartbeat
	Status Status
	Age    time.Duration
}

// Convergence says how many replicas have applied something.
type Convergence struct {
	On, Of int
	After  time.Duration
	Nacks  []ReplicaNACK
	Known  bool // false when Redis could not be asked: On and Of mean nothing
}

type ReplicaNACK struct {
	Replica string
	NACK    policy.NACK
}

// Health is a cached snapshot; reading it never waits.
type Health struct {
	At               time.Time
	RedisUp          bool
	RedisSince       time.Time // since when RedisUp has this value
	RedisRTT         time.Duration
	RedisError       string
	PostgresUp       bool
	PostgresSince    time.Time
	Version          int64 // head; 0 when none
	Digest           string
	FleetKnown       bool // false while Redis is down: the fields below are the last known
	FleetAt          time.Time
	Replicas         []Replica
	InSync, Of       int // Of leaves out those that are gone
	Nacked, Degraded int
	DecisionsPerS    float64
	RefusedPerS      float64
	FallbackPerS     float64
	Drafts           int
	OutboxPending    int
	StampAge         time.Duration
}

func (s *Fleet) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }
func (s *Fleet) Replicas(ctx context.Context) ([]Replica, error) { return nil, errPending }
func (s *Fleet) WaitVersion(ctx context.Context, n int64, timeout time.Duration) Convergence {
	return Convergence{}
}
func (s *Fleet) WaitPlace(ctx context.Context, p policy.Place, timeout time.Duration) Convergence {
	return Convergence{}
}
func (s *Fleet) WaitChange(ctx context.Context, c Change, timeout time.Duration) Convergence {
	return Convergence{}
}
func (s *Fleet) Health(ctx context.Context) Health { return Health{} }

// --- operators
type Operators struct{ d Deps }

func NewOperators(d Deps) *Operators { return &Operators{d: d.withDefaults()} }

type NewOperator struct {
	Email, Name string
	Role        Role
	Password    string
}

func (s *Operators) SignIn(ctx context.Context, email, password, ip string) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) Create(ctx context.Context, actor Actor, in NewOperator) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) List(ctx context.Context) ([]Operator, error) { return nil, errPending }
func (s *Operators) Get(ctx context.Context, id string) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) SetRole(ctx context.Context, actor Actor, id string, role Role) error {
	return errPending
}
func (s *Operators) Disable(ctx context.Context, actor Actor, id string) error { return errPending }

// IssueToken returns the token once, as hg_ops_….
func (s *Operators) IssueToken(ctx context.Context, actor Actor, operatorID, name string, expiresAt *time.Time) (token string, row APIToken, err error) {
	return "", APIToken{}, errPending
}
func (s *Operators) RevokeToken(ctx context.Context, actor Actor, kid string) error {
	return errPending
}

// Authenticate turns an API token into an actor (Via api) with the operator's present role.
func (s *Operators) Authenticate(ctx context.Context, token string) (Actor, error) {
	return Actor{}, errPending
}

// --- sessions
type Sessions struct{ d Deps }

func NewSessions(d Deps) *Sessions { return &Sessions{d.withDefaults()} }

// Session limits.
const (
	SessionIdle     = 30 * time.Minute
	SessionAbsolute = 12 * time.Hour
)

// Create makes a session and returns its id (for the cookie), which is stored only as a hash.
func (s *Sessions) Create(ctx context.Context, operatorID, ip, userAgent string, data []byte) (id string, row Session, err error) {
	return "", Session{}, errPending
}

// Touch finds a session by its cookie id, refuses idle and absolute expiry and
// disabled operators (CodeUnauthenticated), and returns it with its operator.
func (s *Sessions) Touch(ctx context.Context, id string) (Session, Operator, error) {
	return Session{}, Operator{}, errPending
}

// Save replaces the session's data. It never creates a row.
func (s *Sessions) Save(ctx context.Context, id string, data []byte) error { return errPending }
func (s *Sessions) Delete(ctx context.Context, id string) error            { return errPending }

// DeleteOf ends all sessions of an operator but the one with cookie id keep ("" keeps none).
func (s *Sessions) DeleteOf(ctx context.Context, actor Actor, operatorID, keep string) (int64, error) {
	return 0, errPending
}
func (s *Sessions) List(ctx context.Context, operatorID string) ([]Session, error) {
	return nil, errPending
}

// --- audit
type Audit struct{ d Deps }

func NewAudit(d Deps) *Audit { return &Audit{d.withDefaults()} }

type AuditQuery struct {
	Actor, Action, Object, ObjectID, TenantID string
	Page                                      Page
}

func (s *Audit) List(ctx context.Context, q AuditQuery) (items []AuditEvent, next string, err error) {
	return nil, "", errPending
}

// --- idempotency
type Idempotency struct{ d Deps }

func NewIdempotency(d Deps) *Idempotency { return &Idempotency{d.withDefaults()} }

// Claim takes a key for an actor and a scope ("tenants.create"); fingerprint is
// a hash of the request. fresh is true for the first; otherwise earlier is what
// Finish stored (nil while the first still runs). A repeat with another
// fingerprint is CodeInvalid.
func (s *Idempotency) Claim(ctx context.Context, actor Actor, scope, key, fingerprint string) (fresh bool, earlier []byte, err error) {
	return false, nil, errPending
}

// Finish stores the answer to give to repeats (never a secret).
func (s *Idempotency) Finish(ctx context.Context, actor Actor, scope, key string, answer []byte) error {
	return errPending
}

// Release gives a key back after a failure, so that a retry is fresh.
func (s *Idempotency) Release(ctx context.Context, actor Actor, scope, key string) error {
	return errPending
}

// --- activity
type Activity struct{ d Deps }

func NewActivity(d Deps) *Activity { return &Activity{d: d.withDefaults()} }

func (s *Activity) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Live is the last hour in memory.
func (s *Activity) Live() *usage.Live { return nil }

// Names maps tenant ids to names for those that exist.
func (s *Activity) Names(ctx context.Context, ids []string) (map[string]string, error) {
	return nil, errPending
}

// --- relay
type Relay struct{ d Deps }

func NewRelay(d Deps) *Relay                   { return &Relay{d: d.withDefaults()} }
func (s *Relay) Nudge()                        {}
func (s *Relay) Run(ctx context.Context) error { <-ctx.Done(); return nil }
