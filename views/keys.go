package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// KeyListProps is the list of key versions of all tenants.
type KeyListProps struct {
	Frame       ui.FrameProps
	Now         time.Time
	Q, State    string
	Environment string
	Show        string // "", unused, never, expiring, retiring-used or compromised
	Shows       []ui.Option
	UseAge      string // how current what is known of use is, in words
	Filtered    bool
	Rows        []KeyRow
	Pager       ui.PagerProps
	ExportURL   string // the same list as CSV; "" when there is none
	CanManage   bool
}

// KeyUseCell is what is known of the use of a key.
type KeyUseCell struct {
	First, Last time.Time // zero: see Word
	RefusedAt   time.Time // presented for the last time while it was not accepted
	Word        string    // "never" or "unknown", where there is no Last
	Source      string    // of the last use: network and what called
	Requests    string    // of 24 hours
	Refused     string
	Behind      bool // what is known is old
}

// SourceRow is one source that used a key.
type SourceRow struct {
	Network, Agent    string
	First, Last       time.Time
	Requests, Refused string
}

// KeyRow is one key version. It never holds a secret or a digest.
type KeyRow struct {
	KID, Masked           string // Masked: hg_live_<kid>_…
	Credential, Tenant    string
	TenantURL             string
	Environment           string
	State                 string
	Created               time.Time
	NotAfter              time.Time // zero: no end
	Ended                 time.Time
	RevokeReason          string
	CanRevoke, CanSuspend bool
	CanResume             bool
	Scopes                string
	Use                   KeyUseCell
	RotationURL           string // of the rotation that it is part of, while that runs
	Current               bool   // the newest version of its credential
}

// KeyPageProps is one key version.
type KeyPageProps struct {
	Frame                ui.FrameProps
	Now                  time.Time
	Key                  KeyRow
	Scopes               []string
	Versions             []KeyRow // of the same credential, newest first
	RotationURL          string   // of the open rotation, if any
	CanRotate            bool
	RotateURL            string
	UseEffect            string // what an act means for whoever uses it, in numbers
	UseAge               string
	Sources              []SourceRow
	Timeline             TimelineProps
	Events               []EventRow
	AuditURL             string // "" for those who may not see the audit trail
	Act, Problem, Reason string // a failed act: revoke, suspend or resume
}

// TimelineProps draws the lives of a credential's versions under each other.
type TimelineProps struct {
	From, To time.Time
	Lives    []LifeProps
}

// LifeProps is the life of one version: from Start to End, retiring from
// Retiring on (zero: never).
type LifeProps struct {
	KID, Words           string
	Start, Retiring, End time.Time
}

// CredentialBlock is a credential with its versions.
type CredentialBlock struct {
	ID, Name, Environment string
	Scopes                string
	Expires               time.Time
	Versions              []KeyRow
	Rotation              *RotationRow // open one
	CanRotate             bool
	RotateURL             string
}

// TenantKeysProps is a tenant's keys tab.
type TenantKeysProps struct {
	Head        TenantHeadProps
	Credentials []CredentialBlock
	NewURL      string
	UseAge      string // how current what is known of use is
}

// CredentialFormProps is the form that issues a credential.
type CredentialFormProps struct {
	Frame      ui.FrameProps
	Form       *form.Form
	TenantName string
	Action     string
	Back       string
	Token      string // guards against a second submission
}

// SecretProps is the one page that shows a secret: the answer of the POST that
// made it. It is rendered from memory and stored nowhere.
type SecretProps struct {
	Frame       ui.FrameProps
	Title       string
	Secret      string // the whole key
	KID         string
	TenantName  string
	Credential  string
	Environment string
	Converged   string      // "accepted on 3 of 3 gateways after 0.1 s"
	Pending     *ui.Pending // while it does not hold on every gateway; then instead of Converged
	GatewayURL  string      // a gateway for the example; empty leaves a placeholder
	HeaderName  string      // "Authorization"
	HeaderValue string      // with the key: "Bearer hg_live_…"
	Next        string      // address to go on to
	NextLabel   string
	Overlap     string // words about the old key, in a rotation
}

// ReplayProps tells that a form was sent twice.
type ReplayProps struct {
	Frame   ui.FrameProps
	Title   string
	Text    string
	URL     string // what the first sending made; empty while it still runs
	Label   string
	Running bool
}

// Curl is a request that shows how to use the key.
func (p SecretProps) Curl() string {
	base := p.GatewayURL
	if base == "" {
		base = "https://api.example.com"
	}
	return "curl -i -H '" + p.HeaderName + ": " + p.HeaderValue + "' " + base + "/"
}

// Env is the key as a line of an environment file.
func (p SecretProps) Env() string { return "API_KEY=" + p.Secret }

// reasonOf is value when the failed act is this one, else "".
func reasonOf(failed, act, value string) string {
	if failed == act {
		return value
	}
	return ""
}
