package console

import "time"

// Member is a person of a tenant who uses the tenant's own pages.
type Member struct {
	ID           string // mem_…
	TenantID     string
	Email        string // "" for those whom the customer's own system vouches for under another id
	ExternalUser string // that id; "" for all others
	Name         string
	Role         Role   // RoleTenantViewer or RoleTenantAdmin
	PasswordHash string // argon2id; "" while invited, and for those who come by a link alone
	CreatedAt    time.Time
	JoinedAt     *time.Time // accepted the invitation
	DisabledAt   *time.Time // removed; the row stays for the record
}

// Label is what a member is called: name, address or external id.
func (m Member) Label() string {
	for _, s := range []string{m.Name, m.Email} {
		if s != "" {
			return s
		}
	}
	return m.ExternalUser
}

// Actor is the member as services know one who came by the tenant's own pages.
func (m Member) Actor(ip, requestID string) Actor {
	return Actor{ID: m.ID, Name: m.Label(), Role: m.Role, Via: ViaPortal, TenantID: m.TenantID, IP: ip, RequestID: requestID}
}

// Invitation lets somebody become a member. Its secret is in the link alone.
type Invitation struct {
	ID        string // inv_…
	TenantID  string
	Email     string
	Role      Role
	InvitedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    *time.Time
	RevokedAt *time.Time
}

// Open reports whether it can still be accepted.
func (i Invitation) Open(now time.Time) bool {
	return i.UsedAt == nil && i.RevokedAt == nil && now.Before(i.ExpiresAt)
}

// Lives of invitations and of one-time links.
const (
	InvitationFor = 7 * 24 * time.Hour
	MinLinkFor    = time.Minute
	MaxLinkFor    = 15 * time.Minute
)

// NewInvitation is whom to invite.
type NewInvitation struct {
	Email string
	Role  Role
}

// Invited is a new invitation with the secret of its link, which exists nowhere
// else: the link is /t/invite/ and the secret.
type Invited struct {
	Invitation Invitation
	Secret     string
}

// NewSignInLink is who gets a one-time link: a member by e-mail address, or a
// person by the id that the customer's own system knows them by. Who is not a
// member yet becomes one with Role; Role changes that of nobody who is one.
type NewSignInLink struct {
	Email        string
	ExternalUser string
	Name         string
	Role         Role
	For          time.Duration // MinLinkFor to MaxLinkFor; 0 means 5 minutes
}

// SignInLink is a new one-time link: /t/link/ and the secret.
type SignInLink struct {
	Member    Member
	Secret    string
	ExpiresAt time.Time
}

// Threshold is a tenant's own mark: reaching it is an alert of the tenant's, told to
// the tenant's channels.
type Threshold struct {
	ID        string // thr_…
	TenantID  string
	Kind      ThresholdKind
	Value     int64 // percent, or requests a minute
	MemberID  string
	CreatedAt time.Time
}

// ThresholdKind is what a threshold looks at.
type ThresholdKind string

// Kinds of thresholds.
const (
	ThresholdRefused  ThresholdKind = "refused-share"   // percent of the last minute's requests
	ThresholdRequests ThresholdKind = "requests-minute" // requests in a minute
	ThresholdQuota    ThresholdKind = "quota-used"      // percent of the quota
)

// Ask is a tenant's wish for more of one limit.
type Ask struct {
	ID        string // ask_…
	TenantID  string
	Tenant    string // name
	Limit     string
	Wanted    string // rate, or a number
	Factor    int64  // thousandths of what the tenant has now
	Until     *time.Time
	Why       string
	State     AskState
	MemberID  string
	Member    string
	DecidedBy string // operator, or "rule"
	Answer    string
	CreatedAt time.Time
	DecidedAt *time.Time
}

// AskState is the state of an ask.
type AskState string

// States of an ask.
const (
	AskOpen    AskState = "open"
	AskGranted AskState = "granted"
	AskRefused AskState = "refused"
)

// NewAsk is what a member asks for.
type NewAsk struct {
	Limit       string
	FactorMilli int64         // thousandths of what the tenant has now, above 1000
	For         time.Duration // from now; 0: for good
	Why         string
}

// Bounds of asks.
const (
	MaxAskFactor = MaxBoost // thousandths
	MaxAskFor    = 365 * 24 * time.Hour
	MaxOpenAsks  = 10 // of a tenant
)

// AskByRule is who decided an ask that a rule granted.
const AskByRule = "rule"
