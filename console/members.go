package console

import "time"

// Member is a person of a tenant who uses the tenant's own pages.
type Member struct {
	ID           string // mem_…
	TenantID     string
	Email        string
	Name         string
	Role         Role   // RoleTenantViewer or RoleTenantAdmin
	PasswordHash string // argon2id; "" while invited, and for those who come by a link alone
	CreatedAt    time.Time
	JoinedAt     *time.Time // accepted the invitation
	DisabledAt   *time.Time
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
}

// Ask is a tenant's wish for more of one limit.
type Ask struct {
	ID        string // ask_…
	TenantID  string
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
