package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
)

// Store is the database. Errors that a user can understand come back as *Error:
// CodeNotFound for an absent row, CodeConflict for a broken uniqueness or final
// state, CodeUnavailable when the database cannot serve now.
type Store interface {
	// InTx runs fn in one transaction and repeats it when the database asks for
	// that (serialization failure, deadlock); fn must have no other effects.
	InTx(ctx context.Context, fn func(Tx) error) error
	// Read runs fn without a transaction around it.
	Read(ctx context.Context, fn func(Tx) error) error
	// Ping asks whether the database can serve.
	Ping(ctx context.Context) error
}

// OutboxStore is what the relay needs besides Store.
type OutboxStore interface {
	Store
	// WithRelayLock runs fn while this process alone holds the relay's lock; it
	// returns false without running fn when another process holds it. fn must
	// stop when its context ends, which also happens when the lock is lost.
	WithRelayLock(ctx context.Context, fn func(context.Context) error) (bool, error)
	// ListenOutbox calls wake after each commit that wrote to the outbox, until
	// ctx ends or the connection breaks.
	ListenOutbox(ctx context.Context, wake func()) error
}

// Tx is what can be read and written, one part an aggregate. Methods whose name
// begins with Lock hold the row until the transaction ends.
type Tx interface {
	TenantRows
	OverrideRows
	QuotaRows
	CredentialRows
	KeyRows
	RotationRows
	LeakRows
	DraftRows
	VersionRows
	EffectRows
	OutboxRows
	RecordRows
	OperatorRows
	SessionRows
	TokenRows
	IdempotencyRows
	AuditRows
	ChangeRows
	RolloutRows
	DecisionRows
	KeyUseRows
	BulkRows
	BeatRows
	MemberRows
	UsageNameRows
	AlertRows
	ReceiptRows
	CapacityRows
	LedgerRows
}

// Cursor is the place after which a page begins: the sort key of the last row
// of the page before. The zero Cursor is the beginning.
type Cursor struct {
	At time.Time
	ID string
}

// TenantRows keeps tenants.
type TenantRows interface {
	InsertTenant(ctx context.Context, t Tenant) error
	UpdateTenant(ctx context.Context, t Tenant) error
	Tenant(ctx context.Context, id string) (Tenant, error)
	LockTenant(ctx context.Context, id string) (Tenant, error)
	// ShareTenant keeps the tenant from changing meanwhile; several may share.
	ShareTenant(ctx context.Context, id string) (Tenant, error)
	TenantLists
}

// TenantLists reads many tenants.
type TenantLists interface {
	Tenants(ctx context.Context, q TenantQuery, after Cursor, limit int) ([]Tenant, error)
	// CountTenants is exact up to 10 000 and an estimate above.
	CountTenants(ctx context.Context) (int64, error)
	PlansInUse(ctx context.Context) ([]string, error)
	TenantPlans
	TenantNames(ctx context.Context, ids []string) (map[string]string, error)
	// TenantFacts tells of keys and of their use since a time, without overrides.
	TenantFacts(ctx context.Context, ids []string, since time.Time) (map[string]TenantFacts, error)
	// DirectoryTenants lists tenants that live or were deleted after endedSince, by id.
	DirectoryTenants(ctx context.Context, afterID string, endedSince time.Time, limit int) ([]Tenant, error)
}

// TenantPlans reads who is on which plan.
type TenantPlans interface {
	// CountByPlan counts tenants that are not deleted.
	CountByPlan(ctx context.Context) (map[string]int64, error)
	PlansOf(ctx context.Context, ids []string) (map[string]string, error)
	// FindTenant finds a tenant that is not deleted by id or external id.
	FindTenant(ctx context.Context, ref string) (Tenant, error)
}

// CredentialRows keeps credentials, here without their versions.
type CredentialRows interface {
	InsertCredential(ctx context.Context, c Credential) error
	Credential(ctx context.Context, id string) (Credential, error)
	LockCredential(ctx context.Context, id string) (Credential, error)
	Credentials(ctx context.Context, tenantID string) ([]Credential, error)
	// LiveCredentials lists the ids of a tenant's credentials with a live version.
	LiveCredentials(ctx context.Context, tenantID string) ([]string, error)
}

// KeyRows keeps key versions. Changes happen under LockCredential.
type KeyRows interface {
	InsertKey(ctx context.Context, k KeyVersion) error
	UpdateKey(ctx context.Context, k KeyVersion) error
	Key(ctx context.Context, kid string) (KeyVersion, error)
	// KeysOf lists a tenant's versions, of one credential when it is not "".
	KeysOf(ctx context.Context, tenantID, credentialID string) ([]KeyVersion, error)
	// KeyNames tells of each kid that there is whose it is: "server of Acme".
	KeyNames(ctx context.Context, kids []string) (map[string]string, error)
	KeyLists
	KeyStanding
}

// KeyStanding reads and notes what is known of key versions besides their state.
type KeyStanding interface {
	// ShownKeys lists what q.Show picks out, in its order.
	ShownKeys(ctx context.Context, q KeyQuery, now time.Time, after Cursor, limit int) ([]KeyVersion, error)
	// TouchKeys notes that versions were used: ats[i] is when kids[i] was last. It
	// writes a row at most once a day.
	TouchKeys(ctx context.Context, kids []string, ats []time.Time) error
	MarkKeyLeaked(ctx context.Context, kid string) error
}

// KeyLists reads many key versions.
type KeyLists interface {
	Keys(ctx context.Context, q KeyQuery, after Cursor, limit int) ([]KeyVersion, error)
	// CountKeys is exact up to 10 000 and an estimate above.
	CountKeys(ctx context.Context) (int64, error)
	// DueCredentials lists credentials with a version or rotation whose time has run out.
	DueCredentials(ctx context.Context, now time.Time, limit int) ([]string, error)
	// DirectoryKeys lists versions that are live or ended after endedSince, by kid.
	DirectoryKeys(ctx context.Context, afterKID string, endedSince time.Time, limit int) ([]KeyVersion, error)
}

// RotationRows keeps rotations. Changes happen under LockCredential.
type RotationRows interface {
	InsertRotation(ctx context.Context, r Rotation) error
	UpdateRotation(ctx context.Context, r Rotation) error
	Rotation(ctx context.Context, id string) (Rotation, error)
	// OpenRotation returns the credential's running rotation; CodeNotFound when there is none.
	OpenRotation(ctx context.Context, credentialID string) (Rotation, error)
	Rotations(ctx context.Context, open bool, limit int) ([]Rotation, error)
	RotationLists
	BrownoutRows
}

// RiskWindow says which rotations are at risk: those that end before Soon, and
// whose old version was used within a quarter of the overlap (of MinQuiet at
// least, and of a day at most) before Now.
type RiskWindow struct {
	Now, Soon time.Time
	MinQuiet  time.Duration
}

// RotationLists reads many rotations. TenantID "" is every tenant's.
type RotationLists interface {
	// RunningRotations lists those at risk or all others that run, the next end first.
	RunningRotations(ctx context.Context, atRisk bool, w RiskWindow, tenantID string, after Cursor, limit int) ([]RatedRotation, error)
	// EndedRotations lists those that are over, the last end first; state "" is every one.
	EndedRotations(ctx context.Context, state RotationState, tenantID string, after Cursor, limit int) ([]RatedRotation, error)
	// RotationGaps is, per rotation, the longest silence after which a source of its
	// old version came again: of those seen since a time that have not switched.
	RotationGaps(ctx context.Context, ids []string, since time.Time) (map[string]time.Duration, error)
	// OpenRotationsOf lists those of some credentials that run.
	OpenRotationsOf(ctx context.Context, credentialIDs []string) ([]Rotation, error)
}

// BrownoutRows keeps brown-outs. Changes happen under LockCredential.
type BrownoutRows interface {
	InsertBrownout(ctx context.Context, b Brownout) error
	// StopBrownouts ends those of a rotation that still run.
	StopBrownouts(ctx context.Context, rotationID string, now time.Time) error
	// Brownouts lists those of a rotation, the newest first.
	Brownouts(ctx context.Context, rotationID string) ([]Brownout, error)
}

// LeakRows keeps leak cases.
type LeakRows interface {
	InsertLeak(ctx context.Context, c LeakCase) error
	UpdateLeak(ctx context.Context, c LeakCase) error
	LockLeak(ctx context.Context, id string) (LeakCase, error)
	// LockNewestLeak returns the newest case of a key, an open one before all
	// others; CodeNotFound when there is none.
	LockNewestLeak(ctx context.Context, kid string) (LeakCase, error)
	LeakLists
}

// LeakLists reads many leak cases.
type LeakLists interface {
	// Leaks lists the newest first.
	Leaks(ctx context.Context, q LeakQuery, after Cursor, limit int) ([]LeakCase, error)
	CountOpenLeaks(ctx context.Context) (int64, error)
}

// DraftRows keeps drafts.
type DraftRows interface {
	InsertDraft(ctx context.Context, d Draft) error
	Draft(ctx context.Context, id string) (Draft, error)
	// LockDraft keeps its content as it is; take it after the head's lock, if both.
	LockDraft(ctx context.Context, id string) (Draft, error)
	// UpdateDraft writes name, base, source, tests and d.ETag; false when etag is not the stored one.
	UpdateDraft(ctx context.Context, d Draft, etag string) (bool, error)
	// DeleteDraft reports false when etag is not the stored one.
	DeleteDraft(ctx context.Context, id, etag string) (bool, error)
	DraftLists
}

// DraftLists reads many drafts.
type DraftLists interface {
	// Drafts lists the last changed first, without sources and tests.
	Drafts(ctx context.Context, limit int) ([]Draft, error)
	CountDrafts(ctx context.Context) (int64, error)
}

// VersionRows keeps published versions and the head.
type VersionRows interface {
	InsertVersion(ctx context.Context, v Version) error
	Version(ctx context.Context, number int64) (Version, error)
	// Versions lists the newest first, without bodies, tests and their results; before 0 means all.
	Versions(ctx context.Context, before int64, limit int) ([]Version, error)
	HeadRow
}

// HeadRow is the one row that says which version is in force.
type HeadRow interface {
	// Head returns the version in force; CodeNotFound when there is none.
	Head(ctx context.Context) (Version, error)
	// HeadNumber returns number and digest alone; CodeNotFound when there is none.
	HeadNumber(ctx context.Context) (number int64, digest string, err error)
	// LockHead returns the head's number, 0 when there is none.
	LockHead(ctx context.Context) (int64, error)
	// ShareHead keeps others from publishing meanwhile.
	ShareHead(ctx context.Context) (int64, error)
	SetHead(ctx context.Context, number int64, now time.Time) error
}

// OutboxKind is what an outbox row tells the gateways about.
type OutboxKind string

// Kinds of outbox rows.
const (
	OutboxPolicy OutboxKind = "policy"
	OutboxKey    OutboxKind = "key"
	OutboxTenant OutboxKind = "tenant"
)

// OutboxRow is a change on its way. Ref is a version's number, a kid or a
// tenant's id; the relay reads the row it names when it sends, so that sending
// twice or late is harmless.
type OutboxRow struct {
	ID        int64
	Kind      OutboxKind
	Ref       string
	CreatedAt time.Time
	DoneAt    *time.Time
	Place     policy.Place // after it was sent; of key and tenant rows
	Result    string
	Attempts  int
	LastError string
	Bulk      bool // of a bulk job: sent when nothing else waits, and removed then
}

// OutboxRows keeps the outbox.
type OutboxRows interface {
	InsertOutbox(ctx context.Context, kind OutboxKind, ref string, now time.Time) (int64, error)
	// InsertBulkOutbox inserts rows of a bulk job, in one statement.
	InsertBulkOutbox(ctx context.Context, kind OutboxKind, refs []string, now time.Time) error
	Outbox(ctx context.Context, id int64) (OutboxRow, error)
	// PendingOutbox lists what was not sent, the oldest first, rows of bulk jobs last.
	PendingOutbox(ctx context.Context, limit int) ([]OutboxRow, error)
	// CountPendingOutbox counts up to 10 000; more are 10 001.
	CountPendingOutbox(ctx context.Context) (int64, error)
	OutboxResults
}

// OutboxResults notes what became of outbox rows.
type OutboxResults interface {
	FinishOutbox(ctx context.Context, ids []int64, place policy.Place, result string, now time.Time) error
	FailOutbox(ctx context.Context, ids []int64, problem string) error
	// DeleteSentOutbox removes rows of bulk jobs, which nobody waits for.
	DeleteSentOutbox(ctx context.Context, ids []int64) error
	// DeleteDoneOutbox removes at most limit rows that were sent before, and tells how many.
	DeleteDoneOutbox(ctx context.Context, before time.Time, limit int) (int64, error)
	// FeedPlace is the directory place that the relay has reached; zero at first.
	FeedPlace(ctx context.Context) (policy.Place, error)
	SetFeedPlace(ctx context.Context, p policy.Place, now time.Time) error
}

// RecordRows reads what the relay makes records of, many at once and in any order.
type RecordRows interface {
	TenantsByID(ctx context.Context, ids []string) ([]Tenant, error)
	KeysByID(ctx context.Context, kids []string) ([]KeyVersion, error)
}

// OperatorRows keeps operators.
type OperatorRows interface {
	InsertOperator(ctx context.Context, o Operator) error
	// UpdateOperator refuses (CodeConflict) to take the last enabled owner away.
	UpdateOperator(ctx context.Context, o Operator) error
	Operator(ctx context.Context, id string) (Operator, error)
	LockOperator(ctx context.Context, id string) (Operator, error)
	OperatorByEmail(ctx context.Context, email string) (Operator, error)
	Operators(ctx context.Context) ([]Operator, error)
}

// SessionRows keeps sessions.
type SessionRows interface {
	InsertSession(ctx context.Context, s Session) error
	// Session finds a session that is neither idle nor too old, whose operator is enabled.
	Session(ctx context.Context, hash string, now, idleSince time.Time) (Session, Operator, error)
	SeeSession(ctx context.Context, hash string, now time.Time) error
	// SaveSession replaces the data of a session that exists; it never makes one.
	SaveSession(ctx context.Context, hash string, data []byte) error
	Sessions(ctx context.Context, operatorID string, now, idleSince time.Time) ([]Session, error)
	SessionEnds
}

// SessionEnds ends sessions.
type SessionEnds interface {
	DeleteSession(ctx context.Context, hash string) error
	DeleteSessionsOf(ctx context.Context, operatorID, keepHash string) (int64, error)
	DeleteDeadSessions(ctx context.Context, now, idleSince time.Time) error
}

// TokenRows keeps API tokens.
type TokenRows interface {
	InsertToken(ctx context.Context, t APIToken) error
	Token(ctx context.Context, kid string) (APIToken, Operator, error)
	Tokens(ctx context.Context, operatorID string) ([]APIToken, error)
	// RevokeToken reports false when it was revoked before or never existed.
	RevokeToken(ctx context.Context, kid string, now time.Time) (bool, error)
	SeeToken(ctx context.Context, kid string, now time.Time) error
}

// IdempotencyKey names one request of one actor.
type IdempotencyKey struct {
	ActorID, Scope, Key string
}

// IdempotencyRows keeps idempotency keys.
type IdempotencyRows interface {
	// ClaimIdempotencyKey reports false when the key is taken.
	ClaimIdempotencyKey(ctx context.Context, k IdempotencyKey, fingerprint string, now, expires time.Time) (bool, error)
	IdempotencyAnswer(ctx context.Context, k IdempotencyKey) (fingerprint string, answer []byte, err error)
	FinishIdempotencyKey(ctx context.Context, k IdempotencyKey, answer []byte) error
	ReleaseIdempotencyKey(ctx context.Context, k IdempotencyKey) error
	DeleteExpiredIdempotencyKeys(ctx context.Context, now time.Time) error
}

// AuditRows keeps the audit trail.
type AuditRows interface {
	// LockAuditHead makes this transaction the only writer of the trail and
	// returns its newest row's seq and hash (0 and 32 zero bytes when empty).
	LockAuditHead(ctx context.Context) (seq int64, hash []byte, err error)
	InsertAudit(ctx context.Context, e AuditEvent) error
	AuditEvents(ctx context.Context, q AuditQuery, beforeSeq int64, limit int) ([]AuditEvent, error)
	// AuditForward lists the oldest first, after a seq.
	AuditForward(ctx context.Context, afterSeq int64, limit int) ([]AuditEvent, error)
}
